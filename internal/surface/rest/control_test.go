package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/controltest"
	"chaperone/internal/leaktest"
	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/rest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

var ctx = context.Background()

// world is what stands behind the routes of attended control, over HTTP.
type world struct {
	t        testing.TB
	origin   string
	db       *store.DB
	sessions *session.Book
	tokens   *oauth.Book
	desk     *controltest.Desk
	control  *guard.Control
}

func open(t testing.TB) *world { return openWith(t, true) }

func openWith(t testing.TB, constructed bool) *world {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	w := &world{t: t, origin: fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port), db: storetest.Open(t, storetest.SQLite(t), store.Options{})}
	log := must[*audit.Log](t)(audit.Open(w.db, audit.Options{Tenant: controltest.Tenant}))
	w.sessions = must[*session.Book](t)(session.NewBook(w.db, log, controltest.Tenant, session.Options{}))
	w.tokens = must[*oauth.Book](t)(oauth.NewBook(w.db, log, controltest.Tenant, oauth.Options{Origin: w.origin}))
	accounts := must[*ledger.Book](t)(ledger.NewBook(w.db, log, controltest.Tenant, ledger.Options{}))
	w.control = &guard.Control{Families: w.tokens, Connections: accounts}
	c := rest.Config{Sessions: w.sessions, Tokens: w.tokens, Ledger: accounts, Log: log, Control: w.control}
	if constructed {
		w.desk = controltest.Open(t, w.db, log, w.origin)
		w.control.Authority, c.Attended = w.desk, w.desk.Authority
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: guard.New(guard.Config{Origin: w.origin, Sessions: w.sessions, Tokens: w.tokens}, rest.Routes(c)...)}}
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return w
}

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func id(s string) controlv1.ID {
	i, err := controlv1.ParseID(s)
	if err != nil {
		panic(err)
	}
	return i
}

// token makes a script's token of a person's.
func (w *world) token(actor string, scopes ...string) (token, agent, connection string) {
	w.t.Helper()
	agent, connection = oauth.NewScript(), ledger.NewID()
	token = must[string](w.t)(w.tokens.Issue(ctx, oauth.Script{Client: agent, Actor: actor, Name: "Helper", Scopes: scopes, Connection: connection, Ends: time.Now().Add(time.Hour)}))
	return token, agent, connection
}

// workflow is a client with a token.
func (w *world) workflow(token string) *client.Client {
	w.t.Helper()
	h := must[*client.HTTP](w.t)(client.NewHTTP(w.origin, func(context.Context) (string, error) { return token, nil }, client.HTTPOptions{Transport: transport(w.t)}))
	return client.New(h)
}

// transport dials the address, whatever the name resolves to here.
func transport(t testing.TB) *http.Transport {
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// post sends a body to POST /browser/control.
func (w *world) post(body string, edit func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	r := must[*http.Request](w.t)(http.NewRequest("POST", w.origin+"/browser/control", strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	edit(r)
	resp := must[*http.Response](w.t)((&http.Client{Transport: transport(w.t)}).Do(r))
	defer resp.Body.Close()
	return resp, string(must[[]byte](w.t)(io.ReadAll(resp.Body)))
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

var (
	look = controltest.Tool{ID: "look", Class: controlv1.Read, Run: func(_ context.Context, arguments string) (string, string) { return arguments, "" }}
	save = controltest.Tool{ID: "save", Class: controlv1.AccountMutation, Run: func(context.Context, string) (string, string) { return `{"ok":true}`, "" }}
)

// waits is a read that goes on until it is told to stop.
func waits() (controltest.Tool, chan struct{}) {
	begun := make(chan struct{}, 8)
	return controltest.Tool{ID: "wait", Class: controlv1.Read, Run: func(ctx context.Context, _ string) (string, string) {
		begun <- struct{}{}
		<-ctx.Done()
		return "null", ""
	}}, begun
}

// request is a call under a lease.
func request(page *controltest.Page, lease controlv1.LeaseReceipt, tool, name string) controlv1.ExecuteCall {
	v, err := controlv1.ParseValue([]byte(`{"n":"`+name+`"}`), controlv1.MaxArguments)
	if err != nil {
		panic(err)
	}
	return controlv1.ExecuteCall{Lease: lease.Lease, Request: id(name), Tool: id(tool), Schemas: page.Catalog.Tool(id(tool)).Schemas(), Arguments: v}
}

func leased(t testing.TB, c *client.Client, page *controltest.Page, tools ...string) controlv1.LeaseReceipt {
	t.Helper()
	var ids []controlv1.ID
	for _, tool := range tools {
		ids = append(ids, id(tool))
	}
	return must[controlv1.LeaseReceipt](t)(c.Lease(ctx, page.Document, 5*time.Minute, ids...))
}

// A workflow over REST: it finds a page, reads, changes something with its person's
// yes and learns of their no, gets one answer however often it asks, and is told of
// everything by codes.
func TestWorkflow(t *testing.T) {
	w := open(t)
	page := w.desk.Page("ann", look, save)
	token, agent, _ := w.token("ann", oauth.ScopeControl)
	c := w.workflow(token)
	documents := must[[]controlv1.Document](t)(c.Documents(ctx))
	if len(documents) != 1 || documents[0].Ref != page.Document || documents[0].Catalog.Digest() != page.Catalog.Digest() {
		t.Fatalf("documents: %+v", documents)
	}
	lease := leased(t, c, page, "look", "save")
	read := must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "look", "one")))
	if read.Status != controlv1.StatusSucceeded || string(read.Result.Bytes()) != `{"n":"one"}` {
		t.Errorf("a read: %+v", read)
	}
	done := make(chan controlv1.Receipt, 1)
	change := func(name string) {
		go func() { done <- must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "save", name))) }()
	}
	change("two")
	page.Confirm(page.Asked())
	if r := <-done; r.Status != controlv1.StatusSucceeded || r.Effect != controlv1.Committed || r.Level != controlv1.VisibleClick {
		t.Errorf("a change: %+v", r)
	}
	change("three")
	page.Deny(page.Asked())
	if r := <-done; r.Status != controlv1.StatusDenied || r.Code != refusal.UserDenied || r.Effect != controlv1.NoEffect {
		t.Errorf("a no: %+v", r)
	}

	// The same request within the server is the same call.
	grant := must[oauth.Grant](t)(w.tokens.Find(ctx, token))
	within := client.New(client.Within{Authority: w.desk.Authority, Caller: live.Caller{Who: grant.Principal}})
	if r := must[controlv1.Receipt](t)(within.Do(ctx, request(page, lease, "save", "two"))); r.Status != controlv1.StatusSucceeded || !r.Result.IsZero() {
		t.Errorf("the same again: %+v", r)
	}
	if grant.Principal.Agent() != agent {
		t.Errorf("the agent is %s", grant.Principal.Agent())
	}
	_, err := within.Call(ctx, request(page, lease, "look", "two"))
	wantCode(t, "another request under that id", err, refusal.RequestConflict)
	_, err = c.Call(ctx, request(page, lease, "look", "two"))
	wantCode(t, "and over REST", err, refusal.RequestConflict)
	if r := must[controlv1.LeaseReceipt](t)(c.RevokeLease(ctx, lease.Lease, word("done"))); r.Status != "revoked" {
		t.Errorf("the lease is %s", r.Status)
	}
	_, err = c.Do(ctx, request(page, lease, "look", "four"))
	wantCode(t, "after the lease", err, refusal.LeaseRevoked)
	_, err = w.workflow("chap_pat_" + strings.Repeat("0", 64)).Documents(ctx)
	wantCode(t, "another token", err, refusal.Unauthenticated)
}

func word(s string) controlv1.Word {
	w, err := controlv1.ParseWord(s)
	if err != nil {
		panic(err)
	}
	return w
}

func wantCode(t testing.TB, what string, err error, code refusal.Code) {
	t.Helper()
	if got := refusal.Of(err); got != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// losing drops the first answers that come, after the server has given them.
type losing struct {
	of    http.RoundTripper
	first atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.of.RoundTrip(r)
	if err == nil && l.first.Add(-1) >= 0 {
		resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// An answer that was lost is asked for again, and its tool ran once.
func TestLostAnswer(t *testing.T) {
	w := open(t)
	ran := atomic.Int64{}
	page := w.desk.Page("ann", controltest.Tool{ID: "look", Class: controlv1.Read, Run: func(context.Context, string) (string, string) { ran.Add(1); return `1`, "" }})
	token, _, _ := w.token("ann", oauth.ScopeControl)
	lease := leased(t, w.workflow(token), page, "look")
	lost := &losing{of: transport(t)}
	lost.first.Store(2)
	c := client.New(must[*client.HTTP](t)(client.NewHTTP(w.origin, func(context.Context) (string, error) { return token, nil }, client.HTTPOptions{Transport: lost})))
	r := must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "look", "one")))
	if r.Status != controlv1.StatusSucceeded || r.ResultDigest.IsZero() || ran.Load() != 1 {
		t.Errorf("%+v after %d runs", r, ran.Load())
	}
	for _, bad := range []string{"", "http://shop.example", "https://u:p@shop.example", "https://shop.example/x", "ftp://localhost"} {
		if _, err := client.NewHTTP(bad, nil, client.HTTPOptions{}); err == nil {
			t.Errorf("a token would go to %q", bad)
		}
	}
}

// A workflow that gives up takes its call with it, whether its page works on it or
// its person is asked.
func TestWorkflowGivesUp(t *testing.T) {
	w := open(t)
	hold, begun := waits()
	page := w.desk.Page("ann", hold, save)
	token, _, _ := w.token("ann", oauth.ScopeControl)
	grant := must[oauth.Grant](t)(w.tokens.Find(ctx, token))
	for name, c := range map[string]*client.Client{"http": w.workflow(token), "within": client.New(client.Within{Authority: w.desk.Authority, Caller: live.Caller{Who: grant.Principal}})} {
		lease := leased(t, c, page, "wait", "save")
		for tool, ready := range map[string]func(){"wait": func() { <-begun }, "save": func() { page.Asked() }} {
			ctx, leave := context.WithCancel(ctx)
			gone := make(chan error, 1)
			go func() { _, err := c.Do(ctx, request(page, lease, tool, name+"-"+tool)); gone <- err }()
			ready()
			leave()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("%s %s: %v", name, tool, err)
			}
			var last controlv1.Receipt
			for range 200 {
				// A request is the same call, whoever waits for it.
				last = must[controlv1.Receipt](t)(c.Call(context.Background(), request(page, lease, tool, name+"-"+tool)))
				if client.Over(last) {
					break
				}
				time.Sleep(25 * time.Millisecond)
			}
			if last.Status != controlv1.StatusCancelled || last.Effect != controlv1.NoEffect {
				t.Errorf("%s %s: %+v", name, tool, last)
			}
		}
	}
}

// Each refusal over REST has its status, its code and nothing of the request; a
// missing token is challenged (RFC 6750).
func TestControlRoute(t *testing.T) {
	w := open(t)
	page := w.desk.Page("ann", look)
	token, _, connection := w.token("ann", oauth.ScopeControl)
	plain, _, _ := w.token("ann", oauth.ScopeCollections)
	lease := leased(t, w.workflow(token), page, "look")
	list := `{"action":"list_documents"}`
	text := string(must[[]byte](t)(controlv1.EncodeAction(request(page, lease, "look", "one"))))
	for name, c := range map[string]struct {
		body      string
		edit      func(*http.Request)
		status    int
		code      refusal.Code
		challenge string
	}{
		"no token":         {list, func(*http.Request) {}, 401, refusal.Unauthenticated, `Bearer resource_metadata=`},
		"another token":    {list, bearer("chap_at_" + strings.Repeat("0", 64)), 401, refusal.Unauthenticated, `error="invalid_token"`},
		"without scope":    {list, bearer(plain), 403, refusal.Forbidden, `error="insufficient_scope", scope="control:write"`},
		"another origin":   {list, func(r *http.Request) { bearer(token)(r); r.Header.Set("Origin", "http://evil.test") }, 403, refusal.Forbidden, ""},
		"a form":           {list, func(r *http.Request) { bearer(token)(r); r.Header.Set("Content-Type", "text/plain") }, 400, refusal.InvalidRequest, ""},
		"nothing":          {"", bearer(token), 400, refusal.InvalidRequest, ""},
		"a key twice":      {`{"action":"list_documents","action":"list_documents"}`, bearer(token), 400, refusal.InvalidRequest, ""},
		"more behind":      {list + list, bearer(token), 400, refusal.InvalidRequest, ""},
		"another case":     {`{"Action":"list_documents"}`, bearer(token), 400, refusal.InvalidRequest, ""},
		"too large":        {`{"action":"` + strings.Repeat("x", controlv1.MaxFrame) + `"}`, bearer(token), 413, refusal.TooLarge, ""},
		"unknown call":     {`{"action":"get_call","call_id":"call_x"}`, bearer(token), 404, refusal.UnknownCall, ""},
		"unknown document": {`{"action":"issue_lease","document_ref":"document_` + strings.Repeat("0", 64) + `","tool_ids":["look"]}`, bearer(token), 404, refusal.UnknownDocument, ""},
		"catalog_stale":    {strings.Replace(text, lease.Lease.String(), "lease_x", 1), bearer(token), 403, refusal.Forbidden, ""},
	} {
		resp, body := w.post(c.body, c.edit)
		var told struct {
			Error struct {
				Code        refusal.Code `json:"code"`
				Retryable   *bool        `json:"retryable"`
				Correlation string       `json:"correlation_id"`
			} `json:"error"`
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&told); err != nil || resp.StatusCode != c.status || told.Error.Code != c.code || told.Error.Retryable == nil || told.Error.Correlation == "" {
			t.Errorf("%s: %d %s, want %d %s", name, resp.StatusCode, body, c.status, c.code)
		}
		if got := resp.Header.Get("WWW-Authenticate"); (got == "") != (c.challenge == "") || !strings.Contains(got, c.challenge) {
			t.Errorf("%s: challenge %q, want %q", name, got, c.challenge)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: may be kept by a cache", name)
		}
	}
	resp, body := w.post(text, bearer(token))
	var got struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != 200 || got.Status != "success" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if r := must[controlv1.Receipt](t)(controlv1.DecodeReceipt(got.Result)); r.Status != controlv1.StatusSucceeded {
		t.Errorf("%+v", r)
	}
	if err := w.tokens.RevokeConnection(ctx, connection); err != nil {
		t.Fatal(err)
	}
	if resp, body := w.post(list, bearer(token)); resp.StatusCode != 401 {
		t.Errorf("a token that was taken back: %d %s", resp.StatusCode, body)
	}
}

// Where control isn't constructed, it is unavailable, and nothing is anybody's.
func TestControlNotConstructed(t *testing.T) {
	w := openWith(t, false)
	token, _, _ := w.token("ann", oauth.ScopeControl)
	if resp, body := w.post(`{"action":"list_documents"}`, bearer(token)); resp.StatusCode != 503 || !strings.Contains(body, `"retryable":true`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	ann := w.person("ann")
	var own struct{ Available bool }
	if status := ann.do("GET", "/api/control", nil, &own); status != 200 || own.Available {
		t.Errorf("%d %v", status, own)
	}
	if status := ann.do("GET", "/api/kill", nil, nil); status != 200 {
		t.Errorf("GET /api/kill: %d", status)
	}
	if status := ann.do("POST", "/api/kill", map[string]any{"scope": "principal"}, nil); status != 503 {
		t.Errorf("POST /api/kill: %d", status)
	}
}

// person is somebody signed in, as their own page asks.
type person struct {
	w       *world
	secrets session.Secrets
}

func (w *world) person(actor string, roles ...string) *person {
	return w.signed(actor, time.Now(), roles)
}

func (w *world) signed(actor string, proved time.Time, roles []string) *person {
	w.t.Helper()
	_, secrets, err := w.sessions.Begin(ctx, session.Facts{Actor: actor, Name: actor, Issuer: "https://idp.test", Subject: actor, SID: "s-" + actor, ACR: "a",
		AuthTime: proved, Agent: "test", Roles: roles})
	if err != nil {
		w.t.Fatal(err)
	}
	return &person{w, secrets}
}

func (p *person) do(method, path string, body, into any) int {
	p.w.t.Helper()
	data := must[[]byte](p.w.t)(json.Marshal(body))
	if method == "GET" {
		data = nil
	}
	r := must[*http.Request](p.w.t)(http.NewRequest(method, p.w.origin+path, bytes.NewReader(data)))
	r.AddCookie(&http.Cookie{Name: guard.Cookie, Value: p.secrets.Cookie})
	r.Header.Set(guard.KeyHeader, p.secrets.Key)
	r.Header.Set(guard.CSRFHeader, session.CSRF(p.secrets.Cookie))
	r.Header.Set("Origin", p.w.origin)
	r.Header.Set("Content-Type", "application/json")
	resp := must[*http.Response](p.w.t)((&http.Client{Transport: transport(p.w.t)}).Do(r))
	defer resp.Body.Close()
	text := must[[]byte](p.w.t)(io.ReadAll(resp.Body))
	if into != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(text, into); err != nil {
			p.w.t.Fatalf("%s %s: %s", method, path, text)
		}
	}
	return resp.StatusCode
}

type killed struct {
	ID       string   `json:"kill_id"`
	Scope    string   `json:"scope"`
	Ref      string   `json:"ref"`
	Mine     bool     `json:"mine"`
	MayLift  bool     `json:"may_lift"`
	InFlight []string `json:"in_flight"`
	Unknown  []string `json:"unknown"`
}

type kills struct {
	Kills    []killed `json:"kills"`
	InFlight []string `json:"in_flight"`
	Unknown  []string `json:"unknown"`
}

// Who may stop and lift what, over whom: nobody another's, a tenant its admins, all
// of it an operator.
func TestKillMatrix(t *testing.T) {
	w := open(t)
	hold, begun := waits()
	page := w.desk.Page("ann", look, hold)
	token, _, _ := w.token("ann", oauth.ScopeControl)
	c := w.workflow(token)
	ann, bob, admin, operator := w.person("ann"), w.person("bob"), w.person("carol", "admin"), w.person("dora", "operator")
	principal := w.desk.Principal(must[oauth.Grant](t)(w.tokens.Find(ctx, token)).Principal).String()
	lease := leased(t, c, page, "look", "wait")
	read := must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "look", "one")))

	for _, test := range []struct {
		who        *person
		scope, ref string
		status     int
	}{
		{bob, "call", read.Call.String(), 404}, {admin, "call", read.Call.String(), 404}, {bob, "lease", lease.Lease.String(), 404}, {bob, "arm", page.Arm.String(), 404},
		{ann, "call", "call_none", 404}, {ann, "lease", "", 404}, {bob, "principal", principal, 403}, {ann, "principal", "x", 403}, {admin, "principal", "x", 400},
		{ann, "tenant", "", 403}, {operator, "tenant", "", 403}, {ann, "all", "", 403}, {admin, "all", "", 403}, {admin, "tenant", "x", 400}, {ann, "world", "", 400}, {ann, "", "", 400},
	} {
		if status := test.who.do("POST", "/api/kill", map[string]any{"scope": test.scope, "ref": test.ref}, nil); status != test.status {
			t.Errorf("%s %.12s: %d, want %d", test.scope, test.ref, status, test.status)
		}
	}
	if status := ann.do("POST", "/api/kill", map[string]any{"scope": "principal", "tenant": "x"}, nil); status != 400 {
		t.Errorf("an unknown member: %d", status)
	}

	// A call that is in flight: stopped by the narrowest switch, and told of.
	over := make(chan controlv1.Receipt, 1)
	go func() { over <- must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "wait", "two"))) }()
	<-begun
	var before kills
	if ann.do("GET", "/api/kill", nil, &before); len(before.InFlight) != 1 || len(before.Kills) != 0 {
		t.Fatalf("before: %+v", before)
	}
	var set killed
	if status := ann.do("POST", "/api/kill", map[string]any{"scope": "call", "ref": before.InFlight[0]}, &set); status != 200 || !set.Mine || !set.MayLift || len(set.InFlight) != 1 {
		t.Fatalf("%d %+v", status, set)
	}
	if r := <-over; r.Status != controlv1.StatusCancelled || r.Code != refusal.Killed {
		t.Errorf("the call that was stopped: %+v", r)
	}
	if status := bob.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 404 {
		t.Errorf("another lifts it: %d", status)
	}
	stale := w.signed("ann", time.Now().Add(-10*time.Minute), nil)
	if status := stale.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 403 {
		t.Errorf("without a step-up: %d", status)
	}
	if status := ann.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 204 {
		t.Errorf("lifting: %d", status)
	}
	if status := ann.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 404 {
		t.Errorf("lifting again: %d", status)
	}

	// An admin's over a person is the admin's; the person sees it, and can't lift it.
	if status := admin.do("POST", "/api/kill", map[string]any{"scope": "principal", "ref": principal}, &set); status != 200 {
		t.Fatal(status)
	}
	_, err := c.Do(ctx, request(page, lease, "look", "three"))
	if code := refusal.Of(err); code != refusal.LeaseRevoked && code != refusal.Killed {
		t.Errorf("under the switch: %v", err)
	}
	var seen kills
	if ann.do("GET", "/api/kill", nil, &seen); len(seen.Kills) != 1 || seen.Kills[0].Mine || seen.Kills[0].MayLift {
		t.Errorf("ann sees %+v", seen)
	}
	if bob.do("GET", "/api/kill", nil, &seen); len(seen.Kills) != 0 {
		t.Errorf("bob sees %+v", seen)
	}
	if status := ann.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 403 {
		t.Errorf("ann lifts the admin's: %d", status)
	}
	if status := admin.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 204 {
		t.Errorf("the admin lifts it: %d", status)
	}

	// The widest are everybody's to see.
	for _, wide := range []struct {
		who   *person
		scope string
	}{{admin, "tenant"}, {operator, "all"}} {
		if status := wide.who.do("POST", "/api/kill", map[string]any{"scope": wide.scope}, &set); status != 200 {
			t.Fatalf("%s: %d", wide.scope, status)
		}
		if bob.do("GET", "/api/kill", nil, &seen); len(seen.Kills) != 1 || seen.Kills[0].Scope != wide.scope || seen.Kills[0].MayLift {
			t.Errorf("%s: bob sees %+v", wide.scope, seen)
		}
		if status := bob.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 403 {
			t.Errorf("%s: bob lifts it: %d", wide.scope, status)
		}
		if status := wide.who.do("DELETE", "/api/kill/"+set.ID, nil, nil); status != 204 {
			t.Errorf("%s: lifting: %d", wide.scope, status)
		}
	}
	// Never by a bearer.
	r := must[*http.Request](t)(http.NewRequest("POST", w.origin+"/api/kill", strings.NewReader(`{"scope":"principal"}`)))
	bearer(token)(r)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", w.origin)
	resp := must[*http.Response](t)((&http.Client{Transport: transport(t)}).Do(r))
	resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Errorf("an agent's kill: %d", resp.StatusCode)
	}
}

// A person sees their live pages, leases and calls with the agents' names, and how
// they were asked.
func TestApprovals(t *testing.T) {
	w := open(t)
	page := w.desk.Page("ann", look, save)
	token, _, _ := w.token("ann", oauth.ScopeControl)
	c := w.workflow(token)
	lease := leased(t, c, page, "look", "save")
	must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "look", "one")))
	done := make(chan struct{})
	go func() { defer close(done); must[controlv1.Receipt](t)(c.Do(ctx, request(page, lease, "save", "two"))) }()
	page.Deny(page.Asked())
	<-done
	var own struct {
		Available bool
		Documents []struct {
			Ref     string `json:"document_ref"`
			Arm     string `json:"arm_ref"`
			Expires int64  `json:"arm_expires_ms"`
			Tools   []struct {
				Class string `json:"mutation_class"`
			}
		}
		Leases []struct {
			Agent struct{ Name string }
		}
		Calls []struct {
			Agent     struct{ Name string }
			State     string
			Effect    string
			Code      string `json:"error_code"`
			Confirmed bool
			Admitted  int64 `json:"admitted_ms"`
		}
		Attention struct{ Asked, Budget, Denied, Confirmed int }
	}
	if status := w.person("ann").do("GET", "/api/control", nil, &own); status != 200 || !own.Available {
		t.Fatal(status)
	}
	if len(own.Documents) != 1 || own.Documents[0].Ref != page.Document.String() || own.Documents[0].Arm != page.Arm.String() || len(own.Documents[0].Tools) != 2 || own.Documents[0].Expires < time.Now().UnixMilli() {
		t.Errorf("documents: %+v", own.Documents)
	}
	if len(own.Leases) != 1 || own.Leases[0].Agent.Name != "Helper" {
		t.Errorf("leases: %+v", own.Leases)
	}
	if len(own.Calls) != 2 || own.Calls[0].State != "denied" || own.Calls[0].Code != "user_denied" || own.Calls[0].Confirmed || own.Calls[1].State != "succeeded" || own.Calls[1].Agent.Name != "Helper" {
		t.Errorf("calls: %+v", own.Calls)
	}
	if own.Attention.Asked != 1 || own.Attention.Budget != 10 || own.Attention.Denied != 1 || own.Attention.Confirmed != 0 {
		t.Errorf("attention: %+v", own.Attention)
	}
	own.Documents, own.Calls, own.Leases = nil, nil, nil
	if w.person("bob").do("GET", "/api/control", nil, &own); len(own.Documents)+len(own.Leases)+len(own.Calls) != 0 {
		t.Errorf("bob sees %+v", own)
	}
}
