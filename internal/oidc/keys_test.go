package oidc_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/storetest"
)

// Which of a provider's keys are used at all, and for what.
func TestKeySets(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	for name, c := range map[string]struct {
		keys func([]map[string]any) []map[string]any
		code refusal.Code // "" for one that is accepted
	}{
		"as they are":  {func(k []map[string]any) []map[string]any { return k }, ""},
		"no algorithm": {func(k []map[string]any) []map[string]any { delete(k[0], "alg"); return k }, ""},
		"no use":       {func(k []map[string]any) []map[string]any { delete(k[0], "use"); return k }, ""},
		"unknown kinds": {func(k []map[string]any) []map[string]any {
			return append(k, map[string]any{"kty": "OKP", "crv": "Ed448", "x": "AA"})
		}, ""},
		"none":           {func([]map[string]any) []map[string]any { return nil }, refusal.BadToken},
		"for encryption": {func(k []map[string]any) []map[string]any { k[0]["use"] = "enc"; return k }, refusal.BadToken},
		"for PS256":      {func(k []map[string]any) []map[string]any { k[0]["alg"] = "PS256"; return k }, refusal.BadToken},
		"for HS256":      {func(k []map[string]any) []map[string]any { k[0]["alg"] = "HS256"; return k }, refusal.BadToken},
		"an id twice":    {func(k []map[string]any) []map[string]any { k[1]["kid"] = idptest.RSAKid; return k }, refusal.ProviderError},
		"a key of 1024":  {func(k []map[string]any) []map[string]any { k[0]["n"] = text(weak.N.Bytes()); return k }, refusal.BadToken},
		"a secret key": {func(k []map[string]any) []map[string]any {
			return []map[string]any{{"kty": "oct", "kid": idptest.RSAKid, "alg": "HS256", "k": "AAAA"}}
		}, refusal.BadToken},
		"over 64 KB": {func(k []map[string]any) []map[string]any { k[0]["x"] = strings.Repeat("a", 70000); return k }, refusal.ProviderError},
		"another's key": {func(k []map[string]any) []map[string]any {
			k[0]["n"] = text(append([]byte{0xc1}, make([]byte, 255)...))
			return k
		}, refusal.BadToken},
		"only under a id": {func(k []map[string]any) []map[string]any { k[0]["kid"] = "other"; return k }, refusal.BadToken},
	} {
		s, f := faulty(t, nil)
		f.Do(func(say *idptest.Say) { say.Keys = c.keys })
		p := signIn(t, s.agent, "/")
		if c.code == "" {
			if p.Status != http.StatusOK {
				t.Errorf("%s: %d\n%s", name, p.Status, p.Body)
			}
			continue
		}
		refusedWith(t, name, p, c.code)
	}
}

// without answers requests by a handler, without a network, so that a test's
// clock is its own.
type without struct{ http.Handler }

func (h without) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	h.ServeHTTP(w, in)
	return w.Result(), nil
}

// Keys that are new are asked for once a minute; a provider that was away is
// asked again after a few seconds; a step-up's proof is good for five minutes.
func TestPartyClock(t *testing.T) {
	f := idptest.NewFaulty(t)
	url := storetest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: without{f}}
		f.Do(func(say *idptest.Say) {
			say.Answer = map[string]http.HandlerFunc{"/.well-known/openid-configuration": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }}
		})
		s := newSite(t, url, oidc.Config{Issuer: f.URL, ClientID: "client", ACRValues: []string{"gold"}, HTTP: client})
		s.agent.Network = client
		refusedWith(t, "a provider that is away", signIn(t, s.agent, "/"), refusal.ProviderError)
		f.Behave()
		refusedWith(t, "at once", signIn(t, s.agent, "/"), refusal.ProviderError)
		time.Sleep(5 * time.Second)
		s.mustSignIn(t)
		before := f.Asked("/keys")
		f.Do(func(say *idptest.Say) {
			say.Keys = func(k []map[string]any) []map[string]any { k[1]["kid"] = "new"; return k }
			say.Sign = func(c map[string]any) string { return f.ES256(map[string]any{"kid": "new"}, c) }
		})
		refusedWith(t, "a new key within the minute", signIn(t, s.browser2(client), "/"), refusal.BadToken)
		if f.Asked("/keys") != before {
			t.Error("the keys were asked for within a minute")
		}
		time.Sleep(time.Minute)
		if p := signIn(t, s.browser2(client), "/"); p.Status != http.StatusOK {
			t.Errorf("a new key after a minute: %d\n%s", p.Status, p.Body)
		}
		if f.Asked("/keys") != before+1 {
			t.Error("the keys were asked for more than once")
		}
		f.Behave()

		// A step-up that is slow to come back, within the life of its flow.
		s.agent = s.browser2(client)
		in, _ := s.mustSignIn(t)
		began := time.Now()
		f.Do(func(say *idptest.Say) { say.Claims = func(c map[string]any) { c["auth_time"] = began.Unix() } })
		to, cookie, err := s.party.StepUp(context.Background(), in, "/")
		if err != nil {
			t.Fatal(err)
		}
		s.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
		time.Sleep(5*time.Minute + time.Second)
		p, err := s.agent.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		refusedWith(t, "a proof of over five minutes", p, refusal.BadAuthTime)
		if to, cookie, err = s.party.StepUp(context.Background(), in, "/"); err != nil {
			t.Fatal(err)
		}
		s.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
		time.Sleep(session.FlowLife)
		if p, err = s.agent.Get(to); err != nil {
			t.Fatal(err)
		}
		refusedWith(t, "a flow of over ten minutes", p, refusal.Expired)
	})
}

// browser2 is one more browser that reaches the provider without a network.
func (s *site) browser2(c *http.Client) *idptest.Agent {
	a := s.browser()
	a.Network = c
	return a
}

// The tenant is the configuration's; a token for another is refused.
func TestTenantClaim(t *testing.T) {
	s, f := faulty(t, func(c *oidc.Config) { c.TenantClaim, c.RolesClaim = "org", "realm.access.roles" })
	for name, c := range map[string]struct {
		tenant any
		code   refusal.Code
	}{
		"ours": {"local", ""}, "another": {"other", refusal.BadToken}, "none": {nil, refusal.BadToken}, "a list": {[]string{"local"}, refusal.BadToken}, "in caps": {"LOCAL", refusal.BadToken},
	} {
		f.Do(func(say *idptest.Say) {
			say.Claims = func(claims map[string]any) {
				claims["org"] = c.tenant
				claims["realm"] = map[string]any{"access": map[string]any{"roles": []string{"x", "y"}}}
			}
		})
		s.agent = s.browser()
		if c.code != "" {
			refusedWith(t, name, signIn(t, s.agent, "/"), c.code)
		} else if in, _ := s.mustSignIn(t); strings.Join(in.Roles, " ") != "x y" || in.Tenant != "local" {
			t.Errorf("roles %v", in.Roles)
		}
	}
}
