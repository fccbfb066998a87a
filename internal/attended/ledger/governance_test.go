package ledger_test

import (
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestRoleLostBeforeTheClaim: a role that the tool asks for is asked for again when the
// person says yes; without it the call ends, and nothing is sent.
func TestRoleLostBeforeTheClaim(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for name, roles := range map[string][]string{"none left": nil, "others": {"reader", "Clerk"}} {
			s := b.person(t).published()
			ask := s.ask()
			ask.Tools = []controlv1.ID{id("secret_pay")}
			s.lease = must[ledger.Lease](t)(b.Issue(ctx, s.caller, ask))
			c := s.admit("secret_pay")
			k := s.confirmed(c)
			k.Caller.Roles = roles
			_, err := b.Confirm(ctx, k)
			want(t, name, err, refusal.AuthorityLost)
			if c = must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID)); c.State != ledger.CallCancelled || c.Effect != controlv1.NoEffect || c.Attempts != 0 {
				t.Errorf("%s: %s, %s, %d attempts", name, c.State, c.Effect, c.Attempts)
			}
			_, err = b.Confirm(ctx, s.confirmed(c)) // and having it again doesn't bring it back
			want(t, name+", then again", err, refusal.AuthorityLost)
		}
		b.check(t)
	})
}

// TestNamesOwnNothing: two nodes that are configured alike, over one database, are two:
// neither can end, retire or claim what the other claimed.
func TestNamesOwnNothing(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		one := open(t, url, store.Options{})
		two := &book{newBook(t, one.db), one.db}
		if one.Node() == two.Node() || len(one.Node()) < 32 {
			t.Fatalf("the nodes are %q and %q", one.Node(), two.Node())
		}
		ok(t, one.Beat(ctx))
		ok(t, two.Beat(ctx))
		s := one.person(t).leased()
		c := s.dispatched("pay")
		own := ledger.NewReference()
		_, err := two.Withhold(ctx, c.ID, own, refusal.NotDispatched)
		want(t, "withheld by another", err, refusal.Forbidden)
		if did, err := two.Retire(ctx, c.ID, own); did || err != nil {
			t.Errorf("retired by another: %v %v", did, err)
		}
		k := s.confirmed(c)
		_, err = two.Confirm(ctx, k)
		want(t, "claimed by another", err, refusal.Replayed)
		ok(t, two.Repair(ctx)) // whose node lives is left alone
		if c = must[ledger.Call](t)(one.Show(ctx, s.caller, c.ID)); c.State != ledger.CallDispatched || c.Attempts != 1 {
			t.Errorf("the call is %+v", c)
		}
		must[ledger.Call](t)(one.Settle(ctx, c.ID, success, ""))
		one.check(t)
	})
}
