package oauth

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStatesPage compares docs/states.md with the table that the code moves by:
// each move has its row, and there is no other row.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	word := func(s State) State {
		if s == Absent {
			return "absent"
		}
		return s
	}
	want := map[string]bool{}
	for _, m := range moves {
		want[fmt.Sprintf("| %s | %s | %s | %s |", m.record, m.verb, word(m.from), word(m.to))] = true
	}
	_, section, _ := strings.Cut(string(page), "## Bearer authorization\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "|---|---|---|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			break
		}
		row := strings.Join(cells[:5], "|") + "|"
		if !want[row] {
			t.Errorf("docs/states.md has a move that the code hasn't: %s", row)
		}
		delete(want, row)
	}
	for row := range want {
		t.Errorf("docs/states.md lacks %s", row)
	}
}
