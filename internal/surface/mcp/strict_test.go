package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"chaperone/internal/surface/mcp"
)

func TestStrictLines(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                      "",
		`{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1.5}}`: "",
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:        "",
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                          "",
		`{`:                                                             "parse error",
		`nope`:                                                          "parse error",
		`7`:                                                             "a message is an object",
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                          "batches",
		`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`:                         "more than one value",
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`:                     "a key stands twice",
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1,"x":2}}`:        "a key stands twice",
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"\ud800"}}`:       "not valid JSON",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":\"\xff\"}": "not valid JSON",
		`{"jsonrpc":"2.0","id":1,"method":"a","params":9007199254740993}`:     "beyond 2^53-1",
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"a"}`:                "beyond 2^53-1",
		`{"jsonrpc":"2.0","id":1.5,"method":"a"}`:                             "id is not",
		`{"jsonrpc":"2.0","id":1.0,"method":"a"}`:                             "id is not",
		`{"jsonrpc":"2.0","id":null,"method":"a"}`:                            "id is not",
		`{"jsonrpc":"2.0","id":{"a":1},"method":"a"}`:                         "id has the wrong type",
		`{"jsonrpc":"2.0","id":1,"method":["a"]}`:                             "method has the wrong type",
		`{"jsonrpc":"2.0","id":1,"method":7}`:                                 "method is not a string",
		`{"jsonrpc":"1.0","id":1,"method":"a"}`:                               "jsonrpc is not",
		`{"id":1,"method":"a"}`:                                               "jsonrpc is not",
		`{"jsonrpc":"2.0"}`:                                                   "no method and no id",
		`{"jsonrpc":"2.0","id":1,"method":"a","params":` + deep + `}`:         "nested deeper",
	} {
		got := mcp.Read([]byte(line))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s\n got %q\nwant %q", line, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	secret := "hunter2"
	for _, c := range []struct{ tool, args, want string }{
		{"browser_goto", `{"url":"https://a.example/"}`, ""},
		{"browser_goto", `{"url":"https://a.example/","timeout_ms":5}`, ""},
		{"browser_tabs", ``, ""},
		{"browser_frames", `{}`, ""},
		{"browser_select_option", `{"selector":"#s","values":["a"]}`, ""},
		{"browser_goto", `{}`, "url is required"},
		{"browser_goto", ``, "url is required"},
		{"browser_goto", `null`, "must be an object"},
		{"browser_goto", `["` + secret + `"]`, "must be an object"},
		{"browser_goto", `{"url":7}`, "url must be a string"},
		{"browser_goto", `{"url":null}`, "url must be a string"},
		{"browser_goto", `{"URL":"a"}`, "browser_goto takes url, timeout_ms"},
		{"browser_goto", `{"url":"a","` + secret + `":1}`, "browser_goto takes url, timeout_ms"},
		{"browser_goto", `{"url":"a","timeout_ms":1.0}`, "must be an integer"},
		{"browser_goto", `{"url":"a","timeout_ms":1e3}`, "must be an integer"},
		{"browser_goto", `{"url":"a","timeout_ms":"` + secret + `"}`, "must be an integer"},
		{"browser_goto", `{"url":"a","timeout_ms":-1}`, "must be from 0 to"},
		{"browser_frames", `{"x":1}`, "browser_frames takes none"},
		{"browser_tabs", `{"action":"` + secret + `"}`, "must be one of list, switch, close"},
		{"browser_select_option", `{"selector":"#s","values":[]}`, "at least one"},
		{"browser_select_option", `{"selector":"#s","values":["` + secret + `",1]}`, "list of strings"},
		{"browser_screenshot", `{"full_page":"true"}`, "must be a boolean"},
	} {
		_, err := mcp.Parse(c.tool, []byte(c.args))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.tool, c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: got %v, want %q", c.tool, c.args, err, c.want)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("%s: the error repeats what was sent: %v", c.tool, err)
		}
	}
}

// FuzzRead: whatever passes the border is one JSON value, and neither way of
// reading it finds another meaning.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\u0000","method":"a"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"a","params":[{"a":1e400}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if mcp.Read(line) == "" && !json.Valid(line) {
			t.Fatalf("passed, and is not JSON: %q", line)
		}
	})
}

// FuzzArguments: what a tool takes is what its action gets, and nothing else.
func FuzzArguments(f *testing.F) {
	for i := range mcp.Names() {
		f.Add(i, []byte(`{"selector":"#a","text":"b","timeout_ms":1,"url":"c","values":["d"]}`))
		f.Add(i, []byte(`{"action":"list","tab_id":"main"}`))
	}
	f.Fuzz(func(t *testing.T, i int, raw []byte) {
		names := mcp.Names()
		name := names[uint(i)%uint(len(names))]
		if mcp.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+string(raw)+`}`)) != "" {
			return // never reaches a tool
		}
		params, err := mcp.Parse(name, raw)
		if err != nil {
			return
		}
		again, err := mcp.Parse(name, params)
		if err != nil || len(again) != len(params) {
			t.Fatalf("%s: %s became %s, which reads as %s (%v)", name, raw, params, again, err)
		}
	})
}
