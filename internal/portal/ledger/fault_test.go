package ledger_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var errLost = errors.New("the commit's answer was lost")

// TestEachDurableStepFailsTwice loses each verb's commit once before it is applied
// and once after, walks the ledger, asks again as a caller would, and walks it once
// more. again is what the second asking answers where the first was applied; where
// it wasn't, that is always ok.
func TestEachDurableStepFailsTwice(t *testing.T) {
	type verb func() error
	steps := []struct {
		name  string
		again refusal.Code
		make  func(t *testing.T, b *book) verb
	}{
		{"EnsureAccount", "ok", func(t *testing.T, b *book) verb {
			actor := fresh("actor")
			return func() error { return b.EnsureAccount(ctx, actor) }
		}},
		{"Create", "ok", func(t *testing.T, b *book) verb {
			actor := b.person(t)
			return func() error { _, err := b.Create(ctx, actor, "Trips"); return err }
		}},
		{"Disconnect", refusal.Conflict, func(t *testing.T, b *book) verb {
			actor := b.person(t)
			return func() error { return b.Disconnect(ctx, actor, "inbox") }
		}},
		{"Reconnect", refusal.Conflict, func(t *testing.T, b *book) verb {
			actor := b.person(t)
			ok(t, b.Disconnect(ctx, actor, "inbox"))
			return func() error { return b.Reconnect(ctx, actor, "inbox") }
		}},
		{"Remove", tool.UnknownCollection, func(t *testing.T, b *book) verb {
			actor := b.person(t)
			return func() error { return b.Remove(ctx, actor, "files") }
		}},
		{"Emptied", "ok", func(t *testing.T, b *book) verb {
			actor := b.person(t)
			ok(t, b.Remove(ctx, actor, "files"))
			c := must[[]ledger.Collection](t)(b.Places(ctx, actor))[0]
			return func() error { return b.Emptied(ctx, c) }
		}},
		{"Recount", refusal.Conflict, func(t *testing.T, b *book) verb {
			actor := b.person(t)
			stamp := must[int64](t)(b.Stamp(ctx, actor))
			return func() error { return b.Recount(ctx, actor, stamp, 3, 30) }
		}},
		{"Connect", "ok", func(t *testing.T, b *book) verb {
			actor := b.person(t)
			return func() error {
				_, err := b.Connect(ctx, actor, "app", "App", all(), time.Now().Add(time.Hour))
				return err
			}
		}},
		{"Enable", refusal.Conflict, func(t *testing.T, b *book) verb {
			actor, session := b.person(t), fresh("session")
			return func() error { _, err := b.Enable(ctx, session, actor, all(), 0); return err }
		}},
		{"Select", refusal.Conflict, func(t *testing.T, b *book) verb {
			s := b.surface(t)
			return func() error { _, err := b.Select(ctx, s.session, s.actor, all(), 1); return err }
		}},
		{"Disable", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			return func() error { return b.Disable(ctx, s.session) }
		}},
		{"EndSession", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			return func() error { return b.EndSession(ctx, s.session) }
		}},
		{"Revoke", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			return func() error { return b.Revoke(ctx, s.actor, s.ID) }
		}},
		{"Prepare", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			return func() error { _, err := b.Prepare(ctx, s.caller(), tool.WriteItem, digest); return err }
		}},
		{"Confirm", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			return func() error { return b.Confirm(ctx, s.caller(), r.Receipt, digest) }
		}},
		{"Decline", tool.Cancelled, func(t *testing.T, b *book) verb {
			s := b.surface(t)
			r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			return func() error { return b.Decline(ctx, s.caller(), r.Receipt) }
		}},
		{"Claim with a review", tool.ReceiptUsed, func(t *testing.T, b *book) verb {
			s := b.surface(t)
			r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
			c := claim(s.caller())
			c.Review = r.Receipt
			return func() error { _, _, err := b.Claim(ctx, c); return err }
		}},
		{"Claim", "ok", func(t *testing.T, b *book) verb {
			c := claim(b.bearer(t, b.person(t), all()))
			return func() error { _, _, err := b.Claim(ctx, c); return err }
		}},
		{"Finish", "ok", func(t *testing.T, b *book) verb {
			r, _, err := b.Claim(ctx, claim(b.bearer(t, b.person(t), all())))
			ok(t, err)
			return func() error { return b.Finish(ctx, r, written) }
		}},
		{"Finish, refused", "ok", func(t *testing.T, b *book) verb {
			r, _, err := b.Claim(ctx, claim(b.bearer(t, b.person(t), all())))
			ok(t, err)
			return func() error {
				return b.Finish(ctx, r, ledger.Outcome{State: ledger.Refused, Code: tool.AlreadyExists})
			}
		}},
		{"Claim again", "ok", func(t *testing.T, b *book) verb {
			c := claim(b.bearer(t, b.person(t), all()))
			r, _, err := b.Claim(ctx, c)
			ok(t, err)
			ok(t, b.Finish(ctx, r, ledger.Outcome{State: ledger.Refused, Code: tool.SourceUnavailable}))
			return func() error { _, _, err := b.Claim(ctx, c); return err }
		}},
		{"Told", "ok", func(t *testing.T, b *book) verb {
			c := b.bearer(t, b.person(t), all())
			return func() error {
				return b.Told(ctx, c, ledger.Grant{Connection: c.Connection, Generation: 1}, ledger.Call{Tool: tool.ReadItem, Collection: "files"})
			}
		}},
		{"Refuse", "ok", func(t *testing.T, b *book) verb {
			c := b.bearer(t, b.person(t), all())
			return func() error {
				return b.Refuse(ctx, c, ledger.Call{Tool: tool.ReadItem, Code: tool.UnknownCollection})
			}
		}},
		{"Sweep", "ok", func(t *testing.T, b *book) verb {
			s := b.surface(t)
			must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			b.edit(t, `update portal_connection set expires_ms=$1 where connection=$2`, time.Now().Add(-time.Minute).UnixMilli(), s.ID)
			return func() error { return b.Sweep(ctx) }
		}},
	}
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var armed atomic.Bool
			b := open(t, url, store.Options{Commit: func(commit func() error) error {
				if !armed.CompareAndSwap(true, false) {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return errLost
			}})
			for _, s := range steps {
				do := s.make(t, b)
				armed.Store(true)
				if err := do(); !errors.Is(err, errLost) {
					t.Errorf("%s, applied %v: %v, want the commit's error", s.name, applied, err)
				}
				armed.Store(false)
				if s.name != "Sweep" || applied { // an edited expiry that no move told yet
					b.check(t)
				}
				want := refusal.Code("ok")
				if applied {
					want = s.again
				}
				if got := word(do()); got != want {
					t.Errorf("%s again, applied %v: %s, want %s", s.name, applied, got, want)
				}
				b.check(t)
			}
		})
	}
}

// Rows that are edited, added or dropped behind the ledger's back are found.
func TestCheckHoldsRowsToTheLog(t *testing.T) {
	for _, edit := range []string{
		`update portal_connection set state='revoked', revoked_ms=5 where state='live'`,
		`update portal_connection set generation=generation+1`,
		`update portal_connection set actor='other'`,
		`update portal_connection set expires_ms=expires_ms+86400000`,
		`update portal_connection set state='asleep'`,
		`delete from portal_connection where state='live'`,
		`update portal_selected set functions='items_list item_read item_write item_delete' where functions='item_read'`,
		`update portal_selected set incarnation='00000000000000000000000000000000'`,
		`insert into portal_selected select connection, 'inbox', 'x', 'item_read' from portal_connection where transport='bearer'`,
		`delete from portal_selected`,
		`update portal_collection set incarnation='00000000000000000000000000000000' where collection='files'`,
		`update portal_collection set state='disconnected' where collection='inbox'`,
		`delete from portal_collection where collection='inbox'`,
		`update portal_review set state='confirmed' where state='used'`,
		`update portal_review set digest='sha256:0' where state='used'`,
		`update portal_review set generation=generation+1 where state='prepared'`,
		`delete from portal_review where state='prepared'`,
		`update portal_request set state='refused', code='x'`,
		`update portal_request set digest='sha256:0'`,
		`update portal_request set mark='00000000000000000000000000000000'`,
		`update portal_request set state='begun', settled_ms=0, outcome='', version_after=''`,
		`update portal_account set items=-1`,
		`delete from portal_account`,
		`update portal_call set slot=slot+200`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{})
		actor := b.person(t)
		b.bearer(t, actor, []tool.Selected{{Collection: "files", Functions: []tool.Name{tool.ReadItem}}})
		s := b.surface(t)
		must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
		r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
		ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
		c := claim(s.caller())
		c.Review = r.Receipt
		q, _, err := b.Claim(ctx, c)
		ok(t, err)
		ok(t, b.Finish(ctx, q, written))
		b.check(t)
		for statement := range strings.SplitSeq(edit, "; ") {
			b.edit(t, statement)
		}
		if err := b.verify(); !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: got %v, want tampered", edit, err)
		}
	}
}

// TestRaces: of many, one.
func TestRaces(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.surface(t)
		r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
		ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
		c := claim(s.caller())
		c.Review = r.Receipt
		app := claim(b.bearer(t, b.person(t), all()))
		races := map[string]struct {
			do   func() refusal.Code
			want map[refusal.Code]int
		}{
			"use of one receipt": {func() refusal.Code { _, _, err := b.Claim(ctx, c); return word(err) },
				map[refusal.Code]int{"ok": 1, tool.ReceiptUsed: 31}},
			"one request": {func() refusal.Code {
				_, fresh, err := b.Claim(ctx, app)
				if err == nil && !fresh {
					return "known"
				}
				return word(err)
			}, map[refusal.Code]int{"ok": 1, "known": 31}},
			"select": {func() refusal.Code {
				_, err := b.Select(ctx, s.session, s.actor, all(), 1)
				return word(err)
			}, map[refusal.Code]int{"ok": 1, refusal.Conflict: 31}},
		}
		for _, name := range []string{"use of one receipt", "one request", "select"} {
			codes := make(chan refusal.Code, 32)
			for range cap(codes) {
				go func() { codes <- races[name].do() }()
			}
			got := map[refusal.Code]int{}
			for range cap(codes) {
				got[<-codes]++
			}
			for code, n := range races[name].want {
				if got[code] != n {
					t.Errorf("%s: %v, want %v", name, got, races[name].want)
				}
			}
		}
		b.check(t)
	})
}

func TestQuota(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		app := b.bearer(t, b.person(t), all())
		try := func(items, bytes int64) (ledger.Request, refusal.Code) {
			c := claim(app)
			c.Items, c.Bytes = items, bytes
			r, _, err := b.Claim(ctx, c)
			return r, word(err)
		}
		used := func() [2]int64 {
			u := must[ledger.Usage](t)(b.Usage(ctx, app.Actor))
			return [2]int64{u.Items, u.Bytes}
		}
		big, code := try(99, 9_000)
		if code != "ok" {
			t.Fatal(code)
		}
		if _, code := try(1, 1_001); code != tool.QuotaExceeded {
			t.Errorf("bytes over: %s", code)
		}
		if _, code := try(2, 0); code != tool.QuotaExceeded {
			t.Errorf("items over: %s", code)
		}
		ok(t, b.Finish(ctx, big, ledger.Outcome{State: ledger.Refused, Code: tool.AlreadyExists}))
		if got := used(); got != [2]int64{0, 0} {
			t.Errorf("a refused change holds %v", got)
		}
		r, _ := try(1, 1_000)
		ok(t, b.Finish(ctx, r, written))
		less, _ := try(-1, -400)
		if got := used(); got != [2]int64{1, 1_000} {
			t.Errorf("before it is done a delete freed: %v", got)
		}
		ok(t, b.Finish(ctx, less, written))
		lost, _ := try(1, 50)
		ok(t, b.Finish(ctx, lost, ledger.Outcome{State: ledger.Unknown, Code: tool.UnknownOutcome}))
		if got := used(); got != [2]int64{1, 650} {
			t.Errorf("usage is %v", got)
		}
		if got := must[[]string](t)(b.Unsure(ctx)); len(got) != 1 || got[0] != app.Actor {
			t.Errorf("unsure: %v", got)
		}
		stamp := must[int64](t)(b.Stamp(ctx, app.Actor))
		on, _ := try(1, 10)
		if err := b.Recount(ctx, app.Actor, stamp, 0, 600); word(err) != refusal.Conflict {
			t.Errorf("recount of an old stamp: %v", err)
		}
		if err := b.Recount(ctx, app.Actor, must[int64](t)(b.Stamp(ctx, app.Actor)), 0, 600); word(err) != refusal.Conflict {
			t.Errorf("recount under a change: %v", err)
		}
		ok(t, b.Finish(ctx, on, written))
		ok(t, b.Recount(ctx, app.Actor, must[int64](t)(b.Stamp(ctx, app.Actor)), 1, 610))
		if got := must[[]string](t)(b.Unsure(ctx)); len(got) != 0 || used() != [2]int64{1, 610} {
			t.Errorf("after the recount: %v, %v", got, used())
		}
		b.check(t)
	})
}
