package node_test

import (
	"strings"
	"testing"

	"chaperone/internal/node"
)

// On a public origin nobody is told of tools in the page until that was reviewed.
func TestWelcomeTellsOfTools(t *testing.T) {
	for _, c := range []struct {
		name, origin string
		reviewed     node.Reviewed
		tools        bool
	}{
		{"at home", "http://localhost:7080", node.Reviewed{}, true},
		{"public", "https://chaperone.example.com", node.Reviewed{}, false},
		{"public, reviewed", "https://chaperone.example.com", node.Reviewed{By: "Ada", Date: "2026-11-30"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := t.TempDir()
			config := node.DefaultConfig(home)
			config.PublicOrigin, config.Reviewed = c.origin, c.reviewed
			n, err := node.Open(t.Context(), home, config, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close(t.Context())
			w, err := n.Welcome(t.Context())
			if err != nil || w.Home != home || w.EnrolmentFor != "15 minutes" {
				t.Errorf("%+v, %v", w, err)
			}
			if told := w.Chromium != ""; told != c.tools || told == strings.Contains(strings.Join(w.Notes, "\n"), "reviewed") {
				t.Errorf("tools are told of: %q, notes %q", w.Chromium, w.Notes)
			}
		})
	}
}
