package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

func TestListIsTheGrants(t *testing.T) {
	w := newWorld(t, worldOptions{})
	all := []string{"collections_list", "items_list", "item_read", "item_write", "item_delete"}
	for name, c := range map[string]struct {
		selection []tool.Selected
		scopes    []string
		want      []string
	}{
		"everything":            {everything, nil, all},
		"one function":          {[]tool.Selected{{Collection: "files", Functions: []tool.Name{tool.ReadItem}}}, nil, []string{"collections_list", "item_read"}},
		"inbox deletes nothing": {everything[1:], nil, all[:4]},
		"no collections":        {nil, []string{oauth.ScopeOwned}, nil},
	} {
		token, _ := w.token(c.selection, c.scopes...)
		if diff := cmp.Diff(c.want, w.client(token).names()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDescriptors: what goes out is the catalog's own bytes.
func TestDescriptors(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, _ := w.token(everything)
	a := w.client(token).ask("tools/list", nil)
	var tools []map[string]json.RawMessage
	must(t, json.Unmarshal(a.Result["tools"], &tools))
	for i, want := range tool.All() {
		got := tools[i]
		for member, text := range map[string]string{"name": string(want.Name), "title": want.Title, "description": want.Description} {
			var s string
			if must(t, json.Unmarshal(got[member], &s)); s != text {
				t.Errorf("%s: %s is %q", want.Name, member, s)
			}
		}
		if string(got["inputSchema"]) != string(want.Input) || string(got["outputSchema"]) != string(want.Output) {
			t.Errorf("%s: the schemas' bytes differ:\n%s\n%s", want.Name, got["inputSchema"], want.Input)
		}
		notes := map[bool]string{false: `{"readOnlyHint":true,"idempotentHint":false}`, true: `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`}[want.Mutates()]
		if diff := sameJSON(notes, string(got["annotations"])); diff != "" {
			t.Errorf("%s: annotations %s", want.Name, diff)
		}
		if !strings.Contains(string(got["_meta"]), `"untrustedContentHint":true`) {
			t.Errorf("%s: _meta is %s", want.Name, got["_meta"])
		}
	}
	if scope := string(a.Result["cacheScope"]); scope != `"private"` {
		t.Errorf("cacheScope is %s", scope)
	}
}

func sameJSON(want, got string) string {
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(got), &b); err != nil {
		return err.Error() + ": " + got
	}
	return cmp.Diff(a, b)
}

func TestCalls(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, _ := w.token(everything)
	c := w.client(token)
	id := uuid()
	write := map[string]any{"collection": "files", "item": "a/b.txt", "request_id": id, "content": "hello <&> \u2028", "if_absent": true}
	first := c.call("item_write", write)
	if first.Status != 200 || first.IsError || !strings.Contains(string(first.Structured), `"outcome":"created"`) {
		t.Fatalf("item_write: %d %s", first.Status, first.Body)
	}
	if again := c.call("item_write", write); string(again.Structured) != string(first.Structured) {
		t.Errorf("the same request again: %s, then %s", first.Structured, again.Structured)
	}
	read := c.call("item_read", map[string]any{"collection": "files", "item": "a/b.txt"})
	var got struct{ Content, Version string }
	must(t, json.Unmarshal(read.Structured, &got))
	if got.Content != "hello <&> \u2028" {
		t.Errorf("read %q", got.Content)
	}
	var content []struct{ Type, Text string }
	must(t, json.Unmarshal(read.Result["content"], &content))
	if len(content) != 1 || content[0].Type != "text" || sameJSON(string(read.Structured), content[0].Text) != "" {
		t.Errorf("the text doesn't mirror what is structured: %+v", content)
	}
	if string(read.Result["resultType"]) != `"complete"` {
		t.Errorf("resultType is %s", read.Result["resultType"])
	}
	for name, x := range map[string]struct {
		tool      string
		arguments map[string]any
		code      string
	}{
		"no such item":       {"item_read", map[string]any{"collection": "files", "item": "no"}, "not_found"},
		"no such collection": {"item_read", map[string]any{"collection": "other", "item": "no"}, "unknown_collection"},
		"not offered there":  {"item_delete", map[string]any{"collection": "inbox", "item": "x", "request_id": uuid(), "if_version": "v"}, "function_unavailable"},
		"another version":    {"item_delete", map[string]any{"collection": "files", "item": "a/b.txt", "request_id": uuid(), "if_version": "no"}, "version_conflict"},
		"it exists":          {"item_write", map[string]any{"collection": "files", "item": "a/b.txt", "request_id": uuid(), "content": "", "if_absent": true}, "already_exists"},
		"other input":        {"item_write", map[string]any{"collection": "files", "item": "a/c.txt", "request_id": id, "content": "", "if_absent": true}, "request_conflict"},
		"bad input":          {"item_read", map[string]any{"collection": "files"}, "invalid_input"},
	} {
		a := c.call(x.tool, x.arguments)
		if a.Status != 200 || !a.IsError || a.Code != x.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, x.code)
		}
		var refusal struct{ IsError, Retryable *bool }
		if json.Unmarshal(a.Structured, &refusal); refusal.IsError == nil || refusal.Retryable == nil {
			t.Errorf("%s: %s", name, a.Structured)
		}
	}
	if a := c.call("collections_list", nil); a.IsError || !strings.Contains(string(a.Structured), `"inbox"`) {
		t.Errorf("no arguments at all: %s", a.Body)
	}
}

// TestMethodsThatArentOffered: no empty lists of what there isn't.
func TestMethodsThatArentOffered(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, _ := w.token(everything)
	c := w.client(token)
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "completion/complete", "logging/setLevel", "no/such"} {
		if a := c.ask(method, nil); a.Error != -32601 {
			t.Errorf("%s: %d %s", method, a.Status, a.Body)
		}
	}
	if a := c.call("browser_goto", nil); a.Error != -32602 || a.Code != "unknown_tool" || strings.Contains(a.Body, "browser_goto") {
		t.Errorf("an unknown tool: %d %s", a.Status, a.Body)
	}
	if a := c.ask("server/discover", nil); a.Status != 200 || strings.Contains(a.Body, `"prompts"`) || !strings.Contains(a.Body, `"tools"`) {
		t.Errorf("server/discover: %d %s", a.Status, a.Body)
	}
}

// TestWhoIsHeard walks what stands before a call, in its order.
func TestWhoIsHeard(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, connection := w.token(everything)
	owned, _ := w.token(nil, oauth.ScopeOwned)
	body, mirror := message(1, "tools/call", map[string]any{"name": "collections_list", "arguments": map[string]any{}})
	good := "Bearer " + token
	with := func(headers ...string) []string { return append(append([]string{}, mirror...), headers...) }
	without := func(name string, headers ...string) (out []string) {
		for i := 0; i < len(mirror); i += 2 {
			if mirror[i] != name {
				out = append(out, mirror[i], mirror[i+1])
			}
		}
		return append(out, headers...)
	}
	metadata := `resource_metadata="` + w.origin + `/.well-known/oauth-protected-resource/mcp"`
	for _, c := range []struct {
		name    string
		body    string
		headers []string
		status  int
		code    string // of the body, or the error's number
		head    string // in WWW-Authenticate
	}{
		{"as it should be", body, with("Authorization", good), 200, "", ""},
		{"bearer in small letters", body, with("Authorization", "bearer "+token), 200, "", ""},
		{"no token", body, mirror, 401, "", `Bearer ` + metadata + `, scope="collections"`},
		{"no token and a wrong mirror", body, without("Mcp-Name"), 401, "", metadata},
		{"a cookie is no token", body, with("Cookie", "__Host-chaperone="+strings.Repeat("a", 64)), 401, "", metadata},
		{"another scheme", body, with("Authorization", "Basic "+token), 401, "", metadata},
		{"not a token's form", body, with("Authorization", "Bearer x"), 401, "", `error="invalid_token"`},
		{"two tokens", body, with("Authorization", good, "Authorization", good), 400, "", `error="invalid_request"`},
		{"an unknown token", body, with("Authorization", "Bearer chap_at_"+strings.Repeat("0", 64)), 401, "", `error="invalid_token"`},
		{"an unknown token and a wrong mirror", body, without("Mcp-Name", "Authorization", "Bearer chap_at_"+strings.Repeat("0", 64)), 401, "", `error="invalid_token"`},
		{"another scope", body, with("Authorization", "Bearer "+owned), 403, "", `error="insufficient_scope", scope="collections"`},
		{"our own origin", body, with("Authorization", good, "Origin", w.origin), 200, "", ""},
		{"another origin", body, with("Authorization", good, "Origin", "https://evil.example"), 403, "origin_denied", ""},
		{"no origin at all, said so", body, with("Authorization", good, "Origin", "null"), 403, "origin_denied", ""},
		{"two origins", body, with("Authorization", good, "Origin", w.origin, "Origin", w.origin), 403, "origin_denied", ""},
		{"no method header", body, without("Mcp-Method", "Authorization", good), 400, "-32020", ""},
		{"no name header", body, without("Mcp-Name", "Authorization", good), 400, "-32020", ""},
		{"no version header", body, without("Mcp-Protocol-Version", "Authorization", good), 400, "-32020", ""},
		{"another method", body, without("Mcp-Method", "Mcp-Method", "tools/list", "Authorization", good), 400, "-32020", ""},
		{"another name", body, without("Mcp-Name", "Mcp-Name", "item_read", "Authorization", good), 400, "-32020", ""},
		{"an older version's header", body, without("Mcp-Protocol-Version", "Mcp-Protocol-Version", "2025-11-25", "Authorization", good), 400, "-32020", ""},
		{"the name twice", body, with("Mcp-Name", "collections_list", "Authorization", good), 400, "-32020", ""},
		{"the method twice", body, with("Mcp-Method", "tools/call", "Authorization", good), 400, "-32020", ""},
		{"a key twice", strings.Replace(body, `"id":1`, `"id":1,"id":2`, 1), with("Authorization", good), 400, "-32700", ""},
		{"a name twice", strings.Replace(body, `"name":"collections_list"`, `"name":"collections_list","name":"item_delete"`, 1), with("Authorization", good), 400, "-32700", ""},
		{"half a surrogate pair", strings.Replace(body, `"arguments":{}`, `"arguments":{"cursor":"\ud800"}`, 1), with("Authorization", good), 400, "-32700", ""},
		{"bad UTF-8", strings.Replace(body, `"arguments":{}`, "\"arguments\":{\"cursor\":\"\xff\"}", 1), with("Authorization", good), 400, "-32700", ""},
		{"a float in the arguments", strings.Replace(body, `"arguments":{}`, `"arguments":{"limit":1.0}`, 1), with("Authorization", good), 400, "-32602", ""},
		{"2^53+1 in the arguments", strings.Replace(body, `"arguments":{}`, `"arguments":{"limit":9007199254740993}`, 1), with("Authorization", good), 400, "-32600", ""},
		{"a float beside the arguments", strings.Replace(body, `"arguments":{}`, `"arguments":{},"x":1.5`, 1), with("Authorization", good), 200, "", ""},
		{"deep", strings.Replace(body, `"arguments":{}`, `"arguments":{"x":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`, 1), with("Authorization", good), 400, "-32600", ""},
		{"arguments that aren't an object", strings.Replace(body, `"arguments":{}`, `"arguments":[]`, 1), with("Authorization", good), 400, "-32602", ""},
		{"a batch", "[" + body + "]", with("Authorization", good), 400, "-32600", ""},
		{"nothing", "", with("Authorization", good), 400, "-32700", ""},
		{"over 4 MiB", body + strings.Repeat(" ", 4<<20), with("Authorization", good), 413, "too_large", ""},
		{"another type of content", body, with("Authorization", good, "Content-Type", "text/plain"), 415, "", ""},
	} {
		a := w.post(c.body, c.headers...)
		code := a.Code
		if a.Error != 0 {
			code = fmt.Sprint(a.Error)
		}
		if a.Status != c.status || c.code != "" && code != c.code || !strings.Contains(a.Header.Get("Www-Authenticate"), c.head) {
			t.Errorf("%s: %d %s %q\n%.300s", c.name, a.Status, code, a.Header.Get("Www-Authenticate"), a.Body)
		}
		if c.status == 401 && c.head == "" || strings.Contains(a.Body, token) {
			t.Errorf("%s: %s", c.name, a.Body)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "OPTIONS", "HEAD"} {
		if a := w.send(t.Context(), method, "", "Authorization", good); a.Status != 405 {
			t.Errorf("%s: %d", method, a.Status)
		}
	}
	must(t, w.consents.Revoke(t.Context(), w.ada.Actor, connection))
	if a := w.post(body, with("Authorization", good)...); a.Status != 401 || !strings.Contains(a.Header.Get("Www-Authenticate"), "invalid_token") {
		t.Errorf("after revocation: %d %s", a.Status, a.Body)
	}
}

// TestNobodysBodyIsRead: whoever shows no token that grants something is answered
// before the body has come, so that nobody fills the memory with them.
func TestNobodysBodyIsRead(t *testing.T) {
	w := newWorld(t, worldOptions{})
	for _, token := range []string{"chap_at_" + strings.Repeat("0", 64), "chap_pat_" + strings.Repeat("0", 64)} {
		host := strings.TrimPrefix(w.origin, "http://")
		conn, err := net.Dial("tcp", host)
		must(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", host, token, 4<<20)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("no answer while the body doesn't come: %v", err)
		}
		if resp.StatusCode != 401 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
}

// TestRevokedInTheLedgerAlone: the grant is judged at each use, whatever the token
// still says.
func TestRevokedInTheLedgerAlone(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, connection := w.token(everything)
	c := w.client(token)
	if a := c.call("collections_list", nil); a.IsError {
		t.Fatalf("before: %s", a.Body)
	}
	must(t, w.ledger.Revoke(t.Context(), w.ada.Actor, connection))
	if a := c.call("collections_list", nil); a.Code != "grant_revoked" {
		t.Errorf("after: %d %s", a.Status, a.Body)
	}
	if a := c.ask("tools/list", nil); a.Code != "grant_revoked" {
		t.Errorf("the list: %d %s", a.Status, a.Body)
	}
}

// older begins a session of an older protocol and answers its id.
func (c *client) older(version string) string {
	c.w.t.Helper()
	a := c.w.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		"Authorization", "Bearer "+c.token)
	session := a.Header.Get("Mcp-Session-Id")
	if a.Status != 200 || session == "" || string(a.Result["protocolVersion"]) != `"`+version+`"` {
		c.w.t.Fatalf("initialize: %d %s", a.Status, a.Body)
	}
	c.w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Authorization", "Bearer "+c.token, "Mcp-Session-Id", session, "Mcp-Protocol-Version", version)
	return session
}

const listCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"collections_list","arguments":{}}}`

func TestSessionsAreTheirGrants(t *testing.T) {
	w := newWorld(t, worldOptions{})
	mine, connection := w.token(everything)
	theirs, _ := w.token(everything)
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		session := w.client(mine).older(version)
		if !strings.HasPrefix(session, "n1.") {
			t.Errorf("session %s doesn't name its node", session)
		}
		tampered := session[:len(session)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(session, "0")]
		for _, c := range []struct {
			name, token, session string
			want                 int
		}{
			{"mine", mine, session, 200}, {"another grant's", theirs, session, 404}, {"forged", mine, tampered, 404},
			{"unsigned", mine, session[:strings.LastIndex(session, ".")], 404}, {"none", mine, "n1.AAAA", 404},
		} {
			a := w.post(listCall, "Authorization", "Bearer "+c.token, "Mcp-Session-Id", c.session, "Mcp-Protocol-Version", version)
			if a.Status != c.want || c.want == 200 && a.IsError {
				t.Errorf("%s, %s: %d %s", version, c.name, a.Status, a.Body)
			}
			if c.want != 200 {
				if a := w.send(t.Context(), "DELETE", "", "Authorization", "Bearer "+c.token, "Mcp-Session-Id", c.session); a.Status != 404 {
					t.Errorf("%s, deleting %s: %d", version, c.name, a.Status)
				}
			}
		}
		if a := w.post(listCall, "Authorization", "Bearer "+mine, "Mcp-Session-Id", session, "Mcp-Protocol-Version", version, "Mcp-Name", "item_read"); a.Error != -32020 {
			t.Errorf("%s, a header that lies: %d %s", version, a.Status, a.Body)
		}
		if a := w.send(t.Context(), "DELETE", "", "Authorization", "Bearer "+mine, "Mcp-Session-Id", session); a.Status != 204 {
			t.Errorf("%s, ending it: %d %s", version, a.Status, a.Body)
		}
		if a := w.post(listCall, "Authorization", "Bearer "+mine, "Mcp-Session-Id", session, "Mcp-Protocol-Version", version); a.Status != 404 {
			t.Errorf("%s, after its end: %d %s", version, a.Status, a.Body)
		}
	}
	// A stream that is open ends with its grant.
	session := w.client(mine).older("2025-11-25")
	ended := make(chan answer, 1)
	go func() {
		ended <- w.send(t.Context(), "GET", "", "Authorization", "Bearer "+mine, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25")
	}()
	select {
	case a := <-ended:
		t.Fatalf("the stream ended at once: %d %s", a.Status, a.Body)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, w.consents.Revoke(t.Context(), w.ada.Actor, connection))
	select {
	case a := <-ended:
		if a.Status != 200 {
			t.Errorf("the stream: %d %s", a.Status, a.Body)
		}
	case <-time.After(20 * time.Second):
		t.Error("the stream outlives its grant")
	}
	if a := w.post(listCall, "Authorization", "Bearer "+mine, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"); a.Status != 401 {
		t.Errorf("the session after revocation: %d %s", a.Status, a.Body)
	}
}

// TestEachGetsItsOwnAnswer: a hundred clients ask at once under the same id; each
// reads another item, half of them through sessions.
func TestEachGetsItsOwnAnswer(t *testing.T) {
	w := newWorld(t, worldOptions{limits: operation.Limits{Parallel: 64, Rate: 10_000, Burst: 10_000, Wait: time.Minute, Deadline: time.Minute}})
	token, _ := w.token(everything)
	const clients = 100
	for i := range clients {
		w.put(token, fmt.Sprintf("item-%d", i), fmt.Sprintf("content of %d", i))
	}
	session := w.client(token).older("2025-11-25")
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			own := session
			if i%4 == 0 { // a session of its own
				own = w.client(token).older("2025-11-25")
			}
			for range 3 {
				params := map[string]any{"name": "item_read", "arguments": map[string]any{"collection": "files", "item": fmt.Sprintf("item-%d", i)}}
				body, headers := message("same", "tools/call", params)
				if i%4 == 0 {
					data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": map[string]any{"name": "item_read", "arguments": params["arguments"]}})
					body, headers = string(data), []string{"Mcp-Session-Id", own, "Mcp-Protocol-Version", "2025-11-25"}
				}
				a := w.post(body, append(headers, "Authorization", "Bearer "+token)...)
				if !strings.Contains(string(a.Structured), fmt.Sprintf(`"content of %d"`, i)) || string(a.ID) != `"same"` {
					t.Errorf("client %d got %d %.200s", i, a.Status, a.Body)
				}
			}
		})
	}
	done.Wait()
}

// slow is a source whose reads last until they are cancelled.
type slow struct {
	source.Source
	began, cancelled chan struct{}
}

func (s *slow) Read(ctx context.Context, p source.Place, item string, offset int64, most int) (source.Content, error) {
	if item != "slow" {
		return s.Source.Read(ctx, p, item, offset, most)
	}
	s.began <- struct{}{}
	<-ctx.Done()
	s.cancelled <- struct{}{}
	return source.Content{}, ctx.Err()
}

// TestCancellationReachesTheSource: by the end of the request in 2026-07-28, by the
// client's word in older protocols.
func TestCancellationReachesTheSource(t *testing.T) {
	files := &slow{began: make(chan struct{}), cancelled: make(chan struct{}, 1)}
	w := newWorld(t, worldOptions{limits: operation.Limits{Deadline: time.Minute}, files: func(s source.Source) source.Source { files.Source = s; return files }})
	token, _ := w.token(everything)
	reached := func(ch chan struct{}, what string) {
		t.Helper()
		select {
		case <-ch:
		case <-time.After(20 * time.Second):
			t.Fatal("the source wasn't " + what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	body, headers := message(1, "tools/call", map[string]any{"name": "item_read", "arguments": map[string]any{"collection": "files", "item": "slow"}})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.send(ctx, "POST", body, append(headers, "Authorization", "Bearer "+token)...)
	}()
	reached(files.began, "reached")
	cancel()
	reached(files.cancelled, "cancelled by the client's leaving")
	<-gone

	session := w.client(token).older("2025-11-25")
	as := []string{"Authorization", "Bearer " + token, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"}
	gone = make(chan struct{})
	go func() {
		defer close(gone)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w.send(ctx, "POST", `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"item_read","arguments":{"collection":"files","item":"slow"}}}`, as...)
	}()
	reached(files.began, "reached")
	if a := w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}`, as...); a.Status != http.StatusAccepted {
		t.Errorf("cancelling: %d %s", a.Status, a.Body)
	}
	reached(files.cancelled, "cancelled by the client's word")
	<-gone
}
