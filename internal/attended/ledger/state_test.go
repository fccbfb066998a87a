package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// row is what a verb answers, and where its record stands then.
type row struct{ Code, Then string }

// shift takes an arm and all under it back by an hour, so that its time is over.
func (s *stage) shift() {
	s.t.Helper()
	const hour = 3_600_000
	s.b.edit(s.t, `update attended_arm set granted_ms=granted_ms-$1, grant_until_ms=grant_until_ms-$1 where arm=$2`, hour, s.arm.Ref.String())
	s.b.edit(s.t, `update attended_arm set issued_ms=issued_ms-$1, expires_ms=expires_ms-$1 where arm=$2 and issued_ms>0`, hour, s.arm.Ref.String())
	s.b.edit(s.t, `update attended_lease set issued_ms=issued_ms-$1, expires_ms=expires_ms-$1, hard_ms=hard_ms-$1 where arm=$2`, hour, s.arm.Ref.String())
	s.shiftCalls()
}

func (s *stage) shiftCalls() {
	s.b.edit(s.t, `update attended_call set deadline_ms=deadline_ms-3600000 where document=$1`, s.page.Document.String())
}

func (s *stage) armState() string {
	s.t.Helper()
	return string(must[ledger.Arm](s.t)(s.b.Find(ctx, s.arm.Ref)).State)
}

// TestArmVerbs walks each verb of an arm from each state.
func TestArmVerbs(t *testing.T) {
	verbs := []string{"finalize", "open", "register", "standing", "revoke", "disconnect", "sign out", "repair"}
	wants := map[string][]row{
		"granted":  {{"ok", "active"}, {"arm_mismatch", "recent_auth_active"}, {"no_arm", "recent_auth_active"}, {"ok", "recent_auth_active"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "recent_auth_active"}},
		"active":   {{"arm_replayed", "active"}, {"ok", "consumed"}, {"no_arm", "active"}, {"ok", "active"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "active"}},
		"consumed": {{"arm_replayed", "consumed"}, {"arm_replayed", "consumed"}, {"ok", "consumed"}, {"ok", "consumed"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "consumed"}},
		"revoked":  {{"signed_out", "revoked"}, {"signed_out", "revoked"}, {"signed_out", "revoked"}, {"signed_out", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}},
		"expired":  {{"arm_expired", "expired"}, {"arm_expired", "expired"}, {"arm_expired", "expired"}, {"arm_expired", "expired"}, {"ok", "expired"}, {"ok", "expired"}, {"ok", "expired"}, {"ok", "expired"}},
		// Over by the clock, and nobody wrote it yet.
		"granted, late":  {{"arm_expired", "expired"}, {"arm_mismatch", "recent_auth_active"}, {"no_arm", "recent_auth_active"}, {"arm_expired", "recent_auth_active"}, {"ok", "revoked"}, {"ok", "expired"}, {"ok", "revoked"}, {"ok", "expired"}},
		"active, late":   {{"arm_expired", "expired"}, {"arm_expired", "expired"}, {"no_arm", "active"}, {"arm_expired", "active"}, {"ok", "revoked"}, {"ok", "expired"}, {"ok", "revoked"}, {"ok", "expired"}},
		"consumed, late": {{"arm_expired", "expired"}, {"arm_expired", "expired"}, {"arm_expired", "expired"}, {"arm_expired", "consumed"}, {"ok", "revoked"}, {"ok", "expired"}, {"ok", "revoked"}, {"ok", "expired"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range wants {
			for i, verb := range verbs {
				s := b.person(t)
				switch state {
				case "granted", "granted, late":
					s.granted()
				case "active", "active, late":
					s.active()
				default:
					s.consumed()
				}
				switch state {
				case "revoked":
					ok(t, b.EndLogin(ctx, s.evidence.Login, refusal.SignedOut))
				case "expired":
					s.shift()
					ok(t, b.Repair(ctx))
				case "granted, late", "active, late", "consumed, late":
					s.shift()
				}
				var err error
				switch verb {
				case "finalize":
					_, _, err = b.Finalize(ctx, s.arm.Ref, s.evidence, s.page)
				case "open":
					_, err = b.Open(ctx, s.arm.Ref, s.evidence, s.page, s.nonce)
				case "register":
					_, err = b.Register(ctx, s.arm.Ref, s.arm.Binding, catalog)
				case "standing":
					_, err = b.Standing(ctx, s.arm.Ref)
				case "revoke":
					page := s.page
					if s.arm.Binding.IsZero() {
						page = controlv1.Page{}
					}
					err = b.Revoke(ctx, s.arm.Ref, s.evidence, page, refusal.Revoked)
				case "disconnect":
					err = b.Disconnect(ctx, s.arm.Ref, refusal.ChannelUnavailable)
				case "sign out":
					err = b.EndBrowser(ctx, s.evidence.Browser, refusal.SignedOut)
				case "repair":
					err = b.Repair(ctx)
				}
				if diff := cmp.Diff(rows[i], row{string(word(err)), s.armState()}); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb, state, diff)
				}
				ok(t, b.Repair(ctx))
			}
		}
		b.check(t)
	})
}

// TestExactBinding: any difference is a refusal, and changes nothing.
func TestExactBinding(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s, other := b.person(t).active(), b.person(t)
		evidence := map[string]func(*controlv1.Evidence){
			"tenant": func(e *controlv1.Evidence) { e.Tenant = other.evidence.Actor }, "actor": func(e *controlv1.Evidence) { e.Actor = other.evidence.Actor },
			"login": func(e *controlv1.Evidence) { e.Login = other.evidence.Login }, "principal": func(e *controlv1.Evidence) { e.Principal = other.evidence.Principal },
			"browser": func(e *controlv1.Evidence) { e.Browser = other.evidence.Browser }, "issuer": func(e *controlv1.Evidence) { e.Issuer = e.Actor },
			"acr": func(e *controlv1.Evidence) { e.ACR = e.Actor }, "auth_time": func(e *controlv1.Evidence) { e.AuthMS++ },
			"token expiry": func(e *controlv1.Evidence) { e.CredentialUntilMS++ }, "policy": func(e *controlv1.Evidence) { e.PolicyVersion = id("policy_2") },
		}
		two := must[controlv1.Generation](t)(controlv1.NewGeneration(8))
		page := map[string]func(*controlv1.Page){
			"origin": func(p *controlv1.Page) { p.Origin = p.Route }, "route": func(p *controlv1.Page) { p.Route = p.Origin }, "document": func(p *controlv1.Page) { p.Document = other.page.Document },
			"generation": func(p *controlv1.Page) { p.Generation = two }, "catalog": func(p *controlv1.Page) { p.Catalog = p.Scope }, "scope": func(p *controlv1.Page) { p.Scope = p.Catalog },
		}
		for name, change := range evidence {
			e := s.evidence
			change(&e)
			_, err := b.Open(ctx, s.arm.Ref, e, s.page, s.nonce)
			want(t, "open with another "+name, err, refusal.ArmMismatch)
			want(t, "revoke with another "+name, b.Revoke(ctx, s.arm.Ref, e, s.page, refusal.Revoked), refusal.ArmMismatch)
		}
		for name, change := range page {
			p := s.page
			change(&p)
			_, err := b.Open(ctx, s.arm.Ref, s.evidence, p, s.nonce)
			want(t, "open with another "+name, err, refusal.ArmMismatch)
			want(t, "revoke with another "+name, b.Revoke(ctx, s.arm.Ref, s.evidence, p, refusal.Revoked), refusal.ArmMismatch)
		}
		nonce := must[controlv1.Nonce](t)(controlv1.ParseNonce("0000000000000000000000000000000000000000000000000000000000000000"))
		_, err := b.Open(ctx, s.arm.Ref, s.evidence, s.page, nonce)
		want(t, "open with another nonce", err, refusal.ArmMismatch)
		_, err = b.Open(ctx, ref.Mint[ref.AttendedKind](), s.evidence, s.page, s.nonce)
		want(t, "open of nothing", err, refusal.NoArm)
		if got := s.armState(); got != "active" {
			t.Errorf("the arm is %s", got)
		}
		s.arm = must[ledger.Arm](t)(b.Open(ctx, s.arm.Ref, s.evidence, s.page, s.nonce))
		_, err = b.Register(ctx, s.arm.Ref, s.arm.Binding, mustCatalog("read_page:read"))
		want(t, "another catalog", err, refusal.ArmMismatch)
		_, err = b.Register(ctx, s.arm.Ref, catalog.Digest(), catalog)
		want(t, "another binding", err, refusal.ArmMismatch)
		b.check(t)
	})
}

// TestNewestTabWins: a second finalize of the same browser session ends the first
// with all under it.
func TestNewestTabWins(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		c := s.dispatched("pay")
		var told []refusal.Code
		b.OnArmEnd(func(a ref.Attended, why refusal.Code) { told = append(told, why) })
		first := s.arm.Ref
		s.load().published()
		if diff := cmp.Diff([]refusal.Code{refusal.Replaced}, told); diff != "" {
			t.Error(diff)
		}
		if a := must[ledger.Arm](t)(b.Find(ctx, first)); a.State != ledger.ArmRevoked || a.Reason != refusal.Replaced {
			t.Errorf("the first arm is %s (%s)", a.State, a.Reason)
		}
		if c = must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID)); c.State != ledger.CallUnknown {
			t.Errorf("its call is %s", c.State)
		}
		b.check(t)
	})
}

// TestRegistrationVerbs walks the three steps from each state, and the document's
// pointer beside them.
func TestRegistrationVerbs(t *testing.T) {
	verbs := []string{"register", "point", "publish", "disconnect"}
	wants := map[string][]row{
		"pending":   {{"ok", "pending -"}, {"ok", "pending pointed"}, {"conflict", "pending -"}, {"ok", "retired -"}},
		"pointed":   {{"ok", "pending pointed"}, {"ok", "pending pointed"}, {"ok", "published pointed"}, {"ok", "retired cleared"}},
		"published": {{"arm_replayed", "published pointed"}, {"ok", "published pointed"}, {"ok", "published pointed"}, {"ok", "retired cleared"}},
		"retired":   {{"revoked", "retired cleared"}, {"revoked", "retired cleared"}, {"revoked", "retired cleared"}, {"ok", "retired cleared"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range wants {
			for i, verb := range verbs {
				s := b.person(t).registered()
				if state != "pending" {
					ok(t, b.Point(ctx, s.reg.ID))
				}
				if state == "published" || state == "retired" {
					must[ledger.Registration](t)(b.Publish(ctx, s.reg.ID))
				}
				if state == "retired" {
					ok(t, b.Disconnect(ctx, s.arm.Ref, refusal.Revoked))
				}
				var err error
				switch verb {
				case "register":
					_, err = b.Register(ctx, s.arm.Ref, s.arm.Binding, catalog)
				case "point":
					err = b.Point(ctx, s.reg.ID)
				case "publish":
					_, err = b.Publish(ctx, s.reg.ID)
				case "disconnect":
					err = b.Disconnect(ctx, s.arm.Ref, refusal.ChannelUnavailable)
				}
				then := b.text(t, `select state from attended_registration where registration=$1`, s.reg.ID.String()) + " " +
					b.text(t, `select coalesce((select state from attended_document where document=$1), '-')`, s.page.Document.String())
				if diff := cmp.Diff(rows[i], row{string(word(err)), then}); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb, state, diff)
				}
			}
		}
		b.check(t)
	})
}

// TestPointerAdvances: a document that is armed again gets another registration,
// and the prior one is retired in the same step.
func TestPointerAdvances(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		first, lease := s.reg.ID, s.lease.LeaseReceipt.Lease
		// Another session of the same person shows the same document, which only a
		// fault could bring about; its catalog takes the document over.
		other := *s
		other.evidence.Browser = ref.Mint[ref.BrowserKind]()
		other.published()
		all := must[[]ledger.Registration](t)(b.Registrations(ctx, s.page.Document))
		states := map[controlv1.ID]ledger.RegistrationState{}
		for _, r := range all {
			states[r.ID] = r.State
		}
		if states[first] != ledger.RegistrationRetired || states[other.reg.ID] != ledger.RegistrationPublished {
			t.Errorf("registrations are %v", states)
		}
		if l := must[ledger.Lease](t)(b.ShowLease(ctx, s.caller, lease)); l.Status != "revoked" {
			t.Errorf("the first's lease is %s", l.Status)
		}
		b.check(t)
		ok(t, b.Disconnect(ctx, other.arm.Ref, refusal.ChannelUnavailable))
		b.check(t)
		// Another person's document stays theirs.
		thief := b.person(t)
		thief.page.Document = b.person(t).published().page.Document
		thief.registered()
		want(t, "another's document", b.Point(ctx, thief.reg.ID), refusal.ArmMismatch)
		b.check(t)
	})
}

// TestLeaseVerbs walks each verb of a lease from each state.
func TestLeaseVerbs(t *testing.T) {
	verbs := []string{"admit", "revoke", "kill", "end caller", "repair"}
	wants := map[string][]row{
		"active":       {{"ok", "active"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "active"}},
		"revoked":      {{"lease_revoked", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}},
		"expired":      {{"lease_expired", "expired"}, {"ok", "expired"}, {"ok", "expired"}, {"ok", "expired"}, {"ok", "expired"}},
		"active, late": {{"lease_expired", "expired"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "revoked"}, {"ok", "expired"}},
	}
	each(t, func(t *testing.T, b *book) {
		for state, rows := range wants {
			for i, verb := range verbs {
				s := b.person(t).leased()
				lease := s.lease.LeaseReceipt.Lease
				waiting, sent := s.admit("pay"), s.dispatched("save_draft")
				late := func() {
					b.edit(t, `update attended_lease set issued_ms=issued_ms-3600000, expires_ms=expires_ms-3600000, hard_ms=hard_ms-3600000 where lease=$1`, lease.String())
					s.shiftCalls()
				}
				switch state {
				case "revoked":
					must[ledger.Lease](t)(b.RevokeLease(ctx, s.caller, lease, refusal.Cancelled))
				case "expired":
					late()
					ok(t, b.Repair(ctx))
				case "active, late":
					late()
				}
				var err error
				switch verb {
				case "admit":
					_, _, err = b.Admit(ctx, s.admission("read_page"))
				case "revoke":
					_, err = b.RevokeLease(ctx, s.caller, lease, refusal.Cancelled)
				case "kill":
					_, err = b.Kill(ctx, ledger.KillLease, lease.String(), s.caller.Principal)
				case "end caller":
					err = b.EndCaller(ctx, s.caller.Principal, s.caller.Agent, refusal.Revoked)
				case "repair":
					err = b.Repair(ctx)
				}
				l := must[ledger.Lease](t)(b.ShowLease(ctx, s.caller, lease))
				if diff := cmp.Diff(rows[i], row{string(word(err)), string(l.Status)}); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb, state, diff)
				}
				if l.Status != "active" {
					waiting, sent = must[ledger.Call](t)(b.Show(ctx, s.caller, waiting.ID)), must[ledger.Call](t)(b.Show(ctx, s.caller, sent.ID))
					if waiting.State == ledger.CallPending || sent.State == ledger.CallDispatched {
						t.Errorf("%s from %s left calls %s and %s", verb, state, waiting.State, sent.State)
					}
				}
			}
		}
		b.check(t)
	})
}

// TestIssueRefuses covers what no lease is made for.
func TestIssueRefuses(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s, other := b.person(t).published(), b.person(t)
		for name, c := range map[string]struct {
			change func(*ledger.Caller, *ledger.Ask)
			want   refusal.Code
		}{
			"another person":      {func(c *ledger.Caller, a *ledger.Ask) { c.Principal = other.caller.Principal }, refusal.UnknownDocument},
			"no such document":    {func(c *ledger.Caller, a *ledger.Ask) { a.Document = other.page.Document }, refusal.UnknownDocument},
			"another policy":      {func(c *ledger.Caller, a *ledger.Ask) { c.PolicyVersion = id("policy_2") }, refusal.AuthorityLost},
			"no such tool":        {func(c *ledger.Caller, a *ledger.Ask) { a.Tools = []controlv1.ID{id("other")} }, refusal.UnknownTool},
			"a role that lacks":   {func(c *ledger.Caller, a *ledger.Ask) { c.Roles, a.Tools = nil, []controlv1.ID{id("secret_read")} }, refusal.Forbidden},
			"a role that's there": {func(c *ledger.Caller, a *ledger.Ask) { a.Tools = []controlv1.ID{id("secret_read")} }, "ok"},
			"a tool twice":        {func(c *ledger.Caller, a *ledger.Ask) { a.Tools = append(a.Tools, a.Tools[0]) }, refusal.InvalidRequest},
			"no tool":             {func(c *ledger.Caller, a *ledger.Ask) { a.Tools = nil }, refusal.InvalidRequest},
			"too long":            {func(c *ledger.Caller, a *ledger.Ask) { a.TTL = 901 * time.Second }, refusal.InvalidRequest},
			"too short":           {func(c *ledger.Caller, a *ledger.Ask) { a.TTL = 0 }, refusal.InvalidRequest},
			"no policy":           {func(c *ledger.Caller, a *ledger.Ask) { a.Policy = controlv1.ID{} }, refusal.InvalidRequest},
		} {
			caller, ask := s.caller, s.ask()
			c.change(&caller, &ask)
			_, err := b.Issue(ctx, caller, ask)
			want(t, name, err, c.want)
		}
		b.check(t)
	})
}

// TestCallVerbs walks each verb of a call from each state.
func TestCallVerbs(t *testing.T) {
	verbs := []string{"confirm", "deny", "lapse", "retire", "withhold", "cancel", "time out", "stopped none", "stopped committed", "stopped unknown", "succeed", "fail", "lose", "reap"}
	no := "conflict"
	wants := map[string][]row{
		"pending": {{"ok", "dispatched"}, {"ok", "denied"}, {no, "pending_confirmation"}, {"ok", "failed"}, {"forbidden", "pending_confirmation"}, {"ok", "cancelled"}, {no, "pending_confirmation"},
			{no, "pending_confirmation"}, {no, "pending_confirmation"}, {no, "pending_confirmation"}, {no, "pending_confirmation"}, {no, "pending_confirmation"}, {no, "pending_confirmation"}, {no, "pending_confirmation"}},
		"dispatched": {{"replayed", "dispatched"}, {no, "dispatched"}, {no, "dispatched"}, {"none", "dispatched"}, {"ok", "failed"}, {"ok", "cancelling"}, {no, "dispatched"},
			{no, "dispatched"}, {no, "dispatched"}, {no, "dispatched"}, {"ok", "succeeded"}, {"ok", "failed"}, {"ok", "unknown"}, {no, "dispatched"}},
		"cancelling": {{"replayed", "cancelling"}, {no, "cancelling"}, {no, "cancelling"}, {"none", "cancelling"}, {"ok", "failed"}, {"ok", "cancelling"}, {no, "cancelling"},
			{"ok", "cancelled"}, {"ok", "succeeded"}, {"ok", "unknown"}, {"ok", "succeeded"}, {"ok", "failed"}, {"ok", "unknown"}, {no, "cancelling"}},
		"unknown": {{"replayed", "unknown"}, {no, "unknown"}, {no, "unknown"}, {"none", "unknown"}, {no, "unknown"}, {"ok", "unknown"}, {no, "unknown"},
			{"ok", "cancelled"}, {"ok", "succeeded"}, {no, "unknown"}, {"ok", "succeeded"}, {"ok", "failed"}, {no, "unknown"}, {no, "unknown"}},
	}
	late := "reconciliation_window_expired"
	wants["unknown, late"] = []row{{"replayed", "unknown"}, {no, "unknown"}, {no, "unknown"}, {"none", "unknown"}, {no, "unknown"}, {"ok", "unknown"}, {no, "unknown"},
		{late, "unknown"}, {late, "unknown"}, {late, "unknown"}, {late, "unknown"}, {late, "unknown"}, {no, "unknown"}, {"ok", "unknown_reaped"}}
	for state, confirm := range map[string]string{"succeeded": "replayed", "failed": "replayed", "unknown_reaped": "replayed", "denied": "user_denied", "cancelled": "browser_call_cancelled"} {
		rows := []row{{confirm, state}}
		for _, v := range verbs[1:] {
			switch {
			case v == "retire":
				rows = append(rows, row{"none", state})
			case v == "withhold" && (state == "denied" || state == "cancelled"):
				rows = append(rows, row{"forbidden", state}) // never claimed
			case v == "cancel":
				rows = append(rows, row{"ok", state})
			default:
				rows = append(rows, row{no, state})
			}
		}
		wants[state] = rows
	}
	wants["pending, late"] = append([]row{{"confirmation_expired", "denied"}, {"ok", "denied"}, {"ok", "denied"}, {"ok", "failed"}, {"forbidden", "pending_confirmation"}, {"ok", "cancelled"}, {"ok", "denied"}}, wants["pending"][7:]...)
	each(t, func(t *testing.T, b *book) {
		var s *stage
		for state, rows := range wants {
			for i, verb := range verbs {
				if i%7 == 0 { // ten prompts a person, and eight that wait
					s = b.person(t).leased()
				}
				m := s.admission("pay")
				c, _, err := b.Admit(ctx, m)
				ok(t, err)
				k := s.confirmed(c)
				s.bring(c, k, state)
				code := s.do(c, k, m, verb)
				then := must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID))
				if diff := cmp.Diff(rows[i], row{code, string(then.State)}); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb, state, diff)
				}
			}
		}
		ok(t, b.Repair(ctx)) // deadlines that were edited and that no move told yet
		b.check(t)
	})
}

// bring takes a mutation that awaits its confirmation to a state.
func (s *stage) bring(c ledger.Call, k ledger.Confirmed, state string) {
	t, b := s.t, s.b
	t.Helper()
	switch state {
	case "pending":
		return
	case "pending, late":
		b.edit(t, `update attended_call set deadline_ms=deadline_ms-3600000 where call=$1`, c.ID.String())
		return
	case "denied":
		must[ledger.Call](t)(b.Deny(ctx, c.ID))
		return
	case "cancelled":
		must[ledger.Call](t)(b.Cancel(ctx, s.caller, c.ID))
		return
	}
	must[ledger.Call](t)(b.Confirm(ctx, k))
	switch state {
	case "cancelling":
		must[ledger.Call](t)(b.Cancel(ctx, s.caller, c.ID))
	case "succeeded":
		must[ledger.Call](t)(b.Settle(ctx, c.ID, success, ""))
	case "failed":
		must[ledger.Call](t)(b.Settle(ctx, c.ID, failure(t, "boom"), ""))
	case "unknown":
		must[ledger.Call](t)(b.Lose(ctx, c.ID, true))
	case "unknown, late", "unknown_reaped":
		must[ledger.Call](t)(b.Lose(ctx, c.ID, true))
		b.edit(t, `update attended_call set late_until_ms=late_until_ms-3600000 where call=$1`, c.ID.String())
		if state == "unknown_reaped" {
			must[ledger.Call](t)(b.Reap(ctx, c.ID))
		}
	}
}

func failure(t testing.TB, code string) controlv1.Failure {
	return controlv1.Failure{Code: must[controlv1.Word](t)(controlv1.ParseWord(code))}
}

// do does a verb, and answers its code.
func (s *stage) do(c ledger.Call, k ledger.Confirmed, m ledger.Admission, verb string) string {
	var err error
	b := s.b
	switch verb {
	case "confirm":
		_, err = b.Confirm(ctx, k)
	case "deny":
		_, err = b.Deny(ctx, c.ID)
	case "lapse":
		_, err = b.Lapse(ctx, c.ID)
	case "retire":
		var did bool
		if did, err = b.Retire(ctx, c.ID, m.Reference); err == nil && !did {
			return "none"
		}
	case "withhold":
		_, err = b.Withhold(ctx, c.ID, k.Claim, refusal.AuthorityLost)
	case "cancel":
		_, err = b.Cancel(ctx, s.caller, c.ID)
	case "time out":
		_, err = b.TimeOut(ctx, c.ID)
	case "stopped none":
		_, err = b.Stopped(ctx, c.ID, controlv1.NoEffect)
	case "stopped committed":
		_, err = b.Stopped(ctx, c.ID, controlv1.Committed)
	case "stopped unknown":
		_, err = b.Stopped(ctx, c.ID, controlv1.UnknownEffect)
	case "succeed":
		_, err = b.Settle(ctx, c.ID, success, "")
	case "fail":
		_, err = b.Settle(ctx, c.ID, failure(s.t, "boom"), "")
	case "lose":
		_, err = b.Lose(ctx, c.ID, true)
	case "reap":
		_, err = b.Reap(ctx, c.ID)
	}
	return string(word(err))
}
