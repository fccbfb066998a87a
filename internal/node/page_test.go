package node_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/surface/guard"
	"chaperone/spec"
)

// TestOwnerPage compares the page's table of the owner API with a real server's
// routes: none is missing, none is made up, and what wants a fresh step-up says so.
func TestOwnerPage(t *testing.T) {
	s := stand(t, nil)
	data, err := spec.Files.ReadFile("portal-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| (GET|POST|PUT|DELETE) \\| `([^`]+)` \\| ([a-z]*) ?\\|").FindAllStringSubmatch(string(data), -1) {
		told = append(told, strings.TrimSpace(m[1]+" "+m[2]+" "+strings.TrimPrefix(m[3], "wider")))
	}
	for _, route := range s.node.Routes() {
		if route.Who == guard.Owner {
			want = append(want, strings.TrimSpace(route.Method+" "+route.Path+" "+map[bool]string{true: "fresh"}[route.Fresh]))
		}
	}
	slices.Sort(told)
	slices.Sort(want)
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("spec/portal-tools.md, section 7 (-server +page):\n%s", diff)
	}
}
