package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/client"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

func itoa(n uintptr) string { return strconv.Itoa(int(n)) }

func connect(t *testing.T, s *standIn) *client.Session {
	t.Helper()
	c, err := client.Connect(t.Context(), s.path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestSession(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	for range 3 {
		got, err := c.Do(t.Context(), ownedv1.ListTabs{})
		if err != nil || string(got) != `{"tabs":[],"active":null}` {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	want := []ownedv1.Verb{"handshake", "action", "action", "action"}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.seen); diff != "" {
		t.Error(diff)
	}
	ids := map[string]bool{}
	for i, body := range s.bodies[1:] {
		q, err := ownedv1.DecodeActionRequest(body, time.Now())
		if err != nil || q.Sequence != int64(i+1) || ids[q.RequestID] || q.Expired(time.Now()) {
			t.Errorf("request %d: %+v, %v", i, q, err)
		}
		ids[q.RequestID] = true
	}
	if diff := cmp.Diff([]string{"127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1"}, s.hosts); diff != "" {
		t.Error(diff)
	}
	if s.auth[0] != "Bearer "+s.desc.BootstrapToken || s.auth[1] != "Bearer "+session {
		t.Error("the wrong credential was sent")
	}
}

// answers.json over a real connection: each answer, the code it becomes, and
// whether the session survives it. Nothing is sent twice.
func TestAnswerVectors(t *testing.T) {
	data, err := spec.Files.ReadFile("vectors/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []answerVector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, x := range file.Vectors {
		t.Run(x.Verb+"/"+x.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, registrations(t))
			s.then(x.answer(t, s))
			x.play(t, s)
			if n := s.requests(ownedv1.Verb(x.Verb)); n != 1 {
				t.Errorf("%d requests were sent, want 1", n)
			}
		})
	}
}

type answerVector struct {
	Verb, Name, Text string
	Status           int
	Code             refusal.Code
	Fatal            bool
	ContentType      *string `json:"content_type"`
	Headers          map[string]string
}

// answer gives the vector's answer to the request it is about, and holds the
// action that a cancel is about until then.
func (x answerVector) answer(t *testing.T, s *standIn) func(ownedv1.Verb, []byte, http.ResponseWriter) bool {
	cancelled := make(chan struct{})
	return func(v ownedv1.Verb, body []byte, w http.ResponseWriter) bool {
		if x.Verb == "cancel" && v == ownedv1.DoAction {
			select {
			case <-cancelled:
			case <-time.After(10 * time.Second):
			}
			return failed(w, 409, "UNAUTHORIZED_ADAPTER")
		}
		if string(v) != x.Verb {
			return false
		}
		if v == ownedv1.Cancel {
			defer close(cancelled)
		}
		text, err := s.names(t, body).Expand([]byte(x.Text), time.Now())
		if err != nil {
			t.Error(err)
		}
		if x.Status == 0 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			conn.Write(text)
			conn.Close()
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		if x.ContentType != nil {
			w.Header()["Content-Type"] = []string{*x.ContentType}
		}
		for k, v := range x.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(x.Status)
		w.Write(text)
		return true
	}
}

func (x answerVector) play(t *testing.T, s *standIn) {
	c, err := client.Connect(t.Context(), s.path())
	if x.Verb == "handshake" {
		if got := refusal.Of(err); got != x.Code {
			t.Errorf("got %v, want %q", err, x.Code)
		}
		if err == nil {
			c.Close()
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if x.Verb == "cancel" {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for s.requests(ownedv1.DoAction) == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := c.Do(ctx, ownedv1.ListTabs{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancellation", err)
		}
	} else if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); refusal.Of(err) != x.Code {
		t.Errorf("got %v, want %q", err, x.Code)
	}
	if x.Fatal != (c.Err() != nil) || x.Fatal && refusal.Of(c.Err()) != x.Code {
		t.Errorf("the session's end is %v, want fatal %v with %q", c.Err(), x.Fatal, x.Code)
	}
	s.then(nil)
	before := s.requests(ownedv1.DoAction)
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); x.Fatal != (err != nil) || x.Fatal && refusal.Of(err) != x.Code {
		t.Errorf("the next action: %v", err)
	}
	if x.Fatal && s.requests(ownedv1.DoAction) != before {
		t.Error("a dead session sent a request")
	}
	if x.Verb == "action" && s.requests(ownedv1.DoAction) > 1 && x.Fatal {
		t.Error("sent twice")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !x.Fatal && x.Verb == "action" {
		s.seen = s.seen[:len(s.seen)-1] // the next action was this test's own
	}
}

// The caller's cancellation stops the action at the host before Do returns.
func TestCancel(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	s.then(func(v ownedv1.Verb, body []byte, w http.ResponseWriter) bool {
		switch v {
		case ownedv1.DoAction:
			cancel()
			<-stopped
			return failed(w, 409, "UNAUTHORIZED_ADAPTER")
		case ownedv1.Cancel:
			close(stopped)
		}
		return false
	})
	if _, err := c.Do(ctx, ownedv1.Goto{URL: "http://a/"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	action, err := ownedv1.DecodeActionRequest(s.body(1), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	q, err := ownedv1.DecodeCancelRequest(s.body(2))
	if err != nil || q.RequestID != action.RequestID || q.Sequence != action.Sequence {
		t.Errorf("cancelled %+v, %v", q, err)
	}
	s.then(nil)
	if _, err := c.Do(t.Context(), ownedv1.Close{}); err != nil {
		t.Errorf("an acknowledged cancel ended the session: %v", err)
	}
}

// A host that doesn't answer the cancel holds the caller 2 s and no longer.
func TestCancelIsBounded(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.then(func(ownedv1.Verb, []byte, http.ResponseWriter) bool { cancel(); <-over; return true })
	begin := time.Now()
	_, err := c.Do(ctx, ownedv1.ListTabs{})
	if took := time.Since(begin); !errors.Is(err, context.Canceled) || took < 1900*time.Millisecond || took > 10*time.Second {
		t.Errorf("%v after %s", err, took)
	}
	if refusal.Of(c.Err()) != refusal.BrowserTimeout {
		t.Errorf("the session: %v", c.Err())
	}
}

// Without any answer the client gives up 2 s after the deadline, which is the
// caller's where that is nearer than 30 s.
func TestDeadline(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.then(func(ownedv1.Verb, []byte, http.ResponseWriter) bool { <-over; return true })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := c.Do(ctx, ownedv1.ListTabs{})
	if took := time.Since(begin); refusal.Of(err) != refusal.BrowserTimeout || took < 2400*time.Millisecond || took > 12*time.Second {
		t.Errorf("%v after %s", err, took)
	}
	q, err := ownedv1.DecodeActionRequest(s.body(1), time.Now())
	if left := q.Deadline().Sub(begin); err != nil || left > 501*time.Millisecond {
		t.Errorf("the deadline sent was %s away, %v", left, err)
	}
	if s.requests(ownedv1.Cancel) != 0 {
		t.Error("a deadline was taken for a cancellation")
	}
	if c.Err() == nil {
		t.Error("the session goes on after a lost answer")
	}
}

// A 504 that comes while the caller's own deadline is reached is a kept one.
func TestKeptDeadline(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s.then(func(_ ownedv1.Verb, _ []byte, w http.ResponseWriter) bool {
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond)
		return failed(w, 504, "BROWSER_TIMEOUT")
	})
	if _, err := c.Do(ctx, ownedv1.ListTabs{}); refusal.Of(err) != refusal.BrowserTimeout {
		t.Errorf("got %v", err)
	}
	s.then(nil)
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Concurrent callers go one after another, in strictly rising order.
func TestConcurrentActions(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	var mu sync.Mutex
	running, last := 0, int64(0)
	s.then(func(_ ownedv1.Verb, body []byte, _ http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()
		running++
		q, err := ownedv1.DecodeActionRequest(body, time.Now())
		if err != nil || q.Sequence <= last || running != 1 {
			t.Errorf("%d running, sequence %d after %d: %v", running, q.Sequence, last, err)
		}
		last = q.Sequence
		running--
		return false
	})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last != 32 {
		t.Errorf("the last sequence is %d", last)
	}
}

// A caller behind a long action waits until its own deadline; nothing of its is
// sent and nobody's session ends.
func TestQueueIsBounded(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	entered, leave := make(chan struct{}), make(chan struct{})
	s.then(func(ownedv1.Verb, []byte, http.ResponseWriter) bool { close(entered); <-leave; return false })
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil {
			t.Error(err)
		}
	})
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, ownedv1.Close{}); refusal.Of(err) != refusal.BrowserTimeout {
		t.Errorf("got %v", err)
	}
	gone, leaveNow := context.WithCancel(t.Context())
	leaveNow()
	if _, err := c.Do(gone, ownedv1.Close{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
	wg.Wait()
	if n := s.requests(ownedv1.DoAction); n != 1 || c.Err() != nil {
		t.Errorf("%d actions, session %v", n, c.Err())
	}
}

// Params that no message can hold are refused here; the session goes on.
func TestUnsendableParams(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	for _, a := range []ownedv1.Action{ownedv1.EvalJS{Expression: "\xff"}, ownedv1.EvalJS{Expression: strings.Repeat("x", 8<<20)}} {
		if _, err := c.Do(t.Context(), a); refusal.Of(err) != refusal.BrowserActionFailed {
			t.Errorf("got %v", err)
		}
	}
	if s.requests(ownedv1.DoAction) != 0 || c.Err() != nil {
		t.Errorf("sent something, or ended: %v", c.Err())
	}
}

// No error of the client holds a credential or what an answer said.
func TestErrorsKeepCredentials(t *testing.T) {
	s := start(t, registrations(t))
	c := connect(t, s)
	s.then(func(_ ownedv1.Verb, _ []byte, w http.ResponseWriter) bool {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		conn.Write([]byte("HTTP/1.1 s3cret\r\n\r\n"))
		conn.Close()
		return true
	})
	_, err := c.Do(t.Context(), ownedv1.ListTabs{})
	for _, secret := range []string{"s3cret", session, s.desc.BootstrapToken} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	}
}

// Proxies of the environment are nobody the client talks to.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:9")
	s := start(t, registrations(t))
	c := connect(t, s)
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); err != nil {
		t.Error(err)
	}
}

// After its expiry a session sends nothing.
func TestSessionExpiry(t *testing.T) {
	s := start(t, registrations(t))
	s.then(func(v ownedv1.Verb, body []byte, w http.ResponseWriter) bool {
		if v != ownedv1.Handshake {
			return false
		}
		q, err := ownedv1.DecodeHandshakeRequest(body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(ownedv1.HandshakeResponse{Identity: identity, ClientNonce: q.ClientNonce, SessionToken: session,
			ExpiresAtMS: time.Now().UnixMilli() + 500, HostCommit: s.desc.HostCommit, Capabilities: ownedv1.Capabilities}.Encode())
		return true
	})
	c := connect(t, s)
	time.Sleep(time.Until(c.Expires()))
	if _, err := c.Do(t.Context(), ownedv1.ListTabs{}); refusal.Of(err) != refusal.UnauthorizedAdapter || s.requests(ownedv1.DoAction) != 0 {
		t.Errorf("got %v, %d sent", err, s.requests(ownedv1.DoAction))
	}
}
