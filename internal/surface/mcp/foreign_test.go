package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/canon"
	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
)

var update = flag.Bool("update", false, "write testdata/descriptors.golden.json anew")

// golden is what each projection of the catalog shows of a tool: these bytes are
// equal over HTTP MCP, in the owner API's descriptors and in the page.
type golden struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

const goldenFile = "testdata/descriptors.golden.json"

// goldenText writes tools as the golden file holds them: one a line, schemas in
// canonical bytes.
func goldenText(t *testing.T, tools []golden) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("[\n")
	for i, g := range tools {
		line, err := canon.Marshal(map[string]any{"name": g.Name, "title": g.Title, "description": g.Description, "inputSchema": canon.Text(g.InputSchema)})
		must(t, err)
		b.Write(line)
		if i < len(tools)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	return b.String() + "]\n"
}

// TestGolden holds the catalog to the file that every projection is held to.
func TestGolden(t *testing.T) {
	var tools []golden
	for _, x := range tool.All() {
		tools = append(tools, golden{string(x.Name), x.Title, x.Description, x.Input})
	}
	got := goldenText(t, tools)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(goldenFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the catalog isn't its golden file (-want +got); go test ./internal/surface/mcp -run TestGolden -update\n%s", diff)
	}
}

// sameAsGolden compares what a foreign client saw, byte for byte.
func sameAsGolden(t *testing.T, who string, seen []byte) {
	t.Helper()
	var tools []golden
	must(t, json.Unmarshal(seen, &tools))
	want, err := os.ReadFile(goldenFile)
	must(t, err)
	if diff := cmp.Diff(string(want), goldenText(t, tools)); diff != "" {
		t.Errorf("%s sees other tools (-want +got):\n%s", who, diff)
	}
}

// probe is the Python client in a process of its own.
type probe struct {
	t     *testing.T
	lines *bufio.Scanner
	in    io.Writer
}

func (p *probe) next() map[string]json.RawMessage {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the client ended early: %v", p.lines.Err())
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(p.lines.Bytes(), &m); err != nil {
		p.t.Fatalf("%v: %s", err, p.lines.Bytes())
	}
	return m
}

// TestPythonClientFindsItsWay: the official Python client, given the URL alone,
// discovers, registers, asks a person by PKCE, calls, refreshes and revokes; and is
// refused afterwards.
func TestPythonClientFindsItsWay(t *testing.T) {
	for _, mode := range []string{"legacy", "2026-07-28"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, foreign(t, "python/bin/python"), "../../../scripts/mcp-clients/portal.py", w.origin+"/mcp", mode)
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			var errs strings.Builder
			cmd.Stderr = &errs
			must(t, cmd.Start())
			defer func() {
				cancel()
				cmd.Wait() //nolint:errcheck // how it ended was looked at
				if t.Failed() {
					t.Logf("the client said:\n%s", errs.String())
				}
			}()
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			p := &probe{t, lines, in}

			var open string
			must(t, json.Unmarshal(p.next()["open"], &open))
			resp, err := browser.Get(open) // the person's browser
			must(t, err)
			resp.Body.Close()
			id, ok := strings.CutPrefix(resp.Header.Get("Location"), "/connect/")
			if resp.StatusCode != http.StatusFound || !ok {
				t.Fatalf("authorize: %d %s", resp.StatusCode, resp.Header)
			}
			asked, err := w.consents.Request(ctx, id)
			must(t, err)
			if asked.Client.Name != "Portal probe" || !slices.Equal(asked.Scopes, []string{"collections"}) {
				t.Errorf("the person is asked %+v", asked)
			}
			back, err := w.consents.Approve(ctx, id, w.ada, everything, asked.Scopes, 30)
			must(t, err)
			fmt.Fprintln(in, back)

			first := p.next()
			sameAsGolden(t, "the Python client", first["tools"])
			if got, want := string(first["protocol"]), map[string]string{"legacy": `"2025-11-25"`, "2026-07-28": `"2026-07-28"`}[mode]; got != want {
				t.Errorf("it speaks %s, want %s", got, want)
			}
			if wrote := string(p.next()["wrote"]); wrote != `"created"` {
				t.Errorf("it wrote: %s", wrote)
			}
			last := p.next()
			if string(last["refused"]) == "null" {
				t.Errorf("a call after revocation was answered: %s", last["answer"])
			}
			all, err := w.ledger.Connections(ctx, "ada")
			must(t, err)
			if len(all) != 1 || all[0].State != ledger.Revoked || all[0].ClientName != "Portal probe" || all[0].Used.IsZero() {
				t.Errorf("the account's connections: %+v", all)
			}
		})
	}
}

// TestInspectorOverHTTP: the official Inspector with a script's token, in both
// eras: it lints the list strictly and calls.
func TestInspectorOverHTTP(t *testing.T) {
	w := newWorld(t, worldOptions{})
	token, connection := w.token(everything)
	w.put(token, "hello.txt", "hello from files")
	run := w.inspector()
	for _, era := range []string{"legacy", "modern"} {
		out, err := run(token, era, "--method", "tools/list", "--strict")
		if err != nil {
			t.Fatalf("%s: tools/list --strict: %v\n%s", era, err, out)
		}
		var list struct {
			Result struct{ Tools json.RawMessage }
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%s: %v\n%s", era, err, out)
		}
		if list.Result.Tools == nil {
			t.Fatalf("%s: tools/list answered %s", era, out)
		}
		sameAsGolden(t, "the Inspector, "+era, list.Result.Tools)
		out, err = run(token, era, "--method", "tools/call", "--tool-name", "item_read", "--tool-args-json", `{"collection":"files","item":"hello.txt"}`)
		if err != nil || !strings.Contains(out, "hello from files") || !strings.Contains(out, "structuredContent") {
			t.Errorf("%s: item_read: %v\n%s", era, err, out)
		}
		if out, err := run("", era, "--method", "tools/list"); err == nil || strings.Contains(out, "item_read") {
			t.Errorf("%s, without a token: %v\n%s", era, err, out)
		}
	}
	must(t, w.consents.Revoke(t.Context(), w.ada.Actor, connection))
	if out, err := run(token, "modern", "--method", "tools/list"); err == nil || strings.Contains(out, "item_read") {
		t.Errorf("after revocation: %v\n%s", err, out)
	}
}

// inspector runs the official Inspector against the server, by one of the protocol's
// two eras.
func (w *world) inspector() func(token, era string, args ...string) (string, error) {
	w.t.Helper()
	script := foreign(w.t, "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	return func(token, era string, args ...string) (string, error) {
		all := append([]string{script, "--cli", w.origin + "/mcp", "--protocol-era", era, "--format", "json", "-q"}, args...)
		if token != "" {
			all = append(all, "--header", "Authorization: Bearer "+token)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, nodePath(w.t), all...)
		cmd.Env = append(os.Environ(), "HOME="+w.t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// The Inspector acts in a person's page: it lists, leases, reads, and changes something
// once the person has confirmed exactly that.
func TestInspectorControls(t *testing.T) {
	w := newWorld(t, worldOptions{control: true})
	page := w.control.Page(w.ada.Actor, pageTools(make(chan struct{}))...)
	token, _ := w.token(nil, oauth.ScopeControl)
	run := w.inspector()
	for _, era := range []string{"legacy", "modern"} {
		control := func(fields map[string]any, into any) {
			t.Helper()
			arguments, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			out, err := run(token, era, "--method", "tools/call", "--tool-name", "browser_control", "--tool-args-json", string(arguments))
			var told struct {
				Result struct{ StructuredContent json.RawMessage }
			}
			if err == nil {
				err = json.Unmarshal([]byte(out), &told)
			}
			if err == nil {
				err = json.Unmarshal(told.Result.StructuredContent, into)
			}
			if err != nil {
				t.Fatalf("%s, %v: %v\n%s", era, fields["action"], err, out)
			}
		}
		var seen struct {
			Documents []struct {
				Ref   string `json:"document_ref"`
				Tools []struct {
					ID     string `json:"tool_id"`
					Digest string `json:"schema_digest"`
				}
			}
		}
		control(map[string]any{"action": "list_documents"}, &seen)
		if len(seen.Documents) != 1 || seen.Documents[0].Ref != page.Document.String() {
			t.Fatalf("%s: %+v", era, seen)
		}
		digests := map[string]string{}
		for _, tool := range seen.Documents[0].Tools {
			digests[tool.ID] = tool.Digest
		}
		var lease struct {
			ID string `json:"lease_id"`
		}
		control(map[string]any{"action": "issue_lease", "document_ref": page.Document.String(), "tool_ids": []string{"look", "save"}}, &lease)
		var read, saved receipt
		control(execute(lease.ID, "look", digests["look"], era+"-1"), &read)
		if read.Status != "succeeded" || read.Effect != "none" {
			t.Errorf("%s: a read: %+v", era, read)
		}
		yes := make(chan struct{})
		go func() { defer close(yes); page.Confirm(page.Asked()) }()
		control(execute(lease.ID, "save", digests["save"], era+"-2"), &saved)
		<-yes
		if saved.Status != "succeeded" || saved.Effect != "browser_reported_committed" || saved.Level != "visible_click" {
			t.Errorf("%s: a change: %+v", era, saved)
		}
	}
}
