package tool_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/canon"
	"chaperone/internal/leaktest"
	"chaperone/internal/portal/tool"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

const id = "8c9f1f8e-6d7c-4f4a-9a70-0a3f2f7d3b11"

func TestDecode(t *testing.T) {
	long := strings.Repeat("a", 513)
	for name, c := range map[string]struct {
		tool, arguments string
		want            any // a tool.Input, or the code, path and rule of a refusal
	}{
		"collections":               {"collections_list", `{}`, tool.CollectionsList{Limit: 50}},
		"collections page":          {"collections_list", `{"limit":100,"cursor":"abc"}`, tool.CollectionsList{Cursor: "abc", Limit: 100}},
		"limit zero":                {"collections_list", `{"limit":0}`, "invalid_input /limit minimum"},
		"limit over":                {"collections_list", `{"limit":101}`, "invalid_input /limit maximum"},
		"limit float":               {"collections_list", `{"limit":1.0}`, "invalid_input  json"},
		"limit text":                {"collections_list", `{"limit":"1"}`, "invalid_input  type"},
		"null limit":                {"collections_list", `{"limit":null}`, "invalid_input /limit type"},
		"unknown member":            {"collections_list", `{"tool_id":"x"}`, "invalid_input  additionalProperties"},
		"lease smuggled":            {"item_read", `{"collection":"a","item":"b","lease_id":"x"}`, "invalid_input  additionalProperties"},
		"duplicate key":             {"collections_list", `{"limit":1,"limit":2}`, "invalid_input  json"},
		"key with NUL":              {"item_read", "{\"collection\":\"a\",\"item\\u0000\":\"b\"}", "invalid_input  additionalProperties"},
		"array":                     {"collections_list", `[]`, "invalid_input  type"},
		"nothing":                   {"collections_list", ``, "invalid_input  json"},
		"unknown tool":              {"items_delete", `{}`, "unknown_tool  "},
		"items":                     {"items_list", `{"collection":"files","prefix":"a/","query":"x y"}`, tool.ItemsList{Collection: "files", Limit: 50, Prefix: "a/", Query: "x y"}},
		"no collection":             {"items_list", `{}`, "invalid_input /collection required"},
		"capital collection":        {"items_list", `{"collection":"Files"}`, "invalid_input /collection pattern"},
		"collection of a path":      {"items_list", `{"collection":"../x"}`, "invalid_input /collection pattern"},
		"collection with a newline": {"items_list", `{"collection":"a\n"}`, "invalid_input /collection pattern"},
		"bidi prefix":               {"items_list", `{"collection":"a","prefix":"a\u202eb"}`, "invalid_input /prefix text"},
		"read":                      {"item_read", `{"collection":"a","item":"x/y.txt"}`, tool.ItemRead{Collection: "a", Item: "x/y.txt", MaxBytes: 65536}},
		"read part":                 {"item_read", `{"collection":"a","item":"x","max_bytes":262144,"offset":9}`, tool.ItemRead{Collection: "a", Item: "x", MaxBytes: 262144, Offset: 9}},
		"read too much":             {"item_read", `{"collection":"a","item":"x","max_bytes":262145}`, "invalid_input /max_bytes maximum"},
		"negative offset":           {"item_read", `{"collection":"a","item":"x","offset":-1}`, "invalid_input /offset minimum"},
		"dots":                      {"item_read", `{"collection":"a","item":"x/../y"}`, "invalid_input /item text"},
		"one dot":                   {"item_read", `{"collection":"a","item":"."}`, "invalid_input /item text"},
		"zero width":                {"item_read", `{"collection":"a","item":"a\u200bb"}`, "invalid_input /item text"},
		"tag block":                 {"item_read", `{"collection":"a","item":"a\udb40\udc41"}`, "invalid_input /item text"},
		"control":                   {"item_read", `{"collection":"a","item":"a\u0007"}`, "invalid_input /item text"},
		"lone surrogate":            {"item_read", `{"collection":"a","item":"\ud800"}`, "invalid_input  json"},
		"513 bytes":                 {"item_read", `{"collection":"a","item":"` + long + `"}`, "invalid_input /item maxLength"},
		"300 characters, 600 bytes": {"item_read", `{"collection":"a","item":"` + strings.Repeat("é", 300) + `"}`, "invalid_input /item text"},
		"create": {"item_write", `{"collection":"a","item":"x","request_id":"` + strings.ToUpper(id) + `","content":"hi","if_absent":true}`,
			tool.ItemWrite{Collection: "a", Item: "x", RequestID: id, HasContent: true, Content: []byte("hi"), MediaType: "text/plain", IfAbsent: true}},
		"empty content": {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"","if_absent":true}`,
			tool.ItemWrite{Collection: "a", Item: "x", RequestID: id, HasContent: true, Content: []byte{}, MediaType: "text/plain", IfAbsent: true}},
		"replace in base64": {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"AP8=","encoding":"base64","media_type":"application/x-y","if_version":"v1"}`,
			tool.ItemWrite{Collection: "a", Item: "x", RequestID: id, HasContent: true, Content: []byte{0, 255}, MediaType: "application/x-y", IfVersion: "v1"}},
		"metadata": {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","metadata":{"seen":true,"keywords":["a"],"n":2},"if_version":"v1"}`,
			tool.ItemWrite{Collection: "a", Item: "x", RequestID: id, Metadata: map[string]any{"seen": true, "keywords": []any{"a"}, "n": int64(2)}, IfVersion: "v1"}},
		"both conditions":      {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"","if_absent":true,"if_version":"v"}`, "invalid_input /if_version oneOf"},
		"no condition":         {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":""}`, "invalid_input /if_version oneOf"},
		"if_absent false":      {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"","if_absent":false,"if_version":"v"}`, "invalid_input /if_absent enum"},
		"nothing to write":     {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","if_absent":true}`, "invalid_input /content required"},
		"type without content": {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","media_type":"a/b","metadata":{},"if_version":"v"}`, "invalid_input /content dependentRequired"},
		"bad base64":           {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"a","encoding":"base64","if_absent":true}`, "invalid_input /content contentEncoding"},
		"bad request id":       {"item_write", `{"collection":"a","item":"x","request_id":"1","content":"","if_absent":true}`, "invalid_input /request_id pattern"},
		"media type with spaces": {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"","media_type":"text/html; charset=x","if_absent":true}`,
			"invalid_input /media_type pattern"},
		"metadata name":        {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","metadata":{"__proto__":1},"if_version":"v"}`, "invalid_input /metadata text"},
		"metadata nested":      {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","metadata":{"a":{"b":1}},"if_version":"v"}`, "invalid_input /metadata text"},
		"metadata hidden":      {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","metadata":{"a":"b\u202e"},"if_version":"v"}`, "invalid_input /metadata text"},
		"content over":         {"item_write", `{"collection":"a","item":"x","request_id":"` + id + `","content":"` + strings.Repeat("a", tool.MaxWrite+1) + `","if_absent":true}`, "too_large  "},
		"approval by argument": {"item_delete", `{"collection":"a","item":"x","request_id":"` + id + `","if_version":"v","confirmed":true}`, "invalid_input  additionalProperties"},
		"delete":               {"item_delete", `{"collection":"a","item":"x","request_id":"` + id + `","if_version":"v"}`, tool.ItemDelete{Collection: "a", Item: "x", RequestID: id, IfVersion: "v"}},
		"delete any version":   {"item_delete", `{"collection":"a","item":"x","request_id":"` + id + `"}`, "invalid_input /if_version required"},
		"version with a space": {"item_delete", `{"collection":"a","item":"x","request_id":"` + id + `","if_version":"a b"}`, "invalid_input /if_version pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tool.Decode(c.tool, []byte(c.arguments))
			var told any = got
			var refused *tool.Error
			if errors.As(err, &refused) {
				text := func(name string) string { s, _ := refused.Details[name].(string); return s }
				told = string(refused.Code) + " " + text("path") + " " + text("rule")
			} else if err != nil {
				t.Fatalf("an error that isn't a *tool.Error: %v", err)
			}
			if diff := cmp.Diff(c.want, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	got, err := tool.Order([]tool.Selected{{"z", []tool.Name{"item_write", "items_list"}}, {"a", []tool.Name{"item_read"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Selected{{"a", []tool.Name{"item_read"}}, {"z", []tool.Name{"items_list", "item_write"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, bad := range map[string][]tool.Selected{
		"twice":           {{"a", []tool.Name{"item_read"}}, {"a", []tool.Name{"items_list"}}},
		"wildcard":        {{"*", []tool.Name{"item_read"}}},
		"no function":     {{"a", nil}},
		"other function":  {{"a", []tool.Name{"item_read", "approve"}}},
		"function twice":  {{"a", []tool.Name{"item_read", "item_read"}}},
		"any collections": {{"a", []tool.Name{"collections_list"}}},
	} {
		if _, err := tool.Order(bad); !errors.Is(err, tool.InvalidInput) {
			t.Errorf("%s: %v, want invalid_input", name, err)
		}
	}
}

// The page's browser will refuse a schema with a keyword outside its subset.
func TestSchemasStayInTheSubset(t *testing.T) {
	allowed := map[string]bool{"type": true, "properties": true, "required": true, "enum": true, "pattern": true, "minimum": true,
		"maximum": true, "minLength": true, "maxLength": true, "items": true, "additionalProperties": true}
	for _, c := range tool.All() {
		if _, err := canon.Canonicalize(c.Input); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, k := range keywords(t, c.Input) {
			if !allowed[k] {
				t.Errorf("%s: keyword %q", c.Name, k)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("item_write", []byte(`{"collection":"a","item":"x","request_id":"`+id+`","content":"hi","metadata":{"seen":true},"if_absent":true}`))
	f.Add("items_list", []byte(`{"collection":"a","prefix":"p"}`))
	f.Fuzz(func(t *testing.T, name string, arguments []byte) {
		in, err := tool.Decode(name, arguments)
		var refused *tool.Error
		switch {
		case err == nil && string(in.Tool()) != name:
			t.Errorf("%T for %q", in, name)
		case err != nil && !errors.As(err, &refused):
			t.Errorf("%v isn't a *tool.Error", err)
		case err != nil && refused.Status() >= 500:
			t.Errorf("%v has no status", err)
		}
	})
}
