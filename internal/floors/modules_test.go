package floors

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var requirement = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.-]+\.[a-z]+/\S+) v\S+(.*)$`)

// TestModules compares go.mod's direct requirements with the table of
// docs/dependencies.md, both ways: a new dependency brings its reason, and a
// reason doesn't outlive its dependency.
func TestModules(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, m := range requirement.FindAllStringSubmatch(string(mod), -1) {
		if !strings.Contains(m[2], "// indirect") {
			direct = append(direct, m[1])
		}
	}
	doc, err := os.ReadFile(root + "/docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		told = append(told, m[1])
	}
	for _, m := range direct {
		if !slices.Contains(told, m) {
			t.Errorf("%s is required but docs/dependencies.md has no row for it", m)
		}
	}
	for _, m := range told {
		if !slices.Contains(direct, m) {
			t.Errorf("docs/dependencies.md has a row for %s, which isn't required", m)
		}
	}
	if len(direct) == 0 {
		t.Error("no requirement was read from go.mod")
	}
}
