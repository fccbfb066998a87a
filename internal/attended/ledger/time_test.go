package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestTime lets minutes pass: each expiry comes when it should, and not a moment
// earlier. It is judged at use; Repair only writes what use would find.
func TestTime(t *testing.T) {
	path := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		b := open(t, path, store.Options{})
		edge := func(d time.Duration, before, at func()) {
			t.Helper()
			time.Sleep(d - time.Millisecond)
			before()
			time.Sleep(time.Millisecond)
			at()
			b.check(t)
		}
		// A grant lasts a minute.
		s := b.person(t).granted()
		other := b.person(t).granted()
		edge(time.Minute, func() { _, _, err := b.Finalize(ctx, other.arm.Ref, other.evidence, other.page); ok(t, err) },
			func() {
				_, _, err := b.Finalize(ctx, s.arm.Ref, s.evidence, s.page)
				want(t, "a grant at its end", err, refusal.ArmExpired)
			})
		// An arm lasts fifteen minutes, and use doesn't lengthen it.
		s = b.person(t).leased()
		edge(15*time.Minute, func() { _, err := b.Standing(ctx, s.arm.Ref); ok(t, err) },
			func() { _, err := b.Standing(ctx, s.arm.Ref); want(t, "an arm at its end", err, refusal.ArmExpired) })
		// A lease lasts what was asked, and the arm's rest at most.
		s = b.person(t).leased()
		edge(5*time.Minute, func() { s.admit("read_page") },
			func() {
				_, _, err := b.Admit(ctx, s.admission("read_page"))
				want(t, "a lease at its end", err, refusal.LeaseExpired)
			})
		ask := s.ask()
		ask.TTL = 15 * time.Minute
		s.lease = must[ledger.Lease](t)(b.Issue(ctx, s.caller, ask))
		if s.lease.ExpiresMS != s.arm.ExpiresMS || s.lease.HardExpiresMS != s.arm.ExpiresMS {
			t.Errorf("a lease outlives its arm by %d ms", s.lease.ExpiresMS-s.arm.ExpiresMS)
		}
		// A token that ends sooner ends everything sooner.
		short := b.person(t)
		short.evidence.CredentialUntilMS = time.Now().Add(2 * time.Minute).UnixMilli()
		short.leased()
		if short.arm.ExpiresMS != short.evidence.CredentialUntilMS || short.lease.ExpiresMS != short.evidence.CredentialUntilMS {
			t.Error("an arm or a lease outlives the access token")
		}
		m := short.admission("pay")
		m.Timeout = 2 * time.Minute
		time.Sleep(time.Second)
		c, _, err := b.Admit(ctx, m)
		ok(t, err)
		if c.DeadlineMS != short.lease.ExpiresMS {
			t.Error("a call outlives its lease")
		}
		edge(119*time.Second, func() {}, func() {
			_, err := b.Confirm(ctx, short.confirmed(c))
			want(t, "a confirmation at its end", err, refusal.ConfirmExpired)
		})
		// A confirmation waits for its own deadline.
		s = b.person(t).leased()
		c = s.admit("pay")
		edge(30*time.Second, func() { _, err := b.Lapse(ctx, c.ID); want(t, "too soon", err, refusal.Conflict) },
			func() { must[ledger.Call](t)(b.Lapse(ctx, c.ID)) })
		// An unknown call waits thirty seconds for its result.
		first, second := s.dispatched("pay"), s.dispatched("pay")
		must[ledger.Call](t)(b.Lose(ctx, first.ID, true))
		must[ledger.Call](t)(b.Lose(ctx, second.ID, true))
		edge(30*time.Second, func() {
			_, err := b.Reap(ctx, second.ID)
			want(t, "too soon", err, refusal.Conflict)
			must[ledger.Call](t)(b.Settle(ctx, first.ID, success, ""))
		}, func() {
			_, err := b.Settle(ctx, second.ID, success, "")
			want(t, "too late", err, refusal.WindowExpired)
			ok(t, b.Repair(ctx))
			if c := must[ledger.Call](t)(b.Show(ctx, s.caller, second.ID)); c.State != ledger.CallReaped {
				t.Errorf("after its window it is %s", c.State)
			}
		})
	})
}

// TestDeadNode: what a node that stopped beating held is ended by another, by the
// book: what wasn't claimed had no effect, what was claimed is unknown.
func TestDeadNode(t *testing.T) {
	path := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		dead := open(t, path, store.Options{})
		db := dead.db
		alive := &book{newBook(t, db), db}
		ok(t, dead.Beat(ctx))
		s := dead.person(t).leased()
		half := dead.person(t).registered()
		ok(t, dead.Point(ctx, half.reg.ID))
		silent := dead.person(t).consumed()
		unpointed := dead.person(t).registered()
		stuck := alive.person(t).registered()
		ok(t, alive.Point(ctx, stuck.reg.ID))
		m := s.admission("pay")
		m.Timeout = 2 * time.Minute
		waiting, _, err := dead.Admit(ctx, m)
		ok(t, err)
		sent, read := s.dispatched("save_draft"), s.dispatched("read_page")
		for range 3 {
			time.Sleep(5 * time.Second)
			ok(t, alive.Repair(ctx))
		}
		for _, c := range []ledger.Call{waiting, sent, read} {
			if got := must[ledger.Call](t)(alive.Show(ctx, s.caller, c.ID)); got.State != c.State {
				t.Errorf("before its node is called gone a call is %s", got.State)
			}
		}
		time.Sleep(6 * time.Second)
		ok(t, alive.Repair(ctx))
		for _, c := range []struct {
			call   ledger.Call
			status ledger.CallState
			code   refusal.Code
		}{{waiting, ledger.CallFailed, refusal.NotDispatched}, {sent, ledger.CallUnknown, refusal.ChannelUnavailable}, {read, ledger.CallUnknown, refusal.ChannelUnavailable}} {
			got := must[ledger.Call](t)(alive.Show(ctx, s.caller, c.call.ID))
			if got.State != c.status && got.State != ledger.CallReaped || got.State == c.status && got.Code != c.code {
				t.Errorf("a dead node's call is %s (%s), want %s (%s)", got.State, got.Code, c.status, c.code)
			}
		}
		for name, x := range map[string]*stage{"published": s, "between two steps": half, "unpointed": unpointed, "without a catalog": silent} {
			if a := must[ledger.Arm](t)(alive.Find(ctx, x.arm.Ref)); a.State != ledger.ArmRevoked {
				t.Errorf("a dead node's channel, %s: its arm is %s", name, a.State)
			}
		}
		// A node that lives finishes its own publication.
		if got := alive.text(t, `select state from attended_registration where registration=$1`, stuck.reg.ID.String()); got != "published" {
			t.Errorf("a living node's publication is %s", got)
		}
		alive.check(t)
	})
}
