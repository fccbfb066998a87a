package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/controltest"
	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/mcp"
)

// pageTools are a page's, of which hold waits for its end.
func pageTools(hold chan struct{}) []controltest.Tool {
	return []controltest.Tool{
		{ID: "look", Class: controlv1.Read, Run: func(_ context.Context, arguments string) (string, string) { return `{"saw":` + arguments + `}`, "" }},
		{ID: "save", Class: controlv1.AccountMutation, Run: func(context.Context, string) (string, string) { return `{"ok":true}`, "" }},
		{ID: "hold", Class: controlv1.Read, Run: func(ctx context.Context, _ string) (string, string) {
			close(hold)
			<-ctx.Done()
			return "null", ""
		}},
	}
}

// control runs one action, and decodes what came.
func (c *client) control(fields map[string]any, into any) answer {
	c.w.t.Helper()
	a := c.call("browser_control", fields)
	if !a.IsError && into != nil {
		if err := json.Unmarshal(a.Structured, into); err != nil {
			c.w.t.Fatalf("%v: %d %s", fields["action"], a.Status, a.Body)
		}
	}
	return a
}

type receipt struct {
	Call      string          `json:"call_id"`
	Status    string          `json:"status"`
	Effect    string          `json:"effect"`
	Code      string          `json:"error_code"`
	Level     string          `json:"confirmation_level"`
	Telemetry string          `json:"telemetry"`
	Result    json.RawMessage `json:"result"`
}

// leased finds the page and takes a lease over its tools.
func (c *client) leased(page *controltest.Page) (lease string, digests map[string]string) {
	c.w.t.Helper()
	var seen struct {
		Documents []struct {
			Ref   string `json:"document_ref"`
			Tools []struct {
				ID     string `json:"tool_id"`
				Digest string `json:"schema_digest"`
			} `json:"tools"`
		} `json:"documents"`
	}
	c.control(map[string]any{"action": "list_documents"}, &seen)
	if len(seen.Documents) != 1 || seen.Documents[0].Ref != page.Document.String() {
		c.w.t.Fatalf("documents: %+v", seen)
	}
	digests = map[string]string{}
	var ids []any
	for _, tool := range seen.Documents[0].Tools {
		digests[tool.ID] = tool.Digest
		ids = append(ids, tool.ID)
	}
	var made struct {
		Lease string `json:"lease_id"`
	}
	if a := c.control(map[string]any{"action": "issue_lease", "document_ref": page.Document.String(), "tool_ids": ids}, &made); a.IsError {
		c.w.t.Fatalf("no lease: %s", a.Body)
	}
	return made.Lease, digests
}

func execute(lease, tool, digest, request string) map[string]any {
	return map[string]any{"action": "execute_call", "lease_id": lease, "request_id": request, "tool_id": tool, "schema_digest": digest, "arguments": map[string]any{"n": request}}
}

// An agent finds a page, reads by it, and changes something once its person said yes.
func TestControl(t *testing.T) {
	w := newWorld(t, worldOptions{control: true})
	page := w.control.Page(w.ada.Actor, pageTools(make(chan struct{}))...)
	token, _ := w.token(nil, oauth.ScopeControl)
	c := w.client(token)
	if names := c.names(); !slices.Equal(names, []string{"browser_control"}) {
		t.Errorf("listed: %v", names)
	}
	lease, digests := c.leased(page)
	var read receipt
	if a := c.control(execute(lease, "look", digests["look"], "one"), &read); read.Status != "succeeded" || read.Effect != "none" || string(read.Result) != `{"saw":{"n":"one"}}` {
		t.Fatalf("a read: %s", a.Body)
	}
	var again receipt
	c.control(execute(lease, "look", digests["look"], "one"), &again)
	if again.Call != read.Call || again.Result != nil {
		t.Errorf("a result is told once: %+v", again)
	}

	said := make(chan receipt)
	go func() {
		var r receipt
		w.client(token).control(execute(lease, "save", digests["save"], "two"), &r)
		said <- r
	}()
	page.Confirm(page.Asked())
	if r := <-said; r.Status != "succeeded" || r.Effect != "browser_reported_committed" || r.Level != "visible_click" || r.Telemetry != "not_configured" {
		t.Errorf("a change: %+v", r)
	}
	go func() {
		var r receipt
		w.client(token).control(execute(lease, "save", digests["save"], "three"), &r)
		said <- r
	}()
	page.Deny(page.Asked())
	if r := <-said; r.Status != "denied" || r.Code != "user_denied" || r.Effect != "none" {
		t.Errorf("a no: %+v", r)
	}
	var revoked struct{ Status string }
	if c.control(map[string]any{"action": "revoke_lease", "lease_id": lease, "reason": "done"}, &revoked); revoked.Status != "revoked" {
		t.Errorf("the lease is %s", revoked.Status)
	}
}

// What is refused is a result that a model can read: the code, whether to ask again,
// and a number for the log.
func TestControlRefuses(t *testing.T) {
	w := newWorld(t, worldOptions{control: true})
	page := w.control.Page(w.ada.Actor, pageTools(make(chan struct{}))...)
	token, _ := w.token(nil, oauth.ScopeControl)
	c := w.client(token)
	lease, digests := c.leased(page)
	float := execute(lease, "look", digests["look"], "x")
	float["arguments"] = map[string]any{"n": 1.5}
	long := execute(lease, "look", digests["look"], "x")
	long["arguments"] = map[string]any{"n": strings.Repeat("x", 50_000)}
	for name, test := range map[string]struct {
		fields map[string]any
		code   refusal.Code
	}{
		"no action":         {map[string]any{}, refusal.InvalidRequest},
		"another action":    {map[string]any{"action": "lift_kill"}, refusal.InvalidRequest},
		"an unknown field":  {map[string]any{"action": "list_documents", "tenant": "x"}, refusal.InvalidRequest},
		"another's field":   {map[string]any{"action": "list_documents", "call_id": "x"}, refusal.InvalidRequest},
		"a float":           {float, refusal.InvalidRequest},
		"too many bytes":    {long, refusal.TooLarge},
		"no such document":  {map[string]any{"action": "issue_lease", "document_ref": "document_" + strings.Repeat("0", 64), "tool_ids": []any{"look"}}, refusal.UnknownDocument},
		"no such tool":      {map[string]any{"action": "issue_lease", "document_ref": page.Document.String(), "tool_ids": []any{"none"}}, refusal.UnknownTool},
		"no such lease":     {execute("lease_x", "look", digests["look"], "x"), refusal.Forbidden},
		"no such call":      {map[string]any{"action": "get_call", "call_id": "call_x"}, refusal.UnknownCall},
		"another's schemas": {execute(lease, "look", "sha256:"+strings.Repeat("0", 64), "x"), refusal.CatalogStale},
	} {
		a := c.control(test.fields, nil)
		var told struct {
			Code        refusal.Code `json:"code"`
			Retryable   *bool        `json:"retryable"`
			Correlation string       `json:"correlation_id"`
		}
		if err := json.Unmarshal(a.Structured, &told); err != nil || !a.IsError || a.Status != http.StatusOK || told.Retryable == nil || *told.Retryable || told.Correlation == "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if want := test.code; told.Code != want && !(name == "a float" && told.Code == refusal.ArgumentsInvalid) {
			t.Errorf("%s: %s, want %s", name, told.Code, want)
		}
		if strings.Contains(a.Body, "1.5") || strings.Contains(a.Body, "xxxx") || strings.Contains(a.Body, "lift_kill") {
			t.Errorf("%s: the answer repeats the request", name)
		}
	}

	// A page's agent is not another agent, and another person has no such page.
	other, _ := w.token(nil, oauth.ScopeControl)
	if a := w.client(other).control(execute(lease, "look", digests["look"], "x"), nil); a.Code != "forbidden" {
		t.Errorf("another agent's lease: %s", a.Body)
	}
	// A grant without the scope has no such tool.
	plain, _ := w.token(everything)
	if a := w.client(plain).control(map[string]any{"action": "list_documents"}, nil); a.Status != http.StatusForbidden || !strings.Contains(a.Header.Get("WWW-Authenticate"), `scope="control:write"`) {
		t.Errorf("without the scope: %d %s", a.Status, a.Body)
	}
	if names := w.client(plain).names(); slices.Contains(names, "browser_control") {
		t.Error("listed without the scope")
	}
}

// A grant that is taken back while its change waits for the person changes nothing,
// also where the person says yes after it.
func TestControlGrantTakenBack(t *testing.T) {
	for name, take := range map[string]func(w *world, connection string) error{
		"revoked": func(w *world, connection string) error {
			return w.consents.Revoke(context.Background(), w.ada.Actor, connection)
		},
		"the tokens alone": func(w *world, connection string) error {
			return w.tokens.RevokeConnection(context.Background(), connection)
		},
		"the selection alone": func(w *world, connection string) error {
			return w.ledger.Revoke(context.Background(), w.ada.Actor, connection)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{control: true})
			page := w.control.Page(w.ada.Actor, pageTools(make(chan struct{}))...)
			token, connection := w.token(everything, oauth.ScopeCollections, oauth.ScopeControl)
			c := w.client(token)
			lease, digests := c.leased(page)
			said := make(chan receipt)
			go func() {
				var r receipt
				w.client(token).control(execute(lease, "save", digests["save"], "one"), &r)
				said <- r
			}()
			q := page.Asked()
			must(t, take(w, connection))
			page.Confirm(q)
			if r := <-said; r.Status != "cancelled" || r.Code != "authority_lost" || r.Effect != "none" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A request that its client cancels takes the call with it, and the page is told.
func TestControlCancelled(t *testing.T) {
	hold := make(chan struct{})
	w := newWorld(t, worldOptions{control: true})
	page := w.control.Page(w.ada.Actor, pageTools(hold)...)
	token, _ := w.token(nil, oauth.ScopeControl)
	c := w.client(token)
	lease, digests := c.leased(page)
	ctx, leave := context.WithCancel(context.Background())
	body, headers := message(9, "tools/call", map[string]any{"name": "browser_control", "arguments": execute(lease, "hold", digests["hold"], "one")})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.send(ctx, http.MethodPost, body, append(headers, "Authorization", "Bearer "+token)...)
	}()
	<-hold
	leave()
	<-gone
	person := w.control.Principal(grantOf(t, w, token).Principal)
	for range 400 {
		own, err := w.control.Book.Own(context.Background(), person, 10)
		must(t, err)
		if len(own.Calls) == 1 && own.Calls[0].State == "cancelled" && own.Calls[0].Effect == controlv1.NoEffect {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Error("the call goes on without its caller")
}

func grantOf(t *testing.T, w *world, token string) oauth.Grant {
	t.Helper()
	g, err := w.tokens.Find(context.Background(), token)
	must(t, err)
	return g
}

// The tool's description is short, and its schema one flat object.
func TestControlDescriptor(t *testing.T) {
	tools, err := mcp.NewControl(nil).Tools(context.Background(), oauth.Grant{})
	must(t, err)
	var schema map[string]any
	must(t, json.Unmarshal(tools[0].Input, &schema))
	for _, word := range []string{"oneOf", "anyOf", "allOf", "$ref", "$defs"} {
		if strings.Contains(string(tools[0].Input), word) {
			t.Errorf("the schema has %s", word)
		}
	}
	if n := len(tools[0].Input) + len(tools[0].Description); n > 2400 {
		t.Errorf("%d bytes before any model", n)
	}
}
