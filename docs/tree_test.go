package docs_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestTreePage holds the page of the architecture to the building plan: each package
// stands in its tree and among its floors.
func TestTreePage(t *testing.T) {
	plan, err := os.ReadFile("../internal/floors/floors.go")
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "architecture.md")
	tree := fences.FindString(page)
	known := 0
	for _, m := range regexp.MustCompile(`(?m)^\t\{"([a-z ]+)", "([^"]+)"\},$`).FindAllStringSubmatch(string(plan), -1) {
		row := regexp.MustCompile(`(?m)^\| ` + m[1] + `.*$`).FindString(page)
		for _, pkg := range strings.Fields(m[2]) {
			name := path.Base(pkg)
			word := regexp.MustCompile(`\b` + name + `\b`)
			if known++; !word.MatchString(tree) {
				t.Errorf("%s isn't in the tree of docs/architecture.md", pkg)
			}
			if m[1] != "test kit" && pkg != "cmd/chaperone" && !word.MatchString(row) {
				t.Errorf("%s isn't on its floor (%s) in docs/architecture.md", pkg, m[1])
			}
		}
	}
	if known < 40 {
		t.Errorf("only %d packages found: the expression is wrong", known)
	}
}
