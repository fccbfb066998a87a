package ledger_test

import (
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

func set(t testing.TB, text string) *policy.Set {
	t.Helper()
	return must[*policy.Set](t)(policy.Parse("test.cedar", []byte(text)))
}

// TestDenied: what policy denies leaves its receipt, its audit row, no fence and no
// trace, and isn't decided again under the same digest.
func TestDenied(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		m := s.admission("pay")
		m.Ruling.Set = set(t, `@id("reads") permit (principal, action == Action::"observe", resource);`)
		for _, again := range []string{"first", "again", "by a set that would allow it"} {
			if again == "by a set that would allow it" {
				m.Ruling.Set = rules
			}
			_, isFresh, err := b.Admit(ctx, m)
			want(t, again, err, refusal.PolicyDenied)
			if isFresh {
				t.Error("a fence was made")
			}
		}
		if n := b.text(t, `select cast(count(*) as text) from attended_call`); n != "0" {
			t.Errorf("%s fences", n)
		}
		if n := b.text(t, `select cast(count(*) as text) from policy_receipt where state='denied'`); n != "1" {
			t.Errorf("%s receipts", n)
		}
		b.check(t)
	})
}

// TestReceiptsFollowTheirCall: used with the claim, dropped with what ends before.
func TestReceiptsFollowTheirCall(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		state := func(c ledger.Call) string {
			return b.text(t, `select state from policy_receipt where receipt=$1`, c.Policy.String())
		}
		read, pay, no := s.admit("read_page"), s.admit("pay"), s.admit("pay")
		if got := state(read) + " " + state(pay); got != "used allowed" {
			t.Errorf("after T1: %s", got)
		}
		must[ledger.Call](t)(b.Confirm(ctx, s.confirmed(pay)))
		must[ledger.Call](t)(b.Deny(ctx, no.ID))
		if got := state(pay) + " " + state(no); got != "used dropped" {
			t.Errorf("after T2 and a denial: %s", got)
		}
		b.check(t)
	})
}

// TestPasskeyIsAsked: the level that a call's confirmation must have is the policy's.
func TestPasskeyIsAsked(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).leased()
		m := s.admission("pay")
		m.Ruling.Set = set(t, `@id("pay") @require_confirmation("passkey") permit (principal, action in Action::"mutate", resource);`)
		c, _, err := b.Admit(ctx, m)
		ok(t, err)
		if c.Level != controlv1.Passkey {
			t.Errorf("asked %q", c.Level)
		}
		k := s.confirmed(c)
		k.Level = controlv1.VisibleClick
		_, err = b.Confirm(ctx, k)
		want(t, "a click where a passkey was asked", err, refusal.RequestConflict)
		ok(t, second(b.Confirm(ctx, s.confirmed(c))))
		b.check(t)
	})
}

func second[V any](_ V, err error) error { return err }
