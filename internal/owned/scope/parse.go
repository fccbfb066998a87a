package scope

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"chaperone/internal/owned/ownedv1"
)

// extraActions are the actions beyond the thirteen (spec section 6).
var extraActions = []string{
	"snapshot", "wait_for", "press", "select_option", "upload", "downloads", "download", "dialogs", "answer_dialog", "network_log",
	"frames", "page_tools", "call_page_tool", "import_state", "close_tab",
}

// Actions lists every name that a scope's actions may hold.
func Actions() []string { return append(slices.Clone(ownedv1.Actions), extraActions...) }

var (
	engagementName = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,128}\z`)
	methodToken    = regexp.MustCompile(`\A[A-Z][A-Z0-9-]{0,31}\z`)
)

// Parse reads a scope file, YAML or JSON. name is the file's name as errors
// should show it. The error is an *Error with line and column.
func Parse(name string, data []byte) (*Scope, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, err
	}
	r := reader{file: name}
	s := r.scope(root)
	if r.err != nil {
		return nil, r.err
	}
	return s.sealed(), nil
}

// reader turns nodes into values and keeps the first thing that is wrong.
type reader struct {
	file string
	err  *Error
}

func (r *reader) fail(n *node, key, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{r.file, n.line, n.column, key, fmt.Sprintf(format, args...)}
	}
}

// want checks a node's kind.
func (r *reader) want(n *node, key string, k kind) bool {
	if n.kind != k {
		hint := ""
		if k == aString && n.kind != aMap && n.kind != aList {
			hint = "; put it in quotes"
		}
		r.fail(n, key, "must be %s, not %s%s", k, n.kind, hint)
		return false
	}
	if !utf8.ValidString(n.text) {
		r.fail(n, key, "must be UTF-8")
		return false
	}
	return true
}

// mapping calls take for each field of n, and refuses keys that it doesn't know.
func (r *reader) mapping(n *node, key string, known []string, take func(f field, key string)) {
	if !r.want(n, key, aMap) {
		return
	}
	for _, f := range n.fields {
		path := f.key
		if key != "" {
			path = key + "." + f.key
		}
		if !slices.Contains(known, f.key) {
			r.fail(&node{line: f.line, column: f.column}, path, "unknown key; known here: %s", strings.Join(known, ", "))
			return
		}
		take(f, path)
	}
}

// list calls take for each item of n, which must have some and none twice.
func (r *reader) list(n *node, key string, take func(item *node, key string)) {
	if !r.want(n, key, aList) {
		return
	}
	if len(n.items) == 0 {
		r.fail(n, key, "an empty list never matches; leave the key out for its default, or name something")
	}
	seen := map[string]bool{}
	for i, item := range n.items {
		path := fmt.Sprintf("%s[%d]", key, i)
		if item.kind != aMap && item.kind != aList && seen[item.text] {
			r.fail(item, path, "%q is given twice", item.text)
		}
		seen[item.text] = true
		take(item, path)
	}
}

func (r *reader) scope(n *node) *Scope {
	s := new(Scope)
	known := []string{"engagement", "allow", "deny", "actions", "allow_metadata", "not_before", "not_after"}
	var after *node
	r.mapping(n, "", known, func(f field, key string) {
		switch f.key {
		case "engagement":
			if r.want(f.value, key, aString) && !engagementName.MatchString(f.value.text) {
				r.fail(f.value, key, "must be 1 to 128 letters, digits, _ or -")
			}
			s.engagement = f.value.text
		case "allow", "deny":
			rules := r.rules(f)
			if f.key == "allow" {
				s.allow = rules
			} else {
				s.deny = rules
			}
		case "actions":
			s.actions = r.actions(f.value, key)
		case "allow_metadata":
			if r.want(f.value, key, aBool) {
				s.allowMetadata = f.value.text == "true"
			}
		case "not_before":
			s.window.NotBefore = r.time(f.value, key)
		case "not_after":
			s.window.NotAfter, after = r.time(f.value, key), f.value
		}
	})
	if r.err == nil && n.field("engagement") == nil {
		r.fail(n, "engagement", "missing; write `engagement: NAME`")
	}
	if after != nil && !s.window.NotAfter.After(s.window.NotBefore) {
		r.fail(after, "not_after", "must be later than not_before")
	}
	r.reachable(s, n)
	return s
}

func (r *reader) time(n *node, key string) time.Time {
	if !r.want(n, key, aString) {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, n.text)
	if err != nil || at.Year() < 1970 {
		r.fail(n, key, "must be a date and time with zone, as in 2026-12-01T00:00:00Z")
	}
	return at.UTC()
}

func (r *reader) actions(n *node, key string) []string {
	known := Actions()
	var list []string
	r.list(n, key, func(item *node, key string) {
		if r.want(item, key, aString) && !slices.Contains(known, item.text) {
			r.fail(item, key, "%q is no action; known: %s", item.text, strings.Join(known, ", "))
		}
		list = append(list, item.text)
	})
	slices.Sort(list)
	return list
}
