package runsock_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/surface/runsock"
)

// TestHangingUpStopsTheWork: a client that closes its request stops the action,
// not only its answer, and the session goes on.
func TestHangingUpStopsTheWork(t *testing.T) {
	t.Parallel()
	web := newSite(t)
	s := start(t, options{}).open()
	s.must("launch", "{}")
	s.must("goto", fmt.Sprintf(`{"url":%q}`, web.URL+"/form"))
	ctx, hangUp := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer hangUp()
	loop := `(async () => { for (;;) { await fetch('/hit'); await new Promise(next => setTimeout(next, 10)); } })()`
	if got, err := s.act(ctx, "eval_js", fmt.Sprintf(`{"expression":%q}`, loop)); err == nil {
		t.Fatalf("an endless action answered %s", got)
	}
	s.must("list_tabs", "{}")          // waits for the turn, so the loop's end is over
	time.Sleep(100 * time.Millisecond) // for a request that was on its way
	before := web.hits.Load()
	time.Sleep(300 * time.Millisecond)
	if after := web.hits.Load(); before == 0 || after != before {
		t.Errorf("the page went on: %d hits, then %d", before, after)
	}
}

// TestCancelStopsTheWork is the same by the protocol's own word.
func TestCancelStopsTheWork(t *testing.T) {
	t.Parallel()
	web := newSite(t)
	s := start(t, options{}).open()
	s.must("launch", "{}")
	s.must("goto", fmt.Sprintf(`{"url":%q}`, web.URL+"/form"))
	loop := `(async () => { for (;;) { await fetch('/hit'); await new Promise(next => setTimeout(next, 10)); } })()`
	req := s.request("eval_js", fmt.Sprintf(`{"expression":%q}`, loop))
	answered := make(chan int)
	go func() {
		status, _, _ := s.post(context.Background(), "action", s.token, req.Encode())
		answered <- status
	}()
	time.Sleep(400 * time.Millisecond)
	cancel := fmt.Sprintf(`{"protocol":"owned-browser-v1","engagement_id":%q,"run_id":%q,"epoch":%q,"request_id":%q,"sequence":%d}`,
		s.d.EngagementID, s.d.RunID, s.d.Epoch, req.RequestID, req.Sequence)
	status, body, err := s.post(context.Background(), "cancel", s.token, []byte(cancel))
	if status != http.StatusOK || err != nil {
		t.Fatalf("cancel: %d %s %v", status, body, err)
	}
	time.Sleep(100 * time.Millisecond) // for a request that was on its way
	before := web.hits.Load()
	time.Sleep(300 * time.Millisecond)
	if after := web.hits.Load(); before == 0 || after != before {
		t.Errorf("the page went on: %d hits, then %d", before, after)
	}
	if status := <-answered; status != http.StatusConflict {
		t.Errorf("the cancelled action answered %d, want 409", status)
	}
	s.must("list_tabs", "{}")
}

// TestHTTPAtItsEdges sends what no good client sends, byte by byte.
func TestHTTPAtItsEdges(t *testing.T) {
	t.Parallel()
	h := start(t, options{})
	d := h.descriptor()
	head := "POST /v1/browser/handshake HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\nContent-Type: application/json\r\n"
	auth := "Authorization: Bearer " + d.BootstrapToken + "\r\n"
	cases := []struct {
		name, request string
		want          string // the status; "" where the connection just ends
	}{
		{"credential twice", head + auth + auth + "Content-Length: 2\r\n\r\n{}", "401"},
		{"content type twice", head + "Content-Type: application/json\r\n" + auth + "Content-Length: 2\r\n\r\n{}", "415"},
		{"lower-case scheme of the credential", head + strings.Replace(auth, "Bearer", "bearer", 1) + "Content-Length: 2\r\n\r\n{}", "401"},
		{"absolute target", strings.Replace(head, "/v1", "http://127.0.0.1:1/v1", 1) + auth + "Content-Length: 2\r\n\r\n{}", "404"},
		{"query", strings.Replace(head, " HTTP", "?x=1 HTTP", 1) + auth + "Content-Length: 2\r\n\r\n{}", "404"},
		{"dot segments", strings.Replace(head, "/v1", "/v1/../v1", 1) + auth + "Content-Length: 2\r\n\r\n{}", "404"},
		{"double slash", strings.Replace(head, "/v1", "//v1", 1) + auth + "Content-Length: 2\r\n\r\n{}", "404"},
		{"trailing slash", strings.Replace(head, "handshake", "handshake/", 1) + auth + "Content-Length: 2\r\n\r\n{}", "404"},
		{"options", strings.Replace(head, "POST", "OPTIONS", 1) + auth + "\r\n", "405"},
		{"options *", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n", "404"},
		{"a page's request", head + auth + "Sec-Fetch-Site: same-origin\r\nContent-Length: 2\r\n\r\n{}", "403"},
		{"a rebound page's request", strings.Replace(head, "127.0.0.1:1", "rebound.example:1", 1) + auth + "Content-Length: 2\r\n\r\n{}", "403"},
		{"an empty origin", head + auth + "Origin: \r\nContent-Length: 2\r\n\r\n{}", "403"},
		{"no host", strings.Replace(head, "Host: 127.0.0.1:1\r\n", "", 1) + auth + "\r\n", "400"},
		{"two hosts", head + "Host: 127.0.0.1:1\r\n" + auth + "\r\n", "400"},
		{"announced size over the limit", head + auth + "Content-Length: 8388609\r\n\r\n", "413"},
		{"chunked", head + auth + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"},
		{"length and chunks", head + auth + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"},
		{"headers without end", head + "X: " + strings.Repeat("x", 64<<10) + "\r\n", "431"},
		{"no HTTP", "\x00\x01\x02\r\n\r\n", "400"},
	}
	for _, c := range cases {
		if got := exchange(t, filepath.Join(h.registry, "browser.sock"), c.request); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	h.open() // none of it burned the token
}

// exchange sends bytes and answers the status of what comes back.
func exchange(t *testing.T, socket, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	go conn.Write([]byte(request))
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return ""
	}
	_, status, _ := strings.Cut(string(buf[:n]), " ")
	return status[:3]
}

// TestManySlowClients: those who never finish a request don't keep others out.
func TestManySlowClients(t *testing.T) {
	t.Parallel()
	h := start(t, options{})
	for range 100 {
		conn, err := net.Dial("unix", filepath.Join(h.registry, "browser.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/browser/handshake HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
	}
	h.open().must("list_tabs", "{}")
}

// TestRefusedClientsThatSendNoBody are answered at once and let go: as many as
// there are places don't keep the run's own client out.
func TestRefusedClientsThatSendNoBody(t *testing.T) {
	t.Parallel()
	h := start(t, options{})
	socket := filepath.Join(h.registry, "browser.sock")
	head := "POST /v1/browser/handshake HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Length: 100\r\n"
	typed := head + "Content-Type: application/json\r\n"
	for name, c := range map[string]struct{ request, want string }{
		"wrong credential": {typed + "Authorization: Bearer " + newHex(64) + "\r\n\r\n", "401"},
		"no credential":    {typed + "\r\n", "401"},
		"no content type":  {head + "\r\n", "415"},
		"no such path":     {strings.Replace(typed, "handshake", "x", 1) + "\r\n", "404"},
		"another method":   {strings.Replace(typed, "POST", "PUT", 1) + "\r\n", "405"},
		"another host":     {strings.Replace(typed, "127.0.0.1:1", "x:1", 1) + "\r\n", "403"},
	} {
		if got := exchange(t, socket, c.request); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for range 256 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, typed+"\r\n")
	}
	h.open().must("list_tabs", "{}")
}

// TestOnlyTheOwnersConnections: another user's connection is closed without a
// word, though the socket's mode would let it in.
func TestOnlyTheOwnersConnections(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("this test needs to be two users: run it as root")
	}
	dir, err := os.MkdirTemp("", "chpeer")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	l, err := runsock.ListenUnix(folder, "browser.sock")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "browser.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket's mode is %v, %v; want 0600", info.Mode().Perm(), err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	go server.Serve(l)
	defer server.Close()
	for _, path := range []string{dir, socket} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(uid uint32) string {
		cmd := exec.Command("/usr/bin/env", "python3", "-I", "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
try:
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    print(s.recv(100).decode().split(" ")[1:2])
except OSError:
    print([])`, socket)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("as uid %d: %v %s", uid, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	got := []string{ask(0), ask(65534), ask(0)}
	if diff := cmp.Diff([]string{"['418']", "[]", "['418']"}, got); diff != "" {
		t.Errorf("answers to root, nobody, root (-want +got):\n%s", diff)
	}
}
