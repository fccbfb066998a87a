package ledger_test

import (
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
)

// TestAdmitRefuses covers what no fence is made for: nothing is written.
func TestAdmitRefuses(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s, other := b.person(t).leased(), b.person(t).leased()
		agent := controlv1.MaskAgent(key, "app")
		for name, c := range map[string]struct {
			change func(*ledger.Admission)
			want   refusal.Code
		}{
			"another person":         {func(m *ledger.Admission) { m.Caller = other.caller }, refusal.Forbidden},
			"another agent":          {func(m *ledger.Admission) { m.Caller.Agent = agent }, refusal.Forbidden},
			"another policy":         {func(m *ledger.Admission) { m.Caller.PolicyVersion = id("p2") }, refusal.AuthorityLost},
			"another's lease":        {func(m *ledger.Admission) { m.Request.Lease = other.lease.LeaseReceipt.Lease }, refusal.Forbidden},
			"a tool beside the set":  {func(m *ledger.Admission) { m.Request.Tool = id("secret_read") }, refusal.UnknownTool},
			"another binding":        {func(m *ledger.Admission) { m.Request.Binding = other.lease.Binding }, refusal.StaleGeneration},
			"other schemas":          {func(m *ledger.Admission) { m.Request.Schemas = catalog.Digest() }, refusal.CatalogStale},
			"another catalog":        {func(m *ledger.Admission) { m.Catalog = catalog.Scope() }, refusal.CatalogStale},
			"no reference":           {func(m *ledger.Admission) { m.Reference = ledger.Reference{} }, refusal.InvalidRequest},
			"no policy":              {func(m *ledger.Admission) { m.Ruling.Set = nil }, refusal.PolicyUnavailable},
			"policy of another tool": {func(m *ledger.Admission) { m.Ruling = s.ruling("save_draft") }, refusal.PolicyUnavailable},
			"no arguments":           {func(m *ledger.Admission) { m.Request.Arguments = controlv1.Value{} }, refusal.InvalidRequest},
			"arguments of no object": {func(m *ledger.Admission) { m.Request.Arguments = controlv1.Null }, refusal.InvalidRequest},
			"over two minutes":       {func(m *ledger.Admission) { m.Timeout = 121 * time.Second }, refusal.InvalidRequest},
		} {
			m := s.admission("pay")
			c.change(&m)
			_, isFresh, err := b.Admit(ctx, m)
			want(t, name, err, c.want)
			if isFresh {
				t.Errorf("%s made a fence", name)
			}
		}
		if n := b.text(t, `select cast(count(*) as text) from attended_call`) + b.text(t, `select cast(count(*) as text) from attended_trace`); n != "00" {
			t.Errorf("calls and traces: %s", n)
		}
		b.check(t)
	})
}

// TestReplays: one fence for one request, whoever delivers it and whatever became
// of it.
func TestReplays(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		m := s.admission("pay")
		c, _, err := b.Admit(ctx, m)
		ok(t, err)
		again := func(what string, m ledger.Admission, wantID controlv1.ID) {
			t.Helper()
			got, isFresh, err := b.Admit(ctx, m)
			if err != nil || isFresh || got.ID != wantID {
				t.Errorf("%s: %v, fresh %v, the same %v", what, err, isFresh, got.ID == wantID)
			}
		}
		m.Timeout, m.Reference = 7*time.Second, ledger.NewReference()
		again("the same with another timeout", m, c.ID)
		retry := m
		retry.Request.ID = id("another")
		again("the same under another id while it waits", retry, c.ID)
		conflict := m
		conflict.Request.Arguments = s.admission("pay").Request.Arguments
		_, _, err = b.Admit(ctx, conflict)
		want(t, "the id with other arguments", err, refusal.RequestConflict)

		// Another's reference retires nothing.
		if did, err := b.Retire(ctx, c.ID, m.Reference); err != nil || did {
			t.Errorf("another delivery's reference: %v, %v", did, err)
		}
		must[ledger.Call](t)(b.Confirm(ctx, s.confirmed(c)))
		must[ledger.Call](t)(b.Settle(ctx, c.ID, success, ""))
		again("a call that is over", m, c.ID)
		must[ledger.Lease](t)(b.RevokeLease(ctx, s.caller, s.lease.LeaseReceipt.Lease, refusal.Cancelled))
		again("under a lease that is over", m, c.ID)
		// A new id after it is over is another call, and the lease refuses it.
		_, _, err = b.Admit(ctx, retry)
		want(t, "another id", err, refusal.LeaseRevoked)

		// Its own reference retires an unclaimed fence once, and a read's claim.
		s = b.person(t).leased()
		for _, tool := range []string{"pay", "read_page"} {
			m := s.admission(tool)
			c, _, err := b.Admit(ctx, m)
			ok(t, err)
			for n, wantDid := range []bool{true, false} {
				if did, err := b.Retire(ctx, c.ID, m.Reference); err != nil || did != wantDid {
					t.Errorf("%s, time %d: %v, %v", tool, n, did, err)
				}
			}
			c = must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID))
			if c.State != ledger.CallFailed || c.Code != refusal.NotDispatched || c.Effect != controlv1.NoEffect {
				t.Errorf("%s is %+v", tool, c)
			}
		}
		if did, err := b.Retire(ctx, id("call_none"), m.Reference); err != nil || did {
			t.Errorf("of nothing: %v, %v", did, err)
		}
		b.check(t)
	})
}

// TestAttention: eight prompts wait, a ninth is busy; ten in five minutes are all
// that a person is asked. Reads go on.
func TestAttention(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		var all []ledger.Call
		for range ledger.MaxPrompts {
			all = append(all, s.admit("pay"))
		}
		_, _, err := b.Admit(ctx, s.admission("pay"))
		want(t, "the ninth", err, refusal.Busy)
		s.admit("read_page")
		for _, c := range all[:3] {
			must[ledger.Call](t)(b.Deny(ctx, c.ID))
		}
		s.admit("pay")
		s.admit("pay")
		_, _, err = b.Admit(ctx, s.admission("pay"))
		want(t, "the eleventh in five minutes", err, refusal.AttentionBudget)
		s.admit("read_page")
		b.check(t)
	})
}

// TestConfirmJudgesAgain: what was lost between the prompt and the yes ends the
// call without an effect.
func TestConfirmJudgesAgain(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for name, c := range map[string]struct {
			change func(*stage, *ledger.Confirmed)
			want   refusal.Code
			then   ledger.CallState
		}{
			"another grant":    {func(s *stage, k *ledger.Confirmed) { k.Caller.GrantGeneration++ }, refusal.AuthorityLost, ledger.CallCancelled},
			"another policy":   {func(s *stage, k *ledger.Confirmed) { k.Caller.PolicyVersion = id("p2") }, refusal.AuthorityLost, ledger.CallCancelled},
			"another digest":   {func(s *stage, k *ledger.Confirmed) { k.Confirmation = catalog.Digest() }, refusal.RequestConflict, ledger.CallPending},
			"another level":    {func(s *stage, k *ledger.Confirmed) { k.Level = controlv1.Passkey }, refusal.RequestConflict, ledger.CallPending},
			"another caller":   {func(s *stage, k *ledger.Confirmed) { k.Caller = b.person(t).caller }, refusal.UnknownCall, ledger.CallPending},
			"no claim":         {func(s *stage, k *ledger.Confirmed) { k.Claim = ledger.Reference{} }, refusal.InvalidRequest, ledger.CallPending},
			"an arm that's up": {func(s *stage, k *ledger.Confirmed) { s.shift() }, refusal.ConfirmExpired, ledger.CallDenied},
			"signed out":       {func(s *stage, k *ledger.Confirmed) { b.EndLogin(ctx, s.evidence.Login, refusal.SignedOut) }, refusal.AuthorityLost, ledger.CallCancelled},
			"its agent's grant revoked": {func(s *stage, k *ledger.Confirmed) {
				b.EndCaller(ctx, s.caller.Principal, s.caller.Agent, refusal.Revoked)
			}, refusal.LeaseRevoked, ledger.CallCancelled},
		} {
			s := b.person(t).leased()
			call := s.admit("pay")
			k := s.confirmed(call)
			c.change(s, &k)
			_, err := b.Confirm(ctx, k)
			want(t, name, err, c.want)
			if call = must[ledger.Call](t)(b.Show(ctx, s.caller, call.ID)); call.State != c.then || call.Effect != controlv1.NoEffect || call.Attempts != 0 {
				t.Errorf("%s: the call is %s, %s, %d attempts", name, call.State, call.Effect, call.Attempts)
			}
			ok(t, b.Repair(ctx))
		}
		b.check(t)
	})
}

// TestHonestOutcomes holds each answer of a page to what section 6 says of it.
func TestHonestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for name, c := range map[string]struct {
			tool   string
			cancel bool
			do     func(ledger.Call) (ledger.Call, error)
			status controlv1.Status
			effect controlv1.Effect
			code   refusal.Code
		}{
			"a read fails":           {"read_page", false, func(c ledger.Call) (ledger.Call, error) { return b.Settle(ctx, c.ID, failure(t, "boom"), "") }, controlv1.StatusFailed, controlv1.NoEffect, refusal.ExecutionFailed},
			"a mutation fails":       {"pay", false, func(c ledger.Call) (ledger.Call, error) { return b.Settle(ctx, c.ID, failure(t, "boom"), "") }, controlv1.StatusFailed, controlv1.UnknownEffect, refusal.ExecutionFailed},
			"a mutation never began": {"pay", false, func(c ledger.Call) (ledger.Call, error) { return b.Settle(ctx, c.ID, failure(t, "not_started"), "") }, controlv1.StatusFailed, controlv1.NoEffect, refusal.NotDispatched},
			"a result isn't valid":   {"pay", false, func(c ledger.Call) (ledger.Call, error) { return b.Settle(ctx, c.ID, success, refusal.ResultInvalid) }, controlv1.StatusFailed, controlv1.UnknownEffect, refusal.ResultInvalid},
			"cancelled, none":        {"pay", true, func(c ledger.Call) (ledger.Call, error) { return b.Stopped(ctx, c.ID, controlv1.NoEffect) }, controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled},
			"cancelled, committed":   {"pay", true, func(c ledger.Call) (ledger.Call, error) { return b.Stopped(ctx, c.ID, controlv1.Committed) }, controlv1.StatusSucceeded, controlv1.Committed, ""},
			"cancelled, unknown":     {"pay", true, func(c ledger.Call) (ledger.Call, error) { return b.Stopped(ctx, c.ID, controlv1.UnknownEffect) }, controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.CallCancelled},
			"cancelled too late":     {"pay", true, func(c ledger.Call) (ledger.Call, error) { return b.Settle(ctx, c.ID, success, "") }, controlv1.StatusSucceeded, controlv1.Committed, ""},
			"a cancelled read":       {"read_page", true, func(c ledger.Call) (ledger.Call, error) { return b.Stopped(ctx, c.ID, controlv1.Committed) }, controlv1.StatusSucceeded, controlv1.NoEffect, ""},
			"lost, then a result": {"pay", false, func(c ledger.Call) (ledger.Call, error) {
				must[ledger.Call](t)(b.Lose(ctx, c.ID, true))
				return b.Settle(ctx, c.ID, success, "")
			}, controlv1.StatusSucceeded, controlv1.Committed, ""},
		} {
			s := b.person(t).leased()
			call := s.dispatched(c.tool)
			if c.cancel {
				if call = must[ledger.Call](t)(b.Cancel(ctx, s.caller, call.ID)); call.Receipt().Status != controlv1.StatusDispatched {
					t.Errorf("%s: while it is cancelled: %s", name, call.Receipt().Status)
				}
			}
			got := must[ledger.Call](t)(c.do(call)).Receipt()
			if got.Status != c.status || got.Effect != c.effect || got.Code != c.code {
				t.Errorf("%s: %s, %s, %s; want %s, %s, %s", name, got.Status, got.Effect, got.Code, c.status, c.effect, c.code)
			}
			if _, err := got.Encode(); err != nil {
				t.Errorf("%s: its receipt doesn't encode: %v", name, err)
			}
		}
		b.check(t)
	})
}
