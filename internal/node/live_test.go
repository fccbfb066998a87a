package node_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A stream that was opened by a credential ends with it: the person's view of a
// browser with their sign-out, an app's with its grant.
func TestStreamsEndWithTheirAuthority(t *testing.T) {
	s := stand(t, nil)
	s.engage("acme")
	o := s.settle("Ada")
	var made struct {
		Token      string `json:"token"`
		Connection string `json:"connection_id"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "ci", "scopes": []string{"owned"}, "engagements": []string{"acme"}, "expires_in_s": 600}, &made)
	auth := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+made.Token) }
	if status, body := o.send("POST", "/v1/owned/runs", map[string]any{"engagement": "acme", "run_id": "app-1"}, auth); status != http.StatusCreated {
		t.Fatalf("the app's: %d %s", status, body)
	}
	if status, body := o.send("POST", "/api/agents", map[string]any{"engagement": "acme", "run_id": "own-1"}, o.dress); status != http.StatusCreated {
		t.Fatalf("the person's: %d %s", status, body)
	}
	ends := func(what, path string, dress func(*http.Request), end func()) {
		t.Helper()
		resp, err := http.DefaultTransport.RoundTrip(o.request("GET", path, nil, dress))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %v", what, resp, err)
		}
		defer resp.Body.Close()
		first := make([]byte, 64)
		if _, err := io.ReadFull(resp.Body, first); err != nil || !strings.HasPrefix(string(first), "event: ") {
			t.Fatalf("%s began with %q: %v", what, first, err)
		}
		end()
		over := make(chan struct{})
		go func() {
			defer close(over)
			io.Copy(io.Discard, resp.Body) // how it ends doesn't matter
		}()
		select {
		case <-over:
		case <-time.After(3 * time.Second):
			t.Errorf("%s goes on three seconds after its authority ended", what)
			resp.Body.Close()
			<-over
		}
	}
	ends("an app's stream", "/v1/owned/runs/app-1/live", auth, func() { o.do("DELETE", "/api/connections/"+made.Connection, nil, nil) })
	ends("the person's stream", "/api/agents/own-1/live", o.dress, func() { o.do("POST", "/auth/logout", map[string]any{}, nil) })
}
