package scope_test

import (
	"strings"
	"testing"

	"chaperone/docs"
	"chaperone/internal/owned/scope"
)

// Every example of docs/scope.md means what the page says.
func TestDocumentedExamples(t *testing.T) {
	page, err := docs.Pages.ReadFile("scope.md")
	if err != nil {
		t.Fatal(err)
	}
	var s *scope.Scope
	var failure error
	judged, wrong := 0, 0
	blocks := strings.Split(string(page), "```")
	for i := 1; i < len(blocks); i += 2 {
		kind, text, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "yaml", "yaml wrong":
			s, failure = scope.Parse("scope.yaml", []byte(text))
			if kind == "yaml" && failure != nil {
				t.Fatal(failure)
			}
		case "error":
			wrong++
			if failure == nil || !strings.Contains(failure.Error(), strings.TrimSpace(text)) {
				t.Errorf("got %v, the page says %s", failure, text)
			}
		case "judged":
			for line := range strings.Lines(text) {
				judged++
				f := strings.Fields(line)
				want := f[0]
				if want == "denied" {
					want = f[2]
				}
				if got := strings.Fields(judge(s, row{"GET", f[1], "", noon}))[0]; got != want {
					t.Errorf("%s is %s; the page says %s", f[1], got, want)
				}
			}
		}
	}
	if judged < 30 || wrong < 2 {
		t.Errorf("only %d lines and %d errors were read", judged, wrong)
	}
}
