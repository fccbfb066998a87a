package live_test

import (
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
	"chaperone/internal/storetest"
)

// TestDecideHere: of a page that isn't ours nothing is confirmed but on the
// authority's own origin, by the page's own person.
func TestDecideHere(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := open(t, url, func(c *live.Config) {
			c.Policy = must[*policy.Set](t)(policy.Parse("test.cedar", []byte(`@id("all") @require_confirmation("visible_click") permit (principal, action in Action::"mutate", resource);`)))
		})
		foreign := tools("save:account-mutation")
		p := w.page(fresh("person-"), "https://app.example", foreign).ready(foreign)
		a := p.agent("agent").leased(foreign)
		q := w.person(catalog).ready(catalog)
		b := q.agent("agent")
		got := a.call(ctx, a.request("save"))
		ask := next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}) // the foreign page's own word
		p.quiet()
		prompts := w.a.Prompts(ctx, a.c.Who)
		if len(prompts) != 1 || prompts[0].Call != ask.Call || prompts[0].Agent != "agent" || prompts[0].Origin.String() != "https://app.example" ||
			string(prompts[0].Arguments.Bytes()) != string(ask.Arguments.Bytes()) {
			t.Errorf("prompts: %+v", prompts)
		}
		if n := len(w.a.Prompts(ctx, b.c.Who)); n != 0 {
			t.Errorf("somebody else is told of %d", n)
		}
		yes := &controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}
		_, err := w.a.Decide(ctx, b.c.Who, ask.Call, yes)
		want(t, "somebody else", err, refusal.UnknownCall)
		_, err = w.a.Decide(ctx, a.c.Who, ask.Call, &controlv1.Confirm{Call: ask.Call, Confirmation: ask.Schemas})
		want(t, "another digest", err, refusal.RequestConflict)
		if c := must[ledger.Call](t)(w.a.Decide(ctx, a.c.Who, ask.Call, yes)); c.State != ledger.CallDispatched {
			t.Errorf("confirmed: %s", c.State)
		}
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "confirmed here", controlv1.StatusSucceeded, controlv1.Committed, "")
		if c := must[ledger.Call](t)(w.a.Decide(ctx, a.c.Who, ask.Call, yes)); c.State != ledger.CallSucceeded {
			t.Errorf("confirmed again: %s", c.State)
		}
		_, err = w.a.Decide(ctx, b.c.Who, ask.Call, yes)
		want(t, "somebody else, afterwards", err, refusal.UnknownCall)
		_, err = w.a.Decide(ctx, a.c.Who, ask.Call, nil)
		want(t, "denied afterwards", err, refusal.UnknownCall)

		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		must[ledger.Call](t)(w.a.Decide(ctx, a.c.Who, ask.Call, nil))
		(<-got).is(t, "denied here", controlv1.StatusDenied, controlv1.NoEffect, refusal.UserDenied)
	})
}
