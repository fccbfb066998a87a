package site_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// authority answers the arming routes and the socket of a page, and speaks by the
// product's own codec; which frames it sends, and when, is the test's to say. What
// the real one does is tested in internal/attended/live and internal/node.
type authority struct {
	b *backend

	mu        sync.Mutex // guards what follows
	granted   bool
	armed     *place
	nonce     string
	documents int
	kills     []m
	channels  chan *channel
}

// place is what a page finalized.
type place struct {
	Route      string `json:"route_id"`
	Generation int64  `json:"registration_generation"`
	Catalog    string `json:"catalog_digest"`
	Tools      []struct {
		ID      string `json:"tool_id"`
		Schemas string `json:"schema_digest"`
	} `json:"tools"`
}

const armTime = 15 * time.Minute

func newAuthority(b *backend) *authority {
	return &authority{b: b, channels: make(chan *channel, 4)}
}

// routes are those of the owner; the socket is its own.
func (a *authority) routes() map[string]func(http.ResponseWriter, *http.Request) {
	const arms = " /api/browser-control/attended-arm"
	return map[string]func(http.ResponseWriter, *http.Request){
		"GET" + arms:                         a.tell,
		"POST" + arms:                        a.begin,
		"POST" + arms + "/finalize":          a.finalize,
		"DELETE" + arms:                      a.revoke,
		"POST /api/browser-control/document": a.document,
		"GET /api/kill":                      a.stops, "POST /api/kill": a.stop, "DELETE /api/kill/{id}": a.lift, "GET /api/control": a.record,
	}
}

func (a *authority) tell(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ends := time.Now().Add(armTime).UnixMilli()
	switch {
	case a.granted:
		answer(w, 200, m{"status": "recent-auth", "expires_at_ms": time.Now().Add(time.Minute).UnixMilli(), "route_id": "portal"})
	case a.armed != nil:
		answer(w, 200, m{"status": "armed", "expires_at_ms": ends, "route_id": a.armed.Route, "registration_generation": a.armed.Generation, "catalog_digest": a.armed.Catalog, "tool_scope_digest": a.armed.scope()})
	default:
		answer(w, 200, m{"status": "none"})
	}
}

func (p *place) scope() string {
	var all []controlv1.Scoped
	for _, t := range p.Tools {
		all = append(all, controlv1.Scoped{ID: id(t.ID), Schemas: digest(t.Schemas)})
	}
	d, err := controlv1.ScopeDigest(all)
	if err != nil {
		return err.Error()
	}
	return d.String()
}

func (a *authority) begin(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Route string `json:"route_id"`
		Next  string `json:"next"`
	}
	if err := json.UnmarshalRead(r.Body, &in, json.RejectUnknownMembers(true)); err != nil || in.Route != "portal" && in.Route != "page" {
		refuse(w, 400, "bad_document", nil)
		return
	}
	answer(w, 200, m{"authorization_url": a.b.origin + "/auth/login?stepup=1&arm=1&next=" + in.Next, "expires_at_ms": time.Now().Add(time.Minute).UnixMilli()})
}

func (a *authority) document(w http.ResponseWriter, r *http.Request) {
	var in struct {
		CSRF  string `json:"csrf"`
		Route string `json:"route_id"`
	}
	if err := json.UnmarshalRead(r.Body, &in, json.RejectUnknownMembers(true)); err != nil || in.CSRF != "csrf-"+a.b.key {
		refuse(w, 400, "bad_document", nil)
		return
	}
	a.mu.Lock()
	a.documents++
	a.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (a *authority) finalize(w http.ResponseWriter, r *http.Request) {
	p := new(place)
	err := json.UnmarshalRead(r.Body, p, json.RejectUnknownMembers(true))
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || len(p.Tools) == 0 {
		refuse(w, 400, "bad_document", nil)
		return
	}
	if !a.granted || a.documents == 0 {
		refuse(w, 403, "no_arm", nil)
		return
	}
	a.granted, a.armed, a.nonce = false, p, random()
	answer(w, 200, m{"status": "armed", "expires_at_ms": time.Now().Add(armTime).UnixMilli(), "route_id": p.Route, "registration_generation": p.Generation, "catalog_digest": p.Catalog, "tool_scope_digest": p.scope(), "open_nonce": a.nonce})
}

func (a *authority) revoke(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	a.granted, a.armed = false, nil
	a.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (a *authority) stops(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer(w, 200, m{"kills": append([]m{}, a.kills...), "in_flight": []string{}, "unknown": []string{}})
}

func (a *authority) stop(w http.ResponseWriter, r *http.Request) {
	var in m
	read(r, &in)
	a.mu.Lock()
	a.kills = append(a.kills, m{"kill_id": "kill_1", "scope": in["scope"], "ref": "principal_1", "set_ms": time.Now().UnixMilli(), "mine": true, "may_lift": true, "in_flight": []string{"call_1"}, "unknown": []string{}})
	a.mu.Unlock()
	answer(w, 200, m{})
}

func (a *authority) lift(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	a.kills = nil
	a.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (a *authority) record(w http.ResponseWriter, _ *http.Request) {
	now := time.Now().UnixMilli()
	agent := m{"agent_ref": "hmac:" + strings.Repeat("1", 64), "name": "Notes assistant"}
	answer(w, 200, m{"available": true, "documents": []m{},
		"leases": []m{{"lease_id": "lease_1", "document_ref": "document_1", "tool_ids": []string{"item_write", "navigate"}, "agent": agent, "issued_ms": now - 60_000, "expires_at_ms": now + 240_000}},
		"calls": []m{
			{"call_id": "call_1", "lease_id": "lease_1", "tool_id": "item_write", "agent": agent, "state": "pending_confirmation", "effect": "none", "admitted_ms": now - 1000},
			{"call_id": "call_0", "lease_id": "lease_1", "tool_id": "navigate", "agent": agent, "state": "succeeded", "effect": "browser_reported_committed", "confirmation_level": "visible_click", "admitted_ms": now - 30_000},
			{"call_id": "call_00", "lease_id": "lease_1", "tool_id": "items_list", "state": "failed", "effect": "none", "error_code": "result_invalid", "admitted_ms": now - 40_000}},
		"attention": m{"asked": 2, "budget": 10, "window_ms": 300_000, "confirmed": 1, "denied": 0, "lapsed": 0, "dwell_ms": 2300}})
}

// --- the socket

// channel is a page's socket once its catalog is published.
type channel struct {
	t        testing.TB
	ws       *websocket.Conn
	ctx      context.Context
	place    *place
	Register controlv1.Register
	binding  controlv1.Digest
	frames   chan controlv1.PageFrame
	done     chan struct{}
	tools    map[string]controlv1.ID // by call
}

func id(s string) controlv1.ID {
	v, err := controlv1.ParseID(s)
	if err != nil {
		panic(err)
	}
	return v
}

func digest(s string) controlv1.Digest {
	v, err := controlv1.ParseDigest(s)
	if err != nil {
		panic(err)
	}
	return v
}

func value(s string) controlv1.Value {
	v, err := controlv1.ParseValue([]byte(s), controlv1.MaxFrame)
	if err != nil {
		panic(err)
	}
	return v
}

// open serves one socket until it is closed.
func (a *authority) open(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	armed, nonce := a.armed, a.nonce
	a.mu.Unlock()
	if r.Header.Get("Origin") != a.b.origin {
		refuse(w, 403, "origin_denied", nil)
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	ws.SetReadLimit(controlv1.MaxFrame)
	c := &channel{t: a.b.t, ws: ws, ctx: r.Context(), place: armed, binding: digest("sha256:" + strings.Repeat("ab", 32)), frames: make(chan controlv1.PageFrame, 64), done: make(chan struct{}), tools: map[string]controlv1.ID{}}
	defer close(c.done)
	defer ws.CloseNow()
	open, ok := c.read().(controlv1.Open)
	if !ok || armed == nil || open.Nonce.String() != nonce || open.Generation.Int() != armed.Generation || open.Route.String() != armed.Route {
		c.close(controlv1.CloseTrust, refusal.ArmMismatch)
		return
	}
	register, ok := c.read().(controlv1.Register)
	if !ok || register.Catalog.Digest().String() != armed.Catalog || register.Catalog.Scope().String() != armed.scope() {
		c.close(controlv1.CloseTrust, refusal.ArmMismatch)
		return
	}
	c.Register = register
	a.channels <- c
	for {
		f := c.read()
		if f == nil {
			return
		}
		c.frames <- f
	}
}

// read answers the next frame, nil at the end.
func (c *channel) read() controlv1.PageFrame {
	kind, text, err := c.ws.Read(c.ctx)
	if err != nil {
		return nil
	}
	f, err := controlv1.DecodePage(text)
	if err != nil || kind != websocket.MessageText {
		c.t.Errorf("the page sent %.300s: %v", text, err)
		return nil
	}
	return f
}

func (c *channel) close(code controlv1.Close, why refusal.Code) {
	c.ws.Close(websocket.StatusCode(code), string(why))
}

func (c *channel) send(f controlv1.AuthorityFrame) {
	c.t.Helper()
	if f, ok := f.(controlv1.Call); ok {
		c.tools[f.Call.String()] = f.Tool
	}
	text, err := controlv1.EncodeAuthority(f)
	if err != nil {
		c.t.Fatal(err)
	}
	c.raw(string(text))
}

func (c *channel) raw(text string) {
	c.t.Helper()
	if err := c.ws.Write(c.ctx, websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// ready publishes what the page registered.
func (c *channel) ready() *channel {
	c.send(controlv1.Ready{Authority: id("chaperone"), Route: c.Register.Route, Generation: c.Register.Generation, Catalog: c.Register.Catalog.Digest(), Scope: c.Register.Catalog.Scope()})
	return c
}

// next waits for the page's next frame.
func (c *channel) next() controlv1.PageFrame {
	c.t.Helper()
	select {
	case f := <-c.frames:
		return f
	case <-time.After(15 * time.Second):
		c.t.Fatal("the page said nothing")
		return nil
	}
}

// quiet tells that the page says nothing for a while.
func (c *channel) quiet() {
	c.t.Helper()
	select {
	case f := <-c.frames:
		c.t.Errorf("the page said %#v", f)
	case <-time.After(300 * time.Millisecond):
	}
}

// result waits for the result of a call: its value, or its code.
func (c *channel) result(call string) string {
	c.t.Helper()
	f, ok := c.next().(controlv1.Result)
	if !ok || f.Call.String() != call {
		c.t.Fatalf("got %#v, want the result of %s", f, call)
	}
	switch o := f.Outcome.(type) {
	case controlv1.Success:
		if err := c.Register.Catalog.Tool(c.tools[call]).ValidOutput(o.Value); err != nil {
			c.t.Errorf("%s of %s answered %s: %v", call, c.tools[call], o.Value.Bytes(), err)
		}
		return string(o.Value.Bytes())
	case controlv1.Failure:
		return o.Code.String()
	}
	return ""
}

func (c *channel) cancelled(call string) controlv1.Effect {
	c.t.Helper()
	f, ok := c.next().(controlv1.Cancelled)
	if !ok || f.Call.String() != call {
		c.t.Fatalf("got %#v, want %s cancelled", f, call)
	}
	return f.Effect
}

// read asks for a read.
func (c *channel) reading(call, tool, arguments string) {
	c.t.Helper()
	c.send(controlv1.Call{Call: id(call), Lease: id("lease_1"), Tool: id(tool), Arguments: value(arguments), DeadlineMS: time.Now().Add(time.Minute).UnixMilli(), Authorization: controlv1.AsRead{}})
}

// question is a confirmation request of a tool that the page registered.
func (c *channel) question(call, tool, arguments string) controlv1.ConfirmationRequest {
	c.t.Helper()
	schemas := c.Register.Catalog.Tool(id(tool)).Schemas()
	if schemas.IsZero() {
		schemas = c.binding
	}
	of := controlv1.Request{Binding: c.binding, Lease: id("lease_1"), ID: id("r-" + call), Tool: id(tool), Schemas: schemas, Arguments: value(arguments)}
	request, err := of.Digest()
	if err != nil {
		c.t.Fatal(err)
	}
	confirmation, err := controlv1.ConfirmationDigest(id("policy_1"), request)
	if err != nil {
		c.t.Fatal(err)
	}
	return controlv1.ConfirmationRequest{Call: id(call), Lease: of.Lease, Request: of.ID, Tool: of.Tool, Schemas: schemas, Binding: c.binding, Policy: id("policy_1"),
		Arguments: of.Arguments, Confirmation: confirmation, Level: controlv1.AskClick{}, ExpiresMS: time.Now().Add(time.Minute).UnixMilli()}
}

// carry sends the call that a question was about.
func (c *channel) carry(q controlv1.ConfirmationRequest) {
	c.t.Helper()
	c.send(controlv1.Call{Call: q.Call, Lease: q.Lease, Tool: q.Tool, Arguments: q.Arguments, DeadlineMS: time.Now().Add(time.Minute).UnixMilli(), Authorization: controlv1.AsConfirmed{Confirmation: q.Confirmation}})
}

func (c *channel) cancel(call string) {
	c.t.Helper()
	why, _ := controlv1.ParseWord("caller_cancelled")
	c.send(controlv1.Cancel{Call: id(call), Reason: why})
}

// channel waits for the next socket.
func (a *authority) channel() *channel {
	a.b.t.Helper()
	select {
	case c := <-a.channels:
		return c
	case <-time.After(15 * time.Second):
		a.b.t.Fatal("no page opened a channel")
		return nil
	}
}

// arming opens Approvals, presses the button, and answers the channel, ready.
func arming(b *backend, p *pagetest.Page) *channel {
	b.t.Helper()
	p.Wait("document.querySelector('[data-arm=off] button')")
	p.Click("[data-arm=off] button")
	c := b.control.channel().ready()
	p.Wait("document.querySelector('[data-arm=on]')")
	return c
}

// disarm forgets what is armed, as the real authority does when a channel ends.
func (a *authority) disarm(c *channel) {
	c.ws.CloseNow()
	<-c.done
	a.mu.Lock()
	a.armed = nil
	a.mu.Unlock()
}

// armed signs in, switches the browser surface on, and arms.
func armed(b *backend, p *pagetest.Page) *channel {
	b.t.Helper()
	b.mu.Lock()
	b.enabled, b.selection = true, everything
	b.mu.Unlock()
	open(b, p, "/approvals")
	return arming(b, p)
}

const confirm = "document.querySelector('dialog[open] #confirm-accept')"

func alive(p *pagetest.Page) { p.Wait(confirm + "?.getAttribute('aria-disabled') === null") }

const newItem = `{"collection":"files","content":"a\u202eb","if_absent":true,"item":"new.txt","request_id":"` + request + `"}`

func TestArming(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	b.mu.Lock()
	b.enabled, b.selection = true, everything
	b.mu.Unlock()
	open(b, p, "/approvals")
	p.See("Not armed")
	p.See("ask you for each call")
	c := arming(b, p)
	// One document a load, one look at a time: the panel opens while the tab is arming.
	b.control.mu.Lock()
	if n := b.control.documents; n != 2 {
		t.Errorf("%d documents of two loads", n)
	}
	b.control.mu.Unlock()
	var ids []string
	for _, tl := range c.Register.Catalog.Tools() {
		ids = append(ids, tl.ID().String()+" "+string(tl.Class()))
	}
	want := "collections_list read, get-page-context read, get-selection read, item_delete account-mutation, item_read read, item_write account-mutation, items_list read, navigate local-ui-mutation"
	if got := strings.Join(ids, ", "); got != want {
		t.Errorf("registered\n%s\nwant\n%s", got, want)
	}
	p.See("Armed")
	p.Wait(`/^\d+:\d\d left$/.test(document.querySelector('.state .countdown')?.textContent)`)
	if a := p.Text(".armed"); !strings.Contains(a, "Armed") {
		t.Errorf("the bar says %q", a)
	}
	// Another page of the shell keeps it; a second tab is told that this one is armed.
	show(p, "/")
	c.reading("call_1", "get-page-context", "{}")
	if got := c.result("call_1"); got != `{"language":"en","path":"/","title":"Collections · Chaperone","visible":true}` {
		t.Errorf("the context is %s", got)
	}
	other := p.Profile.Page(pagetest.Look{})
	other.Goto(b.origin + "/approvals")
	other.See("Another tab is armed")
	show(p, "/approvals")
	p.See("get-page-context")
	p.ClickText("Disarm")
	p.See("You disarmed it.")
	<-c.done
	b.control.mu.Lock()
	if b.control.armed != nil {
		t.Error("the server wasn't told")
	}
	b.control.mu.Unlock()
	other.See("Not armed")
	other.Close()

	// A newer tab wins, and this one is told.
	c = arming(b, p)
	newer := p.Profile.Page(pagetest.Look{})
	b.control.mu.Lock()
	b.control.armed = nil
	b.control.mu.Unlock()
	newer.Goto(b.origin + "/approvals")
	second := arming(b, newer)
	p.See("Another tab is armed")
	<-c.done
	// The one that came back first is the one that left: a reload arms nothing.
	newer.Goto(b.origin + "/approvals")
	<-second.done
	newer.See("Another tab is armed")
	newer.Close()
}

// Every reason for which the authority ends a channel is told in words, and nothing
// opens it again.
func TestChannelCloses(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	type end struct {
		code  controlv1.Close
		why   refusal.Code
		words string
	}
	all := []end{
		{controlv1.CloseGoingAway, refusal.ChannelUnavailable, "The server is stopping."}, {controlv1.CloseTooLarge, refusal.TooLarge, "A message was too large."},
		{controlv1.CloseFault, refusal.Failed, "The server failed."}, {controlv1.CloseInvalid, refusal.InvalidRequest, "One side sent what the other"},
		{controlv1.CloseTimeout, refusal.TimedOut, "An answer took too long."}, {controlv1.CloseRate, refusal.RateLimited, "This page sent too much."},
	}
	for _, why := range controlv1.TrustReasons {
		words := map[refusal.Code]string{refusal.NoSession: "Your session wasn’t found.", refusal.NoArm: "wasn’t armed", refusal.ArmExpired: "Its time was over.", refusal.ArmMismatch: "isn’t the one that was armed",
			refusal.ArmReplayed: "used already", refusal.Revoked: "It was revoked", refusal.SignedOut: "You signed out.", refusal.Killed: "A kill switch is on.", refusal.RevalidationFailed: "no longer vouches"}[why]
		all = append(all, end{controlv1.CloseTrust, why, words})
	}
	for _, e := range all {
		c.close(e.code, e.why)
		p.Wait("document.querySelector('[data-arm=off]')")
		p.See(e.words)
		time.Sleep(50 * time.Millisecond)
		if len(b.control.channels) != 0 {
			t.Fatalf("after %d %s the page opened it again", e.code, e.why)
		}
		b.control.disarm(c)
		c = arming(b, p)
	}
	c.ws.CloseNow()
	p.See("The connection was lost.")
}

// A frame that isn't one closes the channel; so does a receipt of another catalog.
func TestPageRefusesFrames(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	for _, text := range []string{
		`{"protocol":"webmcp.control.v1","type":"control.cancel","call_id":"call_1","reason":"x","x":1}`,
		`{"protocol":"webmcp.control.v1","type":"control.cancel","call_id":"call_1","call_id":"call_1","reason":"x"}`,
		`{"protocol":"webmcp.control.v1","type":"control.start","call_id":"call_1"}`, `[]`, ``,
		`{"protocol":"webmcp.control.v1","type":"control.cancel","call_id":"call_1","reason":"` + strings.Repeat("x", 66_000) + `"}`,
	} {
		c.raw(text)
		<-c.done
		p.See("One side sent what the other")
		b.control.disarm(c)
		c = arming(b, p)
	}
	ready, _ := controlv1.EncodeAuthority(controlv1.Ready{Authority: id("chaperone"), Route: c.Register.Route, Generation: c.Register.Generation, Catalog: c.Register.Catalog.Digest(), Scope: c.Register.Catalog.Digest()})
	c.raw(string(ready))
	<-c.done
	p.See("One side sent what the other")
}

func TestReadsOverTheChannel(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	for name, w := range map[string]struct{ tool, arguments, want string }{
		"an item":       {"item_read", `{"collection":"files","item":"table.csv"}`, `"content":"name,value\nalpha,1\nbeta,2\n"`},
		"a long one":    {"item_read", `{"collection":"files","item":"long report.md"}`, "result_invalid"}, // this backend can't cut
		"another's":     {"item_read", `{"collection":"inbox","item":"m1"}`, "unselected_collection"},
		"invalid":       {"item_read", `{"collection":"files"}`, "invalid_input"},
		"a mutation":    {"item_write", newItem, "not_started"},
		"no such tool":  {"item_burn", `{}`, "unknown_tool"},
		"the selection": {"get-selection", `{}`, `{"text":"","truncated":false}`},
	} {
		call := "call_" + strings.ReplaceAll(name, " ", "_")
		call = strings.ReplaceAll(call, "'", "")
		c.reading(call, w.tool, w.arguments)
		if got := c.result(call); !strings.Contains(got, w.want) {
			t.Errorf("%s: %s, want %s", name, got, w.want)
		}
		// The same call again executes nothing, and says nothing.
		c.reading(call, w.tool, w.arguments)
	}
	c.quiet()
	// A read that a confirmation is claimed for isn't one.
	c.send(controlv1.Call{Call: id("call_c"), Lease: id("lease_1"), Tool: id("item_read"), Arguments: value(`{}`), DeadlineMS: time.Now().Add(time.Minute).UnixMilli(), Authorization: controlv1.AsConfirmed{Confirmation: c.binding}})
	if got := c.result("call_c"); got != "not_started" {
		t.Errorf("a confirmed read: %s", got)
	}
	// Past its deadline, nothing begins.
	c.send(controlv1.Call{Call: id("call_d"), Lease: id("lease_1"), Tool: id("items_list"), Arguments: value(`{"collection":"files"}`), DeadlineMS: time.Now().Add(-5 * time.Second).UnixMilli(), Authorization: controlv1.AsRead{}})
	if got := c.result("call_d"); got != "not_started" {
		t.Errorf("a late read: %s", got)
	}
	// Rows that don't fit are asked for again, fewer, so that the server's own cursor
	// tells of the rest.
	var limits []string
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var in struct {
			Arguments struct {
				Limit int `json:"limit"`
			} `json:"arguments"`
		}
		_ = json.Unmarshal(text, &in)
		n := in.Arguments.Limit
		if n == 0 {
			n = 50
		}
		limits = append(limits, string(text))
		out := tool.ItemsResult{NextCursor: "c" + strings.Repeat("x", 60)}
		for range n {
			out.Items = append(out.Items, tool.Item{Item: strings.Repeat("é", 40), Title: "t", Version: "v1", MediaType: "text/plain"})
		}
		answer(w, 200, out)
	})
	c.reading("call_l", "items_list", `{"collection":"files"}`)
	got := c.result("call_l")
	if n := strings.Count(got, `"version"`); n < 4 || len(got) > controlv1.MaxResult || !strings.Contains(got, `"next_cursor":"cxx`) {
		t.Errorf("%d rows in %d bytes: %s (asked %q)", n, len(got), got, limits)
	}
	b.intercept("POST /api/automation/execute", nil)
	// Marked text is told, but never what is shown once.
	show(p, "/settings")
	p.Eval(`getSelection().selectAllChildren(document.querySelector('main h1')); 0`, nil)
	c.reading("call_s", "get-selection", `{}`)
	if got := c.result("call_s"); got != `{"text":"Settings","truncated":false}` {
		t.Errorf("the selection is %s", got)
	}
	p.Eval(`document.querySelector('main h1').classList.add('secret'); 0`, nil)
	c.reading("call_t", "get-selection", `{}`)
	if got := c.result("call_t"); got != `{"text":"","truncated":false}` {
		t.Errorf("the selection of a secret is %s", got)
	}
}
