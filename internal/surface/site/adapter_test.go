package site_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/pagetest"
	"chaperone/internal/portal/tool"
)

const request = "7f0c1a52-1111-4222-8333-444455556666"

var everything = []tool.Selected{{Collection: "files", Functions: []tool.Name{"items_list", "item_read", "item_write", "item_delete"}}}

// enabled opens the hub with the surface on for these functions.
func enabled(b *backend, p *pagetest.Page, selection []tool.Selected) {
	b.t.Helper()
	b.mu.Lock()
	b.enabled, b.selection = true, selection
	b.mu.Unlock()
	open(b, p, "/automation")
	p.Wait("document.querySelector('[data-state=registered]')")
}

func names(p *pagetest.Page) (out []string) {
	for _, t := range p.Tools() {
		out = append(out, t.Name)
	}
	return out
}

// eventually waits until the browser tells exactly these tools.
func eventually(t *testing.T, p *pagetest.Page, want ...string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if slices.Equal(names(p), want) {
			return
		}
	}
	t.Fatalf("the browser has %v, want %v", names(p), want)
}

// What the browser lists is the catalog, byte for byte, of what is selected.
func TestRegistersTheCatalog(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/automation")
	p.See("Supported, and switched off")
	eventually(t, p)
	p.Wait("document.querySelector('main .primary')?.disabled")
	p.Click("input[aria-label='list: Files']")
	p.Click("input[aria-label='read: Files']")
	p.ClickText("Switch on with this selection")
	p.See("3 of 5 tools are registered in this tab.")
	eventually(t, p, "collections_list", "item_read", "items_list")
	for _, got := range p.Tools() {
		want, ok := tool.Lookup(got.Name)
		if !ok || got.Description != want.Description {
			t.Errorf("%s: %q", got.Name, got.Description)
		}
		if diff := cmp.Diff(string(want.Input), canonical(t, got.InputSchema)); diff != "" {
			t.Errorf("%s: the schema: %s", got.Name, diff)
		}
		if got.Annotations["readOnly"] != true || got.Annotations["untrustedContent"] != true || got.Annotations["consequential"] == true {
			t.Errorf("%s: %v", got.Name, got.Annotations)
		}
	}
	got := p.Invoke("item_read", m{"collection": "files", "item": "notes/plan.md"}).Result()
	if got["ok"] != true || got["content"] != "# Plan\n\n1. Read the notes.\n2. Write the summary.\n" || got["version"] != "v3" {
		t.Errorf("item_read answered %v", got)
	}
	for name, c := range map[string]struct {
		tool  string
		input m
		code  string
	}{
		"other collection": {"item_read", m{"collection": "inbox", "item": "m1"}, "unselected_collection"},
		"no such item":     {"item_read", m{"collection": "files", "item": "gone"}, "not_found"},
		"no item":          {"item_read", m{"collection": "files"}, "invalid_input"},
		"unknown member":   {"item_read", m{"collection": "files", "item": "a", "confirmed": true}, "invalid_input"},
		"a float":          {"items_list", m{"collection": "files", "limit": 1.5}, "invalid_input"},
	} {
		if got := p.Invoke(c.tool, c.input).Result(); got["isError"] != true || got["code"] != c.code {
			t.Errorf("%s: answered %v, want %s", name, got, c.code)
		}
	}
	// Narrowed, the tools that nothing offers are gone.
	p.Click("input[aria-label='list: Files']")
	p.ClickText("Save the selection")
	p.See("2 of 5 tools are registered in this tab.")
	eventually(t, p, "collections_list", "item_read")
	p.ClickText("Switch off")
	p.See("Supported, and switched off")
	eventually(t, p)
}

func TestAvailabilityStates(t *testing.T) {
	state := func(p *pagetest.Page, want, words string) {
		t.Helper()
		p.Wait("document.querySelector('[data-state=" + want + "]')")
		p.See(words)
	}
	t.Run("unsupported", func(t *testing.T) {
		b := start(t)
		p := pagetest.Start(t, "-WebMCP").Page(pagetest.Look{})
		open(b, p, "/automation")
		p.Wait("document.querySelector('[data-state=unsupported]')")
		p.See("Apps can still connect over HTTP")
		var faked bool
		p.Eval("'modelContext' in document || 'modelContext' in navigator", &faked)
		if faked {
			t.Error("a stand-in was installed")
		}
	})
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/automation")
	state(p, "disabled", "Supported, and switched off")

	// registering: the browser's own promise is held back.
	p.Eval(`(() => { const own = document.modelContext.registerTool.bind(document.modelContext); window.letGo = []; Object.defineProperty(document, 'modelContext', {configurable: true, value: {registerTool: (t, o) => new Promise((yes, no) => letGo.push(() => own(t, o).then(yes, no)))}}); })()`, nil)
	b.mu.Lock()
	b.enabled, b.selection = true, everything
	b.mu.Unlock()
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	state(p, "registering", "Registering …")
	p.Eval("new Promise(done => { const more = setInterval(() => { (letGo.shift() ?? (() => 0))(); if (document.querySelector('[data-state=registered]')) { clearInterval(more); done(); } }, 10); })", nil)
	state(p, "registered", "5 of 5 tools are registered in this tab.")

	p.Offline(true)
	state(p, "offline", "nothing that waited goes on")
	eventually(t, p)
	p.Offline(false)
	p.Eval("new Promise(done => { const more = setInterval(() => { (letGo.shift() ?? (() => 0))(); if (document.querySelector('[data-state=registered]')) { clearInterval(more); done(); } }, 10); })", nil)
	state(p, "registered", "5 of 5")
	p.Goto(b.origin + "/automation")
	state(p, "registered", "5 of 5")

	b.intercept("GET /api/automation/descriptors", func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "database_busy", nil) })
	p.Goto(b.origin + "/automation")
	state(p, "failed", "database_busy")
	eventually(t, p)
	b.intercept("GET /api/automation/descriptors", nil)
	p.ClickText("Try again")
	state(p, "registered", "5 of 5")

	b.mu.Lock()
	b.key = ""
	b.mu.Unlock()
	if got := p.Invoke("items_list", m{"collection": "files"}).Result(); got["code"] != "session_expired" {
		t.Errorf("a call of an ended session answered %v", got)
	}
	state(p, "expired", "Your session has ended.")
	eventually(t, p)
}

// A grant that was taken back elsewhere is gone here with the next call; one that
// changes while it is read is never registered.
func TestGrantIsGone(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	b.mu.Lock()
	b.enabled = false
	b.mu.Unlock()
	if got := p.Invoke("items_list", m{"collection": "files"}).Result(); got["code"] != "disabled" {
		t.Errorf("answered %v", got)
	}
	p.Wait("document.querySelector('[data-state=disabled]')")
	eventually(t, p)
	b.mu.Lock()
	b.enabled = true
	b.mu.Unlock()
	b.intercept("GET /api/automation/selection", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, m{"enabled": true, "generation": 0, "selection": everything})
	})
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	p.Wait("document.querySelector('[data-state=failed]')")
	p.See("conflict")
	eventually(t, p)
}

// A name that something else on the page holds rolls all registrations back, and
// the page says which and why.
func TestPartialRegistration(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/automation")
	p.Eval(`(() => { const f = document.createElement('form'); f.setAttribute('toolname', 'item_write'); f.setAttribute('tooldescription', 'squatter'); document.body.append(f); })()`, nil)
	eventually(t, p, "item_write")
	b.mu.Lock()
	b.enabled, b.selection = true, everything
	b.mu.Unlock()
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	p.Wait("document.querySelector('[data-state=partial]')")
	p.See("item_write: something else on this page has registered that name.")
	eventually(t, p, "item_write")
	if p.Tools()[0].Description != "squatter" {
		t.Error("the squatter was taken over")
	}
	p.Eval("document.querySelector('form[toolname]').remove()", nil)
	p.ClickText("Try again")
	p.See("5 of 5 tools are registered in this tab.")
	eventually(t, p, "collections_list", "item_delete", "item_read", "item_write", "items_list")
}

// The older interface: own names only are removed, and callbacks answer alike.
func TestLegacyBranch(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t, "-WebMCP").Page(pagetest.Look{})
	p.Do("Page.addScriptToEvaluateOnNewDocument", m{"source": `
		window.registered = new Map([["theirs", {}]]);
		Object.defineProperty(navigator, "modelContext", {value: {
			registerTool(t) { if (registered.has(t.name)) throw new DOMException("Duplicate", "InvalidStateError"); registered.set(t.name, t); },
			unregisterTool(name) { registered.delete(name); }}});`}, nil)
	b.mu.Lock()
	b.enabled, b.selection = true, everything
	b.mu.Unlock()
	open(b, p, "/automation")
	p.See("5 of 5 tools are registered in this tab.")
	p.See("By the older interface")
	var got map[string]any
	p.Eval("registered.get('items_list').execute({collection: 'files', query: 'plan'})", &got)
	if got["ok"] != true {
		t.Errorf("answered %v", got)
	}
	p.Eval("window.kept = registered.get('items_list').execute; 0", nil)
	p.ClickText("Switch off")
	p.See("Supported, and switched off")
	var left []string
	p.Eval("[...registered.keys()]", &left)
	if !slices.Equal(left, []string{"theirs"}) {
		t.Errorf("left are %v", left)
	}
	p.Eval("kept({collection: 'files'})", &got)
	if got["code"] != "disabled" {
		t.Errorf("a callback that was kept answered %v", got)
	}
}

// keep shadows the registry, before the page's script runs, so that the test holds
// the callbacks as any other script of the page could.
const keep = `(() => { const own = Document.prototype.__lookupGetter__('modelContext'); window.kept = {};
	Object.defineProperty(document, 'modelContext', {configurable: true, get() { const c = own.call(document); return c && {registerTool(t, o) { kept[t.name] = t.execute; return c.registerTool(t, o); }}; }}); })()`

func TestRetainedCallbacksDoNothing(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Do("Page.addScriptToEvaluateOnNewDocument", m{"source": keep}, nil)
	enabled(b, p, everything)
	p.Eval("window.first = {...kept}; 0", nil)
	call := func(which, name string) map[string]any {
		t.Helper()
		var got map[string]any
		p.Eval(which+"."+name+"({collection: 'files', item: 'table.csv', request_id: '"+request+"', if_version: 'v1'})", &got)
		return got
	}
	if got := call("first", "items_list"); got["code"] != "invalid_input" { // the item isn't a member of it: the server was asked
		t.Errorf("before: %v", got)
	}
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for _, s := range b.seen {
			if strings.HasPrefix(s, "POST /api/automation") {
				n++
			}
		}
		return n
	}
	for name, input := range map[string]string{
		"half a pair": `{collection: "files", item: "\ud800"}`, "a function": `() => 0`, "a cycle": `(() => { const a = {}; a.a = a; return a; })()`,
		"text": `"files"`, "null": `null`, "an array": `[1]`, "beyond 2^53": `{collection: "files", limit: 2 ** 60}`, "bigint": `{a: 1n}`, "hostile toJSON": `{toJSON() { throw 1; }}`,
	} {
		var got map[string]any
		if p.Eval("first.item_read("+input+")", &got); got["isError"] != true || got["code"] != "invalid_input" {
			t.Errorf("%s answered %v", name, got)
		}
	}
	quiet := func(after, want string) {
		t.Helper()
		before := count()
		for _, name := range []string{"item_read", "item_delete"} {
			if got := call("first", name); got["isError"] != true || got["code"] != want {
				t.Errorf("%s, %s answered %v, want %s", after, name, got, want)
			}
		}
		if n := count() - before; n != 0 {
			t.Errorf("%s, %d requests were sent", after, n)
		}
	}
	// Selection changed elsewhere: the callbacks of before are of a period that ended.
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	p.Wait("kept.item_read !== first.item_read && document.querySelector('[data-state=registered]')")
	quiet("after a change of selection", "grant_revoked")
	p.Eval("window.first = {...kept}; 0", nil)
	p.ClickText("Switch off")
	b.switched(false)
	p.See("Supported, and switched off")
	quiet("after switching off", "disabled")

	b.mu.Lock()
	b.enabled = true
	b.mu.Unlock()
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	p.Wait("document.querySelector('[data-state=registered]')")
	p.Eval("window.first = {...kept}; 0", nil)
	p.Offline(true)
	p.Wait("document.querySelector('[data-state=offline]')")
	quiet("offline", "offline")
	p.Offline(false)
	p.Wait("document.querySelector('[data-state=registered]')")
	p.Eval("window.first = {...kept}; 0", nil)

	// The back/forward cache: away and back, tools and callbacks of before are dead.
	p.Goto(b.origin + "/sw.js")
	p.Back()
	p.Wait("location.pathname === '/automation' && document.querySelector('[data-state=registered]')")
	var restored bool
	p.Eval("window.first !== undefined", &restored)
	t.Logf("restored from the back/forward cache: %v", restored)
	if restored {
		quiet("back from the cache", "grant_revoked")
	}
	// This engine may keep such a page out of its cache; others needn't. The events
	// alone end what was registered, and begin it anew.
	p.Eval("window.first = {...kept}; dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true})); 0", nil)
	eventually(t, p)
	quiet("put away", "grant_revoked")
	p.Eval("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true})); 0", nil)
	p.Wait("kept.item_read !== first.item_read && document.querySelector('[data-state=registered]')")
	quiet("brought back", "grant_revoked")
	p.Eval("window.first = {...kept}; 0", nil)
	// Sign-out leaves the document: what is tried is in the moment before it.
	p.Eval(`document.querySelector('.who button').click(); window.after = new Promise(done => { const look = setInterval(async () => { if (localStorage.getItem('chaperone.key') === null) { clearInterval(look); done(first.item_read({collection: 'files', item: 'table.csv'})); } }, 1); }); after.then(a => sessionStorage.setItem('after', a.code)); 0`, nil)
	p.See("Sign in")
	eventually(t, p)
	var code string
	p.Eval("sessionStorage.getItem('after') ?? 'gone'", &code)
	if code != "session_expired" && code != "gone" {
		t.Errorf("after sign-out: %s", code)
	}
	if len(b.effects) != 0 {
		t.Errorf("something took effect: %v", b.effects)
	}
}

// An answer that comes after the period has ended is dropped; one to a mutation
// that was sent is unknown, never failure.
func TestLateAnswers(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	release := make(chan struct{})
	came := b.holdExecute(release)
	call := p.Invoke("item_read", m{"collection": "files", "item": "notes/plan.md"})
	<-came
	p.ClickText("Switch off")
	got := call.Result()
	if got["code"] != "unknown_outcome" && got["code"] != "disabled" || got["content"] != nil {
		t.Errorf("a read whose answer came too late answered %v", got)
	}
	close(release)
	eventually(t, p)
	b.switched(false)

	// A cancelled call stops the request, and says honestly that it had been sent.
	b.mu.Lock()
	b.enabled = true
	b.mu.Unlock()
	p.Goto(b.origin + "/automation")
	p.Wait("document.querySelector('[data-state=registered]')")
	release = make(chan struct{})
	came = b.holdExecute(release)
	call = p.Invoke("item_read", m{"collection": "files", "item": "notes/plan.md"})
	<-came
	call.Cancel()
	if a := call.Answer(); a.Status != "Canceled" {
		t.Errorf("a cancelled call ended %s", a.Status)
	}
	close(release)
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
	})
	if got := p.Invoke("items_list", m{"collection": "files"}).Result(); got["code"] != "unknown_outcome" {
		t.Errorf("a lost answer gave %v", got)
	}
	// Too large, or no answer of the API: bounded all the same.
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, m{"content": strings.Repeat("x", 600<<10), "ok": "no", "isError": false})
	})
	if got := p.Invoke("items_list", m{"collection": "files"}).Result(); got["code"] != "too_large" {
		t.Errorf("a huge answer gave %v", got["code"])
	}
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, 500, "<img src=x>", m{"a": "b"})
	})
	if got := p.Invoke("items_list", m{"collection": "files"}).Result(); got["isError"] != true || strings.Contains(got["code"].(string), "<") {
		t.Errorf("a foreign code gave %v", got)
	}
}

// switched waits until the person's own request to switch the surface has reached
// the API: the page takes its tools away before it asks.
func (b *backend) switched(on bool) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b.mu.Lock()
		is := b.enabled
		b.mu.Unlock()
		if is == on {
			return
		}
	}
	b.t.Fatalf("the surface was never switched to %v", on)
}

func (b *backend) holdExecute(release <-chan struct{}) <-chan struct{} {
	came := make(chan struct{}, 16)
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-release:
			answer(w, 200, m{"item": "notes/plan.md", "content": "late"})
		case <-r.Context().Done():
		}
	})
	return came
}
