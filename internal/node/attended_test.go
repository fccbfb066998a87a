package node_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/idptest"
	"chaperone/internal/node"
	"chaperone/internal/store"
)

// A whole server, from the built-in provider's passkey to the channel, and every way
// in which a person ends it.
func TestAttended(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	p := o.page()
	if got := p.armed(); got != "none" {
		t.Errorf("before: %s", got)
	}
	p.arm()
	p.open()
	if got := p.armed(); got != "armed" {
		t.Errorf("ready: %s", got)
	}
	if status, body := p.call("DELETE", attendedArm, nil); status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", status, body)
	}
	p.closed("revoked", controlv1.CloseTrust, "revoked")

	// Another load, and a step-up while it is open: the cookie is another then.
	p = o.page()
	p.arm()
	p.open()
	o.stepUp()
	nothing, err := controlv1.ParseID("nothing")
	if err != nil {
		t.Fatal(err)
	}
	p.say(controlv1.Cancelled{Call: nothing, Effect: controlv1.NoEffect}) // which asks whether the sign-in stands
	if got := p.armed(); got != "armed" {
		t.Errorf("after another step-up: %s", got)
	}
	if status, body := p.call("POST", "/auth/logout", map[string]any{}); status != http.StatusOK {
		t.Fatalf("signing out: %d %s", status, body)
	}
	p.closed("signed out", controlv1.CloseTrust, "signed_out")

	// Signed in again there is nothing left of it.
	o.signIn("/auth/login?next=/")
	p.owner = o
	if got := p.armed(); got != "none" {
		t.Errorf("after the sign-out: %s", got)
	}
	p = o.page()
	p.arm()
	p.open()
	done := make(chan struct{})
	go func() { defer close(done); s.end() }()
	p.closed("the server's end", controlv1.CloseGoingAway, "browser_channel_unavailable")
	<-done
	s.invariants(t)
}

// invariants walks those of every authority of a server that has ended.
func (s *server) invariants(t *testing.T) {
	t.Helper()
	db, err := store.Open(t.Context(), s.config.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, check := range node.Invariants() {
		if err := db.View(t.Context(), func(tx *store.Tx) error { return audit.Check(check)(tx) }); err != nil {
			t.Error(err)
		}
	}
}

// A server that was killed leaves no page armed: the next one ends what it left.
func TestAttendedRestarts(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	p := o.page()
	p.arm()
	s.end()
	s.start()
	if got := p.armed(); got != "armed" {
		t.Errorf("an arm that opened nothing is any node's: %s", got)
	}
	p.open()
}

// Where the provider doesn't tell whether a sign-in stands, attended control is off:
// the start, readiness and every route say so.
func TestAttendedOff(t *testing.T) {
	f := idptest.NewFaulty(t)
	s := stand(t, func(c *node.Config) {
		c.Issuer = node.Issuer{URL: f.URL, ClientID: "client", ACRValues: []string{"gold"}}
	})
	r, err := http.Get(s.origin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if body := string(readAll(t, r)); r.StatusCode != http.StatusOK || !strings.HasPrefix(body, "ready\n") || !strings.Contains(body, "Attended control is off") || !strings.Contains(body, "introspection") {
		t.Errorf("/readyz: %d %s", r.StatusCode, body)
	}
	w, err := s.node.Welcome(t.Context())
	if err != nil || !strings.Contains(strings.Join(w.Notes, " "), "Attended control is off") {
		t.Errorf("the start says %q, %v", w.Notes, err)
	}
	q, err := http.NewRequest("GET", s.origin+"/ws/browser-control", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Origin", s.origin)
	if r, err = http.DefaultTransport.RoundTrip(q); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the socket: %v %v", r, err)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
}

// The operator's rules decide from the start; what isn't one stops it and says where.
func TestPolicyFile(t *testing.T) {
	home := t.TempDir()
	config := node.DefaultConfig(home)
	config.Policy = filepath.Join(home, "policy.cedar")
	open := func() error {
		n, err := node.Open(t.Context(), home, config, "test")
		if err == nil {
			err = n.Close(t.Context())
		}
		return err
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "policy") {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config.Policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("permit (principal, action, resource\n")
	if err := open(); err == nil || !strings.Contains(err.Error(), config.Policy+":") {
		t.Errorf("no Cedar: %v", err)
	}
	write("@id(\"nothing\")\nforbid (principal, action, resource);\n")
	if err := open(); err != nil {
		t.Error(err)
	}
}
