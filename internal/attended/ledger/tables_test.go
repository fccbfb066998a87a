package ledger

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"chaperone/internal/policy"
)

// TestStatesPage compares docs/states.md with the tables that the code moves by:
// each move has its row, and there is no other row.
func TestStatesPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, n := range nouns {
		for _, m := range n.moves {
			from := m.from
			if from == "" {
				from = "absent"
			}
			want[fmt.Sprintf("| %s | %s | %s | %s |", n.name, m.verb, from, m.to)] = true
		}
	}
	_, section, _ := strings.Cut(string(page), "## Attended control\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "| record | verb | from | to |\n|---|---|---|---|\n")
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line != "" && !want[line] {
			t.Errorf("docs/states.md has a move that the code hasn't: %s", line)
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("docs/states.md lacks %s", line)
	}
}

// TestNoVerbHandsOutACredential walks, by reflection, every type that a verb takes
// or answers: none has text that could be a cookie, a token or a raw receipt.
func TestNoVerbHandsOutACredential(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, string)
	walk = func(r reflect.Type, where string) {
		if seen[r] {
			return
		}
		seen[r] = true
		switch r.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			if r.Elem().Kind() == reflect.Uint8 {
				t.Errorf("%s holds raw bytes", where)
			}
			walk(r.Elem(), where)
		case reflect.Map:
			t.Errorf("%s is an open map", where)
		case reflect.Struct:
			if !strings.HasPrefix(r.PkgPath(), "chaperone/") || r == reflect.TypeFor[policy.Set]() {
				return // time, a compiled schema, and the operator's file
			}
			for i := range r.NumField() {
				f := r.Field(i)
				name := strings.ToLower(f.Name)
				for _, word := range []string{"cookie", "token", "secret", "bearer", "password", "credential", "receipt"} {
					if strings.Contains(name, word) && f.Type.Kind() == reflect.String {
						t.Errorf("%s.%s can hold a credential", where, f.Name)
					}
				}
				walk(f.Type, where+"."+f.Name)
			}
		}
	}
	book := reflect.TypeFor[*Book]()
	for i := range book.NumMethod() {
		m := book.Method(i)
		for n := 1; n < m.Type.NumIn(); n++ {
			if in := m.Type.In(n); in.PkgPath() != "context" {
				walk(in, m.Name)
			}
		}
		for n := range m.Type.NumOut() {
			walk(m.Type.Out(n), m.Name)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d types were walked", len(seen))
	}
}
