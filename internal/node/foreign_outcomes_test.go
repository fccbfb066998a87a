package node_test

import (
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/refusal"
)

// Every way in which a call of a real page ends other than well: cancelled before and
// after it was sent, answered too late, never answered, and lost with its page. What
// is told is what is known.
func TestForeignOutcomes(t *testing.T) {
	f := setForeign(t, pagetest.Start(t), nil)
	token := f.token()
	f.arm()
	l := f.lease(f.agent(token))
	reason, err := controlv1.ParseWord("not_needed")
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, r controlv1.Receipt, err error, status controlv1.Status, effect controlv1.Effect, code refusal.Code) {
		t.Helper()
		if err != nil || r.Status != status || r.Effect != effect || r.Code != code {
			t.Errorf("%s: %s %s %q (%v), want %s %s %q", what, r.Status, r.Effect, r.Code, err, status, effect, code)
		}
	}
	begun := func() { f.page.Wait("typeof window.go === 'function'") }

	// Never answered, since what the page says is lost on its way: its time passes, the
	// page is told to stop, and nothing comes of that either.
	f.page.Eval("sockets.at(-1).send = () => {}; 0", nil)
	silent := l.once("stock", "silent", `{"of":"tea"}`, 1)
	s := <-silent
	is("no answer in time", s.receipt, s.err, controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.TimedOut)
	f.page.Eval("delete sockets.at(-1).send; 0", nil)

	// Cancelled before anything was sent: the prompt goes, and nothing was done.
	asked := l.once("pay", "unasked", `{"amount":5}`, 60)
	f.page.Wait(panel("li[data-call=asked]"))
	var call string
	f.page.Eval("heard.findLast((f) => f.type === 'control.confirmation_request').call_id", &call)
	r, err := l.agent.Cancel(t.Context(), ident(t, call), reason)
	is("cancelled unconfirmed", r, err, controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
	a := <-asked
	is("to who asked", a.receipt, a.err, controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
	f.page.Wait("!" + panel("li[data-call=asked]"))
	if paid := f.paid(); len(paid) != 0 {
		t.Errorf("paid %v", paid)
	}

	// Cancelled while it runs: the page stops it, and can't know what it had done.
	running := l.once("stock", "stopped", `{"of":"wait"}`, 60)
	begun()
	f.page.Eval("heard.findLast((f) => f.type === 'control.call').call_id", &call)
	r, err = l.agent.Cancel(t.Context(), ident(t, call), reason)
	is("cancelled under way", r, err, controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.CallCancelled)
	<-running

	// Answered in time, and heard late: unknown, and then what it was, with the result.
	f.page.Eval("window.held = []; sockets.at(-1).send = (frame) => held.push(frame); 0", nil)
	late := <-l.once("stock", "late", `{"of":"tea"}`, 1)
	is("not heard yet", late.receipt, late.err, controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.TimedOut)
	f.page.Eval("delete sockets.at(-1).send; held.forEach((frame) => sockets.at(-1).send(frame)); 0", nil)
	r, err = l.agent.Wait(t.Context(), late.receipt.Call, 20*time.Second)
	is("its late result", r, err, controlv1.StatusSucceeded, controlv1.NoEffect, "")
	if string(r.Result.Bytes()) != `{"left":3,"of":"tea"}` {
		t.Errorf("the late result: %s", r.Result.Bytes())
	}

	// The first call's window is over by now, or soon.
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if r, err = l.agent.Reconcile(t.Context(), s.receipt.Call); err != nil || r.Status != controlv1.StatusUnknown {
			break
		}
	}
	is("never answered", r, err, controlv1.StatusFailed, controlv1.NoEffect, refusal.WindowExpired)

	// The page goes away with a call that it had: unknown, and nobody waits for a result.
	f.page.Eval("delete window.go; 0", nil)
	lost := l.once("stock", "lost", `{"of":"wait"}`, 60)
	begun()
	f.page.Goto(f.origin + "/shop.js")
	if h := <-lost; h.err != nil || h.receipt.Status != controlv1.StatusUnknown && h.receipt.Status != controlv1.StatusFailed || h.receipt.Code == "" {
		t.Errorf("lost with its page: %+v", h)
	}
}
