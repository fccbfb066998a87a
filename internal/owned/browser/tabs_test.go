package browser_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

// tabs answers the listed tabs, the active one in brackets.
func tabs(t *testing.T, run *sitetest.Run) string {
	t.Helper()
	r := must(t, run, ownedv1.ListTabs{}).Result.(ownedv1.TabsResult)
	for i, name := range r.Tabs {
		if r.Active != nil && *r.Active == name {
			r.Tabs[i] = "[" + name + "]"
		}
	}
	return strings.Join(r.Tabs, " ")
}

func switchTo(t *testing.T, run *sitetest.Run, id string) {
	t.Helper()
	must(t, run, ownedv1.SwitchTab{TabID: id})
}

func TestTabsAreNamed(t *testing.T) {
	run := shared(t)
	for _, step := range []struct {
		to   string
		want string
	}{
		{"main", "[main]"},
		{"other", "main [other]"},
		{"main", "[main] other"},
		{"third", "main other [third]"},
	} {
		switchTo(t, run, step.to)
		if got := tabs(t, run); got != step.want {
			t.Errorf("switch_tab %s: got %s, want %s", step.to, got, step.want)
		}
	}
	again := must(t, run, ownedv1.Launch{Headless: true}).Result.(ownedv1.LaunchResult)
	if diff := cmp.Diff([]string{"main", "other", "third"}, again.Tabs); diff != "" {
		t.Error("a second launch: -want +got\n" + diff)
	}
}

func TestBeforeLaunchAndAfterClose(t *testing.T) {
	run := shared(t)
	must(t, run, ownedv1.EvalJS{Expression: `1`})
	switchTo(t, run, "kept")
	must(t, run, ownedv1.Close{})
	if got := tabs(t, run); got != "" {
		t.Errorf("tabs after close: %s", got)
	}
	must(t, run, ownedv1.Close{}) // no error either
	for _, a := range []ownedv1.Action{
		ownedv1.Goto{URL: "about:blank"}, ownedv1.EvalJS{Expression: "1"}, ownedv1.PageSource{}, ownedv1.Screenshot{},
		ownedv1.PDF{}, ownedv1.Scroll{}, ownedv1.ConsoleLogs{}, ownedv1.SwitchTab{TabID: "x"},
	} {
		if f := fails(t, run, a); f.Reason != refusal.NoBrowser {
			t.Errorf("%s before launch: %v", a.Name(), f)
		}
	}
	if f := fails(t, run, ownedv1.Launch{}); f.Code != refusal.BrowserActionFailed {
		t.Errorf("a window: %v", f)
	}
	must(t, run, ownedv1.Launch{Headless: true})
	if got := tabs(t, run); got != "[main]" {
		t.Errorf("tabs after a new launch: %s", got)
	}
}

// Tabs and popups: a link opens a new tab; the next action silently goes to the
// old one. Here the answer lists it and it never becomes active.
func TestCasePopupsAreListedAndNeverActive(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title><a target=_blank href=/p>x</a><a id=n target=_blank rel=noopener href=/p>x</a>`)
	site.Page("/p", `<title>Popup</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for i, open := range []string{`document.querySelector('a').click()`, `document.querySelector('#n').click()`, `void window.open('/p')`, `void window.open('http://out.test/')`} {
		must(t, run, ownedv1.EvalJS{Expression: open})
		eventually(t, func() bool { return strings.Contains(tabs(t, run), fmt.Sprintf("popup-%d", i+1)) })
	}
	if got, want := tabs(t, run), "[main] popup-1 popup-2 popup-3 popup-4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	switchTo(t, run, "popup-1")
	eventually(t, func() bool { return eval(t, run, `document.title`) == `"Popup"` })
	if got := eval(t, run, `innerWidth + 'x' + innerHeight + (opener ? 'o' : '')`); got != `"1280x720"` {
		t.Errorf("a popup's viewport: %s", got)
	}
	switchTo(t, run, "popup-4")
	eventually(t, func() bool { // its own navigation may be denied just now
		answer, err := do(run, ownedv1.EvalJS{Expression: `location.href`})
		return err == nil && string(answer.Result.(ownedv1.EvalResult).Result) == `"about:blank"`
	})
}

// Tabs and popups: one source of truth, an id and not an index.
func TestCaseClosingAnEarlierTabKeepsTheCurrentOne(t *testing.T) {
	run := shared(t)
	for _, id := range []string{"two", "three"} {
		switchTo(t, run, id)
		must(t, run, ownedv1.EvalJS{Expression: `void (window.name = '` + id + `')`})
	}
	answer := must(t, run, browser.CloseTab{TabID: "main"})
	if got, want := tabs(t, run), "two [three]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"main"}, answer.Notes.GoneTabs); diff != "" {
		t.Error("-want +got\n" + diff)
	}
	if got := eval(t, run, `window.name`); got != `"three"` {
		t.Errorf("the current tab is %s", got)
	}
}

// Tabs and popups: ids are never used twice; a closed one is tab_gone.
func TestCaseClosedTabIsGone(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	run := shared(t)
	switchTo(t, run, "two")
	must(t, run, browser.CloseTab{TabID: "two"})
	switchTo(t, run, "main")
	switchTo(t, run, "three")
	for _, a := range []ownedv1.Action{ownedv1.SwitchTab{TabID: "two"}, browser.CloseTab{TabID: "two"}} {
		if f := fails(t, run, a); f.Reason != refusal.TabGone {
			t.Errorf("%s: %v", a.Name(), f)
		}
	}
	if got, want := tabs(t, run), "main [three]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	must(t, run, ownedv1.EvalJS{Expression: `void setTimeout(() => window.close(), 500)`}) // after its own answer
	eventually(t, func() bool { return tabs(t, run) == "main" })
	for _, a := range []ownedv1.Action{ownedv1.EvalJS{Expression: "1"}, ownedv1.Screenshot{}, ownedv1.PageSource{}} {
		if f := fails(t, run, a); f.Reason != refusal.TabGone {
			t.Errorf("%s without an active tab: %v", a.Name(), f)
		}
	}
	if answer := must(t, run, ownedv1.Goto{URL: site.URL("/")}); answer.Notes.Tab != "tab-1" {
		t.Errorf("goto acted on %q", answer.Notes.Tab)
	}
	if got, want := tabs(t, run), "main [tab-1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPopupFloodIsBounded(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Flood</title>`)
	site.Page("/p", `<title>P</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	refused := must(t, run, ownedv1.EvalJS{Expression: `for (let i = 0; i < 100; i++) window.open('/p?' + i)`}).Notes.TabsRefused
	eventually(t, func() bool {
		refused += must(t, run, ownedv1.EvalJS{Expression: `1`}).Notes.TabsRefused
		return refused >= 51
	})
	if got := len(strings.Fields(tabs(t, run))); got != 50 {
		t.Errorf("%d tabs are open", got)
	}
	if f := fails(t, run, ownedv1.SwitchTab{TabID: "more"}); f.Reason != refusal.TooMany {
		t.Errorf("one more: %v", f)
	}
	if got := eval(t, run, `document.title`); got != `"Flood"` {
		t.Errorf("the page answers %s", got)
	}
}

// Deadlines and hangs: a renderer's crash fails calls at once; goto brings the run
// back.
func TestCaseCrashedTab(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	run := shared(t)
	switchTo(t, run, "other")
	visit(t, run, site.URL("/"))
	done := make(chan error)
	start := time.Now()
	go func() {
		_, err := do(run, ownedv1.EvalJS{Expression: `new Promise(() => {})`})
		done <- err
	}()
	time.Sleep(100 * time.Millisecond)
	killRenderers(t, run)
	if f := asFailure(t, <-done); f.Reason != refusal.TabCrashed {
		t.Errorf("the call under way: %v", f)
	}
	within(t, start, 0, 5*time.Second)
	start = time.Now()
	if f := fails(t, run, ownedv1.PageSource{}); f.Reason != refusal.TabCrashed {
		t.Errorf("the next call: %v", f)
	}
	within(t, start, 0, 3*time.Second)
	if got := visit(t, run, site.URL("/")).Title; got != "Home" {
		t.Errorf("goto brought %q", got)
	}
	if got := tabs(t, run); got != "[tab-1]" {
		t.Errorf("tabs: %s", got)
	}
}

// killRenderers kills every renderer of the run's box.
func killRenderers(t *testing.T, run *sitetest.Run) {
	t.Helper()
	for _, pid := range renderers(t, run.Box.PID()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// Tabs and popups: the click's own answer names the new tab, however it is opened.
func TestCaseClickNamesTheNewTab(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title><a id=link target=_blank href=/p>x</a><a id=opener target=_blank rel=opener href=/p>x</a>
		<button id=open onclick="window.open('/p')">x</button><button id=apart onclick="window.open('/p', '', 'noopener')">x</button>
		<form action=/p target=_blank><button id=form>x</button></form><a id=out target=_blank href="http://out.test/">x</a>`)
	site.Page("/p", `<title>P</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for i, id := range []string{"link", "opener", "open", "apart", "form", "out", "link", "link", "apart", "form"} {
		start := time.Now()
		answer := must(t, run, ownedv1.Click{Selector: "#" + id})
		if diff := cmp.Diff([]string{fmt.Sprintf("popup-%d", i+1)}, answer.Notes.NewTabs); diff != "" {
			t.Errorf("%s: -want +got\n%s", id, diff)
		}
		if answer.Notes.Tab != "main" {
			t.Errorf("%s acted on %q", id, answer.Notes.Tab)
		}
		within(t, start, 0, 5*time.Second)
	}
}
