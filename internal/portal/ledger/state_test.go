package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// row is what a verb answers, and where its object stands then.
type row struct {
	Code refusal.Code
	Then string
}

// TestCollectionVerbs walks each verb of a collection from each state.
func TestCollectionVerbs(t *testing.T) {
	no, gone := refusal.Conflict, tool.UnknownCollection
	want := map[string][]row{ // disconnect, reconnect, remove
		"connected":    {{"ok", "disconnected"}, {no, "connected"}, {"ok", "removed"}},
		"disconnected": {{no, "disconnected"}, {"ok", "connected"}, {"ok", "removed"}},
		"removed":      {{gone, "removed"}, {gone, "removed"}, {gone, "removed"}},
	}
	each(t, func(t *testing.T, b *book) {
		verbs := []func(actor, id string) error{
			func(actor, id string) error { return b.Disconnect(ctx, actor, id) },
			func(actor, id string) error { return b.Reconnect(ctx, actor, id) },
			func(actor, id string) error { return b.Remove(ctx, actor, id) },
		}
		for state, rows := range want {
			for i, verb := range verbs {
				actor := b.person(t)
				switch state {
				case "disconnected":
					ok(t, b.Disconnect(ctx, actor, "files"))
				case "removed":
					ok(t, b.Remove(ctx, actor, "files"))
				}
				code := word(verb(actor, "files"))
				got := row{code, b.text(t, `select state from portal_collection where actor=$1 and collection='files'`, actor)}
				if diff := cmp.Diff(rows[i], got); diff != "" {
					t.Errorf("verb %d from %s (-want +got):\n%s", i, state, diff)
				}
			}
		}
		if err := b.Remove(ctx, b.person(t), "inbox"); word(err) != tool.FunctionUnavailable {
			t.Errorf("removing an inbox: %v", err)
		}
		b.check(t)
	})
}

// TestConnectionVerbs walks each verb of a browser's grant from each state.
func TestConnectionVerbs(t *testing.T) {
	verbs := []string{"enable", "enable, seen off", "enable, stale", "select", "disable", "end", "revoke"}
	want := map[string][]row{
		"absent":   {{"ok", "live 1"}, {"ok", "live 1"}, {refusal.Conflict, ""}, {tool.Disabled, ""}, {"ok", ""}, {"ok", ""}, {refusal.Unknown, ""}},
		"live":     {{"ok", "live 2"}, {refusal.Conflict, "live 1"}, {refusal.Conflict, "live 1"}, {"ok", "live 2"}, {"ok", "disabled 2"}, {"ok", "ended 2"}, {"ok", "revoked 2"}},
		"disabled": {{"ok", "live 3"}, {"ok", "live 3"}, {refusal.Conflict, "disabled 2"}, {tool.Disabled, "disabled 2"}, {"ok", "disabled 2"}, {"ok", "ended 3"}, {"ok", "revoked 3"}},
		"ended":    {{tool.SessionExpired, "ended 2"}, {tool.SessionExpired, "ended 2"}, {tool.SessionExpired, "ended 2"}, {tool.SessionExpired, "ended 2"}, {"ok", "ended 2"}, {"ok", "ended 2"}, {"ok", "ended 2"}},
		// A session that is there still may be enabled again, as another connection.
		"revoked": {{"ok", "live 3"}, {"ok", "live 3"}, {refusal.Conflict, "revoked 2"}, {tool.Disabled, "revoked 2"}, {"ok", "revoked 2"}, {"ok", "revoked 2"}, {"ok", "revoked 2"}},
		"expired": {{"ok", "live 3"}, {"ok", "live 3"}, {refusal.Conflict, "expired 2"}, {tool.Disabled, "expired 2"}, {"ok", "expired 2"}, {"ok", "expired 2"}, {"ok", "expired 2"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range want {
			for i, verb := range verbs {
				actor, session := b.person(t), fresh("session")
				c := ledger.Connection{}
				if state != "absent" {
					c = must[ledger.Connection](t)(b.Enable(ctx, session, actor, all(), 0))
				}
				switch state {
				case "disabled":
					ok(t, b.Disable(ctx, session))
				case "ended":
					ok(t, b.EndSession(ctx, session))
				case "revoked":
					ok(t, b.Revoke(ctx, actor, c.ID))
				case "expired":
					ok(t, b.lapse(t, c.ID))
				}
				now := b.latest(t, session)
				var err error
				switch verb {
				case "enable":
					_, err = b.Enable(ctx, session, actor, all(), now.Generation)
				case "enable, seen off":
					_, err = b.Enable(ctx, session, actor, all(), 0)
				case "enable, stale":
					_, err = b.Enable(ctx, session, actor, all(), now.Generation+1)
				case "select":
					_, err = b.Select(ctx, session, actor, all(), now.Generation)
				case "disable":
					err = b.Disable(ctx, session)
				case "end":
					err = b.EndSession(ctx, session)
				case "revoke":
					err = b.Revoke(ctx, actor, c.ID)
				}
				after := b.latest(t, session)
				then := ""
				if after.ID != "" {
					then = string(after.State) + " " + string(rune('0'+after.Generation))
				}
				if diff := cmp.Diff(rows[i], row{word(err), then}); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb, state, diff)
				}
			}
		}
		b.check(t)
	})
}

// latest answers the session's last grant, on or off.
func (b *book) latest(t testing.TB, session string) ledger.Connection {
	t.Helper()
	c, err := b.Selection(ctx, session)
	if on := c.Enabled(time.Now()); err == nil && !on || err != nil && (on || word(err) != refusal.Unknown) {
		t.Errorf("a grant that is %s: %v", c.State, err)
	}
	return c
}

// lapse lets a connection expire: a minute ago, by its row and by the log.
func (b *book) lapse(t testing.TB, id string) error {
	t.Helper()
	b.edit(t, `update portal_connection set expires_ms=$1 where connection=$2`, time.Now().Add(-time.Minute).UnixMilli(), id)
	return b.Sweep(ctx)
}

// TestReviewVerbs walks each verb of a receipt from each state.
func TestReviewVerbs(t *testing.T) {
	d, c, u := tool.ReviewDeclined, tool.Cancelled, tool.ReceiptUsed
	e := tool.ReceiptExpired
	want := map[string][]row{ // confirm, confirm of another digest, decline, use, use of another digest, use from another session
		"prepared":  {{"ok", "confirmed"}, {d, "prepared"}, {"ok", "cancelled"}, {d, "prepared"}, {d, "prepared"}, {e, "prepared"}},
		"confirmed": {{"ok", "confirmed"}, {d, "confirmed"}, {"ok", "cancelled"}, {"ok", "used"}, {d, "confirmed"}, {e, "confirmed"}},
		"used":      {{u, "used"}, {u, "used"}, {u, "used"}, {u, "used"}, {u, "used"}, {e, "used"}},
		"expired":   {{e, "expired"}, {e, "expired"}, {e, "expired"}, {e, "expired"}, {e, "expired"}, {e, "expired"}},
		"cancelled": {{c, "cancelled"}, {c, "cancelled"}, {c, "cancelled"}, {c, "cancelled"}, {c, "cancelled"}, {e, "cancelled"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range want {
			for i := range rows {
				s := b.surface(t)
				r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
				cl := claim(s.caller())
				cl.Review = r.Receipt
				switch state {
				case "confirmed":
					ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
				case "used":
					ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
					_, _, err := b.Claim(ctx, cl)
					ok(t, err)
				case "expired":
					b.edit(t, `update portal_review set expires_ms=expires_ms-600000, prepared_ms=prepared_ms-600000 where receipt=$1`, r.Receipt)
					ok(t, b.Sweep(ctx))
				case "cancelled":
					ok(t, b.Decline(ctx, s.caller(), r.Receipt))
				}
				var err error
				switch i {
				case 0:
					err = b.Confirm(ctx, s.caller(), r.Receipt, digest)
				case 1:
					err = b.Confirm(ctx, s.caller(), r.Receipt, digest+"0")
				case 2:
					err = b.Decline(ctx, s.caller(), r.Receipt)
				case 3:
					_, _, err = b.Claim(ctx, cl)
				case 4:
					cl.Digest = digest + "0"
					_, _, err = b.Claim(ctx, cl)
				case 5:
					other := surface{actor: s.actor, session: fresh("session")} // the same person's
					other.Connection = must[ledger.Connection](t)(b.Enable(ctx, other.session, other.actor, all(), 0))
					cl.Caller = other.caller()
					_, _, err = b.Claim(ctx, cl)
				}
				got := row{word(err), b.text(t, `select state from portal_review where receipt=$1`, r.Receipt)}
				if diff := cmp.Diff(rows[i], got); diff != "" {
					t.Errorf("verb %d from %s (-want +got):\n%s", i, state, diff)
				}
			}
		}
		b.check(t)
	})
}

// Every change of a grant cancels what was under review.
func TestGrantChangesCancelReviews(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for name, change := range map[string]func(s surface) error{
			"select":  func(s surface) error { _, err := b.Select(ctx, s.session, s.actor, all(), s.Generation); return err },
			"disable": func(s surface) error { return b.Disable(ctx, s.session) },
			"end":     func(s surface) error { return b.EndSession(ctx, s.session) },
			"revoke":  func(s surface) error { return b.Revoke(ctx, s.actor, s.ID) },
		} {
			s := b.surface(t)
			r := must[ledger.Review](t)(b.Prepare(ctx, s.caller(), tool.WriteItem, digest))
			ok(t, b.Confirm(ctx, s.caller(), r.Receipt, digest))
			ok(t, change(s))
			if got := b.text(t, `select state from portal_review where receipt=$1`, r.Receipt); got != "cancelled" {
				t.Errorf("%s left the receipt %s", name, got)
			}
			c := claim(s.caller())
			c.Review = r.Receipt
			if _, _, err := b.Claim(ctx, c); err == nil {
				t.Errorf("%s: the receipt was used", name)
			}
		}
		b.check(t)
	})
}

// TestRequestVerbs walks each verb of a request from each state.
func TestRequestVerbs(t *testing.T) {
	refused := ledger.Outcome{State: ledger.Refused, Code: tool.VersionConflict, JSON: `{"version":"v2"}`}
	passing := ledger.Outcome{State: ledger.Refused, Code: tool.SourceUnavailable}
	unknown := ledger.Outcome{State: ledger.Unknown, Code: tool.UnknownOutcome}
	outcomes := map[string]ledger.Outcome{"done": written, "refused": refused, "passing": passing, "unknown": unknown}
	no := refusal.Conflict
	want := map[string][]row{ // claim again, claim with other input, then finish: done, refused, passing, unknown
		"begun":   {{"ok", "begun"}, {tool.RequestConflict, "begun"}, {"ok", "done"}, {"ok", "refused"}, {"ok", "refused"}, {"ok", "unknown"}},
		"done":    {{"ok", "done"}, {tool.RequestConflict, "done"}, {"ok", "done"}, {no, "done"}, {no, "done"}, {no, "done"}},
		"refused": {{"ok", "refused"}, {tool.RequestConflict, "refused"}, {no, "refused"}, {"ok", "refused"}, {no, "refused"}, {no, "refused"}},
		"passing": {{"ok", "begun"}, {tool.RequestConflict, "refused"}, {no, "refused"}, {no, "refused"}, {"ok", "refused"}, {no, "refused"}},
		"unknown": {{"ok", "unknown"}, {tool.RequestConflict, "unknown"}, {no, "unknown"}, {no, "unknown"}, {no, "unknown"}, {"ok", "unknown"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range want {
			for i := range rows {
				actor := b.person(t)
				c := claim(b.bearer(t, actor, all()))
				r, _, err := b.Claim(ctx, c)
				ok(t, err)
				if o, there := outcomes[state]; there {
					ok(t, b.Finish(ctx, r, o))
				}
				switch i {
				case 0:
					var again bool
					_, again, err = b.Claim(ctx, c)
					if again != (state == "passing") {
						t.Errorf("claimed again from %s: fresh is %v", state, again)
					}
				case 1:
					c.Digest += "0"
					_, _, err = b.Claim(ctx, c)
				default:
					err = b.Finish(ctx, r, []ledger.Outcome{written, refused, passing, unknown}[i-2])
				}
				got := row{word(err), b.text(t, `select state from portal_request where receipt=$1`, r.Receipt)}
				if diff := cmp.Diff(rows[i], got); diff != "" {
					t.Errorf("verb %d from %s (-want +got):\n%s", i, state, diff)
				}
			}
		}
		b.check(t)
	})
}

// A late answer of an attempt can't settle the next one.
func TestAttemptsAreApart(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		c := claim(b.bearer(t, b.person(t), all()))
		first, _, err := b.Claim(ctx, c)
		ok(t, err)
		ok(t, b.Finish(ctx, first, ledger.Outcome{State: ledger.Refused, Code: tool.SourceUnavailable}))
		second, fresh, err := b.Claim(ctx, c)
		ok(t, err)
		if !fresh || second.Receipt != first.Receipt || second.Mark == first.Mark {
			t.Errorf("fresh %v, receipts %v, marks %v", fresh, second.Receipt == first.Receipt, second.Mark == first.Mark)
		}
		if err := b.Finish(ctx, first, written); word(err) != refusal.Conflict {
			t.Errorf("the first attempt's late answer: %v", err)
		}
		ok(t, b.Finish(ctx, second, written))
		b.check(t)
	})
}
