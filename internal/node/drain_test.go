package node_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A server that is told to end lets a call in flight finish, though it takes more
// than half of the drain, and doesn't wait for those who only watch.
func TestDrain(t *testing.T) {
	s := stand(t, nil)
	s.engage("acme")
	o := s.settle("Ada")
	var token struct{ Token string }
	o.do("POST", "/api/tokens", map[string]any{"name": "a", "scopes": []string{"owned"}, "engagements": []string{"acme"}, "expires_in_s": 600}, &token)
	c := s.mcp(token.Token)
	text, _ := tool(t, c, "browser_open", map[string]any{"engagement": "acme"})
	var opened struct {
		Browser string `json:"browser"`
		RunID   string `json:"run_id"`
	}
	if err := json.Unmarshal([]byte(text), &opened); err != nil {
		t.Fatal(text, err)
	}
	watched := make(chan time.Time, 1)
	live, err := http.DefaultTransport.RoundTrip(o.request("GET", "/api/agents/"+opened.RunID+"/live", nil, o.dress).WithContext(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()
	go func() { io.Copy(io.Discard, live.Body); watched <- time.Now() }()
	answered := make(chan string, 1)
	go func() {
		text, failed := tool(t, c, "browser_eval_js", map[string]any{"browser": opened.Browser, "expression": "new Promise((r) => setTimeout(() => r('late'), 12000))"})
		if failed {
			text = "failed: " + text
		}
		answered <- text
	}()
	time.Sleep(500 * time.Millisecond)
	told := time.Now()
	ended := make(chan struct{})
	go func() { s.end(); close(ended) }()
	select {
	case at := <-watched:
		if at.Sub(told) > 5*time.Second {
			t.Errorf("the watcher was kept for %v", at.Sub(told))
		}
	case <-time.After(10 * time.Second):
		t.Error("the watcher is kept")
	}
	if text := <-answered; !strings.Contains(text, "late") {
		t.Errorf("the call in flight: %s", text)
	}
	<-ended
}
