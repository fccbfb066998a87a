package live_test

import (
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
)

// A retry under another request_id that arrives many times at once is the call that
// waits already, for each of its deliveries: none of them hears of a call that there
// never was, and the person is asked once.
func TestRetryDeliveredAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		first := a.request("save")
		got := a.call(ctx, first)
		ask := next[controlv1.ConfirmationRequest](p)
		var all []<-chan answered
		for range 3 {
			again := first
			again.Request = id(fresh("request-"))
			for range 8 {
				all = append(all, a.call(ctx, again))
			}
		}
		time.Sleep(time.Second) // they are all there: nothing tells it, since none leaves a trace
		p.quiet()
		p.say(controlv1.Cancelled{Call: ask.Call, Effect: controlv1.NoEffect})
		for i, waiting := range append(all, got) {
			r := <-waiting
			if r.err != nil || r.receipt.Call != ask.Call {
				t.Errorf("delivery %d: %s %v", i, r.receipt.Call, r.err)
			}
		}
	})
}
