package ledger_test

import (
	"testing"

	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// TestKillSwitch sets each scope over one person's work and looks at another's.
func TestKillSwitch(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for _, scope := range []ledger.KillScope{ledger.KillCall, ledger.KillLease, ledger.KillArm, ledger.KillPrincipal, ledger.KillTenant, ledger.KillAll} {
			s, other := b.person(t).leased(), b.person(t).leased()
			waiting, sent, theirs := s.admit("pay"), s.dispatched("save_draft"), other.admit("pay")
			lost := s.dispatched("pay")
			must[ledger.Call](t)(b.Lose(ctx, lost.ID, true))
			target := map[ledger.KillScope]string{ledger.KillCall: sent.ID.String(), ledger.KillLease: s.lease.LeaseReceipt.Lease.String(), ledger.KillArm: s.arm.Ref.String(),
				ledger.KillPrincipal: s.caller.Principal.String()}[scope]
			k := must[ledger.Kill](t)(b.Kill(ctx, scope, target, s.caller.Principal))
			b.check(t)
			if (scope == ledger.KillCall || scope == ledger.KillLease) != (len(k.InFlight) == 1) {
				t.Errorf("%s: in flight %v", scope, k.InFlight)
			}
			if (scope == ledger.KillCall) != (len(k.Unknown) == 0) {
				t.Errorf("%s: unknown %v", scope, k.Unknown)
			}
			state := func(s *stage, c ledger.Call) ledger.CallState {
				return must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID)).State
			}
			if got := state(s, waiting); (scope == ledger.KillCall) != (got == ledger.CallPending) {
				t.Errorf("%s: what awaited confirmation is %s", scope, got)
			}
			if got := state(s, sent); got == ledger.CallDispatched {
				t.Errorf("%s: what was sent is %s", scope, got)
			}
			wide := scope == ledger.KillTenant || scope == ledger.KillAll
			if got := state(other, theirs); wide != (got == ledger.CallCancelled) {
				t.Errorf("%s: another person's call is %s", scope, got)
			}
			_, _, err := b.Admit(ctx, s.admission("read_page"))
			if wantCode := map[ledger.KillScope]refusal.Code{ledger.KillCall: "ok", ledger.KillLease: refusal.LeaseRevoked}[scope]; wantCode != "" {
				want(t, string(scope)+": admit", err, wantCode)
			} else if err == nil {
				t.Errorf("%s: a call was admitted", scope)
			}
			_, err = b.Grant(ctx, s.evidence)
			if scope == ledger.KillPrincipal || wide {
				want(t, string(scope)+": a new arm", err, refusal.Killed)
			} else {
				want(t, string(scope)+": a new arm", err, "ok")
			}
			if all := must[[]ledger.Kill](t)(b.Kills(ctx)); len(all) != 1 || all[0].ID != k.ID {
				t.Errorf("%s: kills are %v", scope, all)
			}
			ok(t, b.Lift(ctx, k.ID, s.caller.Principal))
			ok(t, b.Lift(ctx, k.ID, s.caller.Principal))
			s.load().leased() // after a lift people arm anew
			b.check(t)
		}
		_, err := b.Kill(ctx, ledger.KillArm, "x", ref.Mint[ref.PrincipalKind]())
		want(t, "no target", err, refusal.InvalidRequest)
		_, err = b.Kill(ctx, "world", "", ref.Mint[ref.PrincipalKind]())
		want(t, "no scope", err, refusal.InvalidRequest)
		want(t, "lifting nothing", b.Lift(ctx, id("kill_x"), ref.Mint[ref.PrincipalKind]()), refusal.Unknown)
	})
}
