package oidc_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestSignIn(t *testing.T) {
	each(t, func(t *testing.T, u string) {
		f := idptest.NewFaulty(t)
		s := newSite(t, u, oidc.Config{Issuer: f.URL, ClientID: "client", ClientSecret: "secret", ACRValues: []string{"gold"}, RolesClaim: "roles", Introspection: true})
		found, p := s.mustSignIn(t)
		if p.Status != http.StatusOK || p.Meta("next") != "/home?a=b" || p.Header.Get("Cache-Control") != "no-store" || !strings.Contains(p.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%d %v\n%s", p.Status, p.Header, p.Body)
		}
		if err := s.CheckKey(context.Background(), found, p.Meta("session-key")); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(found.Actor, "user-") || found.Name != "Alice" || found.Subject != "alice" || found.Issuer != f.URL || found.SID != "sid-1" ||
			found.ACR != "gold" || fmt.Sprint(found.Roles) != "[reader]" || !found.Fresh(time.Now()) || found.Agent != "idptest" || found.AccessUntil.IsZero() {
			t.Errorf("session %#v: %s %s %v %v", found, found.Actor, found.Name, found.Roles, found.AccessUntil)
		}
		if found.Tokens().Access != "access" || found.Tokens().ID == "" {
			t.Error("the tokens weren't kept")
		}
	})
}

func TestStepUp(t *testing.T) {
	s, f := faulty(t, nil)
	f.Do(func(say *idptest.Say) { say.ACR = "bronze" })
	found, p := s.mustSignIn(t)
	old, key := s.agent.Cookie(oidc.SessionCookie), p.Meta("session-key")
	if found.Fresh(time.Now()) {
		t.Error("a sign-in at another level is fresh")
	}
	f.Behave()
	var asked url.Values
	s.agent.Stop = func(u *url.URL) bool {
		if u.Path == "/authorize" {
			asked = u.Query()
		}
		return false
	}
	p = s.stepUp(t, found)
	if p.Status != http.StatusOK || p.Meta("next") != "/after" || p.Meta("session-key") != "" {
		t.Errorf("%d\n%s", p.Status, p.Body)
	}
	if asked.Get("prompt") != "login" || asked.Get("max_age") != "0" || asked.Get("acr_values") != "gold platinum" || asked.Get("code_challenge_method") != "S256" || asked.Get("nonce") == "" {
		t.Errorf("asked for %v", asked)
	}
	up, err := s.Find(context.Background(), s.agent.Cookie(oidc.SessionCookie))
	if err != nil || !up.Fresh(time.Now()) || up.ID != found.ID || up.Generation != 2 {
		t.Fatalf("%#v, %v", up, err)
	}
	if err := s.CheckKey(context.Background(), up, key); err != nil {
		t.Error("the key didn't stay")
	}
	if _, err := s.Find(context.Background(), old); refusal.Of(err) != refusal.SessionExpired {
		t.Errorf("the old cookie: %v", err)
	}
}

// A cookie that was planted before the sign-in is dead afterwards.
func TestFixation(t *testing.T) {
	s, _ := faulty(t, nil)
	attacker := s.browser()
	signIn(t, attacker, "/")
	planted := attacker.Cookie(oidc.SessionCookie)
	s.agent.Plant("localhost:7080", oidc.SessionCookie, planted)
	s.mustSignIn(t)
	if s.agent.Cookie(oidc.SessionCookie) == planted {
		t.Error("the planted cookie stayed")
	}
	if _, err := s.Find(context.Background(), planted); refusal.Of(err) != refusal.SessionExpired {
		t.Errorf("the planted cookie is good for something: %v", err)
	}
	// One that never was a session's changes nothing.
	s.agent.Plant("localhost:7080", oidc.SessionCookie, session.NewSecret())
	s.mustSignIn(t)
}

func key(f *idptest.Faulty) map[string]any { return map[string]any{"kid": idptest.RSAKid} }

// What an ID token says is believed only where all of it is right.
func TestTokensRefused(t *testing.T) {
	s, f := faulty(t, nil)
	now := func() int64 { return time.Now().Unix() }
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	without := func(name string) func(map[string]any) { return func(c map[string]any) { delete(c, name) } }
	for name, c := range map[string]struct {
		change func(map[string]any)
		code   refusal.Code
	}{
		"another issuer":          {set("iss", "https://evil.example"), refusal.BadToken},
		"the issuer with a slash": {set("iss", f.URL+"/"), refusal.BadToken},
		"no issuer":               {without("iss"), refusal.BadToken},
		"another audience":        {set("aud", "other"), refusal.BadToken},
		"an empty audience":       {set("aud", []string{}), refusal.BadToken},
		"no audience":             {without("aud"), refusal.BadToken},
		"a number as audience":    {set("aud", 7), refusal.BadToken},
		"another azp":             {set("azp", "other"), refusal.BadToken},
		"many and another azp":    {func(c map[string]any) { c["aud"], c["azp"] = []string{"client", "other"}, "other" }, refusal.BadToken},
		"many and no azp":         {func(c map[string]any) { c["aud"] = []string{"client", "other"}; delete(c, "azp") }, refusal.BadToken},
		"another nonce":           {set("nonce", "x"), refusal.BadToken},
		"no nonce":                {without("nonce"), refusal.BadToken},
		"an empty nonce":          {set("nonce", ""), refusal.BadToken},
		"expired":                 {set("exp", now()-1), refusal.BadToken},
		"no expiry":               {without("exp"), refusal.BadToken},
		"expiry as text":          {set("exp", fmt.Sprint(now()+300)), refusal.BadToken},
		"not yet":                 {set("nbf", now()+3600), refusal.BadToken},
		"no issue":                {without("iat"), refusal.BadToken},
		"issued tomorrow":         {set("iat", now()+86400), refusal.BadToken},
		"issued before the flow":  {set("iat", now()-60), refusal.BadToken},
		"no subject":              {without("sub"), refusal.BadToken},
		"an empty subject":        {set("sub", ""), refusal.BadToken},
		"a subject of controls":   {set("sub", "a\nb"), refusal.BadToken},
		"a number as subject":     {set("sub", 7), refusal.BadToken},
		"a long subject":          {set("sub", strings.Repeat("a", 256)), refusal.BadToken},
		"another access token":    {set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), refusal.BadToken},
		"auth_time as text":       {set("auth_time", fmt.Sprint(now())), refusal.BadAuthTime},
		"auth_time in ms":         {set("auth_time", now()*1000), refusal.BadAuthTime},
		"auth_time tomorrow":      {set("auth_time", now()+86400), refusal.BadAuthTime},
		"acr as a list":           {set("acr", []string{"gold"}), refusal.BadACR},
		"sid as a number":         {set("sid", 1), refusal.BadToken},
		"roles as an object":      {set("roles", map[string]any{"a": 1}), refusal.BadToken},
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Claims = c.change })
		refusedWith(t, name, signIn(t, s.browser(), "/"), c.code)
	}
	pub, err := x509.MarshalPKIXPublicKey(f.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	jwk := map[string]any{"kty": "RSA", "n": base64.RawURLEncoding.EncodeToString(f.Public().N.Bytes()), "e": "AQAB"}
	header := func(more map[string]any) map[string]any {
		h := key(f)
		for name, value := range more {
			h[name] = value
		}
		return h
	}
	spoil := func(token string) string {
		at := strings.LastIndex(token, ".") + 5
		with := byte('A')
		if token[at] == 'A' {
			with = 'B'
		}
		return token[:at] + string(with) + token[at+1:]
	}
	for name, sign := range map[string]func(map[string]any) string{
		"alg none": func(c map[string]any) string {
			return idptest.Forge(map[string]any{"alg": "none"}, c, func([]byte) []byte { return nil })
		},
		"alg None with a signature":    func(c map[string]any) string { return f.RS256(header(map[string]any{"alg": "None"}), c) },
		"HS256 by the public key, PEM": func(c map[string]any) string { return f.HS256(key(f), c, secret) },
		"HS256 by the public key, DER": func(c map[string]any) string { return f.HS256(key(f), c, pub) },
		"HS256 by the public modulus":  func(c map[string]any) string { return f.HS256(key(f), c, f.Public().N.Bytes()) },
		"HS256 by the client's secret": func(c map[string]any) string { return f.HS256(key(f), c, []byte("secret")) },
		"PS256 by a key for RS256":     func(c map[string]any) string { return f.PS256(key(f), c) },
		"RS256 that names the EC key":  func(c map[string]any) string { return f.RS256(map[string]any{"kid": idptest.ECKid}, c) },
		"ES256 that names the RSA key": func(c map[string]any) string { return f.ES256(key(f), c) },
		"an unknown key":               func(c map[string]any) string { return f.RS256(map[string]any{"kid": "other"}, c) },
		"jku":                          func(c map[string]any) string { return f.RS256(header(map[string]any{"jku": f.URL + "/keys"}), c) },
		"x5u":                          func(c map[string]any) string { return f.RS256(header(map[string]any{"x5u": f.URL + "/cert"}), c) },
		"x5c":                          func(c map[string]any) string { return f.RS256(header(map[string]any{"x5c": []string{"AAAA"}}), c) },
		"jwk":                          func(c map[string]any) string { return f.RS256(header(map[string]any{"jwk": jwk}), c) },
		"crit":                         func(c map[string]any) string { return f.RS256(header(map[string]any{"crit": []string{"exp"}}), c) },
		"b64 false": func(c map[string]any) string {
			return f.RS256(header(map[string]any{"b64": false, "crit": []string{"b64"}}), c)
		},
		"zip":                    func(c map[string]any) string { return f.RS256(header(map[string]any{"zip": "DEF"}), c) },
		"cty":                    func(c map[string]any) string { return f.RS256(header(map[string]any{"cty": "JWT"}), c) },
		"a token within a token": func(c map[string]any) string { return f.RS256(key(f), []byte(f.RS256(key(f), c))) },
		"a logout token's type":  func(c map[string]any) string { return f.RS256(header(map[string]any{"typ": "logout+jwt"}), c) },
		"an access token's type": func(c map[string]any) string { return f.RS256(header(map[string]any{"typ": "at+jwt"}), c) },
		"kid as a number":        func(c map[string]any) string { return f.RS256(map[string]any{"kid": 1}, c) },
		"a header member twice": func(c map[string]any) string {
			return idptest.Forge([]byte(`{"alg":"none","alg":"RS256","kid":"`+idptest.RSAKid+`"}`), c, func([]byte) []byte { return nil })
		},
		"a spoilt signature": func(c map[string]any) string { return spoil(f.RS256(key(f), c)) },
		"no signature": func(c map[string]any) string {
			token := f.RS256(key(f), c)
			return token[:strings.LastIndex(token, ".")+1]
		},
		"two parts":  func(map[string]any) string { return "a.b" },
		"four parts": func(c map[string]any) string { return f.RS256(key(f), c) + ".e30" },
		"JSON serialisation": func(c map[string]any) string {
			parts := strings.Split(f.RS256(key(f), c), ".")
			return `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`
		},
		"a claim twice": func(c map[string]any) string {
			data, _ := json.Marshal(c)
			return f.RS256(key(f), []byte(`{"sub":"eve",`+string(data[1:])))
		},
		"claims that are a list": func(map[string]any) string { return f.RS256(key(f), []byte(`[]`)) },
		"a huge token":           func(c map[string]any) string { c["x"] = strings.Repeat("a", 40000); return f.RS256(key(f), c) },
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Sign = sign })
		refusedWith(t, name, signIn(t, s.browser(), "/"), refusal.BadToken)
	}
	f.Behave()
	f.Do(func(say *idptest.Say) {
		say.Sign = func(c map[string]any) string { return f.ES256(map[string]any{"kid": idptest.ECKid}, c) }
	})
	if p := signIn(t, s.browser(), "/"); p.Status != http.StatusOK {
		t.Errorf("a good ES256 token: %d %s", p.Status, p.Body)
	}
}

// A step-up believes nothing but the token.
func TestStepUpRefused(t *testing.T) {
	s, f := faulty(t, nil)
	now := func() int64 { return time.Now().Unix() }
	for name, c := range map[string]struct {
		change func(map[string]any)
		code   refusal.Code
	}{
		"another person":              {func(c map[string]any) { c["sub"] = "bob" }, refusal.OtherPerson},
		"another acr":                 {func(c map[string]any) { c["acr"] = "bronze" }, refusal.BadACR},
		"an acr that sorts higher":    {func(c map[string]any) { c["acr"] = "zzz" }, refusal.BadACR},
		"an acr in another case":      {func(c map[string]any) { c["acr"] = "Gold" }, refusal.BadACR},
		"a prefix of an acr":          {func(c map[string]any) { c["acr"] = "gol" }, refusal.BadACR},
		"all acrs in one":             {func(c map[string]any) { c["acr"] = "gold platinum" }, refusal.BadACR},
		"no acr":                      {func(c map[string]any) { delete(c, "acr") }, refusal.BadACR},
		"an empty acr":                {func(c map[string]any) { c["acr"] = "" }, refusal.BadACR},
		"acr null":                    {func(c map[string]any) { c["acr"] = nil }, refusal.BadACR},
		"acr a number":                {func(c map[string]any) { c["acr"] = 1 }, refusal.BadACR},
		"no auth_time":                {func(c map[string]any) { delete(c, "auth_time") }, refusal.BadAuthTime},
		"auth_time null":              {func(c map[string]any) { c["auth_time"] = nil }, refusal.BadAuthTime},
		"auth_time before the flow":   {func(c map[string]any) { c["auth_time"] = now() - 32 }, refusal.BadAuthTime},
		"auth_time over five minutes": {func(c map[string]any) { c["auth_time"] = now() - 301 }, refusal.BadAuthTime},
		"auth_time as text":           {func(c map[string]any) { c["auth_time"] = fmt.Sprint(now()) }, refusal.BadAuthTime},
		"auth_time as a float":        {func(c map[string]any) { c["auth_time"] = json.RawMessage(fmt.Sprint(now(), ".5")) }, refusal.BadAuthTime},
		"auth_time as a whole float":  {func(c map[string]any) { c["auth_time"] = json.RawMessage(fmt.Sprint(now()) + ".0") }, refusal.BadAuthTime},
		"auth_time with an exponent":  {func(c map[string]any) { c["auth_time"] = json.RawMessage("1e9") }, refusal.BadAuthTime},
		"auth_time in milliseconds":   {func(c map[string]any) { c["auth_time"] = now() * 1000 }, refusal.BadAuthTime},
		"auth_time in microseconds":   {func(c map[string]any) { c["auth_time"] = now() * 1000000 }, refusal.BadAuthTime},
		"auth_time negative":          {func(c map[string]any) { c["auth_time"] = -now() }, refusal.BadAuthTime},
		"auth_time zero":              {func(c map[string]any) { c["auth_time"] = 0 }, refusal.BadAuthTime},
		"auth_time beyond all":        {func(c map[string]any) { c["auth_time"] = json.RawMessage("99999999999999999999999") }, refusal.BadAuthTime},
		"auth_time ahead by a minute": {func(c map[string]any) { c["auth_time"] = now() + 60 }, refusal.BadAuthTime},
		"auth_time as a list":         {func(c map[string]any) { c["auth_time"] = []int64{now()} }, refusal.BadAuthTime},
		"auth_time true":              {func(c map[string]any) { c["auth_time"] = true }, refusal.BadAuthTime},
	} {
		f.Behave()
		s.agent = s.browser()
		found, _ := s.mustSignIn(t)
		before := s.agent.Cookie(oidc.SessionCookie)
		f.Do(func(say *idptest.Say) { say.Claims = c.change })
		refusedWith(t, name, s.stepUp(t, found), c.code)
		after, err := s.Find(context.Background(), before)
		if err != nil || after.Generation != 1 {
			t.Errorf("%s: the session was disturbed: %v", name, err)
		}
	}
	told := map[refusal.Code]int{}
	if err := s.db.View(context.Background(), func(tx *store.Tx) error {
		return audit.Each(tx, audit.Filter{Kind: "session.refused"}, func(r audit.Record) error { told[r.Code]++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	if told[refusal.OtherPerson] != 1 || told[refusal.BadACR] != 9 || told[refusal.BadAuthTime] != 16 {
		t.Errorf("the audit was told %v", told)
	}
	f.Behave()
	s.agent = s.browser()
	found, _ := s.mustSignIn(t)
	f.Do(func(say *idptest.Say) {
		say.Claims = func(c map[string]any) { c["auth_time"] = now() - 25; c["acr"] = "platinum" }
	})
	if p := s.stepUp(t, found); p.Status != http.StatusOK {
		t.Errorf("within the skew: %d %s", p.Status, p.Body)
	}
}

// Who revokes or signs out between the two halves of a step-up is obeyed.
func TestStepUpOfAnEndedSession(t *testing.T) {
	s, f := faulty(t, nil)
	ctx := context.Background()
	begin := func() (session.Session, string) {
		s.agent = s.browser()
		found, _ := s.mustSignIn(t)
		to, cookie, err := s.party.StepUp(ctx, found, "/")
		if err != nil {
			t.Fatal(err)
		}
		s.agent.Plant("localhost:7080", cookie.Name, cookie.Value)
		return found, to
	}
	end := func(what, to string, code refusal.Code) {
		t.Helper()
		p, err := s.agent.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		refusedWith(t, what, p, code)
	}
	found, to := begin()
	if err := s.End(ctx, found.ID, refusal.Revoked); err != nil {
		t.Fatal(err)
	}
	end("a revoked session", to, refusal.SessionExpired)
	found, to = begin()
	if _, err := s.Book.Logout(ctx, session.LogoutToken{Issuer: found.Issuer, SID: found.SID, JTI: "j", IssuedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	end("a session that the provider logged out", to, refusal.SessionExpired)
	f.Do(func(say *idptest.Say) { say.SID = "sid-2" }) // the old one has a tombstone
	_, to = begin()
	again := s.browser()
	signIn(t, again, "/")
	s.agent.Plant("localhost:7080", oidc.SessionCookie, again.Cookie(oidc.SessionCookie))
	end("another session in the same browser", to, refusal.SessionExpired)
}

func TestResponsesRefused(t *testing.T) {
	s, f := faulty(t, nil)
	for name, c := range map[string]struct {
		back func(url.Values)
		code refusal.Code
	}{
		"another issuer":       {func(q url.Values) { q.Set("iss", "https://evil.example") }, refusal.BadIssuer},
		"no issuer":            {func(q url.Values) { q.Del("iss") }, refusal.BadIssuer},
		"two issuers":          {func(q url.Values) { q.Add("iss", "https://evil.example") }, refusal.BadState},
		"no state":             {func(q url.Values) { q.Del("state") }, refusal.BadState},
		"two states":           {func(q url.Values) { q.Add("state", "x") }, refusal.BadState},
		"a shorter state":      {func(q url.Values) { q.Set("state", q.Get("state")[:64]) }, refusal.BadState},
		"a state of its own":   {func(q url.Values) { q.Set("state", session.NewSecret()+session.NewSecret()) }, refusal.BadState},
		"two codes":            {func(q url.Values) { q.Add("code", "x") }, refusal.BadState},
		"no code":              {func(q url.Values) { q.Del("code") }, refusal.ProviderError},
		"another code":         {func(q url.Values) { q.Set("code", "x") }, refusal.ProviderError},
		"an error":             {func(q url.Values) { q.Set("error", "access_denied") }, refusal.ProviderError},
		"an error and no code": {func(q url.Values) { q.Set("error", "<script>alert(1)</script>"); q.Del("code") }, refusal.ProviderError},
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Back = c.back })
		p := signIn(t, s.browser(), "/")
		refusedWith(t, name, p, c.code)
		if strings.Contains(p.Body, "script>alert") || strings.Contains(p.Body, "access_denied") {
			t.Errorf("%s: the provider's words are on the page", name)
		}
	}
}

// A state or code that comes back again, or to another browser, is refused.
func TestReplay(t *testing.T) {
	s, _ := faulty(t, nil)
	var back *url.URL
	s.agent.Stop = func(u *url.URL) bool {
		if u.Path == "/auth/callback" && back == nil {
			back = u
			return true
		}
		return false
	}
	signIn(t, s.agent, "/")
	other := s.browser()
	if p, err := other.Get(back.String()); err != nil {
		t.Fatal(err)
	} else {
		refusedWith(t, "another browser, without a cookie", p, refusal.BadState)
	}
	signIn(t, other, "/") // has a flow cookie of its own from now on
	p, err := other.Get(back.String())
	if err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "another browser", p, refusal.BadState)
	if p, err = s.agent.Get(back.String()); err != nil || p.Status != http.StatusOK {
		t.Fatalf("its own browser: %d %v %s", p.Status, err, p.Body)
	}
	if p, err = s.agent.Get(back.String()); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "again", p, refusal.Replayed)
}

// 64 callbacks of one flow make one session.
func TestRacingCallbacks(t *testing.T) {
	each(t, func(t *testing.T, u string) {
		f := idptest.NewFaulty(t)
		s := newSite(t, u, oidc.Config{Issuer: f.URL, ClientID: "client", ACRValues: []string{"gold"}})
		var back *url.URL
		s.agent.Stop = func(u *url.URL) bool {
			if u.Path == "/auth/callback" {
				back = u
				return true
			}
			return false
		}
		signIn(t, s.agent, "/")
		flow := s.agent.Cookie(oidc.FlowCookie)
		var all sync.WaitGroup
		results := make([]int, 64)
		for i := range results {
			all.Go(func() {
				a := s.browser()
				a.Plant("localhost:7080", oidc.FlowCookie, flow)
				p, err := a.Get(back.String())
				if err == nil {
					results[i] = p.Status
				}
			})
		}
		all.Wait()
		won := 0
		for _, status := range results {
			if status == http.StatusOK {
				won++
			}
		}
		if won != 1 {
			t.Errorf("%d of 64 signed in", won)
		}
	})
}

// A provider that answers nonsense, too much, or elsewhere.
func TestProvidersRefused(t *testing.T) {
	write := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	s, f := faulty(t, func(c *oidc.Config) { c.Introspection = true })
	for name, answer := range map[string]http.HandlerFunc{
		"an error":      write(500, `{"error":"x"}`),
		"no JSON":       write(200, `<html>`),
		"nothing":       write(200, ``),
		"no ID token":   write(200, `{"access_token":"a","token_type":"Bearer"}`),
		"too much":      write(200, `{"x":"`+strings.Repeat("a", 65<<10)+`"}`),
		"members twice": write(200, `{"id_token":"a.b.c","id_token":"d.e.f","access_token":"a"}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, f.URL+"/elsewhere", http.StatusTemporaryRedirect)
		},
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Answer = map[string]http.HandlerFunc{"/token": answer} })
		refusedWith(t, name, signIn(t, s.browser(), "/"), refusal.ProviderError)
	}
	if f.Asked("/elsewhere") != 0 {
		t.Error("a redirect was followed")
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		code   refusal.Code
	}{
		"inactive":         {func(m map[string]any) { clear(m); m["active"] = false }, refusal.Inactive},
		"active as text":   {func(m map[string]any) { m["active"] = "true" }, refusal.Inactive},
		"active as 1":      {func(m map[string]any) { m["active"] = 1 }, refusal.Inactive},
		"active is absent": {func(m map[string]any) { delete(m, "active") }, refusal.Inactive},
		"another subject":  {func(m map[string]any) { m["sub"] = "bob" }, refusal.Inactive},
		"no subject":       {func(m map[string]any) { delete(m, "sub") }, refusal.Inactive},
		"another issuer":   {func(m map[string]any) { m["iss"] = "https://evil.example" }, refusal.Inactive},
		"another client":   {func(m map[string]any) { m["client_id"] = "other" }, refusal.Inactive},
		"nobody's":         {func(m map[string]any) { delete(m, "client_id") }, refusal.Inactive},
		"expired":          {func(m map[string]any) { m["exp"] = time.Now().Unix() - 1 }, refusal.Inactive},
		"no expiry":        {func(m map[string]any) { delete(m, "exp") }, refusal.Inactive},
		"expiry as text":   {func(m map[string]any) { m["exp"] = "9999999999" }, refusal.Inactive},
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Standing = c.change })
		refusedWith(t, name, signIn(t, s.browser(), "/"), c.code)
	}
	for name, change := range map[string]func(map[string]any){
		"another issuer":      func(d map[string]any) { d["issuer"] = f.URL + "/" },
		"plain http":          func(d map[string]any) { d["token_endpoint"] = "http://evil.example/token" },
		"keys over file":      func(d map[string]any) { d["jwks_uri"] = "file:///etc/passwd" },
		"only HS256 and none": func(d map[string]any) { d["id_token_signing_alg_values_supported"] = []string{"HS256", "none"} },
		"no introspection":    func(d map[string]any) { delete(d, "introspection_endpoint") },
		"no token endpoint":   func(d map[string]any) { delete(d, "token_endpoint") },
	} {
		f.Behave()
		f.Do(func(say *idptest.Say) { say.Document = change })
		book, _ := openBook(t, storetest.SQLite(t))
		p, err := oidc.New(context.Background(), oidc.Config{Issuer: f.URL, ClientID: "client", Origin: origin, ACRValues: []string{"gold"}, Introspection: true}, book, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Ready(context.Background()); refusal.Of(err) != refusal.ProviderError && refusal.Of(err) != refusal.BadIssuer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever sends tokens of unknown keys makes us ask for keys once a minute.
func TestUnknownKeysAreAskedForOnce(t *testing.T) {
	s, f := faulty(t, nil)
	f.Do(func(say *idptest.Say) {
		say.Sign = func(c map[string]any) string {
			return f.RS256(map[string]any{"kid": fmt.Sprint(time.Now().UnixNano())}, c)
		}
	})
	for range 5 {
		refusedWith(t, "an unknown key", signIn(t, s.browser(), "/"), refusal.BadToken)
	}
	if n := f.Asked("/keys"); n != 1 {
		t.Errorf("the keys were asked for %d times", n)
	}
}

func TestConfigRefused(t *testing.T) {
	book, _ := openBook(t, storetest.SQLite(t))
	good := oidc.Config{Issuer: "https://idp.example", ClientID: "c", Origin: origin, ACRValues: []string{"gold"}, HTTP: &http.Client{Transport: away{}}}
	if p, err := oidc.New(context.Background(), good, book, nil); err != nil || p.Ready(context.Background()) == nil {
		t.Errorf("a provider that is away: %v", err)
	}
	for name, change := range map[string]func(*oidc.Config){
		"plain http":        func(c *oidc.Config) { c.Issuer = "http://idp.example" },
		"no issuer":         func(c *oidc.Config) { c.Issuer = "" },
		"a query":           func(c *oidc.Config) { c.Issuer = "https://idp.example?x" },
		"a user":            func(c *oidc.Config) { c.Issuer = "https://a:b@idp.example" },
		"no client":         func(c *oidc.Config) { c.ClientID = "" },
		"no levels":         func(c *oidc.Config) { c.ACRValues = nil },
		"a level of spaces": func(c *oidc.Config) { c.ACRValues = []string{"a b"} },
		"an origin's path":  func(c *oidc.Config) { c.Origin = origin + "/x" },
		"a file":            func(c *oidc.Config) { c.Issuer = "file:///x" },
	} {
		c := good
		change(&c)
		if _, err := oidc.New(context.Background(), c, book, nil); refusal.Of(err) != refusal.BadDocument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("away") }

func TestNextIsOurs(t *testing.T) {
	s, _ := faulty(t, nil)
	for _, bad := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"} {
		refusedWith(t, bad, signIn(t, s.browser(), bad), refusal.BadDocument)
	}
	p, err := s.browser().Get("/auth/login?next=/a&next=/b")
	if err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "twice", p, refusal.BadDocument)
	if p := signIn(t, s.browser(), `/"><script>`); strings.Contains(p.Body, "<script>") && !strings.Contains(p.Body, "&lt;script&gt;") {
		t.Error("next isn't escaped")
	}
	_, _, err = s.party.StepUp(context.Background(), session.Session{ID: "x"}, "//evil.example")
	if refusal.Of(err) != refusal.BadDocument {
		t.Errorf("a step-up's next: %v", err)
	}
}
