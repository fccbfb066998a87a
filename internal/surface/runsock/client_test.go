package runsock_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"chaperone/internal/owned/client"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Our client and our host, each written from the spec, on a real browser: a
// turn from registration to revocation.
func TestClientAgainstHost(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<title>a &lt; b</title><input id=a>")
	}))
	defer page.Close()
	h := start(t, options{})
	mount := client.NewMount(h.dir)
	defer mount.Close()
	s, err := mount.Session(t.Context(), "acme-2026", h.id)
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, ownedv1.Launch{Headless: true}, &ownedv1.LaunchResult{})
	var went ownedv1.GotoResult
	do(t, s, ownedv1.Goto{URL: page.URL + "/", TimeoutMS: 20_000}, &went)
	if went.Title != "a < b" || went.Status == nil || *went.Status != 200 {
		t.Errorf("went to %+v", went)
	}
	var typed ownedv1.TypeResult
	do(t, s, ownedv1.Type{Selector: "#a", Text: "é😀", TimeoutMS: 10_000}, &typed)
	if typed != (ownedv1.TypeResult{TypedInto: "#a", Chars: 2}) {
		t.Errorf("typed %+v", typed)
	}
	denied, err := s.Do(t.Context(), ownedv1.Goto{URL: "http://other.example/"})
	if err != nil || ownedv1.Failure(denied) != refusal.BrowserScopeDenied {
		t.Errorf("out of scope: %s, %v", denied, err)
	}

	// The caller gives up; the host has stopped the action when Do returns.
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	if _, err := s.Do(ctx, ownedv1.EvalJS{Expression: "new Promise(() => {})"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled action: %v", err)
	}
	// The host keeps a deadline, and the session goes on.
	short, off := context.WithTimeout(t.Context(), time.Second)
	defer off()
	if _, err := s.Do(short, ownedv1.EvalJS{Expression: "new Promise(() => {})"}); refusal.Of(err) != refusal.BrowserTimeout {
		t.Errorf("a late action: %v", err)
	}
	var tabs ownedv1.TabsResult
	do(t, s, ownedv1.ListTabs{}, &tabs)

	h.stop()
	if _, err := s.Do(t.Context(), ownedv1.ListTabs{}); refusal.Of(err) != refusal.UnauthorizedAdapter {
		t.Errorf("after the run: %v", err)
	}
}

// do sends an action that must succeed and reads its result.
func do(t *testing.T, s *client.Session, a ownedv1.Action, into any) {
	t.Helper()
	result, err := s.Do(t.Context(), a)
	if err != nil || ownedv1.Failure(result) != "" {
		t.Fatalf("%s: %s, %v", a.Name(), result, err)
	}
	if err := json.Unmarshal(result, into); err != nil {
		t.Fatalf("%s: %s: %v", a.Name(), result, err)
	}
}
