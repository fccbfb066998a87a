package ledger_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
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
	type verb func(s *stage) error
	steps := []struct {
		name  string
		again refusal.Code
		make  func(s *stage) verb
	}{
		{"Beat", "ok", func(s *stage) verb { return func(s *stage) error { return s.b.Beat(ctx) } }},
		{"Grant", "ok", func(s *stage) verb { return func(s *stage) error { _, err := s.b.Grant(ctx, s.evidence); return err } }},
		{"Finalize", refusal.ArmReplayed, func(s *stage) verb {
			s.granted()
			return func(s *stage) error { _, _, err := s.b.Finalize(ctx, s.arm.Ref, s.evidence, s.page); return err }
		}},
		{"Open", refusal.ArmReplayed, func(s *stage) verb {
			s.active()
			return func(s *stage) error { _, err := s.b.Open(ctx, s.arm.Ref, s.evidence, s.page, s.nonce); return err }
		}},
		{"Revoke", "ok", func(s *stage) verb {
			s.leased().admit("pay")
			return func(s *stage) error { return s.b.Revoke(ctx, s.arm.Ref, s.evidence, s.page, refusal.Revoked) }
		}},
		{"Register", "ok", func(s *stage) verb {
			s.consumed()
			return func(s *stage) error { _, err := s.b.Register(ctx, s.arm.Ref, s.arm.Binding, catalog); return err }
		}},
		{"Point", "ok", func(s *stage) verb {
			s.registered()
			return func(s *stage) error { return s.b.Point(ctx, s.reg.ID) }
		}},
		{"Publish", "ok", func(s *stage) verb {
			s.registered()
			ok(s.t, s.b.Point(ctx, s.reg.ID))
			return func(s *stage) error { _, err := s.b.Publish(ctx, s.reg.ID); return err }
		}},
		{"Disconnect", "ok", func(s *stage) verb {
			s.leased().dispatched("pay")
			return func(s *stage) error { return s.b.Disconnect(ctx, s.arm.Ref, refusal.ChannelUnavailable) }
		}},
		{"Issue", "ok", func(s *stage) verb {
			s.published()
			return func(s *stage) error { _, err := s.b.Issue(ctx, s.caller, s.ask()); return err }
		}},
		{"RevokeLease", "ok", func(s *stage) verb {
			s.leased().dispatched("pay")
			return func(s *stage) error {
				_, err := s.b.RevokeLease(ctx, s.caller, s.lease.LeaseReceipt.Lease, refusal.Cancelled)
				return err
			}
		}},
		{"Admit a read", "ok", func(s *stage) verb {
			s.leased()
			m := s.admission("read_page")
			return func(s *stage) error { _, _, err := s.b.Admit(ctx, m); return err }
		}},
		{"Admit a mutation", "ok", func(s *stage) verb {
			s.leased()
			m := s.admission("pay")
			return func(s *stage) error { _, _, err := s.b.Admit(ctx, m); return err }
		}},
		{"Retire", "ok", func(s *stage) verb {
			s.leased()
			m := s.admission("pay")
			c, _, err := s.b.Admit(ctx, m)
			ok(s.t, err)
			return func(s *stage) error { _, err := s.b.Retire(ctx, c.ID, m.Reference); return err }
		}},
		{"Confirm", refusal.Replayed, func(s *stage) verb {
			c := s.leased().admit("pay")
			return func(s *stage) error { _, err := s.b.Confirm(ctx, s.confirmed(c)); return err }
		}},
		{"Withhold", refusal.Conflict, func(s *stage) verb {
			k := s.confirmed(s.leased().admit("pay"))
			must[ledger.Call](s.t)(s.b.Confirm(ctx, k))
			return func(s *stage) error { _, err := s.b.Withhold(ctx, k.Call, k.Claim, refusal.AuthorityLost); return err }
		}},
		{"Deny", refusal.Conflict, func(s *stage) verb {
			c := s.leased().admit("pay")
			return func(s *stage) error { _, err := s.b.Deny(ctx, c.ID); return err }
		}},
		{"Cancel", "ok", func(s *stage) verb {
			c := s.leased().dispatched("pay")
			return func(s *stage) error { _, err := s.b.Cancel(ctx, s.caller, c.ID); return err }
		}},
		{"Settle", refusal.Conflict, func(s *stage) verb {
			c := s.leased().dispatched("pay")
			return func(s *stage) error { _, err := s.b.Settle(ctx, c.ID, success, ""); return err }
		}},
		{"Stopped", refusal.Conflict, func(s *stage) verb {
			c := s.leased().dispatched("pay")
			must[ledger.Call](s.t)(s.b.Cancel(ctx, s.caller, c.ID))
			return func(s *stage) error { _, err := s.b.Stopped(ctx, c.ID, controlv1.NoEffect); return err }
		}},
		{"Lose", refusal.Conflict, func(s *stage) verb {
			c := s.leased().dispatched("pay")
			return func(s *stage) error { _, err := s.b.Lose(ctx, c.ID, false); return err }
		}},
		{"Reap", refusal.Conflict, func(s *stage) verb {
			c := s.leased().dispatched("pay")
			must[ledger.Call](s.t)(s.b.Lose(ctx, c.ID, false))
			return func(s *stage) error { _, err := s.b.Reap(ctx, c.ID); return err }
		}},
		{"Kill", "ok", func(s *stage) verb {
			s.leased().dispatched("pay")
			return func(s *stage) error {
				_, err := s.b.Kill(ctx, ledger.KillArm, s.arm.Ref.String(), s.caller.Principal)
				return err
			}
		}},
		{"Lift", "ok", func(s *stage) verb {
			k := must[ledger.Kill](s.t)(s.b.Kill(ctx, ledger.KillPrincipal, s.caller.Principal.String(), s.caller.Principal))
			return func(s *stage) error { return s.b.Lift(ctx, k.ID, s.caller.Principal) }
		}},
		{"Exported", "ok", func(s *stage) verb {
			c := s.leased().dispatched("read_page")
			return func(s *stage) error { return s.b.Exported(ctx, []controlv1.ID{c.ID}, controlv1.Recorded) }
		}},
		{"EndLogin", "ok", func(s *stage) verb {
			s.leased().admit("pay")
			return func(s *stage) error { return s.b.EndLogin(ctx, s.evidence.Login, refusal.LoggedOut) }
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
			for _, step := range steps {
				s := b.person(t)
				do := step.make(s)
				armed.Store(true)
				if err := do(s); !errors.Is(err, errLost) {
					t.Errorf("%s, applied %v: %v, want the commit's error", step.name, applied, err)
				}
				armed.Store(false)
				b.check(t)
				wantCode := refusal.Code("ok")
				if applied {
					wantCode = step.again
				}
				if got := word(do(s)); got != wantCode {
					t.Errorf("%s again, applied %v: %s, want %s", step.name, applied, got, wantCode)
				}
				b.check(t)
			}
		})
	}
}

// TestLostAnswers: whoever lost the answer of a claim ends it by its own
// reference, so nothing is told unknown that was never sent.
func TestLostAnswers(t *testing.T) {
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
			s := b.person(t).leased()
			read := s.admission("read_page")
			armed.Store(true)
			if _, _, err := b.Admit(ctx, read); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			digest := must[controlv1.Digest](t)(read.Request.Digest())
			call := must[controlv1.ID](t)(controlv1.CallID(digest, ""))
			if did, err := b.Retire(ctx, call, read.Reference); err != nil || did != applied {
				t.Errorf("retired %v, %v; applied %v", did, err, applied)
			}
			c := s.admit("pay")
			k := s.confirmed(c)
			armed.Store(true)
			if _, err := b.Confirm(ctx, k); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			_, err := b.Withhold(ctx, c.ID, k.Claim, refusal.NotDispatched)
			want(t, "withhold", err, map[bool]refusal.Code{true: "ok", false: refusal.Forbidden}[applied])
			b.check(t)
		})
	}
}

// TestCheckHoldsRowsToTheLog: rows that are edited, added or dropped behind the
// ledger's back are found.
func TestCheckHoldsRowsToTheLog(t *testing.T) {
	for _, edit := range []string{
		`update attended_arm set state='active'`, `update attended_arm set state='asleep'`, `update attended_arm set expires_ms=expires_ms+1`,
		`update attended_arm set principal=principal || 'x'`, `update attended_arm set binding_digest='x'`, `update attended_arm set nonce_hash='x'`,
		`update attended_arm set credential_until_ms=credential_until_ms+1`, `delete from attended_arm`, `update attended_arm set version=version+1`,
		`update attended_registration set state='pending'`, `update attended_registration set node='x'`, `update attended_registration set tools=9`,
		`update attended_tool set tool_id='x' where tool_id='pay'; delete from attended_tool where tool_id='read_page'`,
		`update attended_document set state='cleared'`, `update attended_document set registration='x'`, `delete from attended_document`,
		`update attended_lease set state='revoked', reason='x'`, `update attended_lease set expires_ms=expires_ms+1`, `update attended_lease set tools='pay'`,
		`update attended_lease set agent_ref='x'`, `delete from attended_lease`,
		`update attended_call set state='succeeded' where state='unknown'`, `update attended_call set effect='none' where state='unknown'`,
		`update attended_call set request_digest='x'`, `update attended_call set attempts=2 where state='succeeded'`, `update attended_call set result_digest='x' where state='succeeded'`,
		`update attended_call set level='passkey' where level<>''`, `update attended_call set class='read'`, `delete from attended_call`,
		`update attended_trace set outcome='succeeded'`, `delete from attended_trace where kind='tool_call'`, `update attended_trace set tenant='other'`,
		`update attended_kill set state='lifted'`, `delete from attended_kill`, `update attended_kill set scope='all'`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{})
		s := b.person(t).leased()
		must[ledger.Call](t)(b.Settle(ctx, s.dispatched("pay").ID, success, ""))
		must[ledger.Call](t)(b.Lose(ctx, s.dispatched("pay").ID, true))
		must[ledger.Kill](t)(b.Kill(ctx, ledger.KillCall, "call_other", s.caller.Principal))
		b.check(t)
		for statement := range strings.SplitSeq(edit, "; ") {
			b.edit(t, statement)
		}
		if err := b.db.View(ctx, func(tx *store.Tx) error { return ledger.Check(tx) }); !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: %v, want tampered", edit, err)
		}
	}
}
