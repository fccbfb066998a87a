package tool_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-json-experiment/json"

	"chaperone/internal/portal/tool"
	"chaperone/spec"
)

// page is the contract's page.
func page(t *testing.T) string {
	t.Helper()
	data, err := spec.Files.ReadFile("portal-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCodesPage compares the page's table of codes with the one that answers go by.
func TestCodesPage(t *testing.T) {
	var told, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\d{3}) \\| (yes|no) \\|").FindAllStringSubmatch(page(t), -1) {
		told = append(told, m[1]+" "+m[2]+" "+m[3])
	}
	for _, code := range tool.Codes() {
		e := tool.Fail(code)
		want = append(want, fmt.Sprintf("%s %d %s", code, e.Status(), map[bool]string{true: "yes", false: "no"}[e.Retryable()]))
	}
	slices.Sort(told)
	slices.Sort(want)
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("spec/portal-tools.md, section 3 (-code +page):\n%s", diff)
	}
}

// TestToolsPage compares the page's table of tools with the catalog: names, effects,
// every member of input and output, and which of them are required.
func TestToolsPage(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (read|write|delete) \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(page(t), -1)
	if len(rows) != len(tool.All()) {
		t.Fatalf("the page has %d tools", len(rows))
	}
	for i, want := range tool.All() {
		name, effect, input, output := rows[i][1], rows[i][2], rows[i][3], rows[i][4]
		if name != string(want.Name) || effect != string(want.Effect) {
			t.Errorf("row %d is %s, %s; want %s, %s", i, name, effect, want.Name, want.Effect)
		}
		before, _, _ := strings.Cut(input, "(required)")
		if !strings.Contains(input, "(required)") {
			before = ""
		}
		told := [2][]string{words(before), words(input)}
		required, all := members(t, want.Input)
		if diff := cmp.Diff([2][]string{required, all}, told); diff != "" {
			t.Errorf("%s, input (-schema +page):\n%s", name, diff)
		}
		_, all = members(t, want.Output)
		for _, member := range all {
			if !strings.Contains(output, member) {
				t.Errorf("%s: its output has %s, and the page doesn't", name, member)
			}
		}
	}
}

// words answers the names in a cell, sorted.
func words(cell string) []string {
	out := regexp.MustCompile(`[a-z_]+`).FindAllString(strings.ReplaceAll(cell, "(required)", ""), -1)
	slices.Sort(out)
	return out
}

// members answers a schema's own members, sorted.
func members(t *testing.T, schema []byte) (required, all []string) {
	t.Helper()
	var s struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	for name := range s.Properties {
		all = append(all, name)
	}
	slices.Sort(all)
	slices.Sort(s.Required)
	return s.Required, all
}
