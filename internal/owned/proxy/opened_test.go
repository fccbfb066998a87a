package proxy_test

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const openedScope = `
allow:
  - host: a.test
    ports: "*"
    paths: ["/ok/**", "/ws/ok"]
    methods: [GET, POST]
    resolves_to: [127.0.0.0/8]
  - host: https.test
    ports: "*"
    schemes: [https]
    resolves_to: [127.0.0.0/8]
`

func TestOpenedTunnels(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", h2), func(t *testing.T) {
			w := newWorld(t, openedScope)
			w.name("a.test", "127.0.0.2")
			s := w.serve("127.0.0.2", hello, "a.test")
			c := w.client(h2)
			base := fmt.Sprintf("https://a.test:%d", s.port())
			got := map[string]string{}
			for _, q := range []string{
				"GET /ok/x?a=b;c", "POST /ok/x", "DELETE /ok/x", "GET /", "GET /no", "GET /ok/../no", "GET /ok/%2e%2e/no", "GET /ok/%2f", "GET /ok/%5c..", "GET /ok/%252e%252e/x", "GET /ok/..;/no", "GET /no/%2e%2e/ok/x", "PUT /no",
			} {
				method, path, _ := strings.Cut(q, " ")
				got[q] = fetch(t, c, method, base+path, "X-HTTP-Method-Override", "DELETE", "X-HTTP-Method", "PUT", "X-Method-Override", "PATCH")
			}
			ok := fmt.Sprintf("200 hello a.test:%d", s.port())
			want := map[string]string{
				"GET /ok/x?a=b;c": ok, "POST /ok/x": ok, "DELETE /ok/x": "403 method", "GET /": "403 path", "GET /no": "403 path", "GET /ok/../no": "403 path", "GET /ok/%2e%2e/no": "403 path",
				"GET /ok/%2f": "403 path", "GET /ok/%5c..": "403 path", "GET /ok/%252e%252e/x": "403 path", "GET /ok/..;/no": "403 path", "GET /no/%2e%2e/ok/x": ok, "PUT /no": "403 method",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"GET /ok/x?a=b;c", "POST /ok/x", "GET /no/%2e%2e/ok/x"}, s.requests()); diff != "" {
				t.Error(diff)
			}
			for _, h := range s.head {
				for name := range h {
					if strings.Contains(name, "Method") {
						t.Errorf("%s reached the site", name)
					}
				}
			}
		})
	}
}

// The browser is told to trust one key, and finds it behind every leaf.
func TestRunAuthority(t *testing.T) {
	w := newWorld(t, openedScope)
	w.name("a.test", "127.0.0.2")
	w.name("https.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello, "a.test")
	raw, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	c := tls.Client(raw, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	state := c.ConnectionState()
	if state.NegotiatedProtocol != "h2" || len(state.PeerCertificates) != 2 {
		t.Errorf("protocol %q, %d certificates", state.NegotiatedProtocol, len(state.PeerCertificates))
	}
	leaf, ca := state.PeerCertificates[0], state.PeerCertificates[1]
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != w.proxy.SPKI() {
		t.Errorf("SPKI %q, the chain's is %q", w.proxy.SPKI(), got)
	}
	if err := leaf.CheckSignatureFrom(ca); err != nil || leaf.VerifyHostname("a.test") != nil {
		t.Errorf("leaf: %v", err)
	}
	for _, name := range []string{"b.test", ""} {
		raw, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
		if err := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("server name %q was served in a tunnel for a.test", name)
		}
	}
	closed := newWorld(t, openScope)
	if closed.proxy.SPKI() != "" {
		t.Error("an authority without need")
	}
	// What the site shows is verified by the proxy: here it isn't https.test's.
	if got := fetch(t, w.client(true), "GET", fmt.Sprintf("https://https.test:%d/", s.port())); got != "502 unreachable" {
		t.Errorf("a wrong certificate upstream: got %q", got)
	}
}

// webSocketSite echoes one line after a WebSocket's opening handshake.
func webSocketSite(rw http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" {
		rw.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	c, b, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	line, _ := b.ReadString('\n')
	io.WriteString(c, "echo "+line)
	io.Copy(io.Discard, b)
}

// openWebSocket asks for path over c and answers the status, then an echo.
func openWebSocket(c net.Conn, host, path string) string {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host)
	b := bufio.NewReader(c)
	answer, err := http.ReadResponse(b, &http.Request{Method: "GET"})
	if err != nil {
		return "error"
	}
	if answer.StatusCode != 101 {
		return fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("X-Chaperone-Refusal"))
	}
	io.WriteString(c, "ping\n")
	line, _ := b.ReadString('\n')
	return "101 " + strings.TrimSpace(line)
}

func TestWebSockets(t *testing.T) {
	w := newWorld(t, openedScope)
	for _, host := range []string{"a.test", "https.test"} {
		w.name(host, "127.0.0.2")
	}
	secure := w.serve("127.0.0.2", webSocketSite, "a.test", "https.test")
	plain := w.serve("127.0.0.2", webSocketSite)
	for _, r := range []struct {
		host string
		site *site
		tls  bool
		path string
		want string
	}{
		{"a.test", secure, true, "/ws/ok", "101 echo ping"},
		{"a.test", secure, true, "/ws/no", "403 path"},
		{"a.test", secure, true, "/ws/%6fk", "101 echo ping"},
		{"a.test", plain, false, "/ws/ok", "101 echo ping"},
		{"a.test", plain, false, "/ws/no", "403 path"},
		{"https.test", secure, true, "/ws/ok", "403 scheme"}, // wss where only https is allowed
	} {
		authority := fmt.Sprintf("%s:%d", r.host, r.site.port())
		c, status := w.connect(authority)
		if status != "200" {
			t.Fatalf("%+v: %s", r, status)
		}
		if r.tls {
			c = tls.Client(c, &tls.Config{ServerName: r.host, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		}
		if got := openWebSocket(c, authority, r.path); got != r.want {
			t.Errorf("%s%s tls=%v: got %q, want %q", r.host, r.path, r.tls, got, r.want)
		}
		c.Close()
	}
}

func TestStreaming(t *testing.T) {
	w := newWorld(t, openedScope)
	w.name("a.test", "127.0.0.2")
	more := make(chan struct{})
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(rw, "data: 1\n\n")
		rw.(http.Flusher).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
		}
		io.WriteString(rw, "data: 2\n\n")
	}, "a.test")
	answer, err := w.client(true).Get(fmt.Sprintf("https://a.test:%d/ok/stream", s.port()))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b := bufio.NewReader(answer.Body)
	if line, _ := b.ReadString('\n'); line != "data: 1\n" {
		t.Fatalf("got %q before the stream's end", line)
	}
	close(more)
	if rest, _ := io.ReadAll(b); string(rest) != "\ndata: 2\n\n" {
		t.Errorf("got %q", rest)
	}
}
