package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/audit"
	"chaperone/internal/node"
	"chaperone/internal/sitetest"
)

// engage writes the operator's scope for the loopback address.
func (s *server) engage(name string) {
	s.t.Helper()
	dir := filepath.Join(s.home, "engagements")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	scope := "engagement: " + name + "\nallow:\n  - host: 127.0.0.1\n    ports: \"*\"\n    schemes: [http]\n"
	if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(scope), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// mcp connects a client of the official SDK with that token.
func (s *server) mcp(token string) *sdk.ClientSession {
	s.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(s.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: s.origin + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { session.Close() })
	return session
}

// tool calls a tool and answers its text.
func tool(t *testing.T, c *sdk.ClientSession, name string, args map[string]any) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var text strings.Builder
	for _, part := range r.Content {
		if p, ok := part.(*sdk.TextContent); ok {
			text.WriteString(p.Text)
		}
	}
	return text.String(), r.IsError
}

// An agent with a grant for an engagement opens a contained browser over HTTP MCP;
// the person sees it, pauses it and ends it; another connection can't reach it, and
// a revoked one loses it.
func TestOwnedOverMCP(t *testing.T) {
	s := stand(t, nil)
	s.engage("acme")
	site := sitetest.New(t)
	site.Page("/", "<title>Here</title><button id=b>Go</button>")
	o := s.settle("Ada")

	make := func(engagements ...string) (token, connection string) {
		var out struct {
			Token      string `json:"token"`
			Connection string `json:"connection_id"`
		}
		o.do("POST", "/api/tokens", map[string]any{"name": "agent", "scopes": []string{"owned"}, "engagements": engagements, "expires_in_s": 3600}, &out)
		return out.Token, out.Connection
	}
	o.refused("POST", "/api/tokens", map[string]any{"name": "x", "scopes": []string{"owned"}, "engagements": []string{"none"}, "expires_in_s": 3600}, 422, "invalid_input")
	o.refused("POST", "/api/tokens", map[string]any{"name": "x", "scopes": []string{"owned:acme"}, "expires_in_s": 3600}, 422, "invalid_input")
	token, connection := make("acme")
	c := s.mcp(token)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, x := range list.Tools {
		names[x.Name] = true
	}
	if !names["browser_open"] || !names["browser_snapshot"] || names["item_read"] || names["browser_upload"] {
		t.Errorf("tools: %v", names)
	}
	if text, failed := tool(t, c, "browser_open", map[string]any{"engagement": "other"}); !failed {
		t.Errorf("another engagement was opened: %s", text)
	}
	text, failed := tool(t, c, "browser_open", map[string]any{"engagement": "acme"})
	var opened struct {
		Browser string `json:"browser"`
		RunID   string `json:"run_id"`
		Digest  string `json:"scope_digest"`
	}
	if json.Unmarshal([]byte(text), &opened); failed || opened.Browser == "" {
		t.Fatalf("browser_open: %s", text)
	}
	if text, failed := tool(t, c, "browser_goto", map[string]any{"browser": opened.Browser, "url": site.URL("/")}); failed || !strings.Contains(text, "Here") {
		t.Errorf("browser_goto: %s", text)
	}
	if text, failed := tool(t, c, "browser_goto", map[string]any{"browser": opened.Browser, "url": "http://192.0.2.1/"}); !failed || !strings.Contains(text, "scope") {
		t.Errorf("out of scope: %s", text)
	}
	// The scope allows every port of this address, and still not the server's own.
	if text, failed := tool(t, c, "browser_goto", map[string]any{"browser": opened.Browser, "url": "http://" + s.config.Listen + "/healthz"}); !failed || !strings.Contains(text, "own_listener") {
		t.Errorf("the agent visits the server that contains it: %s", text)
	}
	tool(t, c, "browser_goto", map[string]any{"browser": opened.Browser, "url": site.URL("/")})
	second, _ := make("acme")
	if text, failed := tool(t, s.mcp(second), "browser_snapshot", map[string]any{"browser": opened.Browser}); !failed || !strings.Contains(text, "no browser of yours") {
		t.Errorf("another connection reached it: %s", text)
	}
	var agents struct {
		Engagements []struct{ Name, Digest string } `json:"engagements"`
		Runs        []struct {
			RunID string `json:"run_id"`
			State string `json:"state"`
		} `json:"runs"`
	}
	o.get("/api/agents", &agents)
	if len(agents.Runs) != 1 || agents.Runs[0].RunID != opened.RunID || agents.Engagements[0].Digest != opened.Digest {
		t.Errorf("the person sees %+v", agents)
	}
	var run struct {
		Actions   []struct{ Action, Outcome string } `json:"actions"`
		Decisions []struct {
			Host    string `json:"host"`
			Allowed bool   `json:"allowed"`
		} `json:"decisions"`
	}
	for range 40 { // outcomes and decisions ride with the next commit, within a second
		o.get("/api/agents/"+opened.RunID, &run)
		if len(run.Decisions) >= 2 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(run.Actions) < 3 || len(run.Decisions) < 2 {
		t.Errorf("the person sees of it %+v", run)
	}
	o.do("POST", "/api/agents/"+opened.RunID+"/pause", map[string]any{}, nil)
	if text, failed := tool(t, c, "browser_snapshot", map[string]any{"browser": opened.Browser}); !failed || !strings.Contains(text, "paused") {
		t.Errorf("while paused: %s", text)
	}
	o.do("POST", "/api/agents/"+opened.RunID+"/resume", map[string]any{}, nil)
	if text, failed := tool(t, c, "browser_snapshot", map[string]any{"browser": opened.Browser}); failed || !strings.Contains(text, "Go") {
		t.Errorf("resumed: %s", text)
	}
	watched := o.watch("/api/agents/" + opened.RunID + "/live")
	if !strings.Contains(watched, "event: frame") {
		t.Errorf("the live view began with %.200s", watched)
	}
	o.do("DELETE", "/api/connections/"+connection, nil, nil)
	if resp, err := http.DefaultTransport.RoundTrip(o.request("POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })); err != nil || resp.StatusCode != 401 {
		t.Errorf("a revoked token: %v %v", resp, err)
	}
	o.get("/api/agents", &agents)
	if len(agents.Runs) != 0 {
		t.Errorf("its browser outlives the grant: %+v", agents.Runs)
	}
}

// watch reads the first 64 KiB of a stream.
func (o *owner) watch(path string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	r := o.request("GET", path, nil, o.dress).WithContext(ctx)
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	n, _ := resp.Body.Read(buf)
	return string(buf[:n])
}

// /v1/owned/runs for a trusted caller: a scope in the request is refused, a run is
// the connection's own, and its end leaves nothing.
func TestOwnedRuns(t *testing.T) {
	s := stand(t, nil)
	s.engage("acme")
	o := s.settle("Ada")
	var made struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "ci", "scopes": []string{"owned"}, "engagements": []string{"acme"}, "expires_in_s": 600}, &made)
	auth := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+made.Token) }
	for name, c := range map[string]struct {
		body   any
		status int
	}{
		"a scope":            {map[string]any{"engagement": "acme", "scope": map[string]any{"allow": []string{}}}, 400},
		"another engagement": {map[string]any{"engagement": "other"}, 404},
		"a bad run id":       {map[string]any{"engagement": "acme", "run_id": "a b"}, 400},
	} {
		if status, body := o.send("POST", "/v1/owned/runs", c.body, auth); status != c.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	status, body := o.send("POST", "/v1/owned/runs", map[string]any{"engagement": "acme", "run_id": "r-1"}, auth)
	if status != 201 || !strings.Contains(string(body), `"state":"running"`) {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := o.send("POST", "/v1/owned/runs", map[string]any{"engagement": "acme", "run_id": "r-1"}, auth); status != 409 {
		t.Errorf("the same run id again: %d %s", status, body)
	}
	if status, body := o.send("GET", "/v1/owned/runs/r-1", nil, auth); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := o.send("GET", "/v1/owned/runs/r-2", nil, auth); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := o.send("DELETE", "/v1/owned/runs/r-1", nil, auth); status != 204 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := o.send("GET", "/v1/owned/runs", nil, auth); status != 200 || !strings.Contains(string(body), `"runs":[]`) {
		t.Errorf("%d %s", status, body)
	}
}

// An operator's policies are asked before a browser is started, for whichever
// surface, and the decision is there to be read; without a file whoever has the
// engagement opens.
func TestLaunchesAskThePolicies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.cedar")
	rules := `@id("reads") permit (principal, action == Action::"observe", resource);
@id("acme") permit (principal, action == Action::"launch", resource == Engagement::"acme");
@id("asked") @require_confirmation("passkey") permit (principal, action == Action::"launch", resource == Engagement::"asked");
@id("no-agents") forbid (principal is Agent, action == Action::"launch", resource == Engagement::"mine");
@id("mine") permit (principal, action == Action::"launch", resource == Engagement::"mine");`
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := stand(t, func(c *node.Config) { c.Policy = file })
	all := []string{"acme", "other", "asked", "mine"}
	for _, name := range all {
		s.engage(name)
	}
	o := s.settle("Ada")
	var made struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "agent", "scopes": []string{"owned"}, "engagements": all, "expires_in_s": 3600}, &made)
	agent := s.mcp(made.Token)
	for name, opens := range map[string]bool{"acme": true, "other": false, "asked": false, "mine": false} {
		text, failed := tool(t, agent, "browser_open", map[string]any{"engagement": name})
		if failed == opens || failed && !strings.Contains(text, "policy_denied") {
			t.Errorf("an agent opens %s: %s", name, text)
		}
	}
	o.refused("POST", "/api/agents", map[string]any{"engagement": "other"}, 403, "policy_denied")
	o.refused("POST", "/api/agents", map[string]any{"engagement": "asked"}, 403, "policy_denied")
	var mine struct {
		RunID string `json:"run_id"`
	}
	if o.do("POST", "/api/agents", map[string]any{"engagement": "mine"}, &mine); mine.RunID == "" {
		t.Error("the person herself doesn't open what her agents may not")
	}
	kinds := map[string]int{}
	_, _, db := s.node.Attended()
	err := audit.Records(t.Context(), db, audit.Filter{}, func(r audit.Record) error { kinds[r.Kind]++; return nil })
	if err != nil || kinds["policy.allowed"] != 4 || kinds["policy.used"] != 2 || kinds["policy.denied"] != 3 {
		t.Errorf("the log has %v, %v", kinds, err)
	}
}
