package live_test

import (
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
	"chaperone/internal/storetest"
)

// at is the same agent as it asks another node.
func (a *agent) at(w *world) *agent {
	p := &page{w: w, who: a.p.who, place: a.p.place}
	return &agent{p: p, c: a.c, lease: a.lease}
}

// An agent that reaches another node than the one with the page is told so, and what
// the record can answer is answered there; what is ended there ends the page's socket
// here.
func TestTwoNodes(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w, v := open(t, url, nil), open(t, url, nil)
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		b := a.at(v)
		docs := must[live.Answer](t)(v.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})).(controlv1.Documents)
		if len(docs.All) != 0 {
			t.Errorf("the other node lists %+v", docs)
		}
		_, err := v.a.Dispatch(ctx, b.c, controlv1.IssueLease{Document: p.place.Document, Tools: []controlv1.ID{id("save")}, TTLSeconds: 10})
		want(t, "a lease at the other node", err, refusal.UnknownDocument)
		for _, tool := range []string{"read_page", "save"} {
			want(t, tool+" at the other node", b.do(b.request(tool)).err, refusal.ChannelUnavailable)
		}
		p.quiet()

		// A call that waits: the same request there is that call, and each of them ends it.
		stop := sure(controlv1.ParseWord("stop"))
		x := a.request("save")
		got := a.call(ctx, x)
		ask := next[controlv1.ConfirmationRequest](p)
		there := b.call(ctx, x)
		b.do(controlv1.AskCall{Call: ask.Call}).is(t, "get_call there", controlv1.StatusPending, controlv1.NoEffect, "")
		b.do(controlv1.ReconcileCall{Call: ask.Call}).is(t, "reconcile_call there", controlv1.StatusPending, controlv1.NoEffect, "")
		if _, err := v.a.Decide(ctx, sure(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor})), ask.Call, &controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}); refusal.Of(err) != refusal.UnknownCall {
			t.Errorf("a confirmation there: %v", err)
		}
		b.do(controlv1.CancelCall{Call: ask.Call, Reason: stop}).is(t, "cancelled there", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		(<-there).is(t, "who waited there", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		(<-got).is(t, "who waited here", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		if c := next[controlv1.Cancel](p); c.Call != ask.Call {
			t.Errorf("the page is told of %s", c.Call)
		}

		// A call that was sent, cancelled there: the page here is asked, and its word counts.
		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		next[controlv1.Call](p)
		cancelled := b.call(ctx, controlv1.CancelCall{Call: ask.Call, Reason: stop})
		next[controlv1.Cancel](p)
		p.say(controlv1.Cancelled{Call: ask.Call, Effect: controlv1.Committed})
		(<-cancelled).is(t, "cancelled too late", controlv1.StatusSucceeded, controlv1.Committed, "")
		(<-got).is(t, "sent", controlv1.StatusSucceeded, controlv1.Committed, "")

		// Each end that is written there reaches the socket here in seconds, and nothing
		// that waited is sent.
		for name, c := range map[string]struct {
			end    func(*page, *agent) error
			reason refusal.Code
		}{
			"the kill switch": {func(p *page, _ *agent) error {
				k, err := v.book.Kill(ctx, ledger.KillPrincipal, v.a.Principal(p.agent("").c.Who).String(), v.a.Principal(p.agent("").c.Who))
				if err == nil {
					err = v.book.Lift(ctx, k.ID, v.a.Principal(p.agent("").c.Who)) // lifted at once: it ended what there was
				}
				return err
			}, refusal.Killed},
			"the session": {func(p *page, _ *agent) error { return v.book.EndLogin(ctx, p.who.Login, refusal.SignedOut) }, refusal.SignedOut},
			"the arm": {func(p *page, _ *agent) error {
				return v.a.Revoke(ctx, p.who, p.arm.Ref, p.place, refusal.Revoked)
			}, refusal.Revoked},
		} {
			p := w.person(catalog).ready(catalog)
			a := p.agent("agent").leased(catalog)
			got := a.call(ctx, a.request("save"))
			ask := next[controlv1.ConfirmationRequest](p)
			start := time.Now()
			if err := c.end(p, a); err != nil {
				t.Fatal(name, err)
			}
			p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
			for f := p.hear(); f != nil; f = p.hear() {
				if _, sent := f.(controlv1.Call); sent {
					t.Errorf("%s: sent after it", name)
				}
			}
			p.closed(controlv1.CloseTrust, c.reason)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s: closed after %v", name, took)
			}
			if r := <-got; r.receipt.Status != controlv1.StatusCancelled || r.receipt.Effect != controlv1.NoEffect {
				t.Errorf("%s: %+v", name, r)
			}
			want(t, name+": another call there", a.at(v).do(a.request("save")).err, refusal.LeaseRevoked)
		}
	})
}
