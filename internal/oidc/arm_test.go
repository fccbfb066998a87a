package oidc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// arm begins an arming step-up in the site's browser and answers where it ends.
func (s *site) arm(t testing.TB, of session.Session, route string) idptest.Page {
	t.Helper()
	to, cookie, err := s.party.Arm(context.Background(), of, route, "/after")
	if err != nil {
		t.Fatal(err)
	}
	s.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
	p, err := s.agent.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An arming step-up is a step-up, and whoever arms hears of it with the session as
// it is now, in time to set a cookie.
func TestArm(t *testing.T) {
	s, f := faulty(t, nil)
	found, _ := s.mustSignIn(t)
	var heard []session.Session
	var route string
	s.party.Armed = func(w http.ResponseWriter, _ *http.Request, now session.Session, of string) error {
		heard, route = append(heard, now), of
		http.SetCookie(w, &http.Cookie{Name: "armed", Value: "yes", Path: "/"})
		return nil
	}
	var asked url.Values
	s.agent.Stop = func(u *url.URL) bool {
		if u.Path == "/authorize" {
			asked = u.Query()
		}
		return false
	}
	if p := s.stepUp(t, found); p.Status != http.StatusOK || len(heard) != 0 {
		t.Fatalf("a step-up armed something: %d %v", p.Status, heard)
	}
	p := s.arm(t, found, "portal:v1")
	if p.Status != http.StatusOK || p.Meta("next") != "/after" || s.agent.Cookie("armed") != "yes" {
		t.Fatalf("%d %s", p.Status, p.Body)
	}
	if asked.Get("prompt") != "login" || asked.Get("max_age") != "0" || asked.Get("acr_values") != "gold platinum" || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("asked for %v", asked)
	}
	if len(heard) != 1 || route != "portal:v1" || heard[0].ID != found.ID || heard[0].Generation != 3 || heard[0].Login == found.Login ||
		!heard[0].Fresh(time.Now()) || heard[0].Tokens().Access == "" {
		t.Errorf("heard %v of %q", heard, route)
	}

	for name, c := range map[string]struct {
		change func(map[string]any)
		code   refusal.Code
	}{
		"another person":        {func(c map[string]any) { c["sub"] = "bob" }, refusal.OtherPerson},
		"another acr":           {func(c map[string]any) { c["acr"] = "bronze" }, refusal.BadACR},
		"no acr":                {func(c map[string]any) { delete(c, "acr") }, refusal.BadACR},
		"no auth_time":          {func(c map[string]any) { delete(c, "auth_time") }, refusal.BadAuthTime},
		"an auth_time of old":   {func(c map[string]any) { c["auth_time"] = time.Now().Unix() - 301 }, refusal.BadAuthTime},
		"an auth_time as text":  {func(c map[string]any) { c["auth_time"] = fmt.Sprint(time.Now().Unix()) }, refusal.BadAuthTime},
		"a nonce that isn't it": {func(c map[string]any) { c["nonce"] = "x" }, refusal.BadToken},
	} {
		f.Do(func(say *idptest.Say) { say.Claims = c.change })
		refusedWith(t, name, s.arm(t, found, "portal:v1"), c.code)
	}
	if len(heard) != 1 {
		t.Errorf("a refused step-up armed something: %v", heard)
	}
}

// Where the arming is refused the step-up stands, and the browser isn't signed out.
func TestArmRefused(t *testing.T) {
	s, _ := faulty(t, nil)
	found, _ := s.mustSignIn(t)
	for _, of := range []string{"", fmt.Sprintf("%0129d", 1)} {
		if _, _, err := s.party.Arm(context.Background(), found, of, "/"); refusal.Of(err) != refusal.BadDocument {
			t.Errorf("a route of %d bytes: %v", len(of), err)
		}
	}
	refusedWith(t, "nobody arms", s.arm(t, found, "portal:v1"), refusal.Failed)
	s.party.Armed = func(http.ResponseWriter, *http.Request, session.Session, string) error { return refusal.Killed }
	refusedWith(t, "killed", s.arm(t, found, "portal:v1"), refusal.Killed)
	now, err := s.Find(context.Background(), s.agent.Cookie(oidc.SessionCookie))
	if err != nil || now.ID != found.ID || now.Generation != 3 {
		t.Errorf("after a refused arming: %v, %v", now, err)
	}
}
