package site_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/refusal"
)

// A confirmation shows everything that it is over, executes nothing, and takes no
// press but one of the browser's own input.
func TestConfirmationShowsEverything(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	q := c.question("call_1", "item_write", newItem)
	c.send(q)
	alive(p)
	text := p.Text("dialog")
	for _, want := range []string{"An agent asks for a call", "Nothing has been sent yet.", "Write an item", "item_write", "your account", "Notes assistant", "hmac:1111", "lease_1", "until ", "call_1", "r-call_1",
		"Approvals · Chaperone", b.origin, "Files", "none: the item is new", "a⟦U+202E⟧b", "One hidden character", "if_absent", request,
		q.Confirmation.String(), q.Schemas.String(), "policy_1", "recorded as a visible click", "This closes in "} {
		if !strings.Contains(text, want) {
			t.Errorf("the dialog lacks %q:\n%s", want, text)
		}
	}
	for _, never := range []string{"human", "approve", "by you", "always"} {
		if strings.Contains(strings.ToLower(text), never) {
			t.Errorf("the dialog says %q:\n%s", never, text)
		}
	}
	if len(b.done()) != 0 {
		t.Error("something took effect before the confirmation")
	}
	for _, script := range []string{
		confirm + ".click()", confirm + ".form.requestSubmit()", confirm + ".form.requestSubmit(" + confirm + ")", confirm + ".form.submit", confirm + ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
		confirm + ".form.dispatchEvent(new SubmitEvent('submit', {submitter: " + confirm + ", bubbles: true, cancelable: true}))",
		confirm + ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))",
	} {
		p.Eval(script+"; 0", nil)
		p.EvalAsUser(script+"; 0", nil)
	}
	c.quiet()
	// What stands in the document decides nothing.
	p.Eval(`for (const e of document.querySelectorAll('dialog pre, dialog code')) e.textContent = 'other'; `+confirm+`.form.insertAdjacentElement('beforeend', Object.assign(document.createElement('input'), {name: 'arguments', value: '{}'})); 0`, nil)
	p.ClickOn(confirm)
	f, ok := c.next().(controlv1.Confirm)
	if !ok || f.Call != q.Call || f.Confirmation != q.Confirmation || !f.Assertion.IsZero() {
		t.Fatalf("the page said %#v", f)
	}
	c.quiet()
	if len(b.done()) != 0 {
		t.Error("the confirmation itself took effect")
	}
	c.carry(q)
	if got := c.result("call_1"); !strings.Contains(got, `"outcome":"created"`) || strings.Contains(got, `"ok"`) {
		t.Errorf("the call answered %s", got)
	}
	if done := b.done(); len(done) != 1 || done[0] != `{"collection":"files","content":"a`+"\u202e"+`b","if_absent":true,"item":"new.txt","request_id":"`+request+`"}` {
		t.Errorf("took effect: %q", done)
	}
	// Neither the same call nor the same question does anything again.
	c.carry(q)
	c.send(q)
	c.quiet()
	p.See("succeeded")
	if len(b.done()) != 1 {
		t.Errorf("took effect: %q", b.done())
	}
}

func TestConfirmationIsDenied(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	for i, deny := range []func(){func() { p.ClickText("Deny") }, func() { p.Press("Escape") }} {
		call := fmt.Sprint("call_", i)
		q := c.question(call, "navigate", `{"path":"/audit"}`)
		c.send(q)
		alive(p)
		deny()
		if e := c.cancelled(call); e != controlv1.NoEffect {
			t.Errorf("denied with the effect %s", e)
		}
		c.carry(q) // comes all the same
		c.quiet()
	}
	// A press on a form that has only just appeared is none.
	c.send(c.question("call_q", "navigate", `{"path":"/audit"}`))
	p.Wait(confirm)
	p.ClickOn(confirm)
	time.Sleep(50 * time.Millisecond)
	p.Press("Escape")
	if e := c.cancelled("call_q"); e != controlv1.NoEffect {
		t.Errorf("the effect is %s", e)
	}
	// Nobody answers in time: the authority's own clock ends it, the page only closes.
	q := c.question("call_e", "navigate", `{"path":"/audit"}`)
	q.ExpiresMS = time.Now().Add(1500 * time.Millisecond).UnixMilli()
	c.send(q)
	p.Wait(confirm)
	p.Wait("!document.querySelector('dialog')")
	p.See("no answer in time")
	c.quiet()
	var at string
	if p.Eval("location.pathname", &at); at != "/approvals" {
		t.Errorf("the page went to %s", at)
	}
}

// What the page can't vouch for isn't shown, and has no effect.
func TestConfirmationIsRefused(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	path := `{"path":"/audit"}`
	for name, change := range map[string]func(*controlv1.ConfirmationRequest){
		"other_arguments": func(q *controlv1.ConfirmationRequest) { q.Arguments = value(`{"path":"/settings"}`) },
		"other_lease":     func(q *controlv1.ConfirmationRequest) { q.Lease = id("lease_2") },
		"other_request":   func(q *controlv1.ConfirmationRequest) { q.Request = id("r2") },
		"other_binding":   func(q *controlv1.ConfirmationRequest) { q.Binding = digest("sha256:" + strings.Repeat("00", 32)) },
		"other_policy":    func(q *controlv1.ConfirmationRequest) { q.Policy = id("policy_2") },
		"other_schema":    func(q *controlv1.ConfirmationRequest) { q.Schemas = c.binding },
	} {
		q := c.question("call_"+name, "navigate", path)
		change(&q)
		c.send(q)
		if code := c.result("call_" + name); !controlv1.NothingBegan(refusal.Code(code)) {
			t.Errorf("%s: %s", name, code)
		}
	}
	for call, q := range map[string]controlv1.ConfirmationRequest{
		"call_t": c.question("call_t", "item_burn", "{}"), "call_r": c.question("call_r", "items_list", `{"collection":"files"}`),
	} {
		c.send(q)
		if code := c.result(call); !controlv1.NothingBegan(refusal.Code(code)) {
			t.Errorf("%s: %s", call, code)
		}
	}
	if p.Text("dialog") != "" {
		t.Error("something is asked")
	}
	// What the server wouldn't do, nobody is asked for.
	c.send(c.question("call_s", "item_write", `{"collection":"inbox","item":"m1","content":"x","if_absent":true,"request_id":"`+request+`"}`))
	if code := c.result("call_s"); !controlv1.NothingBegan(refusal.Code(code)) {
		t.Errorf("%s: %s", "call_s", code)
	}
	p.See("was refused before you were asked: unselected_collection")

	// A call that isn't the one that was confirmed runs nothing, in whatever it differs.
	for name, change := range map[string]func(*controlv1.Call){
		"arguments":    func(f *controlv1.Call) { f.Arguments = value(`{"path":"/settings"}`) },
		"tool":         func(f *controlv1.Call) { f.Tool = id("item_write") },
		"lease":        func(f *controlv1.Call) { f.Lease = id("lease_2") },
		"confirmation": func(f *controlv1.Call) { f.Authorization = controlv1.AsConfirmed{Confirmation: c.binding} },
		"as_a_read":    func(f *controlv1.Call) { f.Authorization = controlv1.AsRead{} },
		"unasked":      func(f *controlv1.Call) { f.Call = id("call_nobody") },
		"late":         func(f *controlv1.Call) { f.DeadlineMS = time.Now().Add(-4 * time.Second).UnixMilli() },
	} {
		q := c.question("call_c_"+name, "navigate", path)
		c.send(q)
		alive(p)
		p.ClickOn(confirm)
		if _, ok := c.next().(controlv1.Confirm); !ok {
			t.Fatal("not confirmed")
		}
		f := controlv1.Call{Call: q.Call, Lease: q.Lease, Tool: q.Tool, Arguments: q.Arguments, DeadlineMS: time.Now().Add(time.Minute).UnixMilli(), Authorization: controlv1.AsConfirmed{Confirmation: q.Confirmation}}
		change(&f)
		c.send(f)
		if got := c.result(f.Call.String()); got != "not_started" {
			t.Errorf("%s: %s", name, got)
		}
	}
	var at string
	if p.Eval("location.pathname", &at); at != "/approvals" || len(b.done()) != 0 {
		t.Errorf("the page went to %s, took effect: %q", at, b.done())
	}
	// Called before it is confirmed, it is over, and its dialog is gone.
	q := c.question("call_early", "navigate", path)
	c.send(q)
	alive(p)
	c.carry(q)
	if got := c.result("call_early"); got != "not_started" {
		t.Errorf("called unconfirmed: %s", got)
	}
	p.Wait("!document.querySelector('dialog')")
	c.quiet()
	// Exactly confirmed, it goes, once, and within the shell alone.
	for path, want := range map[string]string{"/audit": `{"path":"/audit"}`, "/connect/abc": "arguments_invalid", "//evil.example": "arguments_invalid", "/nowhere": "arguments_invalid", "/assets/x": "arguments_invalid"} {
		call := "call_go_" + strings.Trim(strings.ReplaceAll(strings.ReplaceAll(path, "/", "_"), ".", "_"), "_")
		q := c.question(call, "navigate", `{"path":"`+path+`"}`)
		c.send(q)
		alive(p)
		p.ClickOn(confirm)
		c.next()
		c.carry(q)
		if got := c.result(call); got != want {
			t.Errorf("to %s: %s, want %s", path, got, want)
		}
	}
}

// Eight wait, one at a time; a ninth is refused.
func TestConfirmationsQueue(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	for i := range 9 {
		c.send(c.question(fmt.Sprint("call_", i), "navigate", fmt.Sprintf(`{"path":"/audit?n=%d"}`, i)))
	}
	if code := c.result("call_8"); code != "busy" {
		t.Errorf("the ninth: %s", code)
	}
	for i := range 8 {
		p.Wait(fmt.Sprintf("document.querySelector('dialog')?.innerText.includes('/audit?n=%d')", i))
		alive(p)
		var open int
		if p.Eval("document.querySelectorAll('dialog').length", &open); open != 1 {
			t.Errorf("%d dialogs", open)
		}
		if i == 3 { // one that was cancelled isn't shown any more
			c.cancel("call_4")
			if e := c.cancelled("call_4"); e != controlv1.NoEffect {
				t.Errorf("effect %s", e)
			}
		}
		if i == 4 {
			t.Fatal("the cancelled one is shown")
		}
		p.ClickOn(confirm)
		if f, ok := c.next().(controlv1.Confirm); !ok || f.Call.String() != fmt.Sprint("call_", i) {
			t.Fatalf("%d: %#v", i, f)
		}
		if i == 3 {
			break
		}
	}
	// The review of this browser's own tools waits its turn too.
	p.Wait("document.querySelector('dialog')?.innerText.includes('/audit?n=5')")
	own := p.Invoke("item_write", write("own.txt"))
	time.Sleep(100 * time.Millisecond)
	for i := 5; i < 8; i++ {
		p.Wait(fmt.Sprintf("document.querySelector('dialog')?.innerText.includes('/audit?n=%d')", i))
		p.Press("Escape")
		if e := c.cancelled(fmt.Sprint("call_", i)); e != controlv1.NoEffect {
			t.Errorf("effect %s", e)
		}
	}
	p.See("A tool asks to write")
	p.Press("Escape")
	own.Result()
}

// A document that nobody looks at asks nothing; reads go on.
func TestConfirmationWaitsUnseen(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	see := func(state string) {
		p.Eval(`Object.defineProperty(document, 'visibilityState', {configurable: true, get: () => '`+state+`'}); document.dispatchEvent(new Event('visibilitychange')); 0`, nil)
	}
	see("hidden")
	c.send(c.question("call_1", "navigate", `{"path":"/audit"}`))
	c.reading("call_2", "items_list", `{"collection":"files"}`)
	if got := c.result("call_2"); !strings.Contains(got, "table.csv") {
		t.Errorf("a read while it is hidden: %s", got)
	}
	if p.Text("dialog") != "" {
		t.Error("a hidden document asks")
	}
	see("visible")
	alive(p)
	see("hidden")
	p.Wait(confirm + ".getAttribute('aria-disabled') === 'true'")
	p.ClickOn(confirm)
	c.quiet()
	see("visible")
	alive(p)
	p.ClickOn(confirm)
	if _, ok := c.next().(controlv1.Confirm); !ok {
		t.Error("not confirmed")
	}
	// Left, the channel is closed.
	p.Eval("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true})); 0", nil)
	<-c.done
}

func TestCancelOverTheChannel(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	// Before anything: it mustn't come any more either.
	c.cancel("call_0")
	if e := c.cancelled("call_0"); e != controlv1.NoEffect {
		t.Errorf("an unknown call: %s", e)
	}
	c.reading("call_0", "items_list", `{"collection":"files"}`)
	c.quiet()
	// While the person is asked, and once they have confirmed.
	q := c.question("call_1", "item_write", newItem)
	c.send(q)
	alive(p)
	c.cancel("call_1")
	if e := c.cancelled("call_1"); e != controlv1.NoEffect {
		t.Errorf("while it was asked: %s", e)
	}
	p.Wait("!document.querySelector('dialog')")
	q = c.question("call_2", "item_write", newItem)
	c.send(q)
	alive(p)
	p.ClickOn(confirm)
	c.next()
	c.cancel("call_2")
	if e := c.cancelled("call_2"); e != controlv1.NoEffect {
		t.Errorf("once confirmed: %s", e)
	}
	c.carry(q)
	c.quiet()
	// While it runs nobody knows, and the request is stopped.
	release := make(chan struct{})
	came := b.holdExecute(release)
	q = c.question("call_3", "item_write", newItem)
	c.send(q)
	alive(p)
	p.ClickOn(confirm)
	c.next()
	c.carry(q)
	<-came
	c.cancel("call_3")
	if e := c.cancelled("call_3"); e != controlv1.UnknownEffect {
		t.Errorf("while it ran: %s", e)
	}
	c.cancel("call_3")
	c.quiet()
	// A result that comes wins.
	p.Eval(`(() => { const own = window.fetch; window.fetch = (...a) => String(a[0]).endsWith('/execute') ? new Promise(done => setTimeout(() => done(new Response('{"items":[]}', {headers: {'Content-Type': 'application/json'}})), 700)) : own(...a); window.unfetch = () => { window.fetch = own; }; })()`, nil)
	c.reading("call_4", "items_list", `{"collection":"files"}`)
	p.See("running")
	c.cancel("call_4")
	if got := c.result("call_4"); got != `{"items":[]}` {
		t.Errorf("the result was %s", got)
	}
	p.Eval("unfetch()", nil)
	// After its deadline a tool is stopped, without a cancel.
	came = b.holdExecute(release)
	c.send(controlv1.Call{Call: id("call_5"), Lease: id("lease_1"), Tool: id("items_list"), Arguments: value(`{"collection":"files"}`), DeadlineMS: time.Now().Add(time.Second).UnixMilli(), Authorization: controlv1.AsRead{}})
	<-came
	if got := c.result("call_5"); got != "unknown_outcome" {
		t.Errorf("past its deadline: %s", got)
	}
	close(release)
	// Too large, or a value that JSON can't hold exactly: the call fails by itself.
	for call, body := range map[string]m{"call_6": {"items": strings.Repeat("x", 2000)}, "call_7": {"items": 1.5}} {
		b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, body) })
		c.reading(call, "items_list", `{"collection":"files"}`)
		if got := c.result(call); got != "result_invalid" {
			t.Errorf("%s: %s", call, got)
		}
	}
	b.intercept("POST /api/automation/execute", nil)
	// Many answers at once stay under the authority's rate.
	begun := time.Now()
	for i := range 60 {
		c.reading(fmt.Sprint("call_many_", i), "get-page-context", "{}")
	}
	for range 60 {
		c.next()
	}
	if took := time.Since(begun); took < 1500*time.Millisecond {
		t.Errorf("60 frames left in %v", took)
	}
}

// A passkey is asked for by the same press, with what the authority named.
func TestConfirmationByPasskey(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	p.Authenticator()
	var key string
	p.Eval(`(async () => { const made = await navigator.credentials.create({publicKey: {rp: {id: 'localhost', name: 'x'}, user: {id: new Uint8Array([1]), name: 'a', displayName: 'a'}, challenge: new Uint8Array(32), pubKeyCredParams: [{type: 'public-key', alg: -7}], authenticatorSelection: {userVerification: 'required'}}}); return made.id; })()`, &key)
	ask := func(call, item string) controlv1.ConfirmationRequest {
		q := c.question(call, "item_delete", `{"collection":"files","if_version":"v1","item":"`+item+`","request_id":"`+request+`"}`)
		challenge, _ := controlv1.ParseBase64(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("c", 32))))
		rp, _ := controlv1.ParseRPID("localhost")
		id, err := controlv1.ParseBase64(key)
		if err != nil {
			t.Fatal(err)
		}
		q.Level = controlv1.AskPasskey{Challenge: challenge, RPID: rp, Keys: []controlv1.Base64{id}}
		c.send(q)
		alive(p)
		return q
	}
	q := ask("call_1", "table.csv")
	p.See("It needs your passkey")
	p.ClickText("Confirm with a passkey")
	f, ok := c.next().(controlv1.Confirm)
	if !ok || f.Confirmation != q.Confirmation || f.Assertion.IsZero() {
		t.Fatalf("the page said %#v", f)
	}
	var assertion struct {
		ID       string `json:"id"`
		Response struct {
			Data string `json:"clientDataJSON"`
			Auth string `json:"authenticatorData"`
		} `json:"response"`
	}
	if err := json.Unmarshal(f.Assertion.Bytes(), &assertion); err != nil {
		t.Fatal(err)
	}
	client, _ := base64.RawURLEncoding.DecodeString(assertion.Response.Data)
	auth, _ := base64.RawURLEncoding.DecodeString(assertion.Response.Auth)
	if assertion.ID != key || !strings.Contains(string(client), `"challenge":"`+base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("c", 32)))+`"`) || len(auth) < 33 || auth[32]&4 == 0 {
		t.Errorf("the assertion is of %s over %s, flags %v", assertion.ID, client, auth)
	}
	c.carry(q)
	if got := c.result("call_1"); !strings.Contains(got, `"outcome":"deleted"`) {
		t.Errorf("answered %s", got)
	}
	// Without one nothing is confirmed: it is asked again, until it is denied.
	p.Eval("navigator.credentials.get = () => Promise.reject(new DOMException('', 'NotAllowedError')); 0", nil)
	ask("call_2", "hostile.html")
	p.ClickText("Confirm with a passkey")
	p.See("No passkey was used.")
	c.quiet()
	p.ClickText("Deny")
	if e := c.cancelled("call_2"); e != controlv1.NoEffect {
		t.Errorf("denied with %s", e)
	}
}

// Another selection ends what was armed; so does signing out, here and elsewhere.
func TestArmEndsWithWhatItStandsOn(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	c := armed(b, p)
	show(p, "/automation")
	p.ClickText("Switch off")
	<-c.done
	b.switched(false)
	show(p, "/approvals")
	p.See("What the tools may use was changed.")
	p.See("Switch on the browser surface to arm")
	b.control.mu.Lock()
	b.control.armed = nil
	b.control.mu.Unlock()
	c = arming(b, p)
	if n := c.Register.Catalog.Len(); n != 3 {
		t.Errorf("%d tools", n)
	}
	p.Offline(true)
	<-c.done
	p.See("This browser went offline.")
	p.Offline(false)
	b.control.mu.Lock()
	b.control.armed = nil
	b.control.mu.Unlock()
	c = arming(b, p)
	c.send(c.question("call_1", "navigate", `{"path":"/audit"}`))
	alive(p)
	other := p.Profile.Page(pagetest.Look{})
	other.Goto(b.origin + "/")
	other.See("Collections")
	other.Click(".who button")
	<-c.done
	p.See("Sign in")
}

// The kill switch, and the record of what was.
func TestKillSwitch(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/approvals")
	p.See("Notes assistant")
	p.See("done, says the page")
	p.See("visible click")
	p.See("You were asked 2 times")
	p.ClickText("Stop all agents")
	p.Wait("document.querySelector('dialog .danger')")
	p.Click("dialog .danger")
	p.See("everything of yours")
	p.See("Not settled yet: 1")
	p.ClickText("Allow again")
	p.See("Nothing is stopped.")
}

// Both languages: what is asked, and why a channel ended.
func TestConfirmationInSpanish(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{Language: "es"})
	c := armed(b, p)
	p.See("Armada")
	c.send(c.question("call_1", "item_write", newItem))
	alive(p)
	for _, want := range []string{"Un agente pide una llamada", "Aún no se ha enviado nada.", "tu cuenta", "Se registra como un clic visible", "Confirmar esta llamada", "Exactamente lo que se enviará"} {
		if !strings.Contains(p.Text("dialog"), want) {
			t.Errorf("the dialog lacks %q:\n%s", want, p.Text("dialog"))
		}
	}
	p.ClickText("Denegar")
	if e := c.cancelled("call_1"); e != controlv1.NoEffect {
		t.Errorf("effect %s", e)
	}
	p.See("denegada")
	c.close(controlv1.CloseTrust, refusal.ArmExpired)
	p.See("Se acabó su tiempo.")
}
