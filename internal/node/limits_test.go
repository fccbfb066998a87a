package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
)

// Each limit of section 6 as a body meets it: what is at it is done, what is one over
// is refused by its code, and neither costs the page its channel.
func TestLimitsOfBodies(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	p := o.page(controlv1.Facts{ID: "look", Version: "1", Class: controlv1.Read, Confirmation: controlv1.NoConfirmation, SourceRef: "test"},
		controlv1.Facts{ID: "write", Version: "1", Class: controlv1.AccountMutation, Confirmation: controlv1.ExactRequest, SourceRef: "test",
			Input: []byte(`{"type":"object","required":["n"]}`)})
	p.arm()
	p.open()
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan int, 1000)
	k := &killed{o: o}
	frames := k.listen(p.ws, func(controlv1.Call) {})
	played := make(chan struct{})
	go func() {
		defer close(played)
		for f := range frames {
			if c, ok := f.(controlv1.Call); ok {
				heard <- len(c.Arguments.Bytes())
				p.say(controlv1.Result{Call: c.Call, Outcome: controlv1.Success{Value: value}})
			}
		}
	}()
	var made struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "limits", "scopes": []string{"control:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
	carrier, err := client.NewHTTP(s.origin, func(context.Context) (string, error) { return made.Token, nil }, client.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	c := client.New(carrier)
	documents, err := c.Documents(t.Context())
	if err != nil || len(documents) != 1 {
		t.Fatal(documents, err)
	}
	l := p.lease(c)
	post := func(body string) (int, string) {
		t.Helper()
		q, err := http.NewRequest("POST", s.origin+"/browser/control", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+made.Token)
		q.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		data := readAll(t, r)
		var told struct {
			Error struct {
				Code string `json:"code"`
			} `json:"error"`
			Result struct {
				Status string `json:"status"`
			} `json:"result"`
		}
		if err := json.Unmarshal(data, &told); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if bytes.Contains(data, []byte("aaaa")) {
			t.Errorf("an answer repeats what was sent: %.200s", data)
		}
		return r.StatusCode, told.Error.Code + told.Result.Status
	}
	n := 0
	execute := func(arguments, more string) string {
		n++
		return fmt.Sprintf(`{"action":"execute_call","lease_id":%q,"request_id":"n%d","tool_id":"look","schema_digest":%q,"arguments":%s%s}`,
			l.Lease, n, p.catalog.Tool(ident(t, "look")).Schemas(), arguments, more)
	}
	sized := func(canonical int) string { return `{"n":"` + strings.Repeat("a", canonical-8) + `"}` }
	fill := func(body string, to int) string { return body[:len(body)-1] + strings.Repeat(" ", to-len(body)) + "}" }
	deep := func(n int) string { return `{"n":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}` }
	lease := func(tools, ttl string) string {
		return fmt.Sprintf(`{"action":"issue_lease","document_ref":%q,"tool_ids":%s%s}`, documents[0].Ref, tools, ttl)
	}
	many := func(n int) string {
		return `["look"` + strings.Repeat(`,"x"`, n-1) + `]`
	}
	wait := func(seconds string) string {
		return `{"action":"get_call","call_id":"nothing","wait_seconds":` + seconds + `}`
	}
	named := func(id string) string {
		return strings.Replace(execute(`{}`, ""), fmt.Sprintf(`"n%d"`, n), `"`+id+`"`, 1)
	}
	for _, c := range []struct {
		name, body string
		status     int
		told       string
		args       int // canonical bytes that the page is sent, 0 for none
	}{
		{"arguments one under", execute(sized(49_151), ""), 200, "succeeded", 49_151},
		{"arguments at", execute(sized(49_152), ""), 200, "succeeded", 49_152},
		{"arguments one over", execute(sized(49_153), ""), 413, "too_large", 0},
		{"escapes that shrink under", execute(`{"n":"`+strings.Repeat(`\u0061`, 10_000)+`"}`, ""), 200, "succeeded", 10_008},
		{"slashes that shrink to it", execute(`{"n":"`+strings.Repeat(`\/`, 14_000)+strings.Repeat("a", 49_152-8-14_000)+`"}`, ""), 200, "succeeded", 49_152},
		{"white space that shrinks to it", execute(`{"n" : `+strings.Repeat(" ", 10_000)+`"`+strings.Repeat("a", 49_152-8)+`"}`, ""), 200, "succeeded", 49_152},
		{"controls that stay", execute(`{"n":"`+strings.Repeat(`\u001f`, 8190)+`aaaa"}`, ""), 200, "succeeded", 49_152},
		{"controls one over", execute(`{"n":"`+strings.Repeat(`\u001F`, 8190)+`aaaaa"}`, ""), 413, "too_large", 0},
		{"half pairs", execute(`{"n":"\ud800"}`, ""), 400, "invalid_request", 0},
		{"NUL", execute(`{"n":"\u0000"}`, ""), 200, "succeeded", 14},
		{"a float", execute(`{"n":1.0}`, ""), 400, "invalid_request", 0},
		{"an exponent", execute(`{"n":1e2}`, ""), 400, "invalid_request", 0},
		{"a negative nothing", execute(`{"n":-0}`, ""), 400, "invalid_request", 0},
		{"the largest integer", execute(`{"n":9007199254740991}`, ""), 200, "succeeded", 22},
		{"one larger", execute(`{"n":9007199254740992}`, ""), 400, "invalid_request", 0},
		{"63 deep, 64 with the body around it", execute(deep(63), ""), 200, "succeeded", 5 + 124 + 1},
		{"one deeper", execute(deep(64), ""), 400, "invalid_request", 0},
		{"a key twice", execute(`{"n":1,"\u006e":2}`, ""), 400, "invalid_request", 0},
		{"arguments that the schema refuses", strings.Replace(strings.Replace(execute(`{}`, ""), `"look"`, `"write"`, 1), p.catalog.Tool(ident(t, "look")).Schemas().String(), p.catalog.Tool(ident(t, "write")).Schemas().String(), 1), 422, "arguments_invalid", 0},
		{"arguments as text", execute(`"{}"`, ""), 400, "invalid_request", 0},
		{"a list of arguments", execute(`[]`, ""), 400, "invalid_request", 0},
		{"no arguments", execute(`null`, ""), 400, "invalid_request", 0},
		{"a body at", fill(execute(`{}`, ""), 65_536), 200, "succeeded", 2},
		{"a body one over", fill(execute(`{}`, ""), 65_537), 413, "too_large", 0},
		{"a field that isn't one", execute(`{}`, `,"more":1`), 400, "invalid_request", 0},
		{"a field in another case", execute(`{}`, `,"Timeout_seconds":1`), 400, "invalid_request", 0},
		{"a field twice", execute(`{}`, `,"action":"execute_call"`), 400, "invalid_request", 0},
		{"a field of another action", execute(`{}`, `,"call_id":"x"`), 400, "invalid_request", 0},
		{"a field that is null", execute(`{}`, `,"timeout_seconds":null`), 400, "invalid_request", 0},
		{"timeout 0", execute(`{}`, `,"timeout_seconds":0`), 400, "invalid_request", 0},
		{"timeout 1", execute(`{}`, `,"timeout_seconds":1`), 200, "succeeded", 2},
		{"timeout 120", execute(`{}`, `,"timeout_seconds":120`), 200, "succeeded", 2},
		{"timeout 121", execute(`{}`, `,"timeout_seconds":121`), 400, "invalid_request", 0},
		{"timeout 1.0", execute(`{}`, `,"timeout_seconds":1.0`), 400, "invalid_request", 0},
		{"timeout 1e1", execute(`{}`, `,"timeout_seconds":1e1`), 400, "invalid_request", 0},
		{"timeout 01", execute(`{}`, `,"timeout_seconds":01`), 400, "invalid_request", 0},
		{"timeout of 64 bits and more", execute(`{}`, `,"timeout_seconds":18446744073709551617`), 400, "invalid_request", 0},
		{"timeout as text", execute(`{}`, `,"timeout_seconds":"1"`), 400, "invalid_request", 0},
		{"ttl 0", lease(`["look"]`, `,"requested_ttl_seconds":0`), 400, "invalid_request", 0},
		{"ttl 1", lease(`["look"]`, `,"requested_ttl_seconds":1`), 200, "active", 0},
		{"ttl 900", lease(`["look"]`, `,"requested_ttl_seconds":900`), 200, "active", 0},
		{"ttl 901", lease(`["look"]`, `,"requested_ttl_seconds":901`), 400, "invalid_request", 0},
		{"no tool", lease(`[]`, ""), 400, "invalid_request", 0},
		{"a tool twice", lease(`["look","look"]`, ""), 400, "invalid_request", 0},
		{"65 tools", lease(many(65), ""), 400, "invalid_request", 0},
		{"wait 0", wait("0"), 404, "unknown_call", 0},
		{"wait 50", wait("50"), 404, "unknown_call", 0},
		{"wait 51", wait("51"), 400, "invalid_request", 0},
		{"wait -1", wait("-1"), 400, "invalid_request", 0},
		{"an id of 128", named(strings.Repeat("r", 128)), 200, "succeeded", 2},
		{"an id of 129", named(strings.Repeat("r", 129)), 400, "invalid_request", 0},
		{"an id with NUL", named(`r\u0000`), 400, "invalid_request", 0},
		{"an id with a line", named(`r\n`), 400, "invalid_request", 0},
		{"nothing", ``, 400, "invalid_request", 0},
		{"two bodies", `{"action":"list_documents"}{"action":"list_documents"}`, 400, "invalid_request", 0},
		{"a mark before", "\ufeff" + `{"action":"list_documents"}`, 400, "invalid_request", 0},
		{"another encoding", "{\"action\":\"list_documents\xff\"}", 400, "invalid_request", 0},
	} {
		status, told := post(c.body)
		if status != c.status || told != c.told {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, told, c.status, c.told)
		}
		got := 0
		select {
		case got = <-heard:
		default:
		}
		if got != c.args {
			t.Errorf("%s: the page got %d bytes of arguments, want %d", c.name, got, c.args)
		}
	}
	if got := p.armed(); got != "armed" {
		t.Errorf("afterwards: %s", got)
	}
	p.ws.CloseNow()
	<-played
}
