package live_test

import (
	"context"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
)

// A person's no on the authority's own origin that is heard after the call was sent is
// no answer of the page's to a cancel: nobody says for it that nothing happened.
func TestDenialAfterTheCall(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).armed().dial()
		p.pipe.Down = make(chan []byte) // a page that reads when it likes; nothing was sent yet
		p.say(p.open())
		p.say(controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog})
		next[controlv1.Ready](p)
		a := p.agent("agent")
		asked, looked := make(chan struct{}), make(chan struct{})
		a.c.Look = func(context.Context) (int64, error) { close(asked); <-looked; return 1, nil }
		a.leased(catalog)
		got := a.call(ctx, a.request("save"))
		ask := next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		<-asked // the yes is being judged, and what comes now waits behind it
		denied := make(chan ledger.Call, 1)
		go func() {
			c, _ := w.a.Decide(ctx, sure(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor})), ask.Call, nil)
			denied <- c
		}()
		time.Sleep(200 * time.Millisecond)
		close(looked)
		until := func(state ledger.CallState) {
			t.Helper()
			for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
				if must[ledger.Call](t)(w.book.Call(ctx, ask.Call)).State == state {
					return
				}
			}
			t.Fatalf("the call isn't %s", state)
		}
		until(ledger.CallDispatched)
		time.Sleep(200 * time.Millisecond) // its frame is on its way, and the page hasn't read it
		cancelled := a.call(ctx, controlv1.CancelCall{Call: ask.Call, Reason: sure(controlv1.ParseWord("stop"))})
		until(ledger.CallCancelling)
		call := next[controlv1.Call](p)
		next[controlv1.Cancel](p)
		p.say(controlv1.Result{Call: call.Call, Outcome: ok()}) // it was done all the same
		(<-cancelled).is(t, "cancelled", controlv1.StatusSucceeded, controlv1.Committed, "")
		(<-got).is(t, "sent", controlv1.StatusSucceeded, controlv1.Committed, "")
		if c := <-denied; c.State == ledger.CallDenied {
			t.Errorf("the denial says %s", c.State)
		}
	})
}
