package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, map[string]storetest.Role{"claim": claim}) }

// book is a session book with what a test needs to look behind it.
type book struct {
	*session.Book
	db *store.DB
}

// open opens the book at url as one process would.
func open(t testing.TB, url string, opts store.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := session.NewBook(db, log, "local", session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &book{b, db}
}

// each runs f on both engines and walks the invariants afterwards.
func each(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		f(t, b)
		b.check(t)
	})
}

func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.db.View(context.Background(), func(tx *store.Tx) error { return session.Check(tx) }); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func facts(actor string) session.Facts {
	now := time.Now()
	return session.Facts{
		Actor: actor, Name: "A Person", Issuer: "https://idp.example", Subject: "s-" + actor, SID: "sid-" + actor, ACR: "strong",
		AuthTime: now, Issued: now, Roles: []string{"reader", "admin", "reader"}, Agent: "Chromium on Linux",
		Tokens: session.Tokens{ID: "the-id-token", Access: "the-access-token"},
	}
}

func (b *book) begin(t testing.TB, f session.Facts) (session.Session, session.Secrets) {
	t.Helper()
	s, secrets, err := b.Begin(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return s, secrets
}

// want compares an error's code.
func want(t testing.TB, what string, err error, code refusal.Code) {
	t.Helper()
	if got := refusal.Of(err); got != code || (err != nil) != (code != "") {
		t.Errorf("%s: got %v, want %q", what, err, code)
	}
}

func TestLife(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		s, secrets := b.begin(t, facts("ann"))
		found, err := b.Find(ctx, secrets.Cookie)
		if err != nil {
			t.Fatal(err)
		}
		if found.ID != s.ID || found.Browser != s.Browser || found.Login != s.Login || found.Generation != 1 || !found.Fresh(time.Now()) {
			t.Errorf("found %+v, want %+v", found, s)
		}
		if found.Tokens() != facts("ann").Tokens {
			t.Error("the cookie doesn't open the tokens")
		}
		p, err := found.Principal()
		if err != nil || p.Actor() != "ann" || p.Tenant() != "local" || !p.HasRoles("admin", "reader") {
			t.Errorf("principal %v, %v", p, err)
		}
		want(t, "the key", b.CheckKey(ctx, found, secrets.Key), "")
		for name, key := range map[string]string{"no key": "", "the cookie": secrets.Cookie, "another": session.NewSecret(), "longer": secrets.Key + "0"} {
			want(t, name, b.CheckKey(ctx, found, key), refusal.SessionExpired)
		}
		for name, cookie := range map[string]string{"no cookie": "", "the key": secrets.Key, "the handle": s.ID, "upper case": strings.ToUpper(secrets.Cookie), "longer": secrets.Cookie + "0"} {
			_, err := b.Find(ctx, cookie)
			want(t, name, err, refusal.SessionExpired)
		}
		var told []string
		b.OnEnd(func(s session.Session) { told = append(told, s.ID) })
		want(t, "End", b.End(ctx, s.ID, refusal.SignedOut), "")
		want(t, "End again", b.End(ctx, s.ID, refusal.SignedOut), "")
		want(t, "End of nothing", b.End(ctx, "no-such", refusal.SignedOut), refusal.Unknown)
		_, err = b.Find(ctx, secrets.Cookie)
		want(t, "an ended session", err, refusal.SessionExpired)
		if len(told) != 1 || told[0] != s.ID {
			t.Errorf("OnEnd was told %v", told)
		}
	})
}

// A step-up renews the id: a cookie that was planted or stolen before is dead.
func TestStepUpRenewsTheCookie(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		weak := facts("ann")
		weak.AuthTime = time.Time{}
		s, secrets := b.begin(t, weak)
		if s.Fresh(time.Now()) {
			t.Error("a sign-in without proof is fresh")
		}
		up, cookie, err := b.StepUp(ctx, secrets.Cookie, facts("ann"))
		if err != nil {
			t.Fatal(err)
		}
		if up.ID != s.ID || up.Browser != s.Browser || up.Login == s.Login || up.Generation != 2 || !up.Fresh(time.Now()) || !up.End.Equal(s.End.Truncate(time.Millisecond)) {
			t.Errorf("stepped up to %+v from %+v", up, s)
		}
		_, err = b.Find(ctx, secrets.Cookie)
		want(t, "the old cookie", err, refusal.SessionExpired)
		_, _, err = b.StepUp(ctx, secrets.Cookie, facts("ann"))
		want(t, "a step-up by the old cookie", err, refusal.SessionExpired)
		found, err := b.Find(ctx, cookie)
		want(t, "the new cookie", err, "")
		want(t, "the key stays", b.CheckKey(ctx, found, secrets.Key), "")
		if session.CSRF(cookie) == session.CSRF(secrets.Cookie) {
			t.Error("the CSRF token outlived its cookie")
		}
		for name, change := range map[string]func(*session.Facts){
			"another subject": func(f *session.Facts) { f.Subject = "s-bob" },
			"another issuer":  func(f *session.Facts) { f.Issuer = "https://other.example" },
			"another actor":   func(f *session.Facts) { f.Actor = "bob" },
		} {
			f := facts("ann")
			change(&f)
			_, _, err := b.StepUp(ctx, cookie, f)
			want(t, name, err, refusal.OtherPerson)
		}
		if again, err := b.Find(ctx, cookie); err != nil || again.Generation != 2 {
			t.Errorf("a refused step-up left %+v, %v", again, err)
		}
	})
}

func TestRecoveryIsNeverFresh(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		f := facts("ann")
		f.Recovery = true
		_, secrets := b.begin(t, f)
		found, err := b.Find(context.Background(), secrets.Cookie)
		if err != nil || found.Fresh(time.Now()) || !found.FreshUntil().IsZero() {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// The clock ends sessions: idle, at twelve hours however much they are used, and
// freshness at five minutes. A provider's clock that is ahead changes nothing.
func TestClock(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		synctestBook(t, b, func(b *book) {
			ctx := context.Background()
			ahead := facts("ann")
			ahead.AuthTime = time.Now().Add(20 * time.Second)
			first, idle := b.begin(t, ahead)
			if first.Fresh(time.Now().Add(session.FreshTime)) {
				t.Error("a provider's clock that is ahead keeps a session fresh for longer")
			}
			_, busy := b.begin(t, facts("ann"))
			looked, watched := b.begin(t, facts("ann"))
			find := func(what, cookie string, code refusal.Code) session.Session {
				t.Helper()
				s, err := b.Find(ctx, cookie)
				want(t, what, err, code)
				return s
			}
			time.Sleep(session.FreshTime - time.Millisecond)
			want(t, "who only looks", b.Stands(ctx, watched.Cookie), "")
			want(t, "who looks by the handle", b.Holds(ctx, looked.ID), "")
			if s := find("just before five minutes", busy.Cookie, ""); !s.Fresh(time.Now()) {
				t.Error("not fresh just before five minutes")
			}
			time.Sleep(time.Millisecond)
			if s := find("at five minutes", busy.Cookie, ""); s.Fresh(time.Now()) {
				t.Error("fresh at five minutes")
			}
			// idle was last used at its beginning.
			time.Sleep(session.Idle - session.FreshTime - time.Millisecond)
			find("just before idle", busy.Cookie, "")
			time.Sleep(time.Millisecond)
			find("idle for half an hour", idle.Cookie, refusal.SessionExpired)
			want(t, "looked at for half an hour", b.Stands(ctx, watched.Cookie), refusal.SessionExpired)
			want(t, "looked at by the handle", b.Holds(ctx, looked.ID), refusal.SessionExpired)
			for range 22 {
				time.Sleep(session.Idle - time.Minute)
				find("in use", busy.Cookie, "")
			}
			for range 40 {
				time.Sleep(4 * time.Minute)
				if s, err := b.Find(ctx, busy.Cookie); err != nil {
					if s.ID != "" {
						t.Error("an error with a session")
					}
					break
				}
			}
			find("after twelve hours in use", busy.Cookie, refusal.SessionExpired)
			want(t, "Sweep", b.Sweep(ctx), "")
			all, err := b.List(ctx, "ann")
			if err != nil || len(all) != 0 {
				t.Errorf("%v stand, %v", all, err)
			}
		})
	})
}

// synctestBook runs f in a bubble, with a book opened inside it: a connection's
// goroutines belong to the bubble that made them.
func synctestBook(t *testing.T, outside *book, f func(*book)) {
	url := outside.db.Path()
	if url == "" {
		url = storetest.Postgres(t)
	} else {
		url = storetest.SQLite(t)
	}
	synctest.Test(t, func(t *testing.T) {
		b := open(t, url, store.Options{})
		f(b)
		b.check(t)
	})
}

func TestEndOthers(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		mine, secrets := b.begin(t, facts("ann"))
		for range 3 {
			b.begin(t, facts("ann"))
		}
		b.begin(t, facts("bob"))
		ended, err := b.EndOthers(ctx, mine)
		if err != nil || ended != 3 {
			t.Errorf("ended %d, %v", ended, err)
		}
		_, err = b.Find(ctx, secrets.Cookie)
		want(t, "one's own", err, "")
		for actor, n := range map[string]int{"ann": 1, "bob": 1} {
			if all, err := b.List(ctx, actor); err != nil || len(all) != n {
				t.Errorf("%s has %d, %v; want %d", actor, len(all), err, n)
			}
		}
		ended, err = b.EndActor(ctx, "bob", refusal.Disabled)
		if err != nil || ended != 1 {
			t.Errorf("ended %d of bob's, %v", ended, err)
		}
	})
}

func TestFlow(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		f := session.Flow{State: session.NewSecret() + session.NewSecret(), Nonce: "nonce", Verifier: "verifier", Purpose: session.StepUp, Session: "abc", ACR: []string{"gold", "silver"}, Next: "/a?b=c"}
		want(t, "BeginFlow", b.BeginFlow(ctx, f), "")
		want(t, "BeginFlow again", b.BeginFlow(ctx, f), refusal.Replayed)
		var secret int
		err := b.db.View(ctx, func(tx *store.Tx) error {
			return tx.QueryRow(`select count(*) from session_flow where sealed like '%nonce%' or sealed like '%verifier%' or state_hash=$1`, f.State).Scan(&secret)
		})
		if err != nil || secret != 0 {
			t.Errorf("secrets of a flow stand in the database (%v)", err)
		}
		got, err := b.ClaimFlow(ctx, f.State)
		if err != nil || got.Nonce != f.Nonce || got.Verifier != f.Verifier || got.Session != f.Session || got.Next != f.Next || fmt.Sprint(got.ACR) != fmt.Sprint(f.ACR) || got.Begun.IsZero() {
			t.Errorf("claimed %#v %v, %v", got, got.ACR, err)
		}
		for range 2 {
			_, err = b.ClaimFlow(ctx, f.State)
			want(t, "a second claim", err, refusal.Replayed)
		}
		_, err = b.ClaimFlow(ctx, session.NewSecret())
		want(t, "a state nobody began", err, refusal.BadState)
		var replays int
		err = b.db.View(ctx, func(tx *store.Tx) error {
			return audit.Each(tx, audit.Filter{Kind: "session.flow_replayed"}, func(audit.Record) error { replays++; return nil })
		})
		if err != nil || replays != 1 {
			t.Errorf("a replay was told %d times, %v", replays, err)
		}
		for name, change := range map[string]func(*session.Flow){
			"no state":               func(f *session.Flow) { f.State = "" },
			"no nonce":               func(f *session.Flow) { f.Nonce = "" },
			"no verifier":            func(f *session.Flow) { f.Verifier = "" },
			"no purpose":             func(f *session.Flow) { f.Purpose = "" },
			"a step-up of nothing":   func(f *session.Flow) { f.Session = "" },
			"a step-up to no level":  func(f *session.Flow) { f.ACR = nil },
			"a level with a space":   func(f *session.Flow) { f.ACR = []string{"a b"} },
			"a sign-in of a session": func(f *session.Flow) { f.Purpose = session.SignIn },
			"an arm of no route":     func(f *session.Flow) { f.Purpose = session.Arm },
			"an arm of no session":   func(f *session.Flow) { f.Purpose, f.Route, f.Session = session.Arm, "r", "" },
			"a step-up of a route":   func(f *session.Flow) { f.Route = "r" },
			"another host":           func(f *session.Flow) { f.Next = "//evil.example" },
		} {
			bad := f
			bad.State = session.NewSecret()
			change(&bad)
			want(t, name, b.BeginFlow(ctx, bad), refusal.BadDocument)
		}
	})
}

func TestFlowExpires(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		synctestBook(t, b, func(b *book) {
			ctx := context.Background()
			flow := func() string {
				f := session.Flow{State: session.NewSecret(), Nonce: "n", Verifier: "v", Purpose: session.SignIn, Next: "/"}
				want(t, "BeginFlow", b.BeginFlow(ctx, f), "")
				return f.State
			}
			early, late := flow(), flow()
			time.Sleep(session.FlowLife - time.Millisecond)
			_, err := b.ClaimFlow(ctx, early)
			want(t, "just in time", err, "")
			time.Sleep(time.Millisecond)
			for _, code := range []refusal.Code{refusal.Expired, refusal.Replayed} {
				_, err = b.ClaimFlow(ctx, late)
				want(t, "too late", err, code)
			}
			time.Sleep(session.FlowLife + time.Minute)
			flow() // clears up
			_, err = b.ClaimFlow(ctx, late)
			want(t, "swept", err, refusal.BadState)
		})
	})
}

// Of 64 callers in two processes exactly one claims a flow.
func TestRacingClaims(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		books := []*book{open(t, url, store.Options{}), open(t, url, store.Options{})}
		ctx := context.Background()
		f := session.Flow{State: session.NewSecret(), Nonce: "n", Verifier: "v", Purpose: session.SignIn, Next: "/"}
		want(t, "BeginFlow", books[0].BeginFlow(ctx, f), "")
		var won atomic.Int64
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				_, err := books[i%2].ClaimFlow(ctx, f.State)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, refusal.Replayed):
					t.Errorf("racer %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of 64 won", won.Load())
		}
		// Two step-ups of one cookie: one renews it, the other finds it dead.
		_, secrets := books[0].begin(t, facts("ann"))
		won.Store(0)
		for i := range 16 {
			all.Go(func() {
				_, _, err := books[i%2].StepUp(ctx, secrets.Cookie, facts("ann"))
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, refusal.SessionExpired):
					t.Errorf("racer %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of 16 stepped up", won.Load())
		}
		books[1].check(t)
	})
}

func TestLogout(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		with := func(actor, sid string) (session.Facts, session.Secrets) {
			f := facts(actor)
			f.SID = sid
			_, secrets := b.begin(t, f)
			return f, secrets
		}
		f, one := with("ann", "sid-1")
		_, two := with("ann", "sid-2")
		_, other := with("bob", "sid-3")
		stands := func(what string, secrets session.Secrets, code refusal.Code) {
			t.Helper()
			_, err := b.Find(ctx, secrets.Cookie)
			want(t, what, err, code)
		}
		token := session.LogoutToken{Issuer: f.Issuer, SID: "sid-1", JTI: "j1", IssuedAt: time.Now()}
		if n, err := b.Logout(ctx, token); err != nil || n != 1 {
			t.Fatalf("ended %d, %v", n, err)
		}
		_, err := b.Logout(ctx, token)
		want(t, "a replay", err, refusal.Replayed)
		stands("the named session", one, refusal.SessionExpired)
		stands("another session of the person", two, "")
		if n, err := b.Logout(ctx, session.LogoutToken{Issuer: f.Issuer, Subject: f.Subject, JTI: "j2", IssuedAt: time.Now()}); err != nil || n != 1 {
			t.Errorf("without sid: ended %d, %v", n, err)
		}
		stands("all of the subject", two, refusal.SessionExpired)
		stands("another person", other, "")
		for name, bad := range map[string]session.LogoutToken{
			"nobody":     {Issuer: f.Issuer, JTI: "j3", IssuedAt: time.Now()},
			"no jti":     {Issuer: f.Issuer, Subject: "x", IssuedAt: time.Now()},
			"no issuer":  {Subject: "x", JTI: "j4", IssuedAt: time.Now()},
			"no instant": {Issuer: f.Issuer, Subject: "x", JTI: "j5"},
		} {
			_, err := b.Logout(ctx, bad)
			want(t, name, err, refusal.BadToken)
		}
	})
}

// A logout that overtakes its sign-in leaves a tombstone.
func TestLogoutBeforeTheCallback(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		now := time.Now()
		logout := func(l session.LogoutToken) {
			t.Helper()
			l.Issuer, l.JTI = "https://idp.example", session.NewSecret()
			if n, err := b.Logout(ctx, l); err != nil || n != 0 {
				t.Fatalf("ended %d, %v", n, err)
			}
		}
		logout(session.LogoutToken{SID: "sid-ann", IssuedAt: now})
		logout(session.LogoutToken{Subject: "s-bob", IssuedAt: now})
		begin := func(actor string, issued time.Time) error {
			f := facts(actor)
			f.Issued = issued
			_, _, err := b.Begin(ctx, f)
			return err
		}
		want(t, "the session that was logged out", begin("ann", now.Add(-time.Minute)), refusal.SessionExpired)
		want(t, "that session, whatever its token's age", begin("ann", now.Add(time.Minute)), refusal.SessionExpired)
		want(t, "a token older than the logout of its subject", begin("bob", now.Add(-time.Second)), refusal.SessionExpired)
		want(t, "a token as old as the logout", begin("bob", now), refusal.SessionExpired)
		want(t, "a sign-in after the logout", begin("bob", now.Add(time.Second)), "")
		want(t, "somebody else", begin("eve", now), "")
		f := facts("eve")
		_, secrets := b.begin(t, f)
		f.SID = "sid-ann"
		logout(session.LogoutToken{Subject: "s-nobody", IssuedAt: now})
		_, _, err := b.StepUp(ctx, secrets.Cookie, f)
		want(t, "a step-up in a session that was logged out", err, refusal.SessionExpired)
	})
}

// What a row says that the log doesn't tell is found.
func TestCheckFindsEdits(t *testing.T) {
	for _, edit := range []string{
		`update session set state='active', reason='', ended_ms=0 where state='ended'`,
		`update session set actor='eve' where state='active'`,
		`update session set generation=7 where state='active'`,
		`update session set end_ms=end_ms+1`,
		`update session set reason='x' where state='active'`,
		`update session set state='undead'`,
		`update session set key_hash=cookie_hash`,
		`update session set sealed='00' where state='ended'`,
		`update session_flow set stands='lost'`,
		`update session_flow set session='x'`,
		`update session_logout set subject='', sid=''`,
	} {
		b := open(t, storetest.SQLite(t), store.Options{})
		ctx := context.Background()
		b.begin(t, facts("ann"))
		gone, _ := b.begin(t, facts("bob"))
		want(t, "End", b.End(ctx, gone.ID, refusal.SignedOut), "")
		want(t, "BeginFlow", b.BeginFlow(ctx, session.Flow{State: session.NewSecret(), Nonce: "n", Verifier: "v", Purpose: session.SignIn, Next: "/"}), "")
		if _, err := b.Logout(ctx, session.LogoutToken{Issuer: "https://idp.example", SID: "x", JTI: "j", IssuedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		b.check(t)
		if err := b.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(edit); return err }); err != nil {
			t.Fatal(err)
		}
		err := b.db.View(ctx, func(tx *store.Tx) error { return session.Check(tx) })
		if !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: got %v, want tampered", edit, err)
		}
	}
}

// Nothing that a browser or provider holds stands in the database.
func TestNothingSecretAtRest(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		_, secrets := b.begin(t, facts("ann"))
		_, cookie, err := b.StepUp(ctx, secrets.Cookie, facts("ann"))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{secrets.Cookie, secrets.Key, cookie, "the-id-token", "the-access-token"} {
			var n int
			err := b.db.View(ctx, func(tx *store.Tx) error {
				return tx.QueryRow(`select count(*) from session where id||cookie_hash||key_hash||sealed||browser||login||name||agent like $1`, "%"+secret+"%").Scan(&n)
			})
			if err != nil || n != 0 {
				t.Errorf("a secret stands in the database (%v)", err)
			}
		}
		for _, printed := range []string{fmt.Sprintf("%v %+v %#v", secrets, secrets, secrets), fmt.Sprintf("%v %+v %#v", facts("a").Tokens, facts("a").Tokens, facts("a").Tokens)} {
			if strings.Contains(printed, secrets.Key) || strings.Contains(printed, "token\"") || strings.Contains(printed, "the-") {
				t.Errorf("a secret prints: %s", printed)
			}
		}
	})
}

// Each durable step is failed once before and once after it is applied.
func TestLostCommits(t *testing.T) {
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
			_, secrets := b.begin(t, facts("ann"))
			flow := session.Flow{State: session.NewSecret(), Nonce: "n", Verifier: "v", Purpose: session.SignIn, Next: "/"}
			want(t, "BeginFlow", b.BeginFlow(ctx, flow), "")

			armed.Store(true)
			if _, err := b.ClaimFlow(ctx, flow.State); !errors.Is(err, lost) {
				t.Errorf("a lost claim answered %v", err)
			}
			_, err := b.ClaimFlow(ctx, flow.State)
			code := refusal.Code("")
			if applied {
				code = refusal.Replayed
			}
			want(t, "the claim again", err, code)

			armed.Store(true)
			if _, _, err := b.StepUp(ctx, secrets.Cookie, facts("ann")); !errors.Is(err, lost) {
				t.Errorf("a lost step-up answered %v", err)
			}
			_, err = b.Find(ctx, secrets.Cookie)
			code = ""
			if applied {
				code = refusal.SessionExpired // the new cookie reached nobody: they sign in again
			}
			want(t, "the old cookie", err, code)

			s, _ := b.begin(t, facts("bob"))
			armed.Store(true)
			if err := b.End(ctx, s.ID, refusal.SignedOut); !errors.Is(err, lost) {
				t.Errorf("a lost end answered %v", err)
			}
			want(t, "the end again", b.End(ctx, s.ID, refusal.SignedOut), "")
			b.check(t)
		})
	}
}

// Holds outlasts the renewal of the cookie, and tells why a session ended.
func TestHolds(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		ctx := context.Background()
		s, secrets := b.begin(t, facts("ann"))
		want(t, "a session", b.Holds(ctx, s.ID), "")
		_, renewed, err := b.StepUp(ctx, secrets.Cookie, facts("ann"))
		want(t, "the step-up", err, "")
		want(t, "a session that was stepped up", b.Holds(ctx, s.ID), "")
		for name, id := range map[string]string{"nothing": "", "no such": strings.Repeat("0", 32), "the cookie": renewed} {
			want(t, name, b.Holds(ctx, id), refusal.SessionExpired)
		}
		want(t, "End", b.End(ctx, s.ID, refusal.Revoked), "")
		want(t, "a revoked session", b.Holds(ctx, s.ID), refusal.Revoked)
	})
}
