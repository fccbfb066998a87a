package site_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/refusal"
)

// axe-core finds nothing on any page, light and dark, nor on what opens over them.
func TestAccessibility(t *testing.T) {
	b := start(t)
	engine := pagetest.Start(t)
	check := func(p *pagetest.Page, name string) {
		t.Helper()
		for _, found := range p.Axe() {
			t.Errorf("%s: %s", name, found)
		}
	}
	for _, look := range []pagetest.Look{{Still: true}, {Dark: true, Still: true}, {Width: 320, Still: true, Language: "es"}} {
		name := fmt.Sprintf("%d dark=%v", look.Width, look.Dark)
		p := engine.Page(look)
		p.BypassPolicy(true) // axe-core makes a script of strings, which our policy forbids
		p.Goto(b.origin + "/")
		p.Wait("document.querySelector('.signin h1')")
		check(p, name+" sign-in")
		p.Goto(b.origin + "/nothing")
		p.Wait("document.querySelector('main h1')")
		check(p, name+" lost")
		enabled(b, p, everything)
		for _, pg := range pages {
			show(p, pg.path)
			check(p, name+" "+pg.name)
		}
		p.Press("Control+k")
		p.Wait("document.querySelector('dialog')")
		check(p, name+" palette")
		p.Press("Escape")
		p.Wait("!document.querySelector('dialog')")
		call := reviewing(p, "axe.txt")
		check(p, name+" review")
		p.Press("Escape")
		call.Result()
		show(p, "/approvals")
		c := arming(b, p)
		check(p, name+" armed")
		c.send(c.question("call_1", "item_write", newItem))
		alive(p)
		check(p, name+" confirmation")
		p.Press("Escape")
		c.cancelled("call_1")
		check(p, name+" denied")
		b.control.disarm(c)
		p.Profile.Page(look).Close()
		p.Close()
	}
}

// Everything is reached by keys alone, in an order that follows the page, and
// focus is always to be seen.
func TestKeyboardWalk(t *testing.T) {
	b := start(t)
	p := pagetest.Start(t).Page(pagetest.Look{})
	open(b, p, "/")
	for _, pg := range pages {
		show(p, pg.path)
		p.Eval("document.activeElement.blur(); window.getSelection().removeAllRanges(); document.body.tabIndex = -1; document.body.focus(); 0", nil)
		var want int
		p.Eval(`[...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')].filter(e => !e.disabled && e.checkVisibility({visibilityProperty: true}) && !e.closest('.toasts')).length`, &want)
		seen := map[int]bool{}
		for range want + 2 {
			p.Press("Tab")
			var at struct {
				Index   int  `json:"index"`
				Visible bool `json:"visible"`
			}
			p.Eval(`(() => { const e = document.activeElement; const all = [...document.querySelectorAll('*')]; const s = getComputedStyle(e), a = getComputedStyle(e, '::after'); return {index: all.indexOf(e), visible: e === document.body || s.outlineStyle !== 'none' || a.outlineStyle !== 'none'}; })()`, &at)
			if !at.Visible {
				t.Errorf("%s: focus isn't to be seen on the %dth element", pg.name, at.Index)
			}
			seen[at.Index] = true
		}
		if len(seen) < want {
			t.Errorf("%s: %d places were reached, there are %d", pg.name, len(seen), want)
		}
	}
}

// No page is wider than its window, at 320 pixels and with text at twice its size.
func TestReflow(t *testing.T) {
	b := start(t)
	engine := pagetest.Start(t)
	for _, language := range []string{"en", "es"} {
		p := engine.Page(pagetest.Look{Width: 320, Language: language})
		open(b, p, "/")
		for _, size := range []string{"100%", "200%"} {
			for _, pg := range pages {
				show(p, pg.path)
				p.Eval("document.documentElement.style.fontSize = '"+size+"'", nil)
				var wide int
				p.Eval("document.documentElement.scrollWidth", &wide)
				if wide > 320 {
					var who string
					p.Eval(`[...document.querySelectorAll('main *, header *')].filter(e => e.getBoundingClientRect().right > 321 && e.checkVisibility() && !e.closest('pre')).map(e => e.tagName + '.' + e.className).slice(0, 4).join(' ')`, &who)
					t.Errorf("%s %s at %s: %d pixels wide (%s)", language, pg.name, size, wide, who)
				}
			}
		}
	}
}

// TestScreens writes a picture of every page, for people to look at.
func TestScreens(t *testing.T) {
	b := start(t)
	engine := pagetest.Start(t)
	for _, look := range []pagetest.Look{
		{Width: 1280}, {Width: 1280, Dark: true}, {Width: 320}, {Width: 320, Dark: true}, {Width: 1280, Language: "es"}, {Width: 320, Language: "es"},
	} {
		look.Still = true
		scheme, language := "light", "en"
		if look.Dark {
			scheme = "dark"
		}
		if look.Language != "" {
			language = look.Language
		}
		p := engine.Page(look)
		save := func(name string) {
			p.Save(filepath.Join("../../../out/screens", fmt.Sprintf("%s-%d-%s-%s.png", name, look.Width, scheme, language)))
		}
		p.Goto(b.origin + "/")
		p.Wait("document.querySelector('.signin h1')")
		save("signin")
		p.Goto(b.origin + "/nothing")
		p.Wait("document.querySelector('main h1')")
		save("lost")
		enabled(b, p, everything)
		for _, pg := range pages {
			show(p, pg.path)
			if pg.name == "run" {
				p.Wait("document.querySelector('.live-picture')?.complete")
			}
			save(pg.name)
		}
		p.Press("Control+k")
		p.Wait("document.querySelector('dialog')")
		save("palette")
		p.Press("Escape")
		p.Press("?")
		p.Wait("document.querySelector('dialog kbd')")
		save("keys")
		p.Press("Escape")
		call := reviewing(p, "reports/november.txt")
		save("review")
		p.Press("Escape")
		call.Result()
		call = p.Invoke("item_delete", m{"collection": "files", "item": "table.csv", "request_id": request, "if_version": "v1"})
		p.Wait(accept + "?.getAttribute('aria-disabled') === null")
		save("review-delete")
		p.Press("Escape")
		call.Result()
		show(p, "/approvals")
		c := arming(b, p)
		c.reading("call_0", "get-page-context", "{}")
		c.result("call_0")
		c.send(c.question("call_1", "item_write", newItem))
		alive(p)
		save("confirmation")
		p.Press("Escape")
		c.cancelled("call_1")
		p.Wait("!document.querySelector('dialog')")
		save("armed")
		c.close(controlv1.CloseTrust, refusal.Killed)
		p.Wait("document.querySelector('[data-arm=off]')")
		save("disarmed")
		b.control.disarm(c)
		show(p, "/collections/files")
		p.ClickText(map[string]string{"en": "New item", "es": "Nuevo elemento"}[language])
		p.Wait("document.querySelector('dialog textarea')")
		save("new-item")
		p.Press("Escape")
		show(p, "/connections")
		p.ClickText(map[string]string{"en": "New token", "es": "Nuevo token"}[language])
		p.Wait("document.querySelector('dialog .matrix')")
		save("new-token")
		p.Press("Escape")
		b.intercept("GET /api/usage", func(w http.ResponseWriter, r *http.Request) { refuse(w, 503, "database_busy", nil) })
		show(p, "/")
		save("failure")
		b.intercept("GET /api/usage", nil)
		if look.Width == 320 {
			p.Click(".menu-button")
			save("menu")
		}
		b.mu.Lock()
		b.empty = true
		b.mu.Unlock()
		for _, path := range []string{"/", "/connections"} {
			show(p, path)
			save("empty" + map[string]string{"/": "-home", "/connections": "-connections"}[path])
		}
		b.mu.Lock()
		b.empty = false
		b.mu.Unlock()
		p.Close()
	}
}
