package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/idptest"
	"chaperone/internal/node"
	"chaperone/internal/refusal"
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
		o.enter(page)
	}
	login("/auth/login?next=/")
	o.refused("POST", "/api/passkeys/begin", map[string]any{}, 403, "step_up_required")
	p := o.page(
		controlv1.Facts{ID: "look", Version: "1", Class: controlv1.Read, Confirmation: controlv1.NoConfirmation, SourceRef: "test"},
		controlv1.Facts{ID: "write", Version: "1", Class: controlv1.AccountMutation, Confirmation: controlv1.ExactRequest, SourceRef: "test"},
		controlv1.Facts{ID: "item_delete", Version: "1", Class: controlv1.AccountMutation, Confirmation: controlv1.ExactRequest, SourceRef: "test"},
	)
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
	p.byPasskey(c, value)

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

// byPasskey has what the default policy wants by passkey refused while the person has
// none, and confirmed by the one that they then add: theirs of this server, which signs
// them in nowhere.
func (p *page) byPasskey(c *client.Client, value controlv1.Value) {
	p.t.Helper()
	all, err := c.Documents(p.t.Context())
	if err != nil || len(all) != 1 {
		p.t.Fatalf("documents: %v, %v", all, err)
	}
	lease, err := c.Lease(p.t.Context(), all[0].Ref, 5*time.Minute, ident(p.t, "item_delete"))
	if err != nil {
		p.t.Fatal(err)
	}
	if h := <-p.ask(c, p.called(lease, "item_delete", "three")); h.receipt.Status == controlv1.StatusSucceeded || h.receipt.Code != refusal.PolicyUnavailable && refusal.Of(h.err) != refusal.PolicyUnavailable {
		p.t.Errorf("without a passkey: %+v", h)
	}
	var told struct {
		Passkeys []struct {
			ID string `json:"id"`
		} `json:"passkeys"`
		Left *int `json:"codes_left"`
	}
	if p.get("/api/passkeys", &told); len(told.Passkeys) != 0 || told.Left != nil {
		p.t.Errorf("before: %+v", told)
	}
	var session struct {
		Provider struct {
			BuiltIn bool `json:"built_in"`
		} `json:"provider"`
	}
	if p.get("/api/session", &session); session.Provider.BuiltIn {
		p.t.Error("the page is told that its provider is the built-in one")
	}
	var begun struct {
		Options json.RawMessage `json:"options"`
	}
	p.do("POST", "/api/passkeys/begin", map[string]any{}, &begun)
	key := &idptest.Authenticator{Origin: p.s.origin, RPID: "localhost", Counting: true}
	made, err := key.Create(begun.Options)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do("POST", "/api/passkeys/finish", map[string]any{"name": "Laptop", "response": json.RawMessage(made)}, nil)
	if p.get("/api/passkeys", &told); len(told.Passkeys) != 1 {
		p.t.Fatalf("after: %+v", told)
	}
	p.refused("DELETE", "/api/passkeys/"+told.Passkeys[0].ID, nil, 409, "conflict")

	got := p.ask(c, p.called(lease, "item_delete", "four"))
	ask := p.hear().(controlv1.ConfirmationRequest)
	by, ok := ask.Level.(controlv1.AskPasskey)
	if !ok {
		p.t.Fatalf("it is asked for at %T", ask.Level)
	}
	signed, err := key.Get(fmt.Appendf(nil, `{"publicKey":{"challenge":%q}}`, by.Challenge))
	if err != nil {
		p.t.Fatal(err)
	}
	assertion, err := controlv1.ParseValue(signed, controlv1.MaxAssertion)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation, Assertion: assertion})
	call := p.hear().(controlv1.Call)
	p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value}})
	if h := <-got; h.err != nil || h.receipt.Status != controlv1.StatusSucceeded || h.receipt.Level != controlv1.Passkey {
		p.t.Errorf("by passkey: %+v", h)
	}

	for path, want := range map[string]int{"/api/recovery-codes": http.StatusNotFound, "/idp/api/enrol/begin": http.StatusNotFound, "/idp/api/login/begin": http.StatusNotFound} {
		if status, body := p.send("POST", path, map[string]any{}, p.dress); status != want {
			p.t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if w, err := p.s.node.Welcome(p.t.Context()); err != nil || w.Enrolment != "" {
		p.t.Errorf("the start gives a link: %v", err)
	}
}
