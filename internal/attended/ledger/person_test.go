package ledger_test

import (
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
)

// TestOwn: a person sees what is theirs and nobody else's, the newest first, and how
// they answered their prompts.
func TestOwn(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s, other := b.person(t).leased(), b.person(t).leased()
		theirs := other.admit("pay")
		read := s.dispatched("read_page")
		must[ledger.Call](t)(b.Settle(ctx, read.ID, controlv1.Success{Value: controlv1.Null}, ""))
		said := s.admit("pay")
		must[ledger.Call](t)(b.Deny(ctx, said.ID))
		sent := s.dispatched("save_draft")
		lost := s.dispatched("pay")
		must[ledger.Call](t)(b.Lose(ctx, lost.ID, true))
		waits := s.admit("save_draft")

		own := must[ledger.Own](t)(b.Own(ctx, s.caller.Principal, 3))
		if len(own.Documents) != 1 || len(own.Leases) != 1 || own.Leases[0].IssuedMS == 0 || len(own.Calls) != 3 {
			t.Fatalf("%d documents, %d leases, %d calls", len(own.Documents), len(own.Leases), len(own.Calls))
		}
		own = must[ledger.Own](t)(b.Own(ctx, s.caller.Principal, 50))
		seen := map[controlv1.ID]ledger.Told{}
		for i, c := range own.Calls {
			seen[c.ID] = c
			if i > 0 && c.AdmittedMS > own.Calls[i-1].AdmittedMS {
				t.Error("the newest isn't first")
			}
		}
		if _, there := seen[theirs.ID]; there || len(seen) != 5 {
			t.Errorf("%d calls, another's among them %v", len(seen), there)
		}
		if c := seen[read.ID]; c.State != ledger.CallSucceeded || c.SettledMS < c.ClaimedMS || c.ClaimedMS == 0 || c.Telemetry != controlv1.NotConfigured {
			t.Errorf("the read is %+v", c)
		}
		if c := seen[waits.ID]; c.State != ledger.CallPending || c.ClaimedMS != 0 || c.SettledMS != 0 {
			t.Errorf("what waits is %+v", c)
		}
		if a := own.Attention; a.Asked != 4 || a.Confirmed != 2 || a.Denied != 1 || a.Lapsed != 0 || a.DwellMS < 0 {
			t.Errorf("attention %+v", a)
		}

		flying, unknown, err := b.Unsettled(ctx, s.caller.Principal)
		ok(t, err)
		if len(flying) != 1 || flying[0] != sent.ID || len(unknown) != 1 || unknown[0] != lost.ID {
			t.Errorf("in flight %v, unknown %v", flying, unknown)
		}
		for scope, target := range map[ledger.KillScope]string{ledger.KillCall: sent.ID.String(), ledger.KillLease: s.lease.Lease.String(),
			ledger.KillArm: s.arm.Ref.String(), ledger.KillPrincipal: s.caller.Principal.String()} {
			if !must[bool](t)(b.Owns(ctx, s.caller.Principal, scope, target)) || must[bool](t)(b.Owns(ctx, other.caller.Principal, scope, target)) {
				t.Errorf("whose a %s is", scope)
			}
		}
		if must[bool](t)(b.Owns(ctx, s.caller.Principal, ledger.KillTenant, "")) {
			t.Error("a tenant is somebody's own")
		}
		k := must[ledger.Kill](t)(b.Kill(ctx, ledger.KillCall, sent.ID.String(), s.caller.Principal))
		if all := must[[]ledger.Kill](t)(b.Kills(ctx)); len(all) != 1 || all[0].By != s.caller.Principal || k.By != all[0].By {
			t.Errorf("who set it: %v", all)
		}
		b.check(t)
	})
}

// TestUnexported: what is over is answered until its export is told of, once and for
// all; what isn't over never is.
func TestUnexported(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		done, waits := s.dispatched("read_page"), s.admit("pay")
		must[ledger.Call](t)(b.Settle(ctx, done.ID, controlv1.Success{Value: controlv1.Null}, ""))
		if all := must[[]ledger.Told](t)(b.Unexported(ctx, 10)); len(all) != 0 {
			t.Errorf("%d to export where nobody exports", len(all))
		}
		b.edit(t, `update attended_call set telemetry='queued'`) // as with Options.Exports
		all := must[[]ledger.Told](t)(b.Unexported(ctx, 10))
		if len(all) != 1 || all[0].ID != done.ID || all[0].RunTrace != done.RunTrace {
			t.Fatalf("to export: %v", all)
		}
		told := func(telemetry, left controlv1.Telemetry) {
			t.Helper()
			ok(t, b.Exported(ctx, []controlv1.ID{done.ID}, telemetry))
			if got := must[ledger.Call](t)(b.Show(ctx, s.caller, done.ID)); got.Telemetry != left {
				t.Errorf("told %s, it is %s", telemetry, got.Telemetry)
			}
		}
		told(controlv1.Unavailable, controlv1.Unavailable)
		told(controlv1.Recorded, controlv1.Recorded) // another node's, acknowledged after all
		told(controlv1.Unavailable, controlv1.Recorded)
		if all := must[[]ledger.Told](t)(b.Unexported(ctx, 10)); len(all) != 0 {
			t.Errorf("still to export: %v", all)
		}
		must[ledger.Call](t)(b.Deny(ctx, waits.ID))
		b.check(t)
	})
}
