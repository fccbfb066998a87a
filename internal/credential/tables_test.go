package credential

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStatesPage compares docs/states.md with the table that the code moves by.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for table, steps := range moves {
		for _, m := range steps {
			from := m.from
			if from == "" {
				from = "absent"
			}
			want[fmt.Sprintf("| %s | %s | %s |", table, from, m.to)] = true
		}
	}
	_, text, _ := strings.Cut(string(page), "| what | from | to | when |\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		if cells := strings.Split(line, " | "); !strings.HasPrefix(line, "|--") {
			row := strings.Join(cells[:len(cells)-1], " | ") + " |"
			if !want[row] {
				t.Errorf("docs/states.md has a move that the code hasn't: %s", row)
			}
			delete(want, row)
		}
	}
	for row := range want {
		t.Errorf("docs/states.md lacks %s", row)
	}
}
