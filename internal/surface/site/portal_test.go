package site_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"chaperone/internal/pagetest"
)

// pages are all of them, for what must hold on each.
var pages = []struct{ name, path string }{
	{"home", "/"}, {"collection", "/collections/files"}, {"inbox", "/collections/inbox"}, {"item", "/collections/files/item?id=notes%2Fplan.md"},
	{"hostile", "/collections/files/item?id=hostile.html"}, {"mail", "/collections/inbox/item?id=m1"}, {"picture", "/collections/files/item?id=logo.png"},
	{"automation", "/automation"}, {"connections", "/connections"}, {"connect", "/connect/abc"}, {"agents", "/agents"}, {"run", "/agents/7d0c1a52-1111-4222-8333-444455556666"},
	{"approvals", "/approvals"}, {"confirm", "/confirm/call_0"}, {"audit", "/audit"}, {"settings", "/settings"},
}

// show goes to a page by the History API, as a click does.
func show(p *pagetest.Page, path string) {
	p.Eval("history.pushState(null, '', "+pagetest.Quote(path)+"); dispatchEvent(new PopStateEvent('popstate'))", nil)
	p.Wait("document.querySelector('main h1') && !document.querySelector('main [aria-busy=true]')")
}

func TestSignIn(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Goto(b.origin + "/collections/files?q=plan")
	p.See("Sign in")
	if strings.Contains(p.Text("body"), "Inbox") {
		t.Error("something of an account shows before sign-in")
	}
	p.ClickText("Sign in")
	p.See("notes/plan.md")
	var where string
	p.Eval("location.pathname + location.search", &where)
	if where != "/collections/files?q=plan" {
		t.Errorf("after sign-in at %s", where)
	}
	if strings.Contains(p.Text("main"), "table.csv") {
		t.Error("the search wasn't kept over the sign-in")
	}
	p.Click(".who button")
	p.See("Sign in")
	var kept string
	p.Eval("localStorage.getItem('chaperone.key') ?? ''", &kept)
	if kept != "" {
		t.Error("the session's key outlives it")
	}
}

// The callback's script leads to paths of this origin only.
func TestCallbackStaysHere(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	for _, next := range []string{"//evil.example/", "https://evil.example/", "/%5Cevil.example", "javascript:alert(1)", ""} {
		p.Goto(b.origin + "/auth/login?next=" + next)
		p.Wait("location.pathname !== '/auth/login'")
		var at string
		p.Eval("location.origin", &at)
		if at != b.origin {
			t.Errorf("%q led to %s", next, at)
		}
	}
}

// First paint: little, and from here alone. A second load takes it from the store
// of the service worker, which holds nothing but public files.
func TestTransfer(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	if n := p.Received(); n > 150_000 || n < 5000 {
		t.Errorf("first paint took %d bytes", n)
	} else {
		t.Logf("first paint: %d bytes", n)
	}
	for _, pg := range pages {
		show(p, pg.path)
	}
	for _, r := range p.Requests() {
		if !strings.HasPrefix(r, b.origin+"/") && !strings.HasPrefix(r, "blob:"+b.origin) {
			t.Errorf("a request left for %s", r)
		}
	}
	p.Wait("navigator.serviceWorker.ready.then(r => r.active)")
	p.Goto(b.origin + "/")
	p.See("Collections")
	p.Goto(b.origin + "/automation")
	p.See("Automation hub")
	var kept []string
	p.Eval("(async () => { const out = []; for (const k of await caches.keys()) for (const r of await (await caches.open(k)).keys()) out.push(new URL(r.url).pathname); return out; })()", &kept)
	if len(kept) == 0 {
		t.Error("the service worker keeps nothing")
	}
	for _, path := range kept {
		if !strings.HasPrefix(path, "/assets/") {
			t.Errorf("the service worker keeps %s", path)
		}
	}
}

func TestCollectionsAndItems(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	p.ClickText("New collection")
	p.Fill("dialog input", "Reports")
	p.Press("Enter")
	p.See("Created.")
	p.ClickOn("[...document.querySelectorAll('.title-link')].find(a => a.innerText === 'Reports')")
	p.See("Nothing stored yet")
	p.ClickText("New item")
	p.Fill("dialog input", "first.txt")
	p.Fill("dialog textarea", "one")
	p.Click("dialog button[type=submit]")
	p.See("one")
	p.ClickText("Edit")
	p.Fill("dialog textarea", " and two")
	p.Click("dialog button[type=submit]")
	p.Wait("document.querySelector('.item-content')?.innerText.includes('and two')")
	// A name that is taken is told, and the form stays with what was written.
	p.ClickOn("document.querySelector('.crumbs a')")
	p.ClickText("New item")
	p.Fill("dialog input", "first.txt")
	p.Click("dialog button[type=submit]")
	p.See("An item of that name is there already.")
	p.Press("Escape")
	p.Wait("!document.querySelector('dialog')")
	p.ClickText("first.txt")
	p.See("Delete")
	p.ClickText("Delete")
	p.See("That can’t be undone.")
	p.ClickText("Cancel")
	p.Wait("!document.querySelector('dialog')")
	p.ClickText("Delete")
	p.Click("dialog .danger")
	p.See("Deleted.")
	p.See("Nothing stored yet")
	show(p, "/collections/inbox/item?id=m1")
	p.ClickText("Mark as read")
	p.ClickText("Mark as unread")
	p.See("Mark as read")
}

// Whatever an item holds is shown, and is nothing else than shown.
func TestHostileItem(t *testing.T) {
	b := start(t)
	b.order = append(b.order, b.order[1])
	b.order[3].Collection, b.order[3].Title = "evil", "x\u202Egnp.exe <img src=x onerror=owned=4>"
	b.content["evil"] = map[string]*stored{"<b>a</b>": {1, "text/html", hostile, map[string]any{"subject": "<script>owned=5</script>\u200B"}, 1}}
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/collections/files/item?id=hostile.html")
	text := p.Text(".item-content")
	for _, want := range []string{"<script>window.owned=1</script>", "⟦U+202E⟧order⟦U+202C⟧", "zero⟦U+200B⟧width", "⟦U+E0068⟧⟦U+E0069⟧", "⟦U+0000⟧", "⟦U+2066⟧x⟦U+2069⟧"} {
		if !strings.Contains(text, want) {
			t.Errorf("the item shows without %q:\n%s", want, text)
		}
	}
	for _, path := range []string{"/collections/files/item?id=hostile.html", "/collections/evil", "/collections/evil/item?id=%3Cb%3Ea%3C%2Fb%3E", "/", "/automation"} {
		show(p, path)
		var made struct{ Scripts, Images, Forms, Links int }
		var owned bool
		p.Eval("window.owned !== undefined", &owned)
		p.Eval("({Scripts: document.body.querySelectorAll('script').length, Images: document.querySelectorAll('img').length, Forms: document.querySelectorAll('[toolname]').length, Links: [...document.querySelectorAll('a')].filter(a => a.protocol !== location.protocol || a.host !== location.host).length})", &made)
		if owned || made.Scripts+made.Images+made.Forms+made.Links != 0 {
			t.Errorf("%s: the item became something: %v %+v", path, owned, made)
		}
		var raw bool
		p.Eval(`/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText) || /[\u202a-\u202e]/.test(document.title)`, &raw)
		if raw {
			t.Errorf("%s: a hidden character stands unmarked", path)
		}
	}
	if len(p.Tools()) != 0 {
		t.Errorf("an item registered %v", p.Tools())
	}
}

func TestStepUpKeepsTheChoice(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/connect/abc")
	b.mu.Lock()
	b.fresh = false
	b.mu.Unlock()
	var ticked int
	p.Eval("document.querySelectorAll('main input:checked').length", &ticked)
	if ticked != 0 {
		t.Errorf("%d boxes are ticked for the person", ticked)
	}
	p.Click("input[aria-label='read: Files']")
	p.ClickOn("document.querySelector('input[value=collections]')")
	p.ClickText("Allow")
	p.See("Is it still you?")
	p.ClickText("Sign in again")
	p.See("Your choice is as you left it.")
	b.mu.Lock()
	if len(b.effects) != 0 {
		t.Errorf("the page approved by itself: %v", b.effects)
	}
	b.mu.Unlock()
	p.ClickText("Allow")
	p.Wait("location.search === '?approved'")
	b.mu.Lock()
	defer b.mu.Unlock()
	want := `approve {"selection":[{"collection":"files","functions":["item_read"]}],"scopes":["collections"],"days":30}`
	if !slices.Equal(b.effects, []string{want}) {
		t.Errorf("approved %v, want %s", b.effects, want)
	}
}

func TestPaletteAndKeys(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	at := func(path string) { t.Helper(); p.Wait("location.pathname === " + pagetest.Quote(path)) }
	p.Press("g")
	p.Press("h")
	at("/automation")
	p.Press("g")
	p.Press("a")
	at("/agents")
	p.Press("g")
	p.Press("c")
	at("/")
	p.Press("?")
	p.See("Keyboard shortcuts")
	p.Wait("document.querySelectorAll('dialog kbd').length > 10")
	p.Press("Escape")
	p.Wait("!document.querySelector('dialog')")
	// Inert where a person types.
	show(p, "/collections/files")
	p.Eval("document.querySelector('input[type=search]').focus()", nil)
	p.Press("g")
	p.Press("h")
	p.Press("?")
	at("/collections/files")
	var typed string
	p.Eval("document.querySelector('input[type=search]').value", &typed)
	if typed != "gh?" {
		t.Errorf("typed %q", typed)
	}
	p.Press("Control+k")
	p.See("Command palette")
	p.Type("automat")
	p.Wait("document.querySelectorAll('[role=option]').length === 1")
	p.Press("Enter")
	at("/automation")
	p.Press("Control+k")
	p.Type("calendar")
	p.Wait("[...document.querySelectorAll('[role=option]')].some(o => o.innerText.includes('Team calendar'))")
	p.Press("Enter")
	at("/collections/calendar")
	// Switched off, they are off.
	show(p, "/settings")
	p.ClickOn("[...document.querySelectorAll('label.check')].pop()")
	p.Eval("document.activeElement.blur()", nil)
	p.Press("g")
	p.Press("h")
	at("/settings")
}

func TestLanguageAndTheme(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{Language: "es"})
	open(b, p, "/settings")
	p.See("Ajustes")
	var lang string
	p.Eval("document.documentElement.lang", &lang)
	if lang != "es" {
		t.Errorf("lang is %q", lang)
	}
	p.Eval("(() => { const s = [...document.querySelectorAll('select')][0]; s.value = 'en'; s.dispatchEvent(new Event('change')); })()", nil)
	p.See("Settings")
	p.Wait("document.querySelector('.nav').innerText.includes('Automation hub') && document.activeElement.id !== 'nothing'")
	p.Eval("(() => { const s = [...document.querySelectorAll('select')][1]; s.value = 'dark'; s.dispatchEvent(new Event('change')); })()", nil)
	p.Goto(b.origin + "/settings")
	p.See("Settings")
	var ground string
	p.Eval("getComputedStyle(document.body).backgroundColor", &ground)
	if ground != "rgb(16, 20, 27)" {
		t.Errorf("the dark theme's ground is %s", ground)
	}
}

// Another tab's sign-out clears this one within a second; another person's sign-in
// too, and nothing of the first is left or sent for the second.
func TestOtherTab(t *testing.T) {
	b := start(t)
	profile := pagetest.Start(t).Profile()
	one, two := profile.Page(pagetest.Look{}), profile.Page(pagetest.Look{})
	open(b, one, "/collections/inbox")
	two.Goto(b.origin + "/")
	two.See("Collections")
	two.Click(".who button")
	begun := time.Now()
	one.Wait("!document.body.innerText.includes('Minutes of Tuesday')")
	if took := time.Since(begun); took > time.Second {
		t.Errorf("the other tab was cleared after %v", took)
	}
	one.See("Sign in")
	open(b, one, "/collections/inbox")
	release := make(chan struct{})
	held := b.hold("GET /api/collections/inbox/items", release)
	show2 := "history.pushState(null, '', '/collections/inbox?q=invoice'); dispatchEvent(new PopStateEvent('popstate'))"
	one.Eval(show2, nil)
	<-held
	b.mu.Lock()
	b.person = "Grace Hopper"
	b.mu.Unlock()
	open(b, two, "/")
	one.See("Grace Hopper")
	close(release)
	time.Sleep(200 * time.Millisecond)
	if text := one.Text("body"); strings.Contains(text, "Invoice 2026") || strings.Contains(text, "Ada") {
		t.Errorf("something of the first person shows for the second:\n%s", text)
	}
}

// hold lets requests of a route wait until release is closed, then answers with
// what was asked for; it tells of the first.
func (b *backend) hold(route string, release <-chan struct{}) <-chan struct{} {
	came := make(chan struct{}, 16)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook[route] = func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		answer(w, 200, m{"items": []m{{"item": "m3", "title": "Invoice 2026-118", "version": "v1", "size": 3, "media_type": "text/plain", "modified_ms": 1}}})
	}
	return came
}

func (b *backend) intercept(route string, handler http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if handler == nil {
		delete(b.hook, route)
		return
	}
	b.hook[route] = handler
}

// A server that fails is told by its code with what helps, and asked again.
func TestFailures(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	b.intercept("GET /api/collections", func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "source_unavailable", nil) })
	show(p, "/")
	p.See("source_unavailable")
	b.intercept("GET /api/collections", nil)
	p.ClickText("Try again")
	p.See("Team calendar")
	b.intercept("GET /api/collections", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>proxy</html>")) })
	show(p, "/")
	p.See("bad_answer")
	b.intercept("GET /api/collections", nil)
	// A slow one shows that it is under way.
	b.intercept("GET /api/usage", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(700 * time.Millisecond)
		answer(w, 200, m{"items": m{"used": 1, "limit": 2}, "bytes": m{"used": 1, "limit": 2}})
	})
	p.Eval("dispatchEvent(new PopStateEvent('popstate'))", nil)
	p.Wait("document.querySelector('.skeleton')")
	p.See("1 of 2")
	// A session that has ended offers sign-in, and leaves nothing on view.
	b.mu.Lock()
	b.key = ""
	b.mu.Unlock()
	p.Eval("dispatchEvent(new PopStateEvent('popstate'))", nil)
	p.See("Your session has ended.")
	if strings.Contains(p.Text("body"), "Inbox") {
		t.Error("the account's collections stay on view")
	}
}

// Two minutes before a session ends of disuse the page says so, and a press keeps it.
func TestWarnsOfTheEnd(t *testing.T) {
	b := start(t)
	b.idle = 123 * time.Second
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	p.See("Your session ends in two minutes unless you go on.")
	asked := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for _, s := range b.seen {
			if s == "GET /api/session" {
				n++
			}
		}
		return n
	}
	before := asked()
	p.ClickText("Stay signed in")
	for end := time.Now().Add(5 * time.Second); asked() == before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if asked() == before {
		t.Error("nothing was asked")
	}
}
