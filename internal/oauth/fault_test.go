package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var errLost = errors.New("the commit's answer was lost")

// TestEachDurableStepFailsTwice loses every commit of an app's life once before it
// is applied and once after, goes on as its caller would, and walks the book.
func TestEachDurableStepFailsTwice(t *testing.T) {
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var countdown atomic.Int64
			b := open(t, url, store.Options{Commit: func(commit func() error) error {
				if countdown.Add(-1) != 0 {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return errLost
			}}, oauth.Options{})
			for at := int64(1); at <= 8; at++ {
				t.Run(fmt.Sprintf("applied=%v,commit=%d", applied, at), func(t *testing.T) {
					countdown.Store(at)
					lifeWithFault(t, b, at, applied)
					countdown.Store(0)
					b.check(t)
				})
			}
		})
	}
}

// lifeWithFault lives one app's life whose commit number at is lost: registered,
// asked, approved, redeemed, refreshed twice, a script's token, revoked. After a
// loss the caller tries the same again, and what it is told must be the truth.
func lifeWithFault(t *testing.T, b *book, at int64, applied bool) {
	ctx := context.Background()
	// twice runs a step and, after a loss, again; once is what the second try of a
	// step that was applied is told.
	twice := func(step int64, once refusal.Code, do func() error) bool {
		t.Helper()
		err := do()
		if at != step {
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			return true
		}
		if !errors.Is(err, errLost) {
			t.Fatalf("step %d: %v, want the loss", step, err)
		}
		want := refusal.Code("ok")
		if applied {
			want = once
		}
		if got := word(do()); got != want {
			t.Fatalf("step %d again: %s, want %s", step, got, want)
		}
		return want == "ok"
	}
	f := &flow{t: t, b: b, verifier: random()}
	twice(1, "ok", func() (err error) {
		f.client, err = b.Register(ctx, []byte(`{"redirect_uris":["`+callback+`"]}`))
		return err
	})
	twice(2, "ok", func() (err error) {
		f.request, err = b.Begin(ctx, oauth.Ask{Client: f.client, Redirect: callback, State: "s t", Challenge: challenge(f.verifier), Scopes: []string{"collections"}})
		return err
	})
	if !twice(3, refusal.Conflict, f.approve) {
		// The code is known to nobody: its connection is taken back.
		connection := b.text(t, `select connection from oauth_family where client=$1`, f.client.ID)
		if err := b.RevokeConnection(ctx, connection); err != nil || f.family() != oauth.Revoked {
			t.Errorf("taking it back: %v, %s", err, f.family())
		}
		return
	}
	if !twice(4, refusal.Replayed, f.redeem) {
		if f.family() != oauth.Burned {
			t.Errorf("a code that was used by nobody knows whom left a family %s", f.family())
		}
		return
	}
	old := f.Tokens
	if !twice(5, refusal.Replayed, func() (err error) { f.Tokens, err = f.refresh(old.Refresh); return err }) {
		if f.family() != oauth.Burned || b.find(old.Access) != refusal.Unknown {
			t.Errorf("the family is %s", f.family())
		}
		return
	}
	script := oauth.Script{Client: oauth.NewScript(), Actor: "ada", Name: "x", Scopes: []string{"collections"}, Connection: random()[:32], Ends: time.Now().Add(time.Hour)}
	var token string
	twice(6, "ok", func() (err error) {
		script.Connection = random()[:32]
		token, err = b.Issue(ctx, script)
		return err
	})
	twice(7, "ok", func() error { _, err := b.Revoke(ctx, f.client.ID, f.Access); return err })
	twice(8, "ok", func() error { return b.RevokeConnection(ctx, script.Connection) })
	for _, token := range []string{f.Access, old.Access, token} {
		if code := b.find(token); code != refusal.Unknown {
			t.Errorf("after everything was revoked: %s", code)
		}
	}
}

// TestCheckFindsWhatWasEdited edits rows behind the book's back.
func TestCheckFindsWhatWasEdited(t *testing.T) {
	for _, edit := range []string{
		`update oauth_family set state='open'`, `update oauth_token set state='gone'`, `update oauth_code set state='fresh'`, `update oauth_request set state='x'`,
		`update oauth_client set state='x'`, `update oauth_family set state='revoked'`, `update oauth_family set reason='ended'`,
		`update oauth_token set hash='chap_at_' || hash where kind='access'`, `update oauth_token set family='x'`, `update oauth_code set family='x'`,
		`update oauth_code set state='issued'`, `update oauth_code set state='replayed'`, `update oauth_token set state='live'`,
		`update oauth_token set state='rotated'`, `update oauth_token set expires_ms=expires_ms+999999999999`,
		`update oauth_code set expires_ms=expires_ms+1`, `update oauth_token set kind='script'`, `update oauth_request set state='denied'`,
		`update oauth_request set actor=''`,
		`update oauth_family set actor='bob'`, `update oauth_family set scopes='control:write'`, `update oauth_family set ends_ms=ends_ms+86400000`,
		`update oauth_family set connection='x'`, `update oauth_family set client='x'`,
		`insert into oauth_family select 'f00d', tenant, kind, client, name, actor, roles, scopes, resource, 'x', state, reason, created_ms, ends_ms, moved_ms from oauth_family`, `insert into oauth_family select 'f00d', tenant || 'x', kind, client, name, actor, roles, scopes, resource, connection,
			'live', 'x', created_ms, ends_ms, moved_ms from oauth_family`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{}, oauth.Options{})
		f := b.connected(t)
		if _, err := f.refresh(f.Refresh); err != nil {
			t.Fatal(err)
		}
		b.check(t)
		ctx := context.Background()
		if err := b.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(edit); return err }); err != nil {
			t.Fatal(err)
		}
		err := b.db.View(ctx, func(tx *store.Tx) error { return oauth.Check(tx) })
		if !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: %v, want tampered", edit, err)
		}
	}
}
