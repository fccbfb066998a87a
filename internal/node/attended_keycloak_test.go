package node_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/idptest"
	"chaperone/internal/node"
	"chaperone/internal/surface/guard"
)

// Attended control stands on a foreign provider too: the step-up at Keycloak arms,
// its introspection is asked for each look, and its back-channel logout closes the
// page's channel.
func TestAttendedByKeycloak(t *testing.T) {
	var k *idptest.Keycloak
	s := stand(t, func(c *node.Config) {
		k = idptest.NewKeycloak(t, c.PublicOrigin, c.PublicOrigin+"/auth/backchannel-logout")
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte(k.ClientSecret), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Issuer = node.Issuer{URL: k.URL, ClientID: k.ClientID, ClientSecretFile: secret, ACRValues: []string{"urn:test:gold"}, Introspection: true, RolesClaim: "realm_access.roles"}
	})
	o := &owner{t: t, s: s, agent: &idptest.Agent{Origin: s.origin, Handler: over{}}}
	here, err := url.Parse(s.origin)
	if err != nil {
		t.Fatal(err)
	}
	// login fills in what Keycloak asks, the password once more for the higher level.
	login := func(from string) {
		t.Helper()
		page, err := o.agent.Get(from)
		for form := (url.Values{"username": {"alice"}, "password": {"alice's password"}}); err == nil && page.URL.Host != here.Host; form = (url.Values{"password": {"alice's password"}}) {
			page, err = o.agent.Submit(page, form)
		}
		if err != nil || page.Status != http.StatusOK {
			t.Fatalf("%v: %d\n%s", err, page.Status, page.Body)
		}
		if key := page.Meta("session-key"); key != "" {
			o.secret = key
		}
		var told struct {
			CSRF string `json:"csrf"`
		}
		o.get("/api/session", &told)
		o.csrf = told.CSRF
	}
	login("/auth/login?next=/")
	p := o.page()
	p.armBy(login)
	p.open()
	c, _ := o.workflow("helper")
	lease := p.lease(c)
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		t.Fatal(err)
	}
	got := p.ask(c, p.called(lease, "look", "one"))
	call := p.hear().(controlv1.Call)
	p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	if h := <-got; h.err != nil || h.receipt.Status != controlv1.StatusSucceeded {
		t.Errorf("a read: %+v", h)
	}
	got = p.ask(c, p.called(lease, "write", "two"))
	ask := p.hear().(controlv1.ConfirmationRequest)
	p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
	call = p.hear().(controlv1.Call)
	p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	if h := <-got; h.err != nil || h.receipt.Status != controlv1.StatusSucceeded || h.receipt.Level != controlv1.VisibleClick {
		t.Errorf("a mutation: %+v", h)
	}

	_, sessions, _ := s.node.Parts()
	of, err := sessions.Find(t.Context(), o.agent.Cookie(guard.Cookie))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.node.Party().Logout(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := o.agent.Get(out); err != nil {
		t.Fatal(err)
	} else if page.URL.Host != here.Host {
		if _, err := o.agent.Submit(page, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.closed("signed out at Keycloak", controlv1.CloseTrust, "signed_out")
}
