package session

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStatesPage compares docs/states.md with the tables that the code moves by.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	sessions, flows := map[string]bool{}, map[string]bool{"| absent | waiting |": true}
	for _, m := range moves {
		from := m.from
		if from == Absent {
			from = "absent"
		}
		sessions[fmt.Sprintf("| %s | %s | %s |", m.verb, from, m.to)] = true
	}
	for _, m := range flowMoves {
		flows[fmt.Sprintf("| %s | %s |", m.from, m.to)] = true
	}
	compare := func(section, header string, want map[string]bool) {
		_, text, _ := strings.Cut(string(page), "## "+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		_, table, found := strings.Cut(text, header+"\n")
		if !found {
			t.Errorf("docs/states.md has no table in %q", section)
		}
		for line := range strings.Lines(table) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") {
				break
			}
			if !strings.HasPrefix(line, "|--") && !want[line] {
				t.Errorf("docs/states.md has a move that the code hasn't: %s", line)
			}
			delete(want, line)
		}
		for line := range want {
			t.Errorf("docs/states.md lacks %s", line)
		}
	}
	compare("A sign-in session", "| verb | from | to |", sessions)
	compare("A redirect to the provider", "| from | to |", flows)
}
