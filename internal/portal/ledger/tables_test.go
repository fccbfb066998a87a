package ledger

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStatesPage compares docs/states.md with the tables that the code moves by:
// each section has a row for each move, and no other.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	compareRows(t, string(page), "A collection", collections.moves)
	compareRows(t, string(page), "A connection", connectionMoves)
	compareRows(t, string(page), "A review", reviews.moves)
	compareRows(t, string(page), "A request", requestMoves)
}

func compareRows[S ~string](t *testing.T, page, title string, moves []step[S]) {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## "+title+"\n")
	if !found {
		t.Errorf("docs/states.md has no section %q", title)
		return
	}
	section, _, _ = strings.Cut(section, "\n## ")
	want := map[string]bool{}
	for _, m := range moves {
		from := string(m.from)
		if from == "" {
			from = "absent"
		}
		want[fmt.Sprintf("| %s | %s | %s |", m.verb, from, m.to)] = true
	}
	_, table, _ := strings.Cut(section, "| verb | from | to |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); !want[line] {
			t.Errorf("docs/states.md, %s, has a move that the code hasn't: %s", title, line)
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("docs/states.md, %s, lacks %s", title, line)
	}
	for _, m := range moves {
		if !strings.Contains(section, fmt.Sprintf("\n| %s | ", m.to)) {
			t.Errorf("docs/states.md, %s, doesn't say what %s means", title, m.to)
		}
	}
}
