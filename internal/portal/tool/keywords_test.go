package tool_test

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// keywords lists the keywords of a schema and of those within it.
func keywords(t *testing.T, text []byte) (out []string) {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(map[string]any)
	walk = func(s map[string]any) {
		for k, v := range s {
			out = append(out, k)
			inner, _ := v.(map[string]any)
			switch k {
			case "properties":
				for _, p := range inner {
					walk(p.(map[string]any))
				}
			case "items":
				walk(inner)
			}
		}
	}
	walk(schema)
	return out
}
