package scope_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

var noon = time.Date(2026, 12, 5, 12, 0, 0, 0, time.UTC)

// row is one line of testdata/decisions.txtar.
type row struct {
	method, url, want string
	at                time.Time
}

func parseRow(t testing.TB, line string) row {
	t.Helper()
	question, want, ok := strings.Cut(line, " => ")
	method, url, ok2 := strings.Cut(question, " ")
	if !ok || !ok2 {
		t.Fatalf("no row: %q", line)
	}
	r := row{method, url, want, noon}
	if before, stamp, ok := strings.Cut(url, " @"); ok {
		at, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			t.Fatal(err)
		}
		r.url, r.at = before, at
	}
	return r
}

// table is every scope of the decision table with its rows.
func table(t testing.TB) (scopes map[string]*scope.Scope, rows map[string][]row) {
	t.Helper()
	data, err := os.ReadFile("testdata/decisions.txtar")
	if err != nil {
		t.Fatal(err)
	}
	scopes, rows = map[string]*scope.Scope{}, map[string][]row{}
	for _, f := range txtar.Parse(data).Files {
		name, kind, _ := strings.Cut(f.Name, ".")
		if kind == "yaml" {
			if scopes[name], err = scope.Parse(f.Name, f.Data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			rows[name] = append(rows[name], parseRow(t, strings.TrimSuffix(line, "\n")))
		}
	}
	return scopes, rows
}

// judge is what a person sees of one URL: its code and the rule.
func judge(s *scope.Scope, r row) string {
	t, err := scope.ParseURL(r.url)
	if err != nil {
		return string(refusal.Of(err)) + " no rule"
	}
	t.Method = r.method
	d := s.Decide(t, r.at)
	return fmt.Sprintf("%s %s", d.Code, d.Rule)
}

func TestDecisions(t *testing.T) {
	scopes, rows := table(t)
	total := 0
	for name, s := range scopes {
		for _, r := range rows[name] {
			total++
			if got := judge(s, r); got != r.want {
				t.Errorf("%s: %s %s\n got %s\nwant %s", name, r.method, r.url, got, r.want)
			}
		}
	}
	if total < 400 {
		t.Errorf("only %d rows: the table wasn't read", total)
	}
}

// What a scope means doesn't depend on how it was written down.
func TestYAMLKeepsTheMeaning(t *testing.T) {
	scopes, rows := table(t)
	for name, s := range scopes {
		again, err := scope.Parse(name+".yaml", s.YAML())
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, s.YAML())
			continue
		}
		if diff := cmp.Diff(s.Digest(), again.Digest()); diff != "" {
			t.Errorf("%s: digest changed: %s", name, diff)
		}
		for _, r := range rows[name] {
			if got := judge(again, r); got != r.want {
				t.Errorf("%s rewritten: %s %s: got %s, want %s", name, r.method, r.url, got, r.want)
			}
		}
	}
}
