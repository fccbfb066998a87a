package mcp_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"chaperone/internal/canon"
	"chaperone/internal/surface/mcp"
)

// FuzzBorder: a body that passes is one JSON value in which neither way of reading
// finds another name, and whose arguments have one canonical form.
func FuzzBorder(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"item_read","arguments":{"limit":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x","name":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1.0}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `[]`, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		name, fault := mcp.Border(body)
		if fault != "" {
			return
		}
		var m struct {
			Method string         `json:"method"`
			Params map[string]any `json:"params"`
		}
		if !json.Valid(body) {
			t.Fatalf("passed, and is not JSON: %q", body)
		}
		if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
			return
		}
		if m.Params["name"] != name {
			t.Errorf("%q names %q, and read otherwise %q", body, name, m.Params["name"])
		}
		var raw struct {
			Params map[string]json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(body, &raw); err != nil {
			t.Fatal(err)
		}
		if arguments, ok := raw.Params["arguments"]; ok {
			if _, err := canon.Canonicalize(arguments); err != nil {
				t.Errorf("%q: arguments without a canonical form: %v", body, err)
			}
		}
		if why := mcp.Mirrored(body, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {name + "x"}}); why == "" {
			t.Errorf("%q: a header that lies passed", body)
		}
	})
}

// FuzzForm: a form that passes says each thing once.
func FuzzForm(f *testing.F) {
	f.Add("grant_type=authorization_code&code=x&client_id=y&code_verifier=z")
	f.Add("grant_type=a&grant_type=b&client_id=c")
	f.Add("client_id=%zz")
	f.Add("client_id=a;code=b")
	f.Fuzz(func(t *testing.T, body string) {
		values, err := mcp.ParseForm(body)
		if err != nil {
			return
		}
		for name, all := range values {
			if len(all) != 1 {
				t.Errorf("%q says %q %d times", body, name, len(all))
			}
		}
		if values.Get("client_id") == "" || values.Get("client_secret") != "" {
			t.Errorf("%q passed", body)
		}
	})
}
