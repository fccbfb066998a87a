package pagesock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/idptest"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/pagesock"
)

const (
	recentCookie   = "__Host-chaperone-recent"
	armCookie      = "__Host-chaperone-arm"
	documentCookie = "__Host-chaperone-document"
)

// members answers a JSON object's members.
func members(t *testing.T, body string) map[string]any {
	t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// The whole way, on both engines: each answer as section 4 writes it.
func TestArming(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := newWorld(t, url, true)
		p := w.person()
		if got := p.send("GET", arming, nil, nil).body; got != `{"status":"none"}` {
			t.Errorf("before: %s", got)
		}
		begun := p.send("POST", arming, map[string]any{"route_id": route, "next": "/files?a=b"}, nil)
		m := members(t, begun.body)
		to, _ := m["authorization_url"].(string)
		if len(m) != 2 || m["expires_at_ms"].(float64) < 1e12 || !strings.HasPrefix(to, w.provider.URL+"/authorize?") ||
			!strings.Contains(to, "prompt=login") || !strings.Contains(to, "max_age=0") || !strings.Contains(to, "acr_values=gold") || begun.header.Get("Cache-Control") != "no-store" {
			t.Errorf("POST: %v", m)
		}
		p.follow(to)
		m = members(t, p.send("GET", arming, nil, nil).body)
		if len(m) != 3 || m["status"] != "recent-auth" || m["route_id"] != route {
			t.Errorf("after the step-up: %v", m)
		}
		p.load()
		done := p.send("POST", finalize, offer(), nil)
		m = members(t, done.body)
		nonce, _ := m["open_nonce"].(string)
		if done.status != http.StatusOK || len(m) != 7 || m["status"] != "armed" || m["route_id"] != route || m["registration_generation"] != 1.0 ||
			m["catalog_digest"] != catalog().Digest().String() || m["tool_scope_digest"] != catalog().Scope().String() || !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(nonce) {
			t.Errorf("finalize: %d %v", done.status, m)
		}
		delete(m, "open_nonce")
		p.nonce = nonce
		armed := func(when string) {
			t.Helper()
			got := members(t, p.send("GET", arming, nil, nil).body)
			for name := range m {
				if got[name] != m[name] || len(got) != len(m) {
					t.Errorf("%s: %v, want %v", when, got, m)
				}
			}
		}
		armed("armed")
		ws := p.open()
		p.ready(ws)
		armed("with the channel open")
		end := p.send("DELETE", arming, nil, nil)
		if end.status != http.StatusNoContent || end.body != "" || p.jar[armCookie] != "" {
			t.Errorf("DELETE: %d %s %v", end.status, end.body, p.jar)
		}
		closed(t, "revoked", ws, controlv1.CloseTrust, "revoked")
		for range 2 {
			if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent {
				t.Errorf("DELETE again: %d %s", a.status, a.body)
			}
		}
		if p.status() != "none" {
			t.Error("still armed")
		}
	})
}

// Cookies are host-only, unreadable for scripts, secure, and go to our own pages.
func TestCookies(t *testing.T) {
	p := fast(t).person()
	a := p.send("POST", arming, map[string]any{"route_id": route}, nil)
	back := p.provided(members(t, a.body)["authorization_url"].(string))
	given := p.send("GET", back, nil, nil).cookies
	d := p.send("POST", document, map[string]any{"route_id": route}, nil)
	given[documentCookie] = d.cookies[documentCookie]
	given[armCookie] = p.send("POST", finalize, offer(), nil).cookies[armCookie]
	most := map[string]int{recentCookie: 60, armCookie: 3600, documentCookie: 12 * 3600}
	for name, age := range most {
		c := given[name]
		if c == nil || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge < 1 || c.MaxAge > age || len(c.Value) > 4000 {
			t.Errorf("%s: %v", name, c)
		}
	}
	for name, value := range p.jar {
		for _, plain := range []string{"alice", "local", route, "attended_", "document_"} {
			if strings.Contains(value, plain) {
				t.Errorf("%s tells %s", name, plain)
			}
		}
	}
}

// What a page sends is read strictly, and every answer of section 4's table is given.
func TestArmingRefused(t *testing.T) {
	w := fast(t)
	p := w.person()
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }
	basic := func(r *http.Request) { r.Header.Set("Authorization", "") }
	for _, c := range []struct{ method, path string }{{"GET", arming}, {"POST", arming}, {"POST", finalize}, {"DELETE", arming}, {"POST", document}} {
		var body any
		if c.method == "POST" {
			body = "{}"
		}
		what := c.method + " " + c.path
		p.refused(what+" with a bearer", c.method, c.path, body, bearer, 403, "forbidden")
		p.refused(what+" with an empty Authorization", c.method, c.path, body, basic, 403, "forbidden")
		p.refused(what+" without a session", c.method, c.path, body, func(r *http.Request) { r.Header.Del("Cookie") }, 401, "session_expired")
		p.refused(what+" without the key", c.method, c.path, body, func(r *http.Request) { r.Header.Del(guard.KeyHeader) }, 401, "session_expired")
		if c.method == "GET" {
			continue
		}
		p.refused(what+" without CSRF", c.method, c.path, body, func(r *http.Request) { r.Header.Del(guard.CSRFHeader) }, 403, "csrf_denied")
		for name, origin := range map[string]string{"another port": "http://localhost:1", "null": "null", "another scheme": strings.Replace(w.origin, "http", "https", 1), "a slash": w.origin + "/"} {
			p.refused(what+" from "+name, c.method, c.path, body, func(r *http.Request) { r.Header.Set("Origin", origin) }, 403, "origin_denied")
		}
		p.refused(what+" without an Origin", c.method, c.path, body, func(r *http.Request) { r.Header.Del("Origin") }, 403, "origin_denied")
		p.refused(what+" from two", c.method, c.path, body, func(r *http.Request) { r.Header.Add("Origin", w.origin) }, 403, "origin_denied")
	}
	for name, body := range map[string]string{
		"nothing": `{}`, "no route": `{"next":"/"}`, "an empty route": `{"route_id":""}`, "a route with a slash": `{"route_id":"a/b"}`,
		"another host": `{"route_id":"a","next":"//evil.example"}`, "a whole URL": `{"route_id":"a","next":"https://evil.example/"}`,
		"an unknown member": `{"route_id":"a","x":1}`, "a member twice": `{"route_id":"a","route_id":"a"}`, "another case": `{"Route_ID":"a"}`,
		"two values": `{"route_id":"a"} {}`, "a list": `[]`, "null": `null`, "a number": `{"route_id":1}`,
	} {
		a := p.send("POST", arming, body, nil)
		if a.status != http.StatusBadRequest || a.cookies[recentCookie] != nil {
			t.Errorf("POST of %s: %d %s", name, a.status, a.body)
		}
	}
	p.refused("a document of no route", "POST", document, map[string]any{"route_id": "a b"}, nil, 400, "bad_document")
	p.refused("a document with another CSRF token", "POST", document, map[string]any{"csrf": session.NewSecret(), "route_id": route}, nil, 403, "csrf_denied")
	w.provider.Do(func(s *idptest.Say) {
		s.Answer = map[string]http.HandlerFunc{"/introspect": http.NotFound, "/.well-known/openid-configuration": http.NotFound}
	})
	if a := p.send("POST", arming, map[string]any{"route_id": route}, nil); a.status != http.StatusOK {
		t.Errorf("the provider's document is known already: %d %s", a.status, a.body)
	}
}

// Finalize opens nothing but for the grant of this session, shown in time, once, by
// the page that was loaded after it.
func TestFinalizeRefused(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.refused("without a grant", "POST", finalize, offer(), nil, 403, "no_arm")
	p.load()
	early := p.jar[documentCookie]
	p.stepUp()
	grant := p.jar[recentCookie]
	delete(p.jar, documentCookie)
	p.refused("without a document", "POST", finalize, offer(), nil, 403, "arm_mismatch")
	p.jar[documentCookie] = early
	p.refused("by a page of before the redirect", "POST", finalize, offer(), nil, 403, "arm_mismatch")
	p.load()
	edit := func(name string, value any) map[string]any { o := offer(); o[name] = value; return o }
	p.refused("by another route", "POST", finalize, edit("route_id", "elsewhere"), nil, 403, "arm_mismatch")
	tool := func(id, digest string) map[string]any { return map[string]any{"tool_id": id, "schema_digest": digest} }
	good := catalog().Digest().String()
	var many []any
	for i := range 65 {
		many = append(many, tool(strings.Repeat("a", i+1), good))
	}
	for name, body := range map[string]any{
		"no generation": edit("registration_generation", 0), "a negative one": edit("registration_generation", -1), "too large a one": edit("registration_generation", 1<<53),
		"a float": json.RawMessage(`{"route_id":"portal","registration_generation":1.5}`), "no digest": edit("catalog_digest", ""),
		"capitals": edit("catalog_digest", strings.ToUpper(good)), "no tools": edit("tools", []any{}), "tools null": edit("tools", nil), "too many": edit("tools", many),
		"a tool without a digest": edit("tools", []any{tool("a", "")}), "a tool without an id": edit("tools", []any{tool("", good)}),
		"a tool twice": edit("tools", []any{tool("a", good), tool("a", good)}), "an unknown member": edit("document_ref", "x"),
		"a tool with more": edit("tools", []any{map[string]any{"tool_id": "a", "schema_digest": good, "class": "read"}}),
	} {
		a := p.send("POST", finalize, body, nil)
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}

	w.provider.Do(func(s *idptest.Say) { s.Answer = map[string]http.HandlerFunc{"/introspect": http.NotFound} })
	p.refused("while the provider is away", "POST", finalize, offer(), nil, 503, "provider_error")
	w.provider.Behave()
	w.provider.Do(func(s *idptest.Say) { s.Standing = func(m map[string]any) { m["active"] = false } })
	p.refused("when the provider says no", "POST", finalize, offer(), nil, 403, "revalidation_failed")
	w.provider.Behave()

	other := w.person()
	other.load()
	other.jar[recentCookie] = grant
	other.refused("by another session", "POST", finalize, offer(), nil, 403, "arm_mismatch")
	p.jar[recentCookie] = p.jar[documentCookie]
	p.refused("by another kind of cookie", "POST", finalize, offer(), nil, 403, "no_arm")
	p.jar[recentCookie] = flip(grant)
	p.refused("by a cookie that was touched", "POST", finalize, offer(), nil, 403, "no_arm")
	p.jar[recentCookie] = grant
	p.refused("by two grants", "POST", finalize, offer(), func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: recentCookie, Value: grant})
	}, 403, "no_arm")

	if a := p.send("POST", finalize, offer(), nil); a.status != http.StatusOK || p.jar[recentCookie] != "" {
		t.Fatalf("after all that: %d %s", a.status, a.body)
	}
	p.jar[recentCookie] = grant
	p.refused("a second time", "POST", finalize, offer(), nil, 403, "arm_replayed")
	if p.status() != "armed" {
		t.Error("a replay disturbed the arm")
	}
	p.stepUp()
	p.load()
	newer := p.jar[recentCookie]
	p.stepUp()
	p.load()
	p.jar[recentCookie] = newer
	p.refused("by a grant that was replaced", "POST", finalize, offer(), nil, 403, "arm_mismatch") // its document is of before
	if err := w.sessions.End(context.Background(), sessionOf(t, p), refusal.SignedOut); err != nil {
		t.Fatal(err)
	}
	p.refused("after the session's end", "POST", finalize, offer(), nil, 401, "session_expired")
}

// Revoking asks nobody else, and touches nobody else's.
func TestRevoke(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	stolen := p.jar[armCookie]
	other := w.person()
	other.jar[armCookie] = stolen
	other.refused("another session's arm", "DELETE", arming, nil, nil, 403, "arm_mismatch")
	if other.jar[armCookie] != stolen {
		t.Error("a refusal took the cookie")
	}
	if got := other.status(); got != "none" {
		t.Errorf("another session's arm is told as %s", got)
	}
	other.jar[armCookie] = flip(stolen)
	other.refused("an arm that was touched", "DELETE", arming, nil, nil, 403, "arm_mismatch")
	w.provider.Do(func(s *idptest.Say) {
		gone := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) }
		s.Answer = map[string]http.HandlerFunc{"/introspect": gone, "/token": gone, "/keys": gone}
	})
	if p.status() != "armed" {
		t.Error("not armed while the provider is away")
	}
	if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent || p.status() != "none" {
		t.Errorf("while the provider is away: %d %s", a.status, a.body)
	}
	p.jar[armCookie] = stolen
	if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent {
		t.Errorf("an arm that is over: %d %s", a.status, a.body)
	}
	w.provider.Behave()
	p.stepUp()
	if a := p.send("DELETE", arming, nil, nil); a.status != http.StatusNoContent || p.jar[recentCookie] != "" || p.status() != "none" {
		t.Errorf("a grant: %d %s", a.status, a.body)
	}
}

// The newest of two tabs wins, and the other is told.
func TestTwoTabs(t *testing.T) {
	w := fast(t)
	p := w.person()
	p.arm()
	first := p.open()
	p.ready(first)
	p.arm()
	closed(t, "the older tab", first, controlv1.CloseTrust, "revoked")
	p.ready(p.open())
}

// Without a provider that tells whether a sign-in stands there is no arming, and
// everything says so.
func TestOff(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t), false)
	p := w.person()
	for _, c := range []struct{ method, path string }{{"GET", arming}, {"POST", arming}, {"POST", finalize}, {"DELETE", arming}, {"POST", document}} {
		var body any
		if c.method == "POST" {
			body = "{}"
		}
		p.refused(c.method+" "+c.path, c.method, c.path, body, nil, 503, "prerequisite_missing")
	}
	if _, r, err := p.dial(nil); err == nil || r == nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the socket: %v", err)
	}
	if err := w.pages.Armed(nil, nil, session.Session{}, route); refusal.Of(err) != refusal.PrerequisiteMissing {
		t.Errorf("Armed: %v", err)
	}
}

// A key that isn't one makes no server.
func TestNewRefused(t *testing.T) {
	for name, c := range map[string]pagesock.Config{
		"a short key": {Origin: "http://localhost:1", Key: bytes.Repeat([]byte{1}, 31)},
		"no origin":   {Key: bytes.Repeat([]byte{1}, 32)},
		"plain http":  {Origin: "http://chaperone.example", Key: bytes.Repeat([]byte{1}, 32)},
	} {
		if _, err := pagesock.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// flip changes one character in the middle of a cookie.
func flip(value string) string {
	b := []byte(value)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// sessionOf answers the handle of the page's session.
func sessionOf(t *testing.T, p *page) string {
	t.Helper()
	s, err := p.sessions.Find(context.Background(), p.jar[guard.Cookie])
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// Where the ledger can't answer nothing is claimed, and the cookies are kept, so that
// it can be tried again.
func TestLedgerDown(t *testing.T) {
	w := newWorldOver(t, storetest.SQLite(t), storetest.SQLite(t), true)
	p := w.person()
	p.arm()
	late := w.person()
	late.stepUp()
	late.load()
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		of           *page
		method, path string
		body         any
	}{
		"the status": {p, "GET", arming, nil}, "revoking an arm": {p, "DELETE", arming, nil},
		"the status of a grant": {late, "GET", arming, nil}, "revoking a grant": {late, "DELETE", arming, nil}, "finalize": {late, "POST", finalize, offer()},
	} {
		a := c.of.send(c.method, c.path, c.body, nil)
		if a.status != http.StatusServiceUnavailable || len(a.cookies) != 0 || strings.Contains(a.body, "sql") {
			t.Errorf("%s: %d %s %v", what, a.status, a.body, a.cookies)
		}
	}
	if p.jar[armCookie] == "" || late.jar[recentCookie] == "" {
		t.Error("a cookie is gone")
	}
	ws := p.open()
	write(t, ws, p.opening())
	closed(t, "channel.open", ws, controlv1.CloseFault, "failed")
}
