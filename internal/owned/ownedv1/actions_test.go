package ownedv1_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

// actions.json is what the Python client plays on the real host: here its params
// decode, and its keys are those of the result types.
func TestActionVectors(t *testing.T) {
	data, err := spec.Files.ReadFile("vectors/actions.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Action string
			Params json.RawMessage
			Keys   []string
			Error  refusal.Code
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	results := map[string]any{
		"launch": ownedv1.LaunchResult{}, "goto": ownedv1.GotoResult{}, "click": ownedv1.ClickResult{},
		"type": ownedv1.TypeResult{}, "scroll": ownedv1.ScrollResult{}, "screenshot": ownedv1.ScreenshotResult{},
		"eval_js": ownedv1.EvalResult{Result: []byte("null")}, "console_logs": ownedv1.ConsoleResult{},
		"page_source": ownedv1.SourceResult{}, "pdf": ownedv1.PDFResult{}, "list_tabs": ownedv1.TabsResult{},
		"switch_tab": ownedv1.SwitchResult{}, "close": ownedv1.CloseResult{},
	}
	seen := map[string]bool{}
	for _, v := range file.Vectors {
		_, err := ownedv1.DecodeParams(v.Action, []byte(v.Params))
		if err != nil && v.Error != refusal.BrowserActionFailed {
			t.Errorf("%s %s: %v", v.Action, v.Params, err)
		}
		want := []string{"error"}
		if v.Error == "" {
			seen[v.Action] = true
			want = keys(t, results[v.Action])
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(v.Keys))); diff != "" {
			t.Errorf("%s %s: keys: %s", v.Action, v.Params, diff)
		}
	}
	for _, action := range ownedv1.Actions {
		if !seen[action] {
			t.Errorf("no vector of %s that succeeds", action)
		}
	}
}

// keys answers the sorted names of a result's members.
func keys(t *testing.T, result any) (list []string) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(ownedv1.Encode(result), &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
