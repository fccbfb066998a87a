package browser

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
)

// Bounds of a tab's console: the last lines count, and no line fills the memory.
const (
	maxLines     = 500
	maxLineBytes = 4 << 10
)

// lines is a ring of the last lines.
type lines struct {
	ring  []string
	first int // of the oldest, once the ring is full
}

func (l *lines) add(kind, text string) {
	line := cutText("["+kind+"] "+text, maxLineBytes)
	if len(l.ring) < maxLines {
		l.ring = append(l.ring, line)
		return
	}
	l.ring[l.first] = line
	l.first = (l.first + 1) % maxLines
}

func (l *lines) all() []string {
	return append(append(make([]string, 0, len(l.ring)), l.ring[l.first:]...), l.ring[:l.first]...)
}

// cutText cuts s to at most limit bytes at the end of a code point.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// shown is what a console shows of a value. Stack traces and handles aren't
// decoded: a page floods with them.
type shown struct {
	Type                string         `json:"type"`
	Subtype             string         `json:"subtype"`
	Value               jsontext.Value `json:"value"`
	UnserializableValue string         `json:"unserializableValue"`
	Description         string         `json:"description"`
	Preview             *preview       `json:"preview"`
}

type preview struct {
	Subtype    string `json:"subtype"`
	Overflow   bool   `json:"overflow"`
	Properties []struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Value string `json:"value"`
	} `json:"properties"`
}

func (v shown) text() string {
	var s string
	switch {
	case v.Type == "string" && json.Unmarshal(v.Value, &s, lenientText) == nil:
		return s
	case v.UnserializableValue != "":
		return v.UnserializableValue
	case v.Type == "object" && v.Subtype == "null":
		return "null"
	case v.Type == "undefined":
		return "undefined"
	case v.Preview != nil && (v.Subtype == "" || v.Subtype == "array"):
		return v.Preview.text()
	case v.Description != "":
		return v.Description
	}
	return string(v.Value)
}

// text shows a plain object or an array as the developer tools do.
func (p *preview) text() string {
	open, end := "{", "}"
	if p.Subtype == "array" {
		open, end = "[", "]"
	}
	var parts []string
	for _, q := range p.Properties {
		value := q.Value
		if q.Type == "string" {
			value = `"` + value + `"`
		}
		if p.Subtype == "array" {
			parts = append(parts, value)
		} else {
			parts = append(parts, q.Name+": "+value)
		}
	}
	if p.Overflow {
		parts = append(parts, "…")
	}
	return open + strings.Join(parts, ", ") + end
}

func consoleCalled(s *session, e struct {
	Type string  `json:"type"`
	Args []shown `json:"args"`
}) {
	if s.tab == nil {
		return
	}
	words := make([]string, len(e.Args))
	for i, a := range e.Args {
		words[i] = a.text()
	}
	s.tab.console.add(e.Type, strings.Join(words, " "))
	s.logged++
	if s.logged%maxLines == 0 { // or the page keeps every object it ever logged
		s.post("Runtime.discardConsoleEntries", nil)
	}
}

func exceptionThrown(s *session, e struct {
	Details struct {
		Text      string `json:"text"`
		Exception *shown `json:"exception"`
	} `json:"exceptionDetails"`
}) {
	if s.tab == nil {
		return
	}
	text := e.Details.Text
	if x := e.Details.Exception; x != nil {
		text = strings.TrimSpace(strings.TrimSuffix(text, "Uncaught") + " " + x.text())
	}
	s.tab.console.add("pageerror", text)
}

func entryAdded(s *session, e struct {
	Entry struct {
		Level string `json:"level"`
		Text  string `json:"text"`
		URL   string `json:"url"`
	} `json:"entry"`
}) {
	if s.tab == nil {
		return
	}
	text := e.Entry.Text
	if e.Entry.URL != "" {
		text += " (" + cutText(e.Entry.URL, 500) + ")"
	}
	s.tab.console.add(e.Entry.Level, text)
}

func consoleLogs(_ context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	on.b.mu.Lock()
	defer on.b.mu.Unlock()
	list := t.console.all()
	if a.(ownedv1.ConsoleLogs).Clear {
		t.console = lines{}
	}
	return ownedv1.ConsoleResult{Count: len(list), Lines: list}, nil
}
