package browser_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

// Dialogs: a click that opens `alert` hangs, and nobody learns that a dialog is
// there.
func TestCaseClickThatOpensAnAlert(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Alert</title><button onclick="window.before=1; alert('hello'); window.after=1">x</button>
		<button id=p onclick="window.said = prompt('name?', 'Bob')">y</button>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, test := range []struct {
		mode     browser.DialogMode
		selector string
		check    string
		want     string
		dialog   browser.Dialog
	}{
		{browser.DialogsDismiss, "button", `before + after`, `2`,
			browser.Dialog{Tab: "main", Type: "alert", Message: "hello", Outcome: "dismissed"}},
		{browser.DialogsDismiss, "#p", `said`, `null`,
			browser.Dialog{Tab: "main", Type: "prompt", Message: "name?", Default: "Bob", Outcome: "dismissed"}},
		{browser.DialogsAccept, "#p", `said`, `"Bob"`,
			browser.Dialog{Tab: "main", Type: "prompt", Message: "name?", Default: "Bob", Outcome: "accepted"}},
	} {
		must(t, run, browser.SetDialogs{Mode: test.mode})
		start := time.Now()
		answer := must(t, run, ownedv1.Click{Selector: test.selector})
		within(t, start, 0, 5*time.Second)
		if diff := cmp.Diff([]browser.Dialog{test.dialog}, answer.Notes.Dialogs); diff != "" {
			t.Error("-want +got\n" + diff)
		}
		if got := eval(t, run, test.check); got != test.want {
			t.Errorf("%s: got %s, want %s", test.check, got, test.want)
		}
	}
	must(t, run, browser.SetDialogs{Mode: browser.DialogsDismiss})
	lines := must(t, run, ownedv1.ConsoleLogs{}).Result.(ownedv1.ConsoleResult).Lines
	if diff := cmp.Diff([]string{"[dialog] alert: hello", "[dialog] prompt: name?", "[dialog] prompt: name?"}, lines); diff != "" {
		t.Error("console: -want +got\n" + diff)
	}
}

// Dialogs: one that opens after the click returned freezes nothing: other calls
// fail at once while it is held, and the call that settles it is never queued.
func TestCaseDialogAfterTheClick(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Later</title><button onclick="setTimeout(() => window.sure = confirm('sure?'), 0)">x</button>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	must(t, run, browser.SetDialogs{Mode: browser.DialogsHold})
	defer must(t, run, browser.SetDialogs{Mode: browser.DialogsDismiss})
	must(t, run, ownedv1.Click{Selector: "button"})
	eventually(t, func() bool {
		_, err := do(run, ownedv1.EvalJS{Expression: "1"})
		return err != nil
	})
	for _, a := range []ownedv1.Action{ownedv1.EvalJS{Expression: "1"}, ownedv1.PageSource{}, ownedv1.Screenshot{}, ownedv1.Click{Selector: "button"}} {
		start := time.Now()
		if f := fails(t, run, a); f.Reason != refusal.DialogOpen {
			t.Errorf("%s: %v", a.Name(), f)
		}
		within(t, start, 0, 3*time.Second)
	}
	answered := must(t, run, browser.AnswerDialog{Accept: true}).Result.(browser.AnsweredResult).Answered
	want := browser.Dialog{Tab: "main", Type: "confirm", Message: "sure?", Outcome: "accepted"}
	if diff := cmp.Diff(want, answered); diff != "" {
		t.Error("-want +got\n" + diff)
	}
	if got := eval(t, run, `sure`); got != `true` {
		t.Errorf("the page heard %s", got)
	}
	if f := fails(t, run, browser.AnswerDialog{}); f.Reason != refusal.NotFound {
		t.Errorf("a second answer: %v", f)
	}
}

// Dialogs: a script that stands on a held dialog is told at once, and answered
// from beside.
func TestCaseHeldDialogInsideAScript(t *testing.T) {
	run := shared(t)
	must(t, run, browser.SetDialogs{Mode: browser.DialogsHold})
	defer must(t, run, browser.SetDialogs{Mode: browser.DialogsDismiss})
	start := time.Now()
	f := fails(t, run, ownedv1.EvalJS{Expression: `window.got = prompt('name?')`})
	within(t, start, 0, 4*time.Second)
	if f.Reason != refusal.DialogOpen || !f.Sent || len(f.Notes.Dialogs) != 1 || f.Notes.Dialogs[0].Outcome != "open" {
		t.Errorf("got %v with %+v", f, f.Notes)
	}
	must(t, run, browser.AnswerDialog{Accept: true, Text: "Eve"})
	eventually(t, func() bool { return eval(t, run, `window.got`) == `"Eve"` })
}

// Dialogs: `beforeunload` blocks goto, closing a tab and closing the run.
func TestCaseBeforeunload(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Stay</title><button onclick="1">x</button><script>
		addEventListener('beforeunload', (e) => { e.preventDefault(); e.returnValue = 'stay' })</script>`)
	site.Page("/next", `<title>Next</title>`)
	run := shared(t)
	arm := func() {
		visit(t, run, site.URL("/"))
		must(t, run, ownedv1.Click{Selector: "button"}) // the engine asks only after a real click
	}
	arm()
	answer := must(t, run, ownedv1.Goto{URL: site.URL("/next")})
	if got := answer.Result.(ownedv1.GotoResult).Title; got != "Next" {
		t.Errorf("goto ended at %q", got)
	}
	want := []browser.Dialog{{Tab: "main", Type: "beforeunload", Outcome: "accepted"}}
	if diff := cmp.Diff(want, answer.Notes.Dialogs); diff != "" {
		t.Error("-want +got\n" + diff)
	}
	switchTo(t, run, "two")
	arm()
	start := time.Now()
	must(t, run, browser.CloseTab{TabID: "two"})
	within(t, start, 0, 1900*time.Millisecond)
	switchTo(t, run, "three")
	arm()
	start = time.Now()
	must(t, run, ownedv1.Close{})
	within(t, start, 0, 1900*time.Millisecond)
}

// No lock is held while a page is awaited: a call behind a stuck one leaves at its
// own deadline.
func TestCaseCallBehindAStuckOne(t *testing.T) {
	run := shared(t)
	long, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := run.Do(long, ownedv1.EvalJS{Expression: `new Promise(() => {})`})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := run.Do(ctx, ownedv1.EvalJS{Expression: `1`})
	if refusal.Of(err) != refusal.BrowserTimeout {
		t.Errorf("got %v", err)
	}
	within(t, start, 200*time.Millisecond, 3*time.Second)
	stop()
	<-done
}

// A page that shows one dialog after the other ends at the deadline too, at worst
// with its renderer.
func TestDialogFlood(t *testing.T) {
	run := shared(t)
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	_, err := run.Do(ctx, ownedv1.EvalJS{Expression: `for (;;) alert('again')`})
	f := asFailure(t, err)
	if f.Code != refusal.BrowserTimeout || len(f.Notes.Dialogs) != 20 {
		t.Errorf("got %v with %d dialogs", f, len(f.Notes.Dialogs))
	}
	visit(t, run, "about:blank")
}
