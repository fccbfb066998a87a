package node_test

import (
	"net/http"
	"testing"
	"time"
)

// A browser is looked at by a few at once, and whoever leaves makes room.
func TestWatchers(t *testing.T) {
	s := stand(t, nil)
	s.engage("acme")
	o := s.settle("Ada")
	if status, body := o.send("POST", "/api/agents", map[string]any{"engagement": "acme", "run_id": "own-1"}, o.dress); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	watch := func() *http.Response {
		t.Helper()
		resp, err := http.DefaultTransport.RoundTrip(o.request("GET", "/api/agents/own-1/live", nil, o.dress))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	var open []*http.Response
	for len(open) < 4 {
		open = append(open, watch())
	}
	if got := watch(); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the fifth: %d", got.StatusCode)
	}
	open[0].Body.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if got := watch(); got.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("who left makes no room")
		}
	}
}

// A length of time that can't be counted is refused, and is no other one.
func TestTokenLives(t *testing.T) {
	s := stand(t, nil)
	o := s.settle("Ada")
	for _, seconds := range []int64{0, -1, 366 * 24 * 3600, 18446744074, -18446744073, 1<<63 - 1, -1 << 63} {
		o.refused("POST", "/api/tokens", map[string]any{"name": "x", "scopes": []string{"collections"}, "expires_in_s": seconds,
			"selection": []any{map[string]any{"collection": "files", "functions": []string{"items_list"}}}}, 422, "invalid_input")
	}
}
