package site_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
	"chaperone/internal/pagetest"
)

func canonical(t *testing.T, text jsontext.Value) string {
	t.Helper()
	data, err := canon.Canonicalize(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// write is the mutation that the reviews are about.
func write(item string) m {
	return m{"collection": "files", "item": item, "request_id": request, "content": "a\u202Eb <b>bold</b>", "if_absent": true}
}

const accept = "document.querySelector('#review-accept')"

// reviewing begins a write and waits until its form takes presses.
func reviewing(p *pagetest.Page, item string) *pagetest.Call {
	call := p.Invoke("item_write", write(item))
	p.Wait(accept + "?.getAttribute('aria-disabled') === null")
	return call
}

func (b *backend) done() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.effects...)
}

func TestReviewShowsEverything(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	call := reviewing(p, "new.txt")
	text := p.Text("dialog")
	for _, want := range []string{"A tool asks to write", "Write an item", "item_write", "Nothing has been sent yet.", "Files", "new.txt", "none: the item is new",
		"if_absent", "true", request, "a⟦U+202E⟧b <b>bold</b>", "One hidden character", "confirmed in this browser session", "This closes in "} {
		if !strings.Contains(text, want) {
			t.Errorf("the review lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(strings.ToLower(text), "human") || strings.Contains(text, "by you") {
		t.Errorf("the review promises a person:\n%s", text)
	}
	var modal bool
	p.Eval("document.querySelector('dialog').matches(':modal[aria-modal=true][aria-labelledby]') && document.querySelector('dialog [role=status]').textContent.includes('asks to write')", &modal)
	if !modal {
		t.Error("the review isn't modal, or isn't announced")
	}
	// Focus stays inside, whichever way it goes round.
	for range 12 {
		p.Press("Tab")
		p.Wait("document.activeElement.closest('dialog')")
	}
	for range 12 {
		p.Press("Shift+Tab")
		p.Wait("document.activeElement.closest('dialog')")
	}
	p.ClickText("Decline")
	if got := call.Result(); got["code"] != "review_declined" || len(b.done()) != 0 {
		t.Errorf("declined: %v, %v", got, b.done())
	}
}

// What a script can do doesn't confirm; what the browser's own input does, does.
func TestReviewGuard(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	const form = accept + ".form"
	call := reviewing(p, "guarded.txt")
	for name, script := range map[string]string{
		"click()":               accept + ".click()",
		"requestSubmit()":       form + ".requestSubmit()",
		"requestSubmit(button)": form + ".requestSubmit(" + accept + ")",
		"dispatched click":      accept + ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))",
		"dispatched pointer":    "for (const k of ['pointerdown','mousedown','pointerup','mouseup','click']) " + accept + ".dispatchEvent(new PointerEvent(k, {bubbles: true, cancelable: true}))",
		"dispatched submit":     form + ".dispatchEvent(new SubmitEvent('submit', {bubbles: true, cancelable: true, submitter: " + accept + "}))",
		"dispatched key":        accept + ".focus(), " + accept + ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', code: 'Enter', bubbles: true}))",
		"outside submitter":     "(() => { const b = document.createElement('button'); const f = " + form + "; f.id = 'rf'; b.setAttribute('form', 'rf'); b.id = 'outside'; document.querySelector('dialog').append(b); b.click(); })()",
		"label.click()":         "(() => { const l = document.createElement('label'); l.htmlFor = 'review-accept'; l.id = 'lab'; l.textContent = 'a label'; " + form + ".prepend(l); l.click(); })()",
		"agentInvoked":          "(() => { const e = new SubmitEvent('submit', {bubbles: true, cancelable: true, submitter: " + accept + "}); Object.defineProperty(e, 'agentInvoked', {value: true}); " + form + ".dispatchEvent(e); })()",
	} {
		p.Eval("(() => { "+script+" })(); 0", nil)
		p.EvalAsUser("(() => { "+script+" })(); 0", nil)
		time.Sleep(20 * time.Millisecond)
		var still bool
		p.Eval("document.querySelector('dialog')?.open === true", &still)
		if !still || len(b.done()) != 0 {
			t.Fatalf("%s ended the review: %v", name, b.done())
		}
	}
	// A trusted press on a button elsewhere whose handler submits.
	p.Eval("(() => { const b = document.createElement('button'); b.type = 'button'; b.id = 'lure'; b.textContent = 'lure'; b.onclick = () => "+form+".requestSubmit("+accept+"); document.querySelector('dialog .dialog-body').prepend(b); })()", nil)
	p.Click("#lure")
	p.Click("#outside")
	p.Eval(form+".style.opacity = '0'", nil)
	p.ClickOn(accept)
	p.Eval(form+".style.opacity = ''", nil)
	time.Sleep(50 * time.Millisecond)
	if len(b.done()) != 0 {
		t.Fatalf("a lure or an unseen form ended the review: %v", b.done())
	}
	// A trusted click on its label is one on the button.
	p.Click("#lab")
	if got := call.Result(); got["ok"] != true || got["outcome"] != "created" {
		t.Errorf("a click on the label: %v", got)
	}
	for name, act := range map[string]func(){
		"pointer": func() { p.ClickOn(accept) },
		"Enter":   func() { p.Eval(accept+".focus()", nil); p.Press("Enter") },
		"Space":   func() { p.Eval(accept+".focus()", nil); p.Press(" ") },
	} {
		call := reviewing(p, name+".txt")
		act()
		if got := call.Result(); got["ok"] != true {
			t.Errorf("%s: %v", name, got)
		}
	}
	// A form that has only just appeared takes no press.
	call = p.Invoke("item_write", write("quick.txt"))
	p.Wait(accept)
	p.ClickOn(accept)
	time.Sleep(50 * time.Millisecond)
	if n := len(b.done()); n != 4 {
		t.Errorf("%d took effect, want 4", n)
	}
	p.Press("Escape")
	if got := call.Result(); got["code"] != "review_declined" {
		t.Errorf("Escape: %v", got)
	}
}

// What is sent is the private copy, whatever happened to the document or to the
// caller's object meanwhile.
func TestReviewIgnoresTheDocument(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	p.Do("Page.addScriptToEvaluateOnNewDocument", m{"source": keep}, nil)
	enabled(b, p, everything)
	p.Eval(`window.theirs = {collection: 'files', item: 'mine.txt', request_id: '`+request+`', content: 'true', if_absent: true}; window.result = kept.item_write(theirs); theirs.content = 'false'; theirs.item = 'other.txt'; 0`, nil)
	p.Wait(accept + "?.getAttribute('aria-disabled') === null")
	if text := p.Text("dialog .arguments"); !strings.Contains(text, "mine.txt") || strings.Contains(text, "false") {
		t.Errorf("the review shows the object as it was changed:\n%s", text)
	}
	p.Eval(`for (const pre of document.querySelectorAll('dialog pre')) pre.textContent = 'false'; const i = document.createElement('input'); i.name = 'content'; i.value = 'false'; `+accept+`.form.append(i); 0`, nil)
	p.ClickOn(accept)
	var got map[string]any
	p.Eval("result", &got)
	want := `{"collection":"files","content":"true","if_absent":true,"item":"mine.txt","request_id":"` + request + `"}`
	if done := b.done(); got["ok"] != true || len(done) != 1 || done[0] != want {
		t.Errorf("took effect: %v (%v), want %s", done, got, want)
	}
}

// A server that understood other bytes than the page means gets no review at all.
func TestReviewNeedsTheSameDigest(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	b.intercept("POST /api/automation/prepare", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, m{"receipt_id": "r", "digest": "sha256:" + strings.Repeat("0", 64), "expires_at_ms": time.Now().Add(time.Minute).UnixMilli(), "review": m{}})
	})
	if got := p.Invoke("item_write", write("x")).Result(); got["code"] != "cancelled" {
		t.Errorf("answered %v", got)
	}
}

func TestReviewEnds(t *testing.T) {
	b := start(t)
	engine := pagetest.Start(t)
	profile := engine.Profile()
	p := profile.Page(pagetest.Look{})
	enabled(b, p, everything)
	gone := func(want string, call *pagetest.Call) {
		t.Helper()
		if got := call.Result(); got["code"] != want {
			t.Errorf("answered %v, want %s", got, want)
		}
		p.Wait("!document.querySelector('dialog')")
	}
	b.mu.Lock()
	b.lifetime = 1500 * time.Millisecond
	b.mu.Unlock()
	gone("receipt_expired", p.Invoke("item_write", write("slow.txt")))
	b.mu.Lock()
	b.lifetime = 2 * time.Minute
	b.mu.Unlock()

	// One at a time: the second opens when the first has ended.
	one := reviewing(p, "one.txt")
	two := p.Invoke("item_delete", m{"collection": "files", "item": "table.csv", "request_id": request, "if_version": "v1"})
	time.Sleep(100 * time.Millisecond)
	var open int
	p.Eval("document.querySelectorAll('dialog').length", &open)
	if open != 1 || !strings.Contains(p.Text("dialog"), "one.txt") {
		t.Errorf("%d dialogs are open", open)
	}
	p.ClickText("Decline")
	gone2 := one.Result()
	if gone2["code"] != "review_declined" {
		t.Errorf("the first: %v", gone2)
	}
	p.See("A tool asks to delete")
	two.Cancel()
	if a := two.Answer(); a.Status != "Canceled" {
		t.Errorf("cancelled: %v", a)
	}
	p.Wait("!document.querySelector('dialog')")

	// The same request with other arguments replaces what is on view.
	one = reviewing(p, "first.txt")
	two = p.Invoke("item_write", write("second.txt"))
	if got := one.Result(); got["code"] != "cancelled" {
		t.Errorf("replaced: %v", got)
	}
	p.Wait("document.querySelector('dialog')?.innerText.includes('second.txt')")
	p.Press("Escape")
	gone("review_declined", two)

	one = reviewing(p, "off.txt")
	p.Offline(true)
	gone("offline", one)
	p.Offline(false)
	p.Wait("document.querySelector('[data-state=registered]')")

	one = reviewing(p, "revoked.txt")
	p.Eval("new BroadcastChannel('chaperone').postMessage({kind: 'selection'})", nil)
	gone("grant_revoked", one)
	p.Wait("document.querySelector('[data-state=registered]')")

	// Focus goes back to where it was.
	p.Eval("document.querySelector('main input[type=checkbox]').focus()", nil)
	one = reviewing(p, "focus.txt")
	p.Press("Escape")
	gone("review_declined", one)
	p.Wait("document.activeElement.matches('main input[type=checkbox]')")

	// Sign-out in another tab.
	one = reviewing(p, "signed-out.txt")
	other := profile.Page(pagetest.Look{})
	other.Goto(b.origin + "/")
	other.See("Collections")
	other.Click(".who button")
	p.See("Sign in")
	if len(b.done()) != 0 {
		t.Errorf("something took effect: %v", b.done())
	}
	_ = one // its document is gone, and with it whoever waited
}

// A mutation that was sent and whose answer was lost is unknown, and isn't sent twice.
func TestLostMutationIsUnknown(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	})
	call := reviewing(p, "lost.txt")
	p.ClickOn(accept)
	if got := call.Result(); got["code"] != "unknown_outcome" {
		t.Errorf("answered %v", got)
	}
	time.Sleep(200 * time.Millisecond)
	sent := 0
	for _, r := range p.Requests() {
		if strings.HasSuffix(r, "/execute") {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("the page sent it %d times", sent)
	}
	// The browser's network may have repeated it over a fresh connection, and hear
	// that the receipt is used: by this very call.
	b.intercept("POST /api/automation/execute", func(w http.ResponseWriter, r *http.Request) { refuse(w, 409, "receipt_used", nil) })
	call = reviewing(p, "twice.txt")
	p.ClickOn(accept)
	if got := call.Result(); got["code"] != "unknown_outcome" {
		t.Errorf("a used receipt gave %v", got)
	}
}

// The largest write is shown whole, and sent whole.
func TestReviewOfTheLargestWrite(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	enabled(b, p, everything)
	content := strings.Repeat("thirty-one letters stand here.\n", 1<<20/31+1)[:1<<20-5] + "\u202Eé"
	begun := time.Now()
	call := p.Invoke("item_write", m{"collection": "files", "item": "big.txt", "request_id": request, "content": content, "if_absent": true})
	p.Wait(accept + "?.getAttribute('aria-disabled') === null")
	t.Logf("on view after %v", time.Since(begun))
	var shown int
	p.Eval("[...document.querySelectorAll('dialog .arguments pre')].find(e => e.textContent.startsWith('thirty')).textContent.length", &shown)
	if want := 1<<20 - 5 + utf8.RuneCountInString("⟦U+202E⟧é"); shown != want {
		t.Errorf("%d characters are shown, want %d", shown, want)
	}
	p.See("One hidden character")
	p.ClickOn(accept)
	if got := call.Result(); got["ok"] != true {
		t.Errorf("answered %v", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.content["files"]["big.txt"]; s == nil || s.text != content {
		t.Error("what arrived isn't what was called with")
	}
	over := p.Invoke("item_write", m{"collection": "files", "item": "over.txt", "request_id": request, "content": strings.Repeat("x", 1_800_000), "if_absent": true})
	if got := over.Result(); got["code"] != "too_large" {
		t.Errorf("one that is too large answered %v", got)
	}
}
