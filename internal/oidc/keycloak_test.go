package oidc_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Keycloak: levels of authentication, introspection by JWT access tokens, and
// back-channel logout, by a provider that isn't ours and isn't certified against
// us.
func TestKeycloak(t *testing.T) {
	const silver, gold = "urn:test:silver", "urn:test:gold"
	s := foreign(t, func(backchannel string) oidc.Config {
		k := idptest.NewKeycloak(t, origin, backchannel)
		return oidc.Config{Issuer: k.URL, ClientID: k.ClientID, ClientSecret: k.ClientSecret, ACRValues: []string{gold}, RolesClaim: "realm_access.roles", Introspection: true}
	})
	ctx := context.Background()
	submit := func(page idptest.Page, form url.Values) idptest.Page {
		t.Helper()
		page, err := s.agent.Submit(page, form)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := submit(signIn(t, s.agent, "/x"), url.Values{"username": {"alice"}, "password": {"alice's password"}})
	if page.Status != http.StatusOK || page.Meta("next") != "/x" {
		t.Fatalf("%s: %d\n%s", page.URL, page.Status, page.Body)
	}
	in, err := s.Find(ctx, s.agent.Cookie(oidc.SessionCookie))
	if err != nil {
		t.Fatal(err)
	}
	if in.Name != "Alice Other" || in.SID == "" || in.ACR != silver || in.Fresh(time.Now()) || !strings.Contains(strings.Join(in.Roles, " "), "reader") || in.AccessUntil.IsZero() {
		t.Errorf("session: %s %q %s %v fresh %v", in.Name, in.SID, in.ACR, in.Roles, in.Fresh(time.Now()))
	}

	// The step-up asks for level 2: Keycloak asks for the password, and once more.
	page = s.stepUp(t, in)
	page = submit(page, url.Values{"username": {"alice"}, "password": {"alice's password"}})
	if page.URL.Host != "localhost:7080" {
		page = submit(page, url.Values{"password": {"alice's password"}})
	}
	if page.Status != http.StatusOK || page.Meta("next") != "/after" {
		t.Fatalf("%s: %d\n%s", page.URL, page.Status, page.Body)
	}
	cookie := s.agent.Cookie(oidc.SessionCookie)
	up, err := s.Find(ctx, cookie)
	if err != nil || !up.Fresh(time.Now()) || up.ACR != gold || up.ID != in.ID {
		t.Fatalf("%v %v", up, err)
	}
	access := up.Tokens().Access
	if _, err := s.party.Introspect(ctx, access, up.Subject); err != nil {
		t.Error(err)
	}
	if _, err := s.party.Introspect(ctx, access[:len(access)-6]+"AAAAAA", up.Subject); refusal.Of(err) != refusal.Inactive {
		t.Errorf("a spoilt token: %v", err)
	}

	// Somebody who edits the level out of the address isn't stepped up.
	to, flow, err := s.party.StepUp(ctx, up, "/")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("acr_values", silver)
	u.RawQuery = q.Encode()
	s.agent.Plant("localhost:7080", flow.Name, flow.Value)
	if page, err = s.agent.Get(u.String()); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "an edited level", submit(page, url.Values{"username": {"alice"}, "password": {"alice's password"}}), refusal.BadACR)

	// The person signs out at Keycloak; it tells us by the back channel.
	ended := make(chan session.Session, 1)
	s.OnEnd(func(s session.Session) { ended <- s })
	if to, err = s.party.Logout(ctx, up); err != nil {
		t.Fatal(err)
	}
	if page, err = s.agent.Get(to); err != nil || page.URL.Host != "localhost:7080" {
		t.Fatalf("signing out came to %s: %d %v\n%s", page.URL, page.Status, err, page.Body)
	}
	select {
	case got := <-ended:
		if got.ID != in.ID {
			t.Errorf("%v was ended", got)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("Keycloak told nobody")
	}
	if _, err := s.Find(ctx, cookie); refusal.Of(err) != refusal.SessionExpired {
		t.Errorf("the session: %v", err)
	}
	if _, err := s.party.Introspect(ctx, access, up.Subject); refusal.Of(err) != refusal.Inactive {
		t.Errorf("its token: %v", err)
	}
}
