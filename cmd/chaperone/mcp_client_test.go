package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// agent is a raw JSON-RPC client of `chaperone mcp` over real standard streams.
// It answers nothing that the server asks.
type agent struct {
	t        testing.TB
	cmd      *exec.Cmd
	in       io.WriteCloser
	lines    <-chan string
	stderr   *strings.Builder
	id       int
	modern   bool
	progress []message // notifications seen so far
	closed   bool
}

// message is one line as a client sees it.
type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	bytes int
}

// result is what tools/call answered.
type result struct {
	Content []struct {
		Type, Text, Data, MIMEType string
		Resource                   struct{ URI, MIMEType, Blob string }
	}
	IsError           bool
	ResultType        string
	StructuredContent struct{ Error, Reason, Detail, Rule, Fix, Next, Tab string }
	bytes             int
}

// text joins the text parts.
func (r result) text() string {
	var all []string
	for _, c := range r.Content {
		if c.Type == "text" {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// newest is the newest protocol; every other string is of the initialize flow.
const newest = "2026-07-28"

// connect starts the server and says hello in the protocol's way.
func connect(t testing.TB, protocol string, args ...string) *agent {
	t.Helper()
	return dial(t, protocol, func(*exec.Cmd) {}, args...)
}

// dial is connect with the process changed before it starts.
func dial(t testing.TB, protocol string, change func(*exec.Cmd), args ...string) *agent {
	t.Helper()
	a := &agent{t: t, cmd: command(t, append([]string{"mcp"}, args...)...), stderr: &strings.Builder{}, modern: protocol == newest}
	a.cmd.Stderr = a.stderr
	change(a.cmd)
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.lines = lines(out)
	t.Cleanup(func() {
		if !a.closed {
			a.leave()
		}
	})
	if a.modern {
		a.answer(a.request("server/discover", map[string]any{}))
		return a
	}
	hello := a.answer(a.request("initialize", map[string]any{
		"protocolVersion": protocol, "capabilities": map[string]any{"roots": map[string]any{}}, "clientInfo": map[string]any{"name": "t", "version": "1"},
	}))
	if !strings.Contains(string(hello.Result), `"protocolVersion":"`+protocol+`"`) {
		t.Fatalf("initialize: %s", hello.Result)
	}
	a.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (a *agent) write(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		a.t.Fatalf("%v; stderr: %s", err, a.stderr)
	}
}

// request sends a request and answers its id.
func (a *agent) request(method string, params map[string]any) int {
	a.t.Helper()
	a.id++
	if a.modern {
		meta, _ := params["_meta"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["io.modelcontextprotocol/protocolVersion"] = newest
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
		params["_meta"] = meta
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.id, "method": method, "params": params})
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(string(line))
	return a.id
}

// next reads one message.
func (a *agent) next() message {
	a.t.Helper()
	select {
	case line, ok := <-a.lines:
		if !ok {
			a.t.Fatalf("the server is gone; stderr: %s", a.stderr)
		}
		m := message{bytes: len(line) + 1}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			a.t.Fatalf("%v: %.200q", err, line)
		}
		return m
	case <-time.After(patience):
		a.t.Fatalf("no answer in %s; stderr: %s", patience, a.stderr)
	}
	panic("unreachable")
}

// answer reads until the answer to id; what comes before must be notifications.
func (a *agent) answer(id int) message {
	a.t.Helper()
	for {
		m := a.next()
		switch {
		case m.Method != "" && m.ID != nil:
			a.t.Fatalf("the server asked its client: %s", m.Method)
		case m.Method != "":
			a.progress = append(a.progress, m)
		case m.ID == float64(id):
			return m
		default:
			a.t.Fatalf("an answer to %v, want one to %d", m.ID, id)
		}
	}
}

// result reads a tool's answer.
func (a *agent) result(id int) result {
	a.t.Helper()
	m := a.answer(id)
	if m.Error != nil {
		a.t.Fatalf("error %d %s", m.Error.Code, m.Error.Message)
	}
	var r result
	if err := json.Unmarshal(m.Result, &r); err != nil {
		a.t.Fatal(err)
	}
	r.bytes = m.bytes
	return r
}

type args = map[string]any

func (a *agent) send(tool string, arguments args) int {
	a.t.Helper()
	return a.request("tools/call", args{"name": tool, "arguments": arguments})
}

func (a *agent) call(tool string, arguments args) result {
	a.t.Helper()
	return a.result(a.send(tool, arguments))
}

// do is a call that must succeed; it answers the text.
func (a *agent) do(tool string, arguments args) string {
	a.t.Helper()
	r := a.call(tool, arguments)
	if r.IsError {
		a.t.Fatalf("%s: %s", tool, r.text())
	}
	return r.text()
}

// fail is a call that must fail for the reason; it answers the text.
func (a *agent) fail(reason, tool string, arguments args) string {
	a.t.Helper()
	r := a.call(tool, arguments)
	if !r.IsError || r.StructuredContent.Reason != reason || !strings.HasPrefix(r.text(), reason) {
		a.t.Fatalf("%s: got %v %q %q, want reason %s", tool, r.IsError, r.StructuredContent.Reason, r.text(), reason)
	}
	return r.text()
}

func (a *agent) cancel(id int) {
	a.t.Helper()
	a.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
}

// leave closes the input and wants an orderly end.
func (a *agent) leave() {
	a.t.Helper()
	a.closed = true
	a.in.Close()
	a.end(0)
}

// end waits for the process to end with code.
func (a *agent) end(code int) {
	a.t.Helper()
	a.closed = true
	done := make(chan error, 1)
	go func() { done <- a.cmd.Wait() }()
	for {
		select {
		case <-a.lines: // Wait wants the output read
			continue
		case <-done:
			if got := a.cmd.ProcessState.ExitCode(); got != code {
				a.t.Errorf("exit code %d, want %d; stderr: %s", got, code, a.stderr)
			}
			return
		case <-time.After(patience):
			a.cmd.Process.Kill()
			a.t.Errorf("the server doesn't end; stderr: %s", a.stderr)
			return
		}
	}
}
