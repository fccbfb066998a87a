package idp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/idptest"
	"chaperone/internal/oidc"
	"chaperone/internal/session"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// served is a site that a real browser can reach.
func served(t *testing.T) *site {
	t.Helper()
	var s *site
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	s = newSite(t, storetest.Open(t, storetest.SQLite(t), store.Options{}), strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	return s
}

// cookie answers the browser's session cookie.
func cookie(t *testing.T, c *idptest.Chromium, name string) string {
	t.Helper()
	var jar struct {
		Cookies []struct {
			Name, Value      string
			Secure, HTTPOnly bool
			SameSite         string
		}
	}
	c.Call("Network.getCookies", nil, &jar)
	for _, k := range jar.Cookies {
		if k.Name == name {
			if !k.Secure || !k.HTTPOnly || k.SameSite != "Lax" {
				t.Errorf("%s: %+v", name, k)
			}
			return k.Value
		}
	}
	return ""
}

// shot is where screenshots go, "" for nowhere.
var shots = os.Getenv("CHAPERONE_TEST_SHOTS")

// look takes a page in two widths and both schemes, where somebody wants to see
// them, and holds it to fit in 320 pixels in any case.
func look(t *testing.T, c *idptest.Chromium, name string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{320, 1280} {
			c.Look(width, 800, scheme)
			if wide := c.Text("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
				t.Errorf("%s is wider than %d pixels", name, width)
			}
			if shots != "" {
				c.Screenshot(filepath.Join(shots, strings.Join([]string{name, scheme, map[int]string{320: "narrow", 1280: "wide"}[width]}, "-")+".png"), width, 800, scheme)
			}
		}
	}
	for what, expression := range map[string]string{
		"one heading":            `document.querySelectorAll("h1").length === 1`,
		"a language":             `document.documentElement.lang.length === 2`,
		"labels":                 `[...document.querySelectorAll("input")].every(i => i.labels.length === 1)`,
		"no policy report":       `true`,
		"errors announced":       `!document.querySelector("#error") || document.querySelector("#error").getAttribute("role") === "alert"`,
		"a status announced":     `document.querySelector("#status").getAttribute("aria-live") === "polite"`,
		"targets of 44 pixels":   `[...document.querySelectorAll("button, .button, input:not([type=checkbox])")].filter(e => e.offsetParent).every(e => e.getBoundingClientRect().height >= 44)`,
		"the secret isn't shown": `!/[0-9a-f]{64}/.test(location.href + document.body.innerText)`,
	} {
		if c.Text(expression) != "true" {
			t.Errorf("%s: not so: %s", name, what)
		}
	}
}

// A person in a real browser: opens the link, makes a passkey, saves the codes,
// signs in, steps up.
func TestInABrowser(t *testing.T) {
	s := served(t)
	ctx := context.Background()
	c := idptest.NewChromium(t)
	c.Passkeys()
	secret, err := s.people.Enrolment(ctx, "Ann")
	if err != nil {
		t.Fatal(err)
	}
	c.Open(s.origin + "/idp/enrol#" + secret)
	c.Until(`document.querySelector("#name").value === "Ann" && document.activeElement.id === "name"`)
	look(t, c, "enrol")
	if at := c.Text("location.href"); strings.Contains(at, secret) {
		t.Error("the secret stays in the address")
	}
	c.Until(`(document.querySelector("#enrol button").click(), true)`)
	c.Until(`document.querySelectorAll("#list li").length === 10`)
	look(t, c, "codes")
	if focus := c.Text("document.activeElement.id"); focus != "title" {
		t.Errorf("the focus is at %q", focus)
	}
	code := c.Text(`document.querySelector("#list li").textContent`)
	c.Until(`(document.querySelector("#go").click(), document.querySelector("#status").textContent !== "")`)
	c.Until(`(document.querySelector("#saved").click(), document.querySelector("#go").click(), true)`)

	c.Until(`location.pathname === "/idp/login" && document.activeElement.id === "passkey"`)
	look(t, c, "login")
	c.Until(`(document.querySelector("#passkey").click(), true)`)
	c.Until(`location.pathname === "/"`)
	in, err := s.sessions.Find(ctx, cookie(t, c, oidc.SessionCookie))
	if err != nil {
		t.Fatal(err)
	}
	if in.Name != "Ann" || !in.Fresh(time.Now()) {
		t.Errorf("session: %s, fresh %v", in.Name, in.Fresh(time.Now()))
	}

	if err := s.sessions.CheckKey(ctx, in, c.Text(`localStorage.getItem("chaperone.key")`)); err != nil {
		t.Errorf("the key that the callback's script kept: %v", err)
	}

	// The step-up of this session, in Spanish.
	c.Speak("es-MX,es;q=0.9,en;q=0.5")
	to, flow, err := s.party.StepUp(ctx, in, "/")
	if err != nil {
		t.Fatal(err)
	}
	c.Call("Network.setCookie", map[string]any{"name": flow.Name, "value": flow.Value, "url": s.origin, "path": "/", "secure": true, "httpOnly": true, "sameSite": "Lax"}, nil)
	c.Open(to)
	c.Until(`location.pathname === "/idp/login" && document.documentElement.lang === "es" && document.readyState === "complete"`)
	look(t, c, "stepup")
	if c.Text(`document.querySelector("#recovery") === null`) != "true" {
		t.Error("a step-up offers recovery codes")
	}
	c.Until(`(document.querySelector("#passkey").click(), true)`)
	c.Until(`location.pathname === "/"`)
	up, err := s.sessions.Find(ctx, cookie(t, c, oidc.SessionCookie))
	if err != nil || up.Generation != 2 || up.ID != in.ID {
		t.Errorf("%v %v", up, err)
	}

	// Without the passkey: a code that is wrong, then one that is right.
	c.Speak("en")
	c.Call("Network.clearBrowserCookies", nil, nil)
	c.Open(s.origin + "/auth/login")
	c.Until(`location.pathname === "/idp/login" && document.activeElement.id === "passkey"`)
	c.Until(`(document.querySelector("details").open = true, document.querySelector("#code").value = "aaaa-aaaa-aaaa-aaaa", document.querySelector("#recovery button").click(), true)`)
	c.Until(`!document.querySelector("#error").hidden && document.querySelector("#error").textContent.includes("code")`)
	look(t, c, "refused-code")
	c.Until(`(document.querySelector("#code").value = ` + "`" + code + "`" + `, document.querySelector("#recovery button").click(), true)`)
	c.Until(`location.pathname === "/"`)
	var back session.Session
	if back, err = s.sessions.Find(ctx, cookie(t, c, oidc.SessionCookie)); err != nil || !back.Recovery || back.Fresh(time.Now()) {
		t.Errorf("%v %v", back, err)
	}
	for _, said := range c.Console {
		if strings.Contains(said, "Content Security Policy") || strings.Contains(said, "exception") {
			t.Errorf("the console: %s", said)
		}
	}
}

// What goes wrong is told in words, and the person can go on.
func TestTroubleInABrowser(t *testing.T) {
	s := served(t)
	c := idptest.NewChromium(t)
	secret, err := s.people.Enrolment(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	c.Open(s.origin + "/idp/enrol")
	c.Until(`document.querySelector("#error").textContent.includes("incomplete") && document.querySelector("#enrol").hidden`)
	c.Open("about:blank")
	c.Open(s.origin + "/idp/enrol#" + strings.Repeat("0", 64))
	c.Until(`document.querySelector("#error").textContent.includes("too old")`)
	look(t, c, "bad-link")
	c.Open("about:blank")
	// An authenticator that refuses its user.
	id := c.Passkeys()
	c.Call("WebAuthn.setUserVerified", map[string]any{"authenticatorId": id, "isUserVerified": false}, nil)
	c.Open(s.origin + "/idp/enrol#" + secret)
	c.Until(`document.activeElement.id === "name"`)
	c.Until(`(document.querySelector("#name").value = "Ann", document.querySelector("#enrol button").click(), true)`)
	c.Until(`!document.querySelector("#error").hidden && !document.querySelector("#enrol button").disabled`)
	// And then lets them.
	c.Call("WebAuthn.setUserVerified", map[string]any{"authenticatorId": id, "isUserVerified": true}, nil)
	c.Until(`(document.querySelector("#enrol button").click(), true)`)
	c.Until(`document.querySelectorAll("#list li").length === 10 && document.querySelector("#error").hidden`)
	// An old request, or another browser's.
	c.Open(s.origin + "/idp/login?authRequestID=" + strings.Repeat("0", 32))
	c.Until(`document.querySelector("h1").textContent.includes("work")`)
	look(t, c, "refused")
	// A callback that nobody began.
	c.Open(s.origin + "/auth/callback?state=x&code=y")
	c.Until(`document.querySelector("code").textContent === "bad_state"`)
	for _, scheme := range []string{"light", "dark"} {
		c.Look(320, 800, scheme)
		if c.Text(`document.documentElement.scrollWidth > innerWidth`) != "false" || c.Text(`getComputedStyle(document.querySelector("main")).borderRadius`) != "14px" {
			t.Error("the callback's page is too wide, or has no style")
		}
		if shots != "" {
			c.Screenshot(filepath.Join(shots, "callback-"+scheme+".png"), 320, 800, scheme)
		}
	}
}
