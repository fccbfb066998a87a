package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/surface/guard"
)

// Every route of a real server, asked for with less than it wants: each owner's
// route refuses every lesser credential before it does anything, whatever weakens a
// control wants a fresh step-up, and no route takes one kind for another.
func TestMatrix(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	var token struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "script", "scopes": []string{"collections"}, "expires_in_s": 3600,
		"selection": []any{map[string]any{"collection": "files", "functions": []string{"items_list"}}}}, &token)
	drop := func(names ...string) func(*http.Request) {
		return func(r *http.Request) {
			o.dress(r)
			for _, n := range names {
				r.Header.Del(n)
			}
		}
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { o.dress(r); r.Header.Set(name, value) }
	}
	fresh := 0
	for _, route := range s.node.Routes() {
		path := strings.NewReplacer("{id}", "x", "{collection}", "files", "{run}", "x").Replace(route.Path)
		lesser := map[string]struct {
			edit   func(*http.Request)
			status int
		}{}
		switch route.Who {
		case guard.Owner:
			lesser["nothing"] = struct {
				edit   func(*http.Request)
				status int
			}{drop("Cookie", guard.KeyHeader), 401}
			add := func(name string, edit func(*http.Request), status int) {
				lesser[name] = struct {
					edit   func(*http.Request)
					status int
				}{edit, status}
			}
			add("the cookie alone", drop(guard.KeyHeader), 401)
			add("the key alone", drop("Cookie"), 401)
			add("a bearer token", func(r *http.Request) {
				drop("Cookie", guard.KeyHeader)(r)
				r.Header.Set("Authorization", "Bearer "+token.Token)
			}, 401)
			add("another site", set("Sec-Fetch-Site", "cross-site"), 403)
			if route.Mutates {
				add("no Origin", drop("Origin"), 403)
				add("another port", set("Origin", "http://localhost:1"), 403)
				add("no CSRF token", drop(guard.CSRFHeader), 403)
			} else if route.Method != "GET" {
				t.Errorf("%s %s changes something and doesn't say so", route.Method, route.Path)
			}
			if route.Fresh {
				fresh++
			}
		case guard.Bearer:
			lesser["the owner's own"] = struct {
				edit   func(*http.Request)
				status int
			}{o.dress, 401}
			lesser["a token without the scope"] = struct {
				edit   func(*http.Request)
				status int
			}{func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token.Token) }, 403}
		}
		for name, c := range lesser {
			status, body := o.send(route.Method, path, map[string]any{}, c.edit)
			for status == http.StatusTooManyRequests { // there are more routes than one peer may ask at once
				time.Sleep(100 * time.Millisecond)
				status, body = o.send(route.Method, path, map[string]any{}, c.edit)
			}
			if status != c.status {
				t.Errorf("%s %s with %s: %d, want %d: %s", route.Method, route.Path, name, status, c.status, body)
			}
		}
	}
	if fresh < 6 {
		t.Errorf("%d routes want a step-up; consents, tokens, passkeys and recovery codes must", fresh)
	}
}

// What wants a step-up is refused five minutes after it, and goes on after another.
func TestStepUpAges(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	body := map[string]any{"name": "x", "scopes": []string{"collections"}, "expires_in_s": 3600,
		"selection": []any{map[string]any{"collection": "files", "functions": []string{"items_list"}}}}
	o.do("POST", "/api/tokens", body, nil)
	s.age(t, 6*time.Minute)
	o.refused("POST", "/api/tokens", body, 403, "step_up_required")
	o.refused("PUT", "/api/automation/selection", map[string]any{"generation": 0, "selection": body["selection"]}, 403, "step_up_required")
	o.refused("POST", "/api/passkeys/begin", map[string]any{}, 403, "step_up_required")
	o.refused("POST", "/api/recovery-codes", map[string]any{}, 403, "step_up_required")
	old := o.agent.Cookie(guard.Cookie)
	o.stepUp()
	if now := o.agent.Cookie(guard.Cookie); now == old {
		t.Error("the session's id is the same after a step-up")
	}
	if status, _ := o.send("GET", "/api/session", nil, func(r *http.Request) {
		o.dress(r)
		r.Header.Set("Cookie", guard.Cookie+"="+old)
	}); status != 401 {
		t.Errorf("the old id is answered %d", status)
	}
	o.do("POST", "/api/tokens", body, nil)
}
