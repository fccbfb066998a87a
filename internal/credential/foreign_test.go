package credential_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"chaperone/internal/credential"
	"chaperone/internal/idptest"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// alice is somebody whom another provider signs in.
var alice = credential.Who{ID: "user-" + strings.Repeat("0a", 16), Name: "Alice"}

// add gives somebody who is signed in one more passkey.
func (b *book) add(t testing.TB, who credential.Who, name string) (*idptest.Authenticator, credential.Passkey) {
	t.Helper()
	a := device()
	answer := must[[]byte](t)(a.Create(must[[]byte](t)(b.BeginPasskey(context.Background(), who))))
	return a, must[credential.Passkey](t)(b.FinishPasskey(context.Background(), who, name, answer))
}

// confirms tells what comes of a confirmation with the authenticator.
func (b *book) confirms(t testing.TB, person string, a *idptest.Authenticator) error {
	t.Helper()
	challenge := sha256.Sum256([]byte("this"))
	return b.Confirm(context.Background(), person, challenge[:],
		must[[]byte](t)(a.Get(fmt.Appendf(nil, `{"publicKey":{"challenge":%q}}`, base64.RawURLEncoding.EncodeToString(challenge[:])))))
}

// Somebody of another provider is there from their first passkey on, with that and
// nothing else, and confirms with it.
func TestForeign(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		if all := must[[]credential.Passkey](t)(b.Passkeys(ctx, alice.ID)); len(all) != 0 {
			t.Errorf("before: %+v", all)
		}
		_, _, err := b.ConfirmKeys(ctx, alice.ID)
		want(t, "confirming without a passkey", err, refusal.Unknown)
		must[[]byte](t)(b.BeginPasskey(ctx, alice))
		_, err = b.Person(ctx, alice.ID)
		want(t, "begun alone", err, refusal.Unknown)

		a, first := b.add(t, alice, "Laptop")
		p := must[credential.Person](t)(b.Person(ctx, alice.ID))
		if p.Name != "Alice" || len(p.Roles) != 0 || p.State != credential.Active || p.Created.IsZero() {
			t.Errorf("%+v", p)
		}
		phone, _ := b.add(t, credential.Who{ID: alice.ID, Name: "Another name"}, "Phone")
		if p := must[credential.Person](t)(b.Person(ctx, alice.ID)); p.Name != "Alice" || string(phone.Handle) != string(a.Handle) {
			t.Errorf("with a second: %+v", p)
		}
		if _, ids, err := b.ConfirmKeys(ctx, alice.ID); err != nil || len(ids) != 2 {
			t.Errorf("keys: %v %v", ids, err)
		}
		want(t, "confirming", b.confirms(t, alice.ID, a), "")
		want(t, "RemovePasskey", b.RemovePasskey(ctx, alice.ID, first.ID), "")
		want(t, "confirming with a removed one", b.confirms(t, alice.ID, a), refusal.BadCredential)
		want(t, "confirming with the other", b.confirms(t, alice.ID, phone), "")
		left := must[[]credential.Passkey](t)(b.Passkeys(ctx, alice.ID))
		want(t, "the last", b.RemovePasskey(ctx, alice.ID, left[0].ID), refusal.Conflict)

		want(t, "Disable", b.Disable(ctx, "operator", alice.ID), "")
		want(t, "confirming, disabled", b.confirms(t, alice.ID, phone), refusal.Disabled)
		_, err = b.BeginPasskey(ctx, alice)
		want(t, "one more, disabled", err, refusal.Disabled)
		want(t, "Enable", b.Enable(ctx, "operator", alice.ID), "")

		for name, id := range map[string]string{"short": "user-0a", "not hex": "user-" + strings.Repeat("x", 32), "of the built-in provider": "person-0000000000000000", "none": ""} {
			_, err = b.BeginPasskey(ctx, credential.Who{ID: id, Name: "Alice"})
			want(t, name, err, refusal.Unknown)
		}
		odd := credential.Who{ID: "user-" + strings.Repeat("0b", 16), Name: "a\u202eb"}
		b.add(t, odd, "Laptop")
		if p := must[credential.Person](t)(b.Person(ctx, odd.ID)); p.Name != odd.ID {
			t.Errorf("a name that is none: %q", p.Name)
		}
	})
}

// Theirs sign nobody in, also where the built-in provider has come after the other
// one: they aren't counted, listed, invited or recovered, and answer no request.
func TestForeignSignsNobodyIn(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		a, _ := b.add(t, alice, "Laptop")
		if must[bool](t)(b.HasPeople(ctx)) || len(must[[]credential.Person](t)(b.People(ctx))) != 0 {
			t.Error("they count as the built-in provider's")
		}
		id, browser, err := b.login(t, a)
		want(t, "a sign-in", err, refusal.BadCredential)
		if p := must[credential.Pending](t)(b.Request(ctx, id, browser)); p.Step != credential.Waiting {
			t.Errorf("the request is %s", p.Step)
		}
		_, _, err = b.login(t, a, credential.Passkeyed)
		want(t, "a step-up", err, refusal.BadCredential)
		_, err = b.EnrolmentFor(ctx, "operator", alice.ID)
		want(t, "an invitation", err, refusal.Unknown)
		_, err = b.RecoveryCodes(ctx, alice.ID)
		want(t, "recovery codes", err, refusal.Unknown)
		want(t, "confirming", b.confirms(t, alice.ID, a), "")

		ann, own, _ := b.enrol(t, "Ann")
		if fmt.Sprint(ann.Roles) != "[admin]" {
			t.Errorf("the first of the built-in provider has %v", ann.Roles)
		}
		_, _, err = b.login(t, own)
		want(t, "Ann", err, "")
		want(t, "for another person", b.confirms(t, ann.ID, a), refusal.BadCredential)
		if all := must[[]credential.Person](t)(b.People(ctx)); len(all) != 1 || all[0].ID != ann.ID {
			t.Errorf("people: %+v", all)
		}
	})
}

// A recovery code, a link or a role that somebody wrote for them into the database
// counts for nothing, and Check finds it.
func TestForeignEdits(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		ctx := context.Background()
		b.add(t, alice, "Laptop")
		_, _, codes := b.enrol(t, "Ann")
		b.check(t)
		for _, edit := range []string{
			`update person set roles='admin' where id like 'user-%'`,
			`update recovery_code set person=$1`,
			`update enrolment set person=$1`,
		} {
			back := errors.New("back")
			err := b.db.Update(ctx, func(tx *store.Tx) error {
				args := []any{alice.ID}[:strings.Count(edit, "$")]
				if _, err := tx.Exec(edit, args...); err != nil {
					return err
				}
				if err := credential.Check(tx); !errors.Is(err, refusal.Tampered) {
					t.Errorf("after %q: got %v, want tampered", edit, err)
				}
				return back
			})
			if !errors.Is(err, back) {
				t.Fatal(err)
			}
		}
		if err := b.db.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.Exec(`update recovery_code set person=$1`, alice.ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		id, browser := b.request(t)
		want(t, "their recovery code", b.Recover(ctx, id, browser, codes[0]), refusal.BadCredential)
	})
}

// First passkeys at once are one person's.
func TestRacingForeign(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		ctx := context.Background()
		answers := make([][]byte, 64)
		for i := range answers {
			answers[i] = must[[]byte](t)(device().Create(must[[]byte](t)(books[i%2].BeginPasskey(ctx, alice))))
		}
		if n := race(t, refusal.TooMany, func(i int) error {
			_, err := books[i%2].FinishPasskey(ctx, alice, "Key", answers[i])
			return err
		}); n != 20 {
			t.Errorf("%d of 64 were added", n)
		}
		books[1].check(t)
	})
}

// The first passkey and its person stand or fall together, whether the commit that
// was reported as failed happened or not.
func TestForeignLostCommits(t *testing.T) {
	lost := errors.New("the commit's answer was lost")
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
				return lost
			}})
			ctx := context.Background()
			must[[]byte](t)(b.BeginPasskey(ctx, alice)) // which sweeps, as the next doesn't
			armed.Store(true)
			if _, err := b.BeginPasskey(ctx, alice); !errors.Is(err, lost) {
				t.Errorf("a lost beginning answered %v", err)
			}
			a := device()
			answer := must[[]byte](t)(a.Create(must[[]byte](t)(b.BeginPasskey(ctx, alice))))
			armed.Store(true)
			if _, err := b.FinishPasskey(ctx, alice, "Laptop", answer); !errors.Is(err, lost) {
				t.Errorf("a lost passkey answered %v", err)
			}
			if keys := must[[]credential.Passkey](t)(b.Passkeys(ctx, alice.ID)); (len(keys) == 1) != applied {
				t.Errorf("applied %v: %+v", applied, keys)
			}
			b.check(t)
			_, err := b.FinishPasskey(ctx, alice, "Laptop", answer)
			want(t, "the passkey again", err, map[bool]refusal.Code{true: refusal.BadCredential}[applied])
			want(t, "confirming", b.confirms(t, alice.ID, a), "")

			_, second := b.add(t, alice, "Phone")
			armed.Store(true)
			if err := b.RemovePasskey(ctx, alice.ID, second.ID); !errors.Is(err, lost) {
				t.Errorf("a lost removal answered %v", err)
			}
			want(t, "the removal again", b.RemovePasskey(ctx, alice.ID, second.ID), map[bool]refusal.Code{true: refusal.Unknown}[applied])
			b.check(t)
		})
	}
}
