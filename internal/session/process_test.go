package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// claim is a process of its own that claims each flow it is told of and prints
// those that it won.
func claim(args []string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, args[0], store.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		return err
	}
	b, err := session.NewBook(db, log, "local", session.Options{})
	if err != nil {
		return err
	}
	for _, state := range args[1:] {
		switch _, err := b.ClaimFlow(ctx, state); refusal.Of(err) {
		case "":
			if err != nil {
				return err
			}
			fmt.Println(state)
		case refusal.Replayed:
		default:
			return err
		}
	}
	return nil
}

// Several processes over one database: each flow is won once, and a session that
// one begins is found, stepped up and ended by any.
func TestManyProcesses(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		ctx := context.Background()
		args := []string{url}
		for range 40 {
			f := session.Flow{State: session.NewSecret(), Nonce: "n", Verifier: "v", Purpose: session.SignIn, Next: "/"}
			want(t, "BeginFlow", b.BeginFlow(ctx, f), "")
			args = append(args, f.State)
		}
		var all []*storetest.Process
		for range 3 {
			all = append(all, storetest.Start(t, "claim", args...))
		}
		won := map[string]int{}
		for _, p := range all {
			for _, state := range p.End(t) {
				won[state]++
			}
		}
		for _, state := range args[1:] {
			if won[state] != 1 {
				t.Errorf("a flow was won %d times", won[state])
			}
		}
		other := open(t, url, store.Options{})
		_, secrets := b.begin(t, facts("ann"))
		s, cookie, err := other.StepUp(ctx, secrets.Cookie, facts("ann"))
		want(t, "another node's step-up", err, "")
		_, err = b.Find(ctx, secrets.Cookie)
		want(t, "the old cookie at the first node", err, refusal.SessionExpired)
		want(t, "End", other.End(ctx, s.ID, refusal.SignedOut), "")
		_, err = b.Find(ctx, cookie)
		want(t, "an ended session at the first node", err, refusal.SessionExpired)
		n, err := other.Logout(ctx, session.LogoutToken{Issuer: "https://idp.example", SID: "sid-ann", JTI: "j", IssuedAt: time.Now()})
		if err != nil || n != 0 {
			t.Errorf("ended %d, %v", n, err)
		}
		_, err = b.Logout(ctx, session.LogoutToken{Issuer: "https://idp.example", SID: "sid-ann", JTI: "j", IssuedAt: time.Now()})
		want(t, "the token again at the first node", err, refusal.Replayed)
		b.check(t)
	})
}
