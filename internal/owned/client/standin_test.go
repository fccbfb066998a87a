package client_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/spec"
)

var (
	identity = ownedv1.Identity{Protocol: ownedv1.Protocol, EngagementID: "acme-2026", RunID: "run_1", Epoch: strings.Repeat("e", 64)}
	session  = strings.Repeat("5", 64)
)

// standIn is the foreign side: a host that has no browser. It speaks real HTTP
// over a real socket in a real registration and answers as a test tells it to;
// without being told it conforms.
type standIn struct {
	dir  string // the registrations
	desc ownedv1.Descriptor

	mu     sync.Mutex
	seen   []ownedv1.Verb
	bodies [][]byte
	hosts  []string
	auth   []string
	answer func(v ownedv1.Verb, body []byte, w http.ResponseWriter) bool // true: it has answered
}

// start publishes a run's registration under dir and serves it until the test
// ends.
func start(t *testing.T, dir string) *standIn {
	t.Helper()
	s := &standIn{dir: dir, desc: ownedv1.Descriptor{
		Identity: identity, Endpoint: ownedv1.UnixEndpoint, Transport: ownedv1.TransportUnix,
		BootstrapToken: strings.Repeat("b", 64), ExpiresAtMS: time.Now().UnixMilli() + 30_000, HostCommit: strings.Repeat("c", 40),
	}}
	folder := filepath.Join(dir, identity.RunID)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s.listen(t, folder)
	s.publish(t)
	return s
}

// listen binds the socket by way of /proc, since a test's folder may have a
// longer name than a socket can.
func (s *standIn) listen(t *testing.T, folder string) {
	t.Helper()
	d, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	l, err := net.Listen("unix", "/proc/self/fd/"+itoa(d.Fd())+"/browser.sock")
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s.serve(t, l)
}

func (s *standIn) serve(t *testing.T, l net.Listener) {
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
}

func (s *standIn) path() string { return filepath.Join(s.dir, identity.RunID, "browser.json") }

func (s *standIn) publish(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(s.path()+".new", s.desc.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path()+".new", s.path()); err != nil {
		t.Fatal(err)
	}
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := ownedv1.Verb(strings.TrimPrefix(r.URL.Path, "/v1/browser/"))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.seen, s.bodies = append(s.seen, v), append(s.bodies, body)
	s.hosts, s.auth = append(s.hosts, r.Host), append(s.auth, r.Header.Get("Authorization"))
	answer := s.answer
	s.mu.Unlock()
	if answer == nil || !answer(v, body, w) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(s.good(v, body))
	}
}

// good is the conforming answer to a request.
func (s *standIn) good(v ownedv1.Verb, body []byte) []byte {
	switch v {
	case ownedv1.Handshake:
		q, _ := ownedv1.DecodeHandshakeRequest(body)
		return ownedv1.HandshakeResponse{Identity: q.Identity, ClientNonce: q.ClientNonce, SessionToken: session,
			ExpiresAtMS: time.Now().UnixMilli() + 3_000_000, HostCommit: s.desc.HostCommit, Capabilities: ownedv1.Capabilities}.Encode()
	case ownedv1.Cancel:
		q, _ := ownedv1.DecodeCancelRequest(body)
		return ownedv1.CancelResponse{Identity: q.Identity, RequestID: q.RequestID, Sequence: q.Sequence, Cancelled: true}.Encode()
	}
	q, _ := ownedv1.DecodeActionRequest(body, time.Now())
	return ownedv1.ActionResponse{Identity: q.Identity, RequestID: q.RequestID, Sequence: q.Sequence, Result: []byte(`{"tabs":[],"active":null}`)}.Encode()
}

// then tells the stand-in how to answer from now on.
func (s *standIn) then(answer func(v ownedv1.Verb, body []byte, w http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// requests counts the requests of a verb so far.
func (s *standIn) requests(v ownedv1.Verb) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen {
		if x == v {
			n++
		}
	}
	return n
}

// body answers the body of the nth request.
func (s *standIn) body(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[n]
}

// host answers the Host of the first request.
func (s *standIn) host() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[0]
}

// names are the placeholders of spec/vectors/answers.json for one request.
func (s *standIn) names(t *testing.T, body []byte) spec.Names {
	var q struct {
		Nonce    string          `json:"client_nonce"`
		ID       string          `json:"request_id"`
		Sequence json.RawMessage `json:"sequence"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		t.Error(err)
	}
	return spec.Names{
		"engagement_id": identity.EngagementID, "run_id": identity.RunID, "epoch": identity.Epoch,
		"bootstrap_token": s.desc.BootstrapToken, "host_commit": s.desc.HostCommit, "session_token": session,
		"nonce": q.Nonce, "request_id": q.ID, "sequence": string(q.Sequence),
	}
}

func failed(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, `{"error":"`+code+`"}`)
	return true
}

// registrations makes a directory as a launcher would.
func registrations(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "browser-runs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
