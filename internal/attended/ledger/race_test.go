package ledger_test

import (
	"sync"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
)

const racers = 64

// race runs f so many times at once and counts what it answers.
func race(f func(n int) error) map[refusal.Code]int {
	var mu sync.Mutex
	got := map[refusal.Code]int{}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range racers {
		all.Go(func() {
			<-begin
			code := word(f(n))
			mu.Lock()
			got[code]++
			mu.Unlock()
		})
	}
	close(begin)
	all.Wait()
	return got
}

func wins(t *testing.T, what string, got map[refusal.Code]int, loser refusal.Code) {
	t.Helper()
	if got["ok"] != 1 || got[loser] != racers-1 {
		t.Errorf("%s: %v, want one winner and %d %s", what, got, racers-1, loser)
	}
}

// TestOneWinner lets 64 racers at each one-use step: one wins, the others are
// refused, and nothing else changes.
func TestOneWinner(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.person(t).granted()
		var mu sync.Mutex
		wins(t, "finalize", race(func(int) error {
			arm, nonce, err := b.Finalize(ctx, s.arm.Ref, s.evidence, s.page)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				s.arm, s.nonce = arm, nonce
			}
			return err
		}), refusal.ArmReplayed)
		wins(t, "open", race(func(int) error { _, err := b.Open(ctx, s.arm.Ref, s.evidence, s.page, s.nonce); return err }), refusal.ArmReplayed)
		b.check(t)

		s = b.person(t).leased()
		m := s.admission("pay")
		created := 0
		got := race(func(int) error {
			own := m
			own.Reference = ledger.NewReference()
			_, isFresh, err := b.Admit(ctx, own)
			mu.Lock()
			defer mu.Unlock()
			if isFresh {
				created++
			}
			return err
		})
		if got["ok"] != racers || created != 1 {
			t.Errorf("admit: %v, %d created", got, created)
		}
		c, _, err := b.Admit(ctx, m)
		ok(t, err)
		wins(t, "confirm", race(func(int) error { _, err := b.Confirm(ctx, s.confirmed(c)); return err }), refusal.Replayed)
		wins(t, "settle", race(func(n int) error {
			if n%2 == 0 {
				_, err := b.Settle(ctx, c.ID, success, "")
				if word(err) == refusal.WindowExpired {
					err = refusal.Conflict
				}
				return err
			}
			_, err := b.Lose(ctx, c.ID, false)
			if err == nil {
				_, err = b.Reap(ctx, c.ID) // so that no result reconciles it
			}
			return err
		}), refusal.Conflict)
		c = s.admit("pay")
		wins(t, "the ways to end a confirmation", race(func(n int) error {
			var err error
			switch n % 3 {
			case 0:
				_, err = b.Deny(ctx, c.ID)
			case 1:
				_, err = b.Confirm(ctx, s.confirmed(c))
				if code := word(err); code == refusal.UserDenied || code == refusal.Replayed {
					err = refusal.Conflict
				}
			case 2:
				_, err = b.Deny(ctx, c.ID)
			}
			return err
		}), refusal.Conflict)
		b.check(t)
	})
}

// TestRevokedBeforeLaunch races the claim with a sign-out: whoever is second finds
// the first's work, and no claim is left under an arm that is over.
func TestRevokedBeforeLaunch(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		for range 6 {
			s := b.person(t).leased()
			c := s.admit("pay")
			var all sync.WaitGroup
			all.Go(func() { b.Confirm(ctx, s.confirmed(c)) })
			all.Go(func() {
				if err := b.EndLogin(ctx, s.evidence.Login, refusal.SignedOut); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			c = must[ledger.Call](t)(b.Show(ctx, s.caller, c.ID))
			if c.State != ledger.CallCancelled && c.State != ledger.CallUnknown {
				t.Errorf("the call is %s", c.State)
			}
			if (c.State == ledger.CallCancelled) != (c.Attempts == 0 && c.Effect == controlv1.NoEffect) {
				t.Errorf("the call is %+v", c)
			}
		}
		b.check(t)
	})
}
