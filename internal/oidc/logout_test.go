package oidc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

const event = "http://schemas.openid.net/event/backchannel-logout"

// logoutClaims are those of a good logout token of one provider session.
func logoutClaims(f *idptest.Faulty, sid string) map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": f.URL, "aud": "client", "iat": now, "exp": now + 120, "jti": session.NewSecret(), "sid": sid,
		"events": map[string]any{event: map[string]any{}},
	}
}

// tell sends a logout token and answers the status.
func (s *site) tell(t testing.TB, token string) int {
	t.Helper()
	return s.send(t, "application/x-www-form-urlencoded", url.Values{"logout_token": {token}}.Encode())
}

func (s *site) send(t testing.TB, kind, body string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, origin+"/auth/backchannel-logout", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := s.agent.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	if resp.Header.Get("Cache-Control") != "no-store" || len(data) > 64 {
		t.Errorf("answered %v %s", resp.Header, data)
	}
	return resp.StatusCode
}

func (s *site) stands(t testing.TB, what, cookie string, want bool) {
	t.Helper()
	if _, err := s.Find(context.Background(), cookie); (err == nil) != want {
		t.Errorf("%s: stands is %v, want %v (%v)", what, err == nil, want, err)
	}
}

func TestBackChannelLogout(t *testing.T) {
	s, f := faulty(t, nil)
	s.mustSignIn(t)
	one := s.agent.Cookie(oidc.SessionCookie)
	f.Do(func(say *idptest.Say) { say.SID = "sid-2" })
	s.agent = s.browser()
	s.mustSignIn(t)
	two := s.agent.Cookie(oidc.SessionCookie)

	token := f.RS256(map[string]any{"kid": idptest.RSAKid, "typ": "logout+jwt"}, logoutClaims(f, "sid-1"))
	if status := s.tell(t, token); status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	s.stands(t, "the named session", one, false)
	s.stands(t, "another", two, true)
	if status := s.tell(t, token); status != http.StatusBadRequest {
		t.Errorf("a replay was answered %d", status)
	}
	all := logoutClaims(f, "")
	delete(all, "sid")
	all["sub"] = "alice"
	if status := s.tell(t, f.RS256(key(f), all)); status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
	s.stands(t, "all of the subject", two, false)

	// A sign-in that is on its way while the provider ends it.
	f.Do(func(say *idptest.Say) { say.SID = "sid-3" })
	if status := s.tell(t, f.RS256(key(f), logoutClaims(f, "sid-3"))); status != http.StatusOK {
		t.Errorf("a logout of nobody was answered %d", status)
	}
	s.agent = s.browser()
	refusedWith(t, "a sign-in after its logout", signIn(t, s.agent, "/"), refusal.SessionExpired)
}

func TestLogoutTokensRefused(t *testing.T) {
	s, f := faulty(t, nil)
	s.mustSignIn(t)
	cookie := s.agent.Cookie(oidc.SessionCookie)
	now := time.Now().Unix()
	set := func(name string, value any) map[string]any {
		c := logoutClaims(f, "sid-1")
		c[name] = value
		return c
	}
	without := func(names ...string) map[string]any {
		c := logoutClaims(f, "sid-1")
		for _, name := range names {
			delete(c, name)
		}
		return c
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	good := func(c map[string]any) string { return f.RS256(key(f), c) }
	tokens := map[string]string{
		"nothing": "", "no token": "x", "two parts": "a.b",
		"no events":               good(without("events")),
		"events null":             good(set("events", nil)),
		"events a text":           good(set("events", event)),
		"events a list":           good(set("events", []string{event})),
		"events empty":            good(set("events", map[string]any{})),
		"another event":           good(set("events", map[string]any{"http://schemas.openid.net/event/other": map[string]any{}})),
		"one event more":          good(set("events", map[string]any{event: map[string]any{}, "x": map[string]any{}})),
		"the event null":          good(set("events", map[string]any{event: nil})),
		"the event a text":        good(set("events", map[string]any{event: "{}"})),
		"the event true":          good(set("events", map[string]any{event: true})),
		"the event a list":        good(set("events", map[string]any{event: []any{}})),
		"the event with a member": good(set("events", map[string]any{event: map[string]any{"a": 1}})),
		"the event twice":         good(set("events", raw(`{"`+event+`":{},"`+event+`":{}}`))),
		"the event in caps":       good(set("events", map[string]any{strings.ToUpper(event): map[string]any{}})),
		"a nonce":                 good(set("nonce", "n")),
		"a nonce that is null":    good(set("nonce", nil)),
		"a nonce that is empty":   good(set("nonce", "")),
		"no jti":                  good(without("jti")),
		"an empty jti":            good(set("jti", "")),
		"a number as jti":         good(set("jti", 1)),
		"no iat":                  good(without("iat")),
		"an old iat":              good(set("iat", now-301)),
		"an iat ahead":            good(set("iat", now+60)),
		"iat as text":             good(set("iat", fmt.Sprint(now))),
		"iat as a float":          good(set("iat", raw(fmt.Sprint(now)+".0"))),
		"iat in ms":               good(set("iat", now*1000)),
		"no exp":                  good(without("exp")),
		"expired":                 good(set("exp", now-1)),
		"neither sub nor sid":     good(without("sid")),
		"an empty sid":            good(set("sid", "")),
		"sid null":                good(set("sid", nil)),
		"sub a number":            good(set("sub", 1)),
		"sub a list":              good(set("sub", []string{"alice"})),
		"no issuer":               good(without("iss")),
		"another issuer":          good(set("iss", "https://evil.example")),
		"no audience":             good(without("aud")),
		"another audience":        good(set("aud", "other")),
		"many audiences":          good(set("aud", []string{"client", "other"})),
		"another azp":             good(set("azp", "other")),
		"a list":                  f.RS256(key(f), []byte(`[]`)),
		"null":                    f.RS256(key(f), []byte(`null`)),
		"a claim twice":           f.RS256(key(f), []byte(`{"sid":"x",`+string(jsonOf(logoutClaims(f, "sid-1"))[1:]))),
		"a token within":          f.RS256(key(f), []byte(good(logoutClaims(f, "sid-1")))),
		"alg none":                idptest.Forge(map[string]any{"alg": "none"}, logoutClaims(f, "sid-1"), func([]byte) []byte { return nil }),
		"HS256, public key":       f.HS256(key(f), logoutClaims(f, "sid-1"), f.Public().N.Bytes()),
		"PS256":                   f.PS256(key(f), logoutClaims(f, "sid-1")),
		"jku":                     f.RS256(map[string]any{"kid": idptest.RSAKid, "jku": f.URL}, logoutClaims(f, "sid-1")),
		"x5u":                     f.RS256(map[string]any{"kid": idptest.RSAKid, "x5u": f.URL}, logoutClaims(f, "sid-1")),
		"crit":                    f.RS256(map[string]any{"kid": idptest.RSAKid, "crit": []string{"x"}}, logoutClaims(f, "sid-1")),
		"an access token's type":  f.RS256(map[string]any{"kid": idptest.RSAKid, "typ": "at+jwt"}, logoutClaims(f, "sid-1")),
		"an unknown key":          f.RS256(map[string]any{"kid": "x"}, logoutClaims(f, "sid-1")),
	}
	for name, token := range tokens {
		if status := s.tell(t, token); status != http.StatusBadRequest {
			t.Errorf("%s was answered %d", name, status)
		}
	}
	if len(tokens) < 25 {
		t.Errorf("only %d", len(tokens))
	}
	one := url.Values{"logout_token": {good(logoutClaims(f, "sid-1"))}}
	two := maps.Clone(one)
	two["logout_token"] = append(two["logout_token"], "x")
	form := "application/x-www-form-urlencoded"
	for name, c := range map[string][2]string{
		"two tokens": {form, two.Encode()}, "as JSON": {"application/json", one.Encode()}, "no kind": {"", one.Encode()},
		"too much": {form, one.Encode() + "&x=" + strings.Repeat("a", 70000)}, "no form": {form, "%zz"},
	} {
		if status := s.send(t, c[0], c[1]); status != http.StatusBadRequest {
			t.Errorf("%s was answered %d", name, status)
		}
	}
	s.stands(t, "the session", cookie, true)
	// An ID token of the very same provider is no logout token.
	found, err := s.Find(context.Background(), cookie)
	if err != nil {
		t.Fatal(err)
	}
	if status := s.tell(t, found.Tokens().ID); status != http.StatusBadRequest {
		t.Errorf("an ID token was answered %d", status)
	}
	s.stands(t, "the session", cookie, true)
	if status := s.tell(t, one.Get("logout_token")); status != http.StatusOK {
		t.Errorf("the good one was answered %d", status)
	}
	s.stands(t, "the session", cookie, false)
}

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func TestLogoutURL(t *testing.T) {
	s, f := faulty(t, nil)
	found, _ := s.mustSignIn(t)
	to, err := s.party.Logout(context.Background(), found)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if !strings.HasPrefix(to, f.URL+"/end?") || q.Get("x") != "y" || q.Get("client_id") != "client" || q.Get("post_logout_redirect_uri") != origin+"/" || q.Get("id_token_hint") != found.Tokens().ID {
		t.Errorf("got %s", to)
	}
}

// FuzzLogoutClaims: whatever is read as a logout names somebody, is new, and has
// no nonce; nothing makes the reader panic.
func FuzzLogoutClaims(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	good := `{"iss":"i","aud":"c","iat":1800000000,"exp":1800000100,"jti":"j","sid":"s","events":{"` + event + `":{}}}`
	for _, seed := range []string{
		good, strings.Replace(good, `"sid":"s"`, `"sub":"s"`, 1), strings.Replace(good, "{}", "null", 1), strings.Replace(good, `"jti"`, `"nonce":null,"jti"`, 1),
		strings.Replace(good, "1800000000", "1.8e9", 1), strings.Replace(good, `"i"`, `"i","iss":"k"`, 1), `null`, `[]`, `{"events":{}}`, "{\"iss\":\"\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := oidc.ReadLogout(payload, now)
		if err != nil {
			if refusal.Of(err) != refusal.BadToken || got != (session.LogoutToken{}) {
				t.Fatalf("%v, %v", got, err)
			}
			return
		}
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatalf("%q was read and is no JSON: %v", payload, err)
		}
		if _, has := claims["nonce"]; has || got.JTI == "" || got.Issuer == "" || got.Subject == "" && got.SID == "" || now.Sub(got.IssuedAt).Abs() > 5*time.Minute {
			t.Fatalf("%q was read as %+v", payload, got)
		}
		if events, ok := claims["events"].(map[string]any); !ok || len(events) != 1 {
			t.Fatalf("%q was read as %+v", payload, got)
		}
	})
}
