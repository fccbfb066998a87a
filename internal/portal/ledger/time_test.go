package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestTime lets months pass: receipts, grants and memories end when they should, and
// not a moment earlier.
func TestTime(t *testing.T) {
	path := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, path, store.Options{})
		s := b.surface(t)
		prepare := func() string {
			return must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest)).Receipt
		}
		receipt := prepare()
		time.Sleep(2*time.Minute - time.Millisecond)
		ok(t, b.Confirm(ctx, s.caller(), receipt, digest))
		time.Sleep(time.Millisecond)
		if err := b.Confirm(ctx, s.caller(), receipt, digest); word(err) != tool.ReceiptExpired {
			t.Errorf("after two minutes: %v", err)
		}
		if got := b.text(t, `select state from portal_review where receipt=$1`, receipt); got != "expired" {
			t.Errorf("the receipt is %s", got)
		}
		// A used one whose time is over stays used.
		receipt = prepare()
		ok(t, b.Confirm(ctx, s.caller(), receipt, digest))
		c := claim(s.caller())
		c.Review = receipt
		r, _, err := b.Claim(ctx, c)
		ok(t, err)
		ok(t, b.Finish(ctx, r, written))

		app := b.bearer(t, s.actor, all())
		use := func(c ledger.Caller) refusal.Code {
			_, _, err := b.Allow(ctx, c, "files", tool.ReadItem)
			return word(err)
		}
		time.Sleep(time.Hour - time.Millisecond)
		if got := use(app); got != "ok" {
			t.Errorf("an app before its expiry: %s", got)
		}
		time.Sleep(time.Millisecond)
		if got := use(app); got != tool.GrantRevoked {
			t.Errorf("an app at its expiry: %s", got)
		}
		time.Sleep(11 * time.Hour)
		if got := use(s.caller()); got != tool.SessionExpired {
			t.Errorf("a browser after twelve hours: %s", got)
		}
		ok(t, b.Sweep(ctx))
		b.check(t)
		count := func(table string) string { return b.text(t, `select count(*) from `+table) }
		if got := count("portal_request"); got != "1" {
			t.Errorf("%s requests after a day", got)
		}
		time.Sleep(30*24*time.Hour - 12*time.Hour)
		ok(t, b.Sweep(ctx))
		if got := count("portal_request") + count("portal_review"); got != "10" {
			t.Errorf("requests and reviews just before thirty days: %s", got)
		}
		time.Sleep(24 * time.Hour)
		ok(t, b.Sweep(ctx))
		if got := count("portal_request") + count("portal_connection"); got != "02" {
			t.Errorf("requests and connections after thirty days: %s", got)
		}
		time.Sleep(90 * 24 * time.Hour)
		ok(t, b.Sweep(ctx))
		if got := count("portal_connection") + count("portal_selected"); got != "00" {
			t.Errorf("connections and selections at the end: %s", got)
		}
		b.check(t)
	})
}

// Old reviews that nobody swept don't keep their owner from the next.
func TestReviewsAreFew(t *testing.T) {
	path := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, path, store.Options{})
		s := b.surface(t)
		prepare := func() refusal.Code {
			_, err := b.Prepare(ctx, s.caller(), tool.WriteItem, digest)
			return word(err)
		}
		for range ledger.MaxReviews {
			if got := prepare(); got != "ok" {
				t.Fatal(got)
			}
		}
		if got := prepare(); got != tool.Busy {
			t.Errorf("one too many: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := prepare(); got != "ok" {
			t.Errorf("after their time: %s", got)
		}
		b.check(t)
	})
}

func TestRing(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		app := b.bearer(t, b.person(t), all())
		for range ledger.Ring + 5 {
			ok(t, b.Refuse(ctx, app, ledger.Call{Tool: tool.ReadItem, Collection: "files", Code: tool.NotFound}))
		}
		ok(t, b.Told(ctx, app, ledger.Grant{Connection: app.Connection, Generation: 1}, ledger.Call{Tool: tool.ListCollections}))
		calls := must[[]ledger.Call](t)(b.Calls(ctx, app.Actor, 1000))
		if len(calls) != ledger.Ring || calls[0].Tool != tool.ListCollections || calls[1].Code != tool.NotFound || calls[1].Effect != tool.Read {
			t.Errorf("%d calls, the last %+v and %+v", len(calls), calls[0], calls[1])
		}
		if n := len(must[[]ledger.Call](t)(b.Calls(ctx, b.person(t), 10))); n != 0 {
			t.Errorf("another person sees %d calls", n)
		}
		b.check(t)
	})
}
