package site_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/refusal"
)

// theirs is a page that isn't ours: it has registered tools of its own with the
// browser, and one script of ours.
const theirs = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A shop</title></head><body><main><h1>A shop</h1></main><script type="module">
	const add = (t) => document.modelContext.registerTool(t);
	window.paid = [];
	await add({name: 'pay', title: 'Pay \u202Eyap', description: 'Pays.', inputSchema: {type: 'object', properties: {amount: {type: 'integer'}}}, execute: async (i) => { paid.push(i.amount); return {paid: i.amount}; }});
	await add({name: 'stock', description: 'Lists.', annotations: {readOnlyHint: true}, execute: async () => ({items: [1, 2]})});
	await add({name: 'text', description: 'Says.', execute: () => 'plain words'});
	await add({name: 'void', description: 'Nothing.', execute: () => undefined});
	await add({name: 'breaks', description: 'Throws.', execute: () => { throw new Error('secret detail'); }});
	await add({name: 'says_no', description: 'Refuses.', execute: () => ({isError: true, code: 'out_of_stock', detail: 'x'})});
	await add({name: 'huge', description: 'Much.', execute: () => ({text: 'x'.repeat(3000)})});
	await add({name: 'half', description: 'A float.', execute: () => ({n: 0.5})});
	await add({name: 'slow', description: 'Waits.', execute: (i, o) => new Promise(done => { window.letGo = () => done({late: true}); o.signal.addEventListener('abort', () => { window.aborted = true; }); })});
	await add({name: 'floats', description: 'Its schema has one.', inputSchema: {type: 'object', properties: {n: {type: 'number', minimum: 0.5}}}, execute: () => 1});
	await add({name: 'twin', description: 'Alike.', execute: () => 1});
	await add({name: 'Twin', description: 'Alike.', execute: () => 1});
</script><script src="/attended.js" type="module"></script></body></html>`

func (b *backend) shop(html string) {
	b.intercept("GET /theirs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// A page that allows its own scripts and nothing inline by our hand: no style of
		// ours may need more.
		w.Header().Set("Content-Security-Policy", "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self'; require-trusted-types-for 'script'")
		fmt.Fprint(w, html)
	})
}

// panel is an element of the floating panel.
func panel(selector string) string {
	return "document.querySelector('[data-chaperone]')?.shadowRoot.querySelector(" + pagetest.Quote(selector) + ")"
}

func says(p *pagetest.Page, words string) {
	p.Wait(panel(".body") + "?.textContent.includes(" + pagetest.Quote(words) + ")")
}

func TestForeignPage(t *testing.T) {
	b := start(t)
	b.shop(theirs)
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Goto(b.origin + "/theirs")
	p.Wait(panel(".face") + "?.textContent === 'Sign in'")
	p.ClickOn(panel(".face"))
	p.ClickOn(panel("a"))
	p.Wait("location.pathname === '/theirs' && " + panel(".face") + "?.textContent === 'Not armed'")
	p.ClickOn(panel(".face"))
	says(p, "9 tools: ")
	says(p, "3 tools can’t be offered: ")
	// A script's click arms nothing.
	p.Eval(panel("button.primary")+".click(); 0", nil)
	time.Sleep(100 * time.Millisecond)
	p.ClickOn(panel("button.primary"))
	c := b.control.channel().ready()
	p.Wait(panel(".face") + "?.textContent === 'Armed'")
	p.ClickOn(panel(".face"))
	says(p, " left")
	if got := c.Register.Route.String(); got != "page" {
		t.Errorf("the route is %s", got)
	}
	for _, tl := range c.Register.Catalog.Tools() {
		if tl.Class() != controlv1.AccountMutation || tl.SourceRef() != "webmcp" {
			t.Errorf("%s is %s of %s", tl.ID(), tl.Class(), tl.SourceRef())
		}
	}
	// Without a page of the authority's to confirm on, nothing is confirmed, and the
	// person is told.
	says(p, "this server has no page yet")
	q := c.question("call_1", "pay", `{"amount":12}`)
	c.send(q)
	if code := c.result("call_1"); !controlv1.NothingBegan(refusal.Code(code)) {
		t.Errorf("the call: %s", code)
	}
	c.carry(q)
	c.quiet()
	says(p, "confirmation_unavailable")
	// A hint of the page's own lowers no class.
	c.reading("call_2", "stock", `{}`)
	if got := c.result("call_2"); got != "not_started" {
		t.Errorf("a read by its own hint: %s", got)
	}
	p.ClickOn(panel("button.danger"))
	<-c.done
	says(p, "You disarmed it.")
	var paid []int
	if p.Eval("paid", &paid); len(paid) != 0 {
		t.Errorf("paid %v", paid)
	}
}

// With the operator's word for what reads, and the authority's address for what
// doesn't, calls run the page's own tools.
func TestForeignCalls(t *testing.T) {
	b := start(t)
	b.shop(theirs)
	b.intercept("POST /api/browser-control/document", func(w http.ResponseWriter, r *http.Request) {
		b.control.mu.Lock()
		b.control.documents++
		b.control.mu.Unlock()
		answer(w, 200, m{"authority": b.origin, "reads": []string{"stock", "text", "void", "breaks", "says_no", "huge", "half", "slow"}})
	})
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Goto(b.origin + "/auth/login?next=/theirs")
	p.Wait(panel(".face") + "?.textContent === 'Not armed'")
	p.ClickOn(panel(".face"))
	p.ClickOn(panel("button.primary"))
	c := b.control.channel().ready()
	p.Wait(panel(".face") + "?.textContent === 'Armed'")
	p.ClickOn(panel(".face"))
	for name, want := range map[string]string{
		"stock": `{"items":[1,2]}`, "text": `"plain words"`, "void": "null", "breaks": "browser_execution_failed", "says_no": "out_of_stock", "huge": "result_invalid", "half": "result_invalid",
	} {
		c.reading("call_"+name, name, `{}`)
		if got := c.result("call_" + name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, f := range p.Faults() {
		if !strings.Contains(f, "secret detail") { // the browser's own log of what the page threw
			t.Error(f)
		}
	}
	c.reading("call_s", "slow", `{}`)
	says(p, "running")
	c.cancel("call_s")
	if e := c.cancelled("call_s"); e != controlv1.UnknownEffect {
		t.Errorf("a running tool was cancelled with %s", e)
	}
	p.Wait("window.aborted === true")
	// What changes something is asked elsewhere; the page takes exactly that call.
	q := c.question("call_p", "pay", `{"amount":12}`)
	c.send(q)
	says(p, "Confirm at localhost")
	c.quiet()
	other := q
	other.Arguments = value(`{"amount":13}`)
	other.Call = id("call_o")
	c.carry(other)
	if got := c.result("call_o"); got != "not_started" {
		t.Errorf("a call that was never asked about: %s", got)
	}
	p.Eval(`window.opened = []; window.open = (...a) => { opened.push(a); }; 0`, nil)
	p.ClickOn(panel("li button"))
	var opened [][]string
	if p.Eval("opened", &opened); len(opened) != 1 || opened[0][0] != b.origin+"/confirm/call_p" || opened[0][2] != "noopener" {
		t.Errorf("opened %v", opened)
	}
	c.carry(q)
	if got := c.result("call_p"); got != `{"paid":12}` {
		t.Errorf("answered %s", got)
	}
	c.carry(q)
	c.quiet()
	var paid []int
	if p.Eval("paid", &paid); len(paid) != 1 || paid[0] != 12 {
		t.Errorf("paid %v", paid)
	}
	// Another tool under the same name isn't the one that was armed.
	p.Eval(`(async () => { window.again = new AbortController(); await document.modelContext.registerTool({name: 'later', description: 'x', execute: () => 1}, {signal: again.signal}); again.abort(); })()`, nil)
	c.reading("call_l", "later", `{}`)
	if got := c.result("call_l"); got != "unknown_tool" {
		t.Errorf("a later tool: %s", got)
	}
}

// A tool that was swapped under its name since it was armed doesn't run.
func TestForeignToolIsSwapped(t *testing.T) {
	b := start(t)
	b.shop(`<!doctype html><title>x</title><body><script type="module">window.own = new AbortController(); await document.modelContext.registerTool({name: 'stock', description: 'x', execute: () => 1}, {signal: own.signal});</script><script src="/attended.js" type="module"></script>`)
	b.intercept("POST /api/browser-control/document", func(w http.ResponseWriter, _ *http.Request) {
		b.control.mu.Lock()
		b.control.documents++
		b.control.mu.Unlock()
		answer(w, 200, m{"reads": []string{"stock"}})
	})
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Goto(b.origin + "/auth/login?next=/theirs")
	p.Wait(panel(".face") + "?.textContent === 'Not armed'")
	p.ClickOn(panel(".face"))
	p.ClickOn(panel("button.primary"))
	c := b.control.channel().ready()
	c.reading("call_1", "stock", `{}`)
	if got := c.result("call_1"); got != "1" {
		t.Errorf("answered %s", got)
	}
	p.Eval(`own.abort(); document.modelContext.registerTool({name: 'stock', description: 'x', inputSchema: {type: 'object', properties: {a: {type: 'string'}}}, execute: () => 2})`, nil)
	c.reading("call_2", "stock", `{}`)
	if got := c.result("call_2"); got != "stale_generation" {
		t.Errorf("a swapped tool answered %s", got)
	}
}

// The panel is as accessible as our own pages, light and dark, and speaks both
// languages.
func TestForeignPanelAccessible(t *testing.T) {
	b := start(t)
	b.shop(theirs)
	engine := pagetest.Start(t)
	for _, look := range []pagetest.Look{{Still: true}, {Dark: true, Width: 320, Language: "es", Still: true}} {
		p := engine.Page(look)
		p.BypassPolicy(true)
		p.Goto(b.origin + "/auth/login?next=/theirs")
		p.Wait("document.querySelector('[data-chaperone]')?.shadowRoot.querySelector('.face')?.dataset.arm === 'off'")
		p.ClickOn(panel(".face"))
		if look.Language == "es" {
			says(p, "9 herramientas")
		}
		p.Eval(`document.documentElement.style.colorScheme = 'light dark'; 0`, nil)
		for _, found := range p.Axe() {
			t.Errorf("dark=%v: %s", look.Dark, found)
		}
		p.Save(fmt.Sprintf("../../../out/screens/foreign-%d-%v.png", look.Width, look.Dark))
		p.Close()
	}
}
