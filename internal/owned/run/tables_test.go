package run

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStatesPage compares docs/states.md with the tables that the code moves by:
// each move has its row, and there is no other row in the sections of a run and an
// action.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, m := range moves {
		from := m.from
		if from == Absent {
			from = "absent"
		}
		want[fmt.Sprintf("| %s | %s | %s |", m.verb, from, m.to)] = true
	}
	for _, s := range settles {
		want[fmt.Sprintf("| %s | %s |", s.from, s.to)] = true
	}
	rows, inMoves, ours := 0, false, false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			ours = title == "A run" || title == "An action"
		}
		switch {
		case !ours:
		case line == "| verb | from | to |" || line == "| from | to |":
			inMoves = true
		case !strings.HasPrefix(line, "|"):
			inMoves = false
		case inMoves && !strings.HasPrefix(line, "|--"):
			rows++
			if !want[line] {
				t.Errorf("docs/states.md has a move that the code hasn't: %s", line)
			}
			delete(want, line)
		}
	}
	for line := range want {
		t.Errorf("docs/states.md lacks %s", line)
	}
	if rows == 0 {
		t.Error("docs/states.md has no table of moves")
	}
}
