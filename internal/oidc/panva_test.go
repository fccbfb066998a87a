package oidc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/storetest"
)

const gold = "urn:test:gold"

// foreign is a site at a provider that isn't ours, which reaches it over the
// network for back-channel logout.
func foreign(t *testing.T, start func(backchannel string) oidc.Config) *site {
	t.Helper()
	var s *site
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.party.BackChannel(w, r) }))
	t.Cleanup(back.Close)
	s = newSite(t, storetest.SQLite(t), start(back.URL+"/auth/backchannel-logout"))
	if err := s.party.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func panva(t *testing.T) *site {
	return foreign(t, func(backchannel string) oidc.Config {
		p := idptest.NewPanva(t, origin, backchannel)
		return oidc.Config{Issuer: p.URL, ClientID: p.ClientID, ClientSecret: p.ClientSecret, ACRValues: []string{gold}, RolesClaim: "roles", Introspection: true}
	})
}

// prove fills the provider's form in.
func (s *site) prove(t *testing.T, page idptest.Page, login, acr string) idptest.Page {
	t.Helper()
	page, err := s.agent.Submit(page, url.Values{"login": {login}, "acr": {acr}})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPanva(t *testing.T) {
	s := panva(t)
	ctx := context.Background()
	page := s.prove(t, signIn(t, s.agent, "/x"), "alice", "")
	if page.Status != http.StatusOK || page.Meta("next") != "/x" {
		t.Fatalf("%s: %d\n%s", page.URL, page.Status, page.Body)
	}
	in, err := s.Find(ctx, s.agent.Cookie(oidc.SessionCookie))
	if err != nil {
		t.Fatal(err)
	}
	if in.Subject != "alice" || in.Name != "alice of the other party" || in.SID == "" || in.Fresh(time.Now()) || len(in.Roles) != 1 || in.AccessUntil.IsZero() {
		t.Errorf("session: %s %s %q %v", in.Subject, in.Name, in.SID, in.Roles)
	}

	// It says at which level somebody signed in; what wasn't demanded isn't enough.
	refusedWith(t, "no level", s.prove(t, s.stepUp(t, in), "alice", ""), refusal.BadACR)
	refusedWith(t, "another level", s.prove(t, s.stepUp(t, in), "alice", "urn:test:silver"), refusal.BadACR)
	if page = s.prove(t, s.stepUp(t, in), "alice", gold); page.Status != http.StatusOK || page.Meta("next") != "/after" {
		t.Fatalf("the step-up: %d\n%s", page.Status, page.Body)
	}
	up, err := s.Find(ctx, s.agent.Cookie(oidc.SessionCookie))
	if err != nil || !up.Fresh(time.Now()) || up.ID != in.ID || up.ACR != gold {
		t.Fatalf("%v %v", up, err)
	}
	if _, err := s.party.Introspect(ctx, up.Tokens().Access, "alice"); err != nil {
		t.Error(err)
	}
	for token, subject := range map[string]string{up.Tokens().Access: "bob", "no token": "alice"} {
		if _, err := s.party.Introspect(ctx, token, subject); refusal.Of(err) != refusal.Inactive {
			t.Errorf("introspection: %v", err)
		}
	}

	// Somebody else at the keyboard: the provider has forgotten the first person.
	other := s.browser()
	other.Plant("localhost:7080", oidc.SessionCookie, s.agent.Cookie(oidc.SessionCookie))
	s.agent = other
	refusedWith(t, "another person", s.prove(t, s.stepUp(t, up), "bob", gold), refusal.OtherPerson)
	if again, err := s.Find(ctx, other.Cookie(oidc.SessionCookie)); err != nil || again.Generation != 2 {
		t.Errorf("the session was disturbed: %v", err)
	}
}

// The person signs out at the provider; it tells us.
func TestPanvaLogsOut(t *testing.T) {
	s := panva(t)
	ctx := context.Background()
	page := s.prove(t, signIn(t, s.agent, "/"), "alice", gold)
	if page.Status != http.StatusOK {
		t.Fatalf("%d\n%s", page.Status, page.Body)
	}
	cookie := s.agent.Cookie(oidc.SessionCookie)
	in, err := s.Find(ctx, cookie)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan session.Session, 1)
	s.OnEnd(func(s session.Session) { ended <- s })
	to, err := s.party.Logout(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	page, err = s.agent.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if page, err = s.agent.Submit(page, url.Values{"logout": {"yes"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(page.URL.String(), origin+"/") {
		t.Errorf("came back to %s", page.URL)
	}
	select {
	case got := <-ended:
		if got.ID != in.ID {
			t.Errorf("%v was ended", got)
		}
		t.Logf("ended %v after the provider was told", time.Since(begun))
	case <-time.After(10 * time.Second):
		t.Fatal("the provider told nobody")
	}
	if _, err := s.Find(ctx, cookie); refusal.Of(err) != refusal.SessionExpired {
		t.Errorf("the session: %v", err)
	}
}
