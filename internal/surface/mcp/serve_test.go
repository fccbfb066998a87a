package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"chaperone/internal/surface/mcp"
)

// conversation is a server whose browser never starts, with a client that
// writes and reads whole lines: everything that needs no browser is tried here.
type conversation struct {
	t     *testing.T
	in    *io.PipeWriter
	lines *bufio.Reader
	ended chan error
}

const initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func converse(t *testing.T, cfg mcp.Config) *conversation {
	t.Helper()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	if cfg.Open == nil {
		cfg.Open = func(context.Context) (mcp.Browser, error) { return nil, errors.New("no box here") }
	}
	c := &conversation{t: t, in: clientOut, lines: bufio.NewReaderSize(clientIn, 1<<20), ended: make(chan error, 1)}
	go func() {
		c.ended <- mcp.Serve(t.Context(), cfg, serverIn, serverOut)
		serverOut.Close()
	}()
	t.Cleanup(func() {
		clientOut.Close()
		go io.Copy(io.Discard, clientIn) //nolint:errcheck // unblocks a last answer
		select {
		case err := <-c.ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve goes on after its client left")
		}
	})
	return c
}

func (c *conversation) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next reads one line as JSON.
func (c *conversation) next() map[string]any {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		c.t.Fatalf("%v: %.200q", err, line)
	}
	return m
}

func (c *conversation) ask(line string) map[string]any { c.t.Helper(); c.send(line); return c.next() }

// at walks into decoded JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func TestABadLineLosesNothing(t *testing.T) {
	c := converse(t, mcp.Config{})
	c.ask(initialize)
	for line, code := range map[string]float64{
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"ping"}`: -32700,
		`what`: -32700,
		`[]`:   -32600,
		`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"` + strings.Repeat("y", 9<<20) + `"}}`: -32600,
		`{"jsonrpc":"2.0","id":5.5,"method":"ping"}`:                                                   -32600,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":1}}`:                           -32602,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nope"}}`:                      -32602,
		`{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`:                                             -32601,
		`{"jsonrpc":"2.0","id":5,"method":"resources/list","params":{}}`:                               -32601,
		`{"jsonrpc":"2.0","id":5,"method":"no/such"}`:                                                  -32601,
	} {
		if got := at(c.ask(line), "error", "code"); got != code {
			t.Errorf("%.90s: got code %v, want %v", line, got, code)
		}
		if at(c.ask(`{"jsonrpc":"2.0","id":6,"method":"ping"}`), "result") == nil {
			t.Fatalf("no answer to the line after %.90s", line)
		}
	}
}

func TestErrorsDontRepeatWhatWasSent(t *testing.T) {
	c := converse(t, mcp.Config{})
	c.ask(initialize)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":["hunter2"]}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":"hunter2"}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"browser_goto","arguments":"hunter2"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"browser_goto","arguments":{"url":["hunter2"]}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"capabilities":"hunter2"}}`,
		`{"jsonrpc":"2.0","id":5,"hunter2":1,"hunter2":2}`,
	} {
		c.send(line)
		if answer := fmt.Sprint(c.next()); strings.Contains(answer, "hunter2") {
			t.Errorf("%s\nwas answered %s", line, answer)
		}
	}
}

func TestOlderProtocols(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		c := converse(t, mcp.Config{Version: "v"})
		got := c.ask(strings.Replace(initialize, "2025-11-25", version, 1))
		if at(got, "result", "protocolVersion") != version || at(got, "result", "serverInfo", "name") != "chaperone" {
			t.Errorf("%s: got %v", version, got)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if tools, _ := at(c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), "result", "tools").([]any); len(tools) < 20 {
			t.Errorf("%s: %d tools", version, len(tools))
		}
	}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func TestNewestProtocol(t *testing.T) {
	c := converse(t, mcp.Config{})
	got := c.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`)
	versions, _ := at(got, "result", "supportedVersions").([]any)
	if len(versions) == 0 || versions[0] != "2026-07-28" {
		t.Errorf("server/discover: got %v", got)
	}
	got = c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + meta + `}}`)
	if at(got, "result", "cacheScope") != "private" {
		t.Errorf("tools/list: got cacheScope %v", at(got, "result", "cacheScope"))
	}
	got = c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"browser_tabs",` + meta + `}}`)
	if at(got, "result", "resultType") != "complete" || at(got, "result", "isError") != true {
		t.Errorf("tools/call: got %v", got)
	}
	got = c.ask(strings.ReplaceAll(`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{`+meta+`}}`, "2026-07-28", "2031-01-01"))
	if at(got, "error", "code") != -32022.0 {
		t.Errorf("a version of the future: got %v", got)
	}
}

func TestABrowserThatDidNotStart(t *testing.T) {
	c := converse(t, mcp.Config{})
	c.ask(initialize)
	got := c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"browser_goto","arguments":{"url":"http://127.0.0.1/"}}}`)
	text, _ := at(got, "result", "content", 0, "text").(string)
	if at(got, "result", "isError") != true || text != "no_browser: no box here" {
		t.Errorf("got %v", got)
	}
	if reason := at(got, "result", "structuredContent", "reason"); reason != "no_browser" {
		t.Errorf("got reason %v", reason)
	}
}

func TestToolsList(t *testing.T) {
	for _, raw := range []bool{false, true} {
		c := converse(t, mcp.Config{Raw: raw})
		c.ask(initialize)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		line, err := c.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("raw %v: tools/list is %d bytes", raw, len(line))
		if limit := 12 << 10; len(line) > limit {
			t.Errorf("tools/list is %d bytes, want at most %d", len(line), limit)
		}
		var list any
		if err := json.Unmarshal([]byte(line), &list); err != nil {
			t.Fatal(err)
		}
		names := map[any]bool{}
		tools, _ := at(list, "result", "tools").([]any)
		for _, tool := range tools {
			names[at(tool, "name")] = true
			lint(t, fmt.Sprint(at(tool, "name")), tool)
		}
		for _, want := range mcp.Names() {
			if want != "browser_action" || raw {
				if !names[want] {
					t.Errorf("raw %v: no %s", raw, want)
				}
			} else if names[want] {
				t.Errorf("browser_action without raw")
			}
		}
	}
}

// lint keeps schemas to what every client understands.
func lint(t *testing.T, name string, tool any) {
	schema := at(tool, "inputSchema")
	if at(tool, "description") == "" || at(schema, "type") != "object" || at(schema, "additionalProperties") != false {
		t.Errorf("%s: %v", name, tool)
	}
	properties, ok := at(schema, "properties").(map[string]any)
	if !ok {
		t.Errorf("%s: no properties", name)
	}
	for p, s := range properties {
		for key := range s.(map[string]any) {
			switch key {
			case "type", "description", "enum", "minimum", "items", "minItems":
			default:
				t.Errorf("%s.%s: %s is not for every client", name, p, key)
			}
		}
		if _, one := at(s, "type").(string); !one {
			t.Errorf("%s.%s: type is not one word", name, p)
		}
	}
	required, _ := at(schema, "required").([]any)
	for _, r := range required {
		if properties[r.(string)] == nil {
			t.Errorf("%s: requires %v, which it hasn't", name, r)
		}
	}
}

// A call's id that is in use is refused, and the call that has it goes on.
func TestAnIDInUse(t *testing.T) {
	release := make(chan struct{})
	c := converse(t, mcp.Config{Open: func(context.Context) (mcp.Browser, error) {
		<-release
		return nil, errors.New("no box here")
	}})
	c.ask(initialize)
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"browser_tabs"}}`
	c.send(call)
	got := c.ask(call)
	if at(got, "error", "code") != -32600.0 || at(got, "id") != nil {
		t.Errorf("got %v", got)
	}
	close(release)
	if got := c.next(); at(got, "id") != 3.0 || at(got, "result", "isError") != true {
		t.Errorf("got %v", got)
	}
}

// Calls that wait take memory; there is an end to it, and not to the session.
func TestTooManyWaitingCalls(t *testing.T) {
	release := make(chan struct{})
	c := converse(t, mcp.Config{Open: func(context.Context) (mcp.Browser, error) {
		<-release
		return nil, errors.New("no box here")
	}})
	c.ask(initialize)
	const most = 1000
	for id := range most {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"browser_tabs"}}`, id))
	}
	got := c.ask(`{"jsonrpc":"2.0","id":"more","method":"tools/call","params":{"name":"browser_tabs"}}`)
	if text, _ := at(got, "error", "message").(string); !strings.Contains(text, "1000 calls wait already") {
		t.Errorf("got %v", got)
	}
	close(release)
	for id := range most {
		if got := c.next(); at(got, "id") != float64(id) {
			t.Fatalf("got %v, want an answer to %d", got, id)
		}
	}
}

// A client that writes and never reads is read no further at some point: its
// answers would else take all memory.
func TestAClientThatDoesNotRead(t *testing.T) {
	c := converse(t, mcp.Config{})
	c.ask(initialize)
	const more = 5000
	sent := make(chan int, more)
	go func() {
		defer close(sent)
		for id := range more {
			if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", id); err != nil {
				return
			}
			sent <- id
		}
	}()
	var read int
	for quiet := time.After(time.Minute); ; {
		select {
		case id, going := <-sent:
			if !going {
				t.Fatal("all was read without one answer being taken")
			}
			read = id
			continue
		case <-time.After(2 * time.Second):
		case <-quiet:
			t.Fatal("reading goes on and on")
		}
		break
	}
	t.Logf("%d requests were read", read)
	for range more {
		if got := c.next(); at(got, "result", "tools") == nil {
			t.Fatalf("got %v", got)
		}
	}
}

// An id in use by a tool's call can't be taken by any other request either.
func TestAnIDInUseByAnother(t *testing.T) {
	release := make(chan struct{})
	c := converse(t, mcp.Config{Open: func(context.Context) (mcp.Browser, error) {
		<-release
		return nil, errors.New("no box here")
	}})
	c.ask(initialize)
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"browser_tabs"}}`)
	if got := c.ask(`{"jsonrpc":"2.0","id":3,"method":"ping"}`); at(got, "error", "code") != -32600.0 || at(got, "id") != nil {
		t.Errorf("got %v", got)
	}
	close(release)
	if got := c.next(); at(got, "id") != 3.0 || at(got, "result", "isError") != true {
		t.Errorf("got %v", got)
	}
	if got := c.ask(`{"jsonrpc":"2.0","id":3,"method":"ping"}`); at(got, "result") == nil {
		t.Errorf("got %v", got)
	}
}

// Cancelling a call that waits ends it; the one before it goes on.
func TestCancelWhileQueued(t *testing.T) {
	release := make(chan struct{})
	c := converse(t, mcp.Config{Open: func(context.Context) (mcp.Browser, error) {
		<-release
		return nil, errors.New("no box here")
	}})
	c.ask(initialize)
	for id := 1; id <= 3; id++ {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"browser_tabs"}}`, id))
	}
	got := c.ask(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if at(got, "id") != 2.0 {
		t.Fatalf("got %v", got)
	}
	close(release)
	for id := 1.0; id <= 3; id += 2 {
		if got := c.next(); at(got, "id") != id || at(got, "result", "structuredContent", "reason") != "no_browser" {
			t.Errorf("got %v, want an answer to %v", got, id)
		}
	}
}

// A refused line whose sender is plain is answered under its id: a client would
// wait for ever for an answer without one.
func TestCaseRefusedLineNamesItsCall(t *testing.T) {
	c := converse(t, mcp.Config{})
	c.ask(initialize)
	for line, id := range map[string]any{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"browser_type","arguments":{"text":"\ud83d"}}}`: 7.0,
		"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}":                            "a",
		`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":1,"x":2}}`:                                               8.0,
		`{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":9007199254740993}}`:                                      9.0,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`:                                                               nil,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                                                                    nil,
		`{"jsonrpc":"2.0","id":10,"method":"ping"`:                                                                      nil,
	} {
		got := c.ask(line)
		if at(got, "id") != id || at(got, "error") == nil {
			t.Errorf("%.90s\nwas answered %v, want the id %v", line, got, id)
		}
	}
}
