package node_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/pagetest"
)

// described is a tool as the golden file has it.
type described struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// TestParity fetches the five tools by a client of the official MCP SDK, by the
// owner API and from the browser's own toolsAdded event, and compares each with the
// one committed list, byte for byte.
func TestParity(t *testing.T) {
	text, err := os.ReadFile("../surface/mcp/testdata/descriptors.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []described
	if err := json.Unmarshal(text, &golden); err != nil || len(golden) != 5 {
		t.Fatal(len(golden), err)
	}
	same := func(where string, got []described, titles bool) {
		t.Helper()
		if len(got) != len(golden) {
			t.Fatalf("%s: %d tools", where, len(got))
		}
		for _, want := range golden {
			found := false
			for _, g := range got {
				if g.Name != want.Name {
					continue
				}
				found = true
				schema, err := canon.Canonicalize(g.InputSchema)
				if err != nil || string(schema) != string(want.InputSchema) {
					t.Errorf("%s: %s: schema %s %v", where, g.Name, schema, err)
				}
				if g.Description != want.Description || titles && g.Title != want.Title {
					t.Errorf("%s: %s: %q %q", where, g.Name, g.Title, g.Description)
				}
			}
			if !found {
				t.Errorf("%s: no %s", where, want.Name)
			}
		}
	}
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	s.enable(p)
	var fromPage []described
	for _, tool := range p.Tools() {
		fromPage = append(fromPage, described{tool.Name, "", tool.Description, json.RawMessage(tool.InputSchema)})
	}
	same("the browser's event", fromPage, false)

	// The same account's owner API, by the page's own session.
	var rest struct {
		Tools []struct {
			Name, Title, Description string
			InputSchema              json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	var body string
	p.Eval(`fetch("/api/automation/descriptors", {headers: {"X-Session-Key": localStorage.getItem("chaperone.key")}}).then((r) => r.text())`, &body)
	if err := json.Unmarshal([]byte(body), &rest); err != nil {
		t.Fatal(body, err)
	}
	var fromREST []described
	for _, d := range rest.Tools {
		fromREST = append(fromREST, described{d.Name, d.Title, d.Description, d.InputSchema})
	}
	same("the owner API", fromREST, true)
	for _, secret := range []string{"csrf", "session", "token", "Bearer"} {
		if strings.Contains(body, secret) {
			t.Errorf("the descriptors speak of %q", secret)
		}
	}

	var token struct{ Token string }
	var made string
	p.Eval(`(async () => {
		const key = localStorage.getItem("chaperone.key");
		const s = await (await fetch("/api/session", {headers: {"X-Session-Key": key}})).json();
		const r = await fetch("/api/tokens", {method: "POST", headers: {"X-Session-Key": key, "X-CSRF-Token": s.csrf, "Content-Type": "application/json"},
			body: JSON.stringify({name: "t", scopes: ["collections"], expires_in_s: 600, selection: [{collection: "files", functions: ["items_list", "item_read", "item_write", "item_delete"]}]})});
		return await r.text();
	})()`, &made)
	if err := json.Unmarshal([]byte(made), &token); err != nil || token.Token == "" {
		t.Fatal(made, err)
	}
	list, err := s.mcp(token.Token).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var fromMCP []described
	for _, tool := range list.Tools {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		fromMCP = append(fromMCP, described{tool.Name, tool.Title, tool.Description, schema})
	}
	same("MCP", fromMCP, true)
}

// enable switches the browser surface on for everything there is, in the hub.
func (s *server) enable(p *pagetest.Page) {
	s.t.Helper()
	p.Goto(s.origin + "/automation")
	p.Wait(`document.querySelector(".matrix input")`)
	p.Eval(`document.querySelectorAll(".matrix input").forEach((b) => b.click())`, nil)
	p.Click(".actions button.primary")
	p.Wait(`document.querySelector("[data-state=registered]")`)
	for end := time.Now().Add(10 * time.Second); len(p.Tools()) != 5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%d tools, want 5", len(p.Tools()))
		}
	}
}
