package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

const origin = "http://localhost:7080"

// door is a guard over real authorities, with a signed-in person.
type door struct {
	http.Handler
	sessions *session.Book
	session  session.Session
	secrets  session.Secrets
	reached  int
}

func open(t *testing.T, fresh bool) *door {
	t.Helper()
	dir := t.TempDir()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	log, err := audit.Open(db, audit.Options{Tenant: "local", CheckpointDir: filepath.Join(dir, "c"), KeyFile: filepath.Join(dir, "k")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(context.Background()) })
	sessions, err := session.NewBook(db, log, "local", session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := oauth.NewBook(db, log, "local", oauth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{sessions: sessions}
	authTime := time.Now()
	if !fresh {
		authTime = authTime.Add(-10 * time.Minute)
	}
	d.session, d.secrets, err = sessions.Begin(context.Background(), session.Facts{
		Actor: "ann", Name: "Ann", Issuer: "https://idp.test", Subject: "ann", SID: "s1", ACR: "a", AuthTime: authTime, Agent: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	here := func(w http.ResponseWriter, r *http.Request) {
		d.reached++
		var in map[string]any
		if r.Method != "GET" && !guard.Read(w, r, &in) {
			return
		}
		guard.Answer(w, http.StatusOK, map[string]any{"ok": true})
	}
	d.Handler = guard.New(guard.Config{Origin: origin, Sessions: sessions, Tokens: tokens,
		Plain: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") })},
		guard.Route{Method: "GET", Path: "/api/see", Who: guard.Owner, Handler: here},
		guard.Route{Method: "POST", Path: "/api/change", Who: guard.Owner, Mutates: true, Handler: here},
		guard.Route{Method: "POST", Path: "/api/weaken", Who: guard.Owner, Mutates: true, Fresh: true, Handler: here},
		guard.Route{Method: "POST", Path: "/v1/owned/runs", Who: guard.Bearer, Scope: "owned", Mutates: true, Handler: here},
		guard.Route{Method: "GET", Path: "/auth/login", Who: guard.Nobody, Handler: here},
	)
	return d
}

// ask sends one request as the person's own page would, changed by edit.
func (d *door) ask(method, path, body string, edit func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, origin+path, strings.NewReader(body))
	r.AddCookie(&http.Cookie{Name: guard.Cookie, Value: d.secrets.Cookie})
	r.Header.Set(guard.KeyHeader, d.secrets.Key)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != "GET" {
		r.Header.Set("Origin", origin)
		r.Header.Set(guard.CSRFHeader, session.CSRF(d.secrets.Cookie))
		r.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func set(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(name)
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
}

// Who may reach which route with what: nothing but the whole of what it asks for.
func TestMatrix(t *testing.T) {
	d := open(t, true)
	cookie := guard.Cookie + "=" + d.secrets.Cookie
	for name, c := range map[string]struct {
		method, path string
		edit         func(*http.Request)
		status       int
		code         refusal.Code
	}{
		"read":                        {"GET", "/api/see", nil, 200, ""},
		"change":                      {"POST", "/api/change", nil, 200, ""},
		"weaken, fresh":               {"POST", "/api/weaken", nil, 200, ""},
		"read without a cookie":       {"GET", "/api/see", set("Cookie"), 401, "session_expired"},
		"read with two cookies":       {"GET", "/api/see", set("Cookie", cookie+"; "+cookie), 401, "session_expired"},
		"read with a planted cookie":  {"GET", "/api/see", set("Cookie", guard.Cookie+"="+strings.Repeat("a", 64)), 401, "session_expired"},
		"read with the cookie alone":  {"GET", "/api/see", set(guard.KeyHeader), 401, "session_expired"},
		"read with another key":       {"GET", "/api/see", set(guard.KeyHeader, strings.Repeat("b", 64)), 401, "session_expired"},
		"read with two keys":          {"GET", "/api/see", set(guard.KeyHeader, "x", d.secrets.Key), 401, "session_expired"},
		"read from another site":      {"GET", "/api/see", set("Sec-Fetch-Site", "cross-site"), 403, "origin_denied"},
		"read from another port":      {"GET", "/api/see", set("Sec-Fetch-Site", "same-site"), 403, "origin_denied"},
		"change without Origin":       {"POST", "/api/change", set("Origin"), 403, "origin_denied"},
		"change from null":            {"POST", "/api/change", set("Origin", "null"), 403, "origin_denied"},
		"change from another port":    {"POST", "/api/change", set("Origin", "http://localhost:7081"), 403, "origin_denied"},
		"change from another scheme":  {"POST", "/api/change", set("Origin", "https://localhost:7080"), 403, "origin_denied"},
		"change from the address":     {"POST", "/api/change", set("Origin", "http://127.0.0.1:7080"), 403, "origin_denied"},
		"change with two Origins":     {"POST", "/api/change", set("Origin", origin, origin), 403, "origin_denied"},
		"change in capitals":          {"POST", "/api/change", set("Origin", "HTTP://LOCALHOST:7080"), 403, "origin_denied"},
		"change without CSRF":         {"POST", "/api/change", set(guard.CSRFHeader), 403, "csrf_denied"},
		"change with another CSRF":    {"POST", "/api/change", set(guard.CSRFHeader, session.CSRF("x")), 403, "csrf_denied"},
		"change with two CSRF":        {"POST", "/api/change", set(guard.CSRFHeader, "x", session.CSRF(d.secrets.Cookie)), 403, "csrf_denied"},
		"change as a form":            {"POST", "/api/change", set("Content-Type", "application/x-www-form-urlencoded"), 415, "malformed"},
		"change as text":              {"POST", "/api/change", set("Content-Type", "text/plain"), 415, "malformed"},
		"another method":              {"PUT", "/api/change", nil, 405, "not_found"},
		"no such route":               {"GET", "/api/none", nil, 404, "not_found"},
		"a path that isn't clean":     {"GET", "/api//see", nil, 404, "not_found"},
		"an encoded slash":            {"GET", "/api%2fsee", nil, 400, "malformed"},
		"another host":                {"GET", "/api/see", func(r *http.Request) { r.Host = "evil.test" }, 421, "origin_denied"},
		"another port as host":        {"GET", "/api/see", func(r *http.Request) { r.Host = "localhost:1" }, 421, "origin_denied"},
		"the address as host":         {"GET", "/api/see", func(r *http.Request) { r.Host = "127.0.0.1:7080" }, 421, "origin_denied"},
		"page at the address":         {"GET", "/docs?x=1", func(r *http.Request) { r.Host = "127.0.0.1:7080" }, 307, ""},
		"bearer's with a cookie":      {"POST", "/v1/owned/runs", nil, 401, "session_expired"},
		"bearer's with a bad token":   {"POST", "/v1/owned/runs", set("Authorization", "Bearer chap_at_x"), 401, "session_expired"},
		"bearer's with two tokens":    {"POST", "/v1/owned/runs", set("Authorization", "Bearer a", "Bearer b"), 401, "session_expired"},
		"bearer's with basic":         {"POST", "/v1/owned/runs", set("Authorization", "Basic YTpi"), 401, "session_expired"},
		"owner's with a bearer alone": {"GET", "/api/see", func(r *http.Request) { set("Cookie")(r); set("Authorization", "Bearer x")(r) }, 401, "session_expired"},
		"owner's with a bearer too":   {"GET", "/api/see", set("Authorization", "Bearer x"), 200, ""},
		"anybody":                     {"GET", "/auth/login", set("Cookie"), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.reached
			w := d.ask(c.method, c.path, `{}`, c.edit)
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if c.code != "" && !strings.Contains(w.Body.String(), `"code":"`+string(c.code)+`"`) {
				t.Errorf("body %s, want code %s", w.Body, c.code)
			}
			if c.status != 200 && c.status != 415 && d.reached != before {
				t.Error("the handler was reached")
			}
			if c.status != 307 && w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("Cache-Control %q", w.Header().Get("Cache-Control"))
			}
		})
	}
	t.Run("weaken, not fresh", func(t *testing.T) {
		stale := open(t, false)
		w := stale.ask("POST", "/api/weaken", `{}`, nil)
		if w.Code != 403 || !strings.Contains(w.Body.String(), `"step_up_required"`) || stale.reached != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := stale.ask("POST", "/api/change", `{}`, nil); w.Code != 200 {
			t.Errorf("what needs no step-up: %d", w.Code)
		}
	})
	t.Run("ended", func(t *testing.T) {
		if err := d.sessions.End(context.Background(), d.session.ID, refusal.Ended); err != nil {
			t.Fatal(err)
		}
		if w := d.ask("GET", "/api/see", "", nil); w.Code != 401 {
			t.Errorf("an ended session reads: %d", w.Code)
		}
	})
}

// A route that asks for what doesn't exist is found at the start, not by a caller.
func TestUnknownCredential(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	guard.New(guard.Config{Origin: origin}, guard.Route{Method: "GET", Path: "/api/odd", Who: "robot"})
}

// A body is one strict JSON value of a bounded size.
func TestBodies(t *testing.T) {
	d := open(t, true)
	for body, status := range map[string]int{
		`{}`:                           200,
		``:                             400,
		`{"a":1,"a":2}`:                400,
		`{} {}`:                        400,
		`{"a":"` + "\xff" + `"}`:       400,
		`{"a":"\ud800"}`:               400,
		`[1,2`:                         400,
		`{"a":1,}`:                     400,
		"\ufeff{}":                     400,
		`{"a":"` + long(70_000) + `"}`: 413,
	} {
		if w := d.ask("POST", "/api/change", body, nil); w.Code != status {
			t.Errorf("%.40q: %d, want %d: %s", body, w.Code, status, w.Body)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// One peer that asks too often waits; another doesn't.
func TestRate(t *testing.T) {
	d := open(t, true)
	limited := 0
	for range 200 {
		w := d.ask("GET", "/auth/login", "", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" })
		if w.Code == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 100 {
		t.Errorf("%d of 200 were limited", limited)
	}
	if w := d.ask("GET", "/auth/login", "", func(r *http.Request) { r.RemoteAddr = "192.0.2.2:1" }); w.Code != 200 {
		t.Errorf("another peer got %d", w.Code)
	}
	forged := d.ask("GET", "/auth/login", "", func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
	})
	if forged.Code != http.StatusTooManyRequests {
		t.Errorf("a forged X-Forwarded-For got %d", forged.Code)
	}
}
