package live_test

import (
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// A page that answers nothing holds up so many calls and no more: what comes after is
// refused until one of them is over, and the channel and other pages go on.
func TestUnansweredCallsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		var all []<-chan answered
		var calls []controlv1.Call
		for n := range 128 {
			x := a.request("read_page")
			x.TimeoutSeconds = 120
			all = append(all, a.call(ctx, x))
			calls = append(calls, next[controlv1.Call](p))
			if n >= 30 {
				time.Sleep(time.Second / 16) // as fast as frames may leave in the long run
			}
		}
		want(t, "one more", a.do(a.request("read_page")).err, refusal.Busy)
		want(t, "a change", a.do(a.request("save")).err, refusal.Busy)
		p.quiet()
		a.do(controlv1.AskCall{Call: calls[0].Call}).is(t, "get_call", controlv1.StatusDispatched, controlv1.NoEffect, "")
		q := w.page(p.who.Actor, origin, catalog).ready(catalog)
		b := q.agent("agent").leased(catalog)
		got := b.call(ctx, b.request("read_page"))
		q.say(controlv1.Result{Call: next[controlv1.Call](q).Call, Outcome: ok()})
		(<-got).is(t, "another page", controlv1.StatusSucceeded, controlv1.NoEffect, "")

		p.say(controlv1.Result{Call: calls[0].Call, Outcome: ok()})
		(<-all[0]).is(t, "answered at last", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		time.Sleep(100 * time.Millisecond) // whoever waited is told a moment before its place is free
		got = a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "once one is over", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		p.pipe.Close(1000, "")
		<-p.served
		for _, c := range all[1:] {
			<-c
		}
	})
}
