package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

func TestWrapped(t *testing.T) {
	for _, c := range []struct {
		name            string
		text            string
		at, hang, width int
		want            string
	}{
		{"it fits", "one two", 0, 4, 7, "one two"},
		{"it doesn't", "one two three", 0, 2, 7, "one two\n  three"},
		{"something stands before it", "one two", 4, 4, 10, "one\n    two"},
		{"a word is longer than a line", "a verylongword b", 0, 1, 6, "a\n verylongword\n b"},
		{"letters are counted, not bytes", "üüüü üü", 0, 0, 7, "üüüü üü"},
		{"no terminal", "one two three four five", 0, 2, 0, "one two three four five"},
		{"nothing", "", 3, 3, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, wrapped(c.text, c.at, c.hang, c.width)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoTerminal holds what goes to a file or a program to whole lines without
// colours.
func TestNoTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []io.Writer{file, io.Discard} {
		if got := columns(w); got != 0 {
			t.Errorf("columns: got %d, want 0", got)
		}
		if got := colours(w)("31", "x"); got != "x" {
			t.Errorf("colours: got %q, want x", got)
		}
	}
}

// TestStepsFitATerminal prints hostile and long outcomes for narrow and wide
// terminals: a line a step, none over the width, and nothing that a terminal obeys.
func TestStepsFitATerminal(t *testing.T) {
	status := 200
	long := strings.Repeat("long ", 60)
	steps := []outcome{
		{number: 1, step: step{action: ownedv1.Goto{}, told: "https://a.example/" + strings.Repeat("x", 200)}, took: 61 * time.Second,
			result: ownedv1.GotoResult{Status: &status, Title: long}},
		{number: 22, step: step{action: ownedv1.EvalJS{}, told: "1+1"}, result: ownedv1.EvalResult{Result: []byte("\"\u009b31m\"")}},
		{number: 333, step: step{action: ownedv1.Click{}, told: "#x"}, failure: &browser.Failure{Reason: refusal.ScopeDenied}},
		{number: 4, step: step{action: ownedv1.ConsoleLogs{}}, result: ownedv1.ConsoleResult{Count: 1, Lines: []string{"[log] \x1b]0;owned\a"}}},
	}
	for _, width := range []int{60, 80, 120} {
		r := reporter{paint: func(_, text string) string { return text }, columns: width}
		for _, s := range steps {
			text := r.person(s)
			if strings.ContainsAny(text, "\x1b\a\u009b") {
				t.Errorf("%q would be obeyed", text)
			}
			head, _, _ := strings.Cut(text, "\n")
			if n := len([]rune(head)); n > width {
				t.Errorf("%d columns on a terminal of %d: %s", n, width, head)
			}
		}
	}
}
