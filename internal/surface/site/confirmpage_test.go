package site_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
)

// decisions is what waits for the person's word on the authority's own origin, as the
// owner API tells it, and what they said.
type decisions struct {
	mu   sync.Mutex // guards what follows
	asks []m
	said []string
}

func (d *decisions) routes() map[string]func(http.ResponseWriter, *http.Request) {
	return map[string]func(http.ResponseWriter, *http.Request){
		"GET /api/confirmations": func(w http.ResponseWriter, _ *http.Request) {
			d.mu.Lock()
			defer d.mu.Unlock()
			answer(w, 200, m{"confirmations": append([]m{}, d.asks...)})
		},
		"POST /api/confirmations/{call}": d.decide, "DELETE /api/confirmations/{call}": d.decide,
	}
}

func (d *decisions) decide(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Confirmation string `json:"confirmation_digest"`
	}
	if err := json.UnmarshalRead(r.Body, &in, json.RejectUnknownMembers(true)); r.Method == "POST" && err != nil {
		refuse(w, 400, "bad_document", nil)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.asks, func(a m) bool { return a["call_id"] == r.PathValue("call") })
	if at < 0 {
		refuse(w, 404, "unknown_call", nil)
		return
	}
	d.said = append(d.said, strings.TrimSpace(r.Method+" "+r.PathValue("call")+" "+in.Confirmation))
	d.asks = slices.Delete(d.asks, at, at+1)
	answer(w, 200, m{"state": "dispatched"})
}

func (d *decisions) ask(a m) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = append(d.asks, a)
}

func (d *decisions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = nil
}

func (d *decisions) heard() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.said)
}

const shopOrigin = "https://shop.example.com"

// wanted is a confirmation of a shop's page, with edits.
func wanted(t *testing.T, call string, edits m) m {
	t.Helper()
	some := digest("sha256:" + strings.Repeat("ab", 32))
	of := controlv1.Request{Binding: some, Lease: id("lease_1"), ID: id("r-" + call), Tool: id("pay"), Schemas: some, Arguments: value(`{"10":"x","9":"a\u202eb","amount":12}`)}
	request, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	confirmation, err := controlv1.ConfirmationDigest(id("policy_1"), request)
	if err != nil {
		t.Fatal(err)
	}
	out := m{"call_id": call, "lease_id": "lease_1", "request_id": "r-" + call, "tool_id": "pay", "mutation_class": "account-mutation",
		"agent":  m{"agent_ref": "hmac:" + strings.Repeat("1", 64), "name": "Notes \u202Eassistant"},
		"origin": shopOrigin, "route_id": "page", "schema_digest": some.String(), "binding_digest": some.String(), "policy_reference": "policy_1",
		"arguments": m{"10": "x", "9": "a\u202eb", "amount": 12}, "confirmation_digest": confirmation.String(), "level": "visible_click",
		"expires_at_ms": time.Now().Add(time.Minute).UnixMilli()}
	maps.Copy(out, edits)
	return out
}

// What a page of another site asks is decided here: found in Approvals, shown whole
// with who asks first, taken from a trusted press alone, and told how it ended.
func TestConfirmPage(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/approvals")
	b.decisions.ask(wanted(t, "call_own", m{"origin": b.origin}))
	b.decisions.ask(wanted(t, "call_1", nil))
	p.Wait("document.querySelectorAll('[data-waiting]').length === 1")
	p.Eval("document.querySelector('[data-waiting=call_1] a').focus(); 0", nil)
	p.Press("Enter")
	alive(p)
	text := p.Text("dialog")
	at := -1
	for _, want := range []string{shopOrigin, "pay", "your account", "Notes ⟦U+202E⟧assistant", "until ", "call_1", "a⟦U+202E⟧b", "policy_1", "recorded as a visible click"} {
		i := strings.Index(text, want)
		if i < 0 {
			t.Fatalf("the dialog lacks %q:\n%s", want, text)
		}
		if i < at {
			t.Errorf("%q stands before what it should follow:\n%s", want, text)
		}
		at = i
	}
	for _, script := range []string{confirm + ".click()", confirm + ".form.requestSubmit(" + confirm + ")", "document.querySelector('#confirm-decline').form.requestSubmit()"} {
		p.Eval(script+"; 0", nil)
		p.EvalAsUser(script+"; 0", nil)
	}
	if said := b.decisions.heard(); len(said) != 0 {
		t.Errorf("a script said %q", said)
	}
	p.ClickOn(confirm)
	p.See("What became of it")
	if said := b.decisions.heard(); len(said) != 1 || said[0] != "POST call_1 "+wanted(t, "call_1", nil)["confirmation_digest"].(string) {
		t.Errorf("said %q", said)
	}

	b.decisions.ask(wanted(t, "call_0", nil))
	show(p, "/confirm/call_0")
	alive(p)
	p.ClickText("Deny")
	p.Wait("document.querySelector('[data-call=succeeded]')") // what this record tells of it
	if said := b.decisions.heard(); len(said) != 2 || said[1] != "DELETE call_0" {
		t.Errorf("said %q", said)
	}

	// What is cancelled while it is on view is closed, and nothing is said.
	b.decisions.ask(wanted(t, "call_00", nil))
	show(p, "/confirm/call_00")
	p.Wait(confirm)
	b.decisions.forget()
	p.Wait("!document.querySelector('dialog') && document.querySelector('[data-call=failed]')")
	p.See("result_invalid")

	// A passing of time is no word either.
	b.decisions.ask(wanted(t, "call_00", m{"expires_at_ms": time.Now().Add(1500 * time.Millisecond).UnixMilli()}))
	show(p, "/confirm/call_00")
	p.Wait("!document.querySelector('dialog') && document.querySelector('[data-call=failed]')")
	b.decisions.forget()

	// What isn't what its digest says, or isn't readable, is never asked.
	for _, broken := range []struct {
		edits m
		words string
	}{
		{m{"arguments": m{"amount": 13}}, "request_conflict"}, {m{"tool_id": "stock"}, "request_conflict"}, {m{"policy_reference": "other"}, "request_conflict"},
		{m{"level": "passkey"}, "bad_answer"}, {m{"arguments": "none"}, "bad_answer"}, {m{"origin": "javascript:0"}, "bad_answer"}, {m{"mutation_class": "read"}, "bad_answer"},
	} {
		b.decisions.forget()
		b.decisions.ask(wanted(t, "call_b", broken.edits))
		show(p, "/confirm/call_b")
		p.See(broken.words)
		var asking bool
		if p.Eval("document.querySelector('dialog') !== null", &asking); asking {
			t.Errorf("%v is asked", broken.edits)
		}
	}
	b.decisions.ask(wanted(t, "call_own", m{"origin": b.origin}))
	show(p, "/confirm/call_own")
	p.See("is asked in the tab that you armed")
	show(p, "/confirm/call_nobodys")
	p.See("doesn’t wait for you here")
	if said := b.decisions.heard(); len(said) != 2 {
		t.Errorf("said %q", said)
	}
}

// Who isn't signed in signs in first, and comes back to the same call. The dialog is
// as accessible as any, and an agent's navigation never leads there.
func TestConfirmPageSignsIn(t *testing.T) {
	b := start(t)
	b.decisions.ask(wanted(t, "call_1", nil))
	engine := pagetest.Start(t)
	for _, look := range []pagetest.Look{{Still: true}, {Dark: true, Width: 320, Language: "es", Still: true}} {
		p := engine.Page(look)
		p.BypassPolicy(true)
		p.Goto(b.origin + "/confirm/call_1")
		p.Wait("document.querySelector('.signin a.primary')")
		p.Click(".signin a.primary")
		alive(p)
		for _, found := range p.Axe() {
			t.Errorf("dark=%v: %s", look.Dark, found)
		}
		p.Eval("document.querySelector('dialog form').scrollIntoView(); 0", nil)
		p.Save("../../../out/screens/confirm-elsewhere-" + map[bool]string{true: "320-dark-es", false: "1280-light-en"}[look.Dark] + ".png")
		p.Profile.Page(look).Close()
		p.Close()
	}
	p := engine.Page(pagetest.Look{})
	c := armed(b, p)
	c.send(c.question("call_n", "navigate", `{"path":"/confirm/call_1"}`))
	alive(p)
	p.ClickOn(confirm)
	c.next()
	c.carry(c.question("call_n", "navigate", `{"path":"/confirm/call_1"}`))
	if got := c.result("call_n"); got != "arguments_invalid" {
		t.Errorf("navigation to a confirmation answered %s", got)
	}
}
