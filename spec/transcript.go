package spec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Transcript is one conversation (transcripts/README.md).
type Transcript struct {
	Title  string
	Engine bool // the conversation launches a browser
	Steps  []Step
}

// Step is one section: a request to send, an answer to wait for, or a pause
// (N is 0). Header and Body hold their placeholders still.
type Step struct {
	Pause        time.Duration
	N            int
	Send         bool
	Method, Path string      // of a request
	Status       []int       // of an answer: any of these
	Header       [][2]string // in order, as written
	Body         []byte      // nil: none sent, or nothing said about it
}

// ParseTranscript reads one file. Its errors name the section.
func ParseTranscript(data []byte) (Transcript, error) {
	comment, sections := split(data)
	title, rest, _ := strings.Cut(comment, "\n")
	t := Transcript{Title: title, Engine: strings.Contains("\n"+rest, "\nengine: yes\n")}
	sent, answered := map[int]bool{}, map[int]bool{}
	for _, f := range sections {
		s, err := parseStep(f)
		if err != nil {
			return Transcript{}, fmt.Errorf("section %q: %w", f.name, err)
		}
		switch {
		case s.Pause > 0:
		case s.Send && s.N != len(sent)+1:
			return Transcript{}, fmt.Errorf("section %q: the next request is number %d", f.name, len(sent)+1)
		case !s.Send && (!sent[s.N] || answered[s.N]):
			return Transcript{}, fmt.Errorf("section %q: no such request awaits its answer", f.name)
		case s.Send:
			sent[s.N] = true
		default:
			answered[s.N] = true
		}
		t.Steps = append(t.Steps, s)
	}
	if title == "" || len(sent) == 0 || len(sent) != len(answered) {
		return Transcript{}, fmt.Errorf("a transcript has a title, and an answer for each request")
	}
	return t, nil
}

// section is a part of a txtar file, as it stands.
type section struct {
	name string
	data []byte
}

// split reads txtar: sections begin with a line "-- NAME --". (The library for
// it panics on a line "-- --", which fuzzing found.)
func split(data []byte) (comment string, sections []section) {
	begin := func(line []byte) (string, bool) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "-- ")
		name, closed := strings.CutSuffix(rest, " --")
		return strings.TrimSpace(name), ok && closed && strings.TrimSpace(name) != ""
	}
	var head []byte
	into := &head
	for line := range bytes.Lines(data) {
		if name, ok := begin(line); ok {
			sections = append(sections, section{name: name})
			into = &sections[len(sections)-1].data
			continue
		}
		*into = append(*into, line...)
	}
	return string(head), sections
}

// parseStep reads a section's name, headers and body.
func parseStep(f section) (Step, error) {
	var s Step
	words := strings.Fields(f.name)
	if ms, ok := strings.CutPrefix(f.name, "pause "); ok {
		n, err := strconv.Atoi(ms)
		s.Pause = time.Duration(n) * time.Millisecond
		return s, err
	}
	n, err := strconv.Atoi(words[0])
	switch {
	case err != nil || n < 1:
		return s, fmt.Errorf("begins with no number")
	case len(words) == 4 && words[1] == ">":
		s = Step{N: n, Send: true, Method: words[2], Path: words[3]}
	case len(words) == 3 && words[1] == "<":
		s.N = n
		for status := range strings.SplitSeq(words[2], "|") {
			code, err := strconv.Atoi(status)
			if err != nil {
				return s, fmt.Errorf("has no status")
			}
			s.Status = append(s.Status, code)
		}
	default:
		return s, fmt.Errorf("is neither N > METHOD PATH nor N < STATUS")
	}
	head, body, hasBody := bytes.Cut(append([]byte("\n"), f.data...), []byte("\n\n"))
	if hasBody {
		s.Body = bytes.TrimSuffix(body, []byte("\n"))
	}
	for line := range strings.Lines(strings.TrimPrefix(string(head), "\n")) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			return s, fmt.Errorf("has a line that is no header: %q", line)
		}
		s.Header = append(s.Header, [2]string{name, value})
	}
	return s, nil
}
