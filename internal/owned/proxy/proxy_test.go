package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

const openScope = `
allow:
  - host: a.test
    ports: "*"
    resolves_to: [127.0.0.0/8]
  - host: b.test
    ports: "*"
    resolves_to: [127.0.0.0/8]
  - host: 127.0.0.5
    ports: "*"
  - host: localhost
    ports: "*"
  - host: special.test
    ports: "*"
`

func TestPlainRequests(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	w.name("b.test", "127.0.0.3")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(rw, r, "http://evil.test/", http.StatusFound)
		case "/fake":
			rw.Header().Set("X-Chaperone-Refusal", "no_rule")
			rw.Header().Set("Trailer", "X-After")
			io.WriteString(rw, "x")
			rw.Header().Set("X-After", "1")
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s", r.Host, body)
		}
	})
	c := w.client(false)
	base := fmt.Sprintf("http://a.test:%d", s.port())
	if got, want := fetch(t, c, "GET", base+"/x?q=1", "X-Forwarded-For", "1.2.3.4", "X-HTTP-Method-Override", "DELETE"), fmt.Sprintf("200 a.test:%d ", s.port()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	answer, err := c.Post(base+"/post", "text/plain", strings.NewReader(strings.Repeat("y", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if len(body) < 1<<20 {
		t.Errorf("a megabyte became %d bytes", len(body))
	}
	// Each hop of a redirect is a request of its own.
	if got := fetch(t, c, "GET", base+"/redirect"); !strings.HasPrefix(got, "302") {
		t.Errorf("got %q", got)
	}
	if got := fetch(t, c, "GET", "http://evil.test/"); got != "403 no_rule" {
		t.Errorf("the redirect's hop: got %q", got)
	}
	// Only the proxy says that it refused.
	if got := fetch(t, c, "GET", base+"/fake"); got != "200 x" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"GET /x?q=1", "POST /post", "GET /redirect", "GET /fake"}, s.requests()); diff != "" {
		t.Error(diff)
	}
	if s.head[0].Get("X-Forwarded-For") != "1.2.3.4" || s.head[0].Get("X-HTTP-Method-Override") != "DELETE" {
		t.Errorf("a page's own headers were lost without any rule that asks for it: %v", s.head[0])
	}
	for _, h := range s.head {
		if h.Get("Via") != "" || h.Get("Proxy-Connection") != "" {
			t.Errorf("the site was told of the proxy: %v", h)
		}
	}
}

func TestRefusalTellsRuleAndFix(t *testing.T) {
	w := newWorld(t, "allow:\n  - host: a.test\n    resolves_to: [127.0.0.0/8]\n")
	w.name("a.test", "127.0.0.2")
	c := w.client(false)
	get := func(accept, url string) (string, http.Header) {
		r, _ := http.NewRequest("GET", url, nil)
		r.Header.Set("Accept", accept)
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return string(body), answer.Header
	}
	text, header := get("*/*", "http://a.test:8080/secret?token=1")
	want := "The scope of this run doesn't allow this request.\nReason: port\nRule: allow[0] a.test\nTo change that: add 8080 to ports of allow[0] a.test\n"
	if diff := cmp.Diff(want, text); diff != "" || header.Get("X-Chaperone-Refusal") != "port" || header.Get("Cache-Control") != "no-store" {
		t.Error(diff, header)
	}
	page, header := get("text/html,*/*", "http://a.test:8080/secret?token=1")
	if !strings.Contains(page, "add 8080 to ports") || strings.Contains(page, "secret") || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("page: %s", page)
	}
	if got := fetch(t, c, "GET", "http://a.test/"); got != "502 unreachable" {
		t.Errorf("nothing listens there: got %q", got)
	}
}

// One look-up per connection; one bad address refuses the name; what was
// judged is what is dialled.
func TestRebinding(t *testing.T) {
	w := newWorld(t, `
allow:
  - host: a.test
    ports: "*"
    resolves_to: [127.0.0.2]
  - host: mixed.test
    ports: "*"
    resolves_to: [127.0.0.2]
`)
	good := w.serve("127.0.0.2", hello, "a.test")
	bad, err := net.Listen("tcp", fmt.Sprintf("127.0.0.66:%d", good.port()))
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	touched := make(chan struct{}, 100)
	go func() {
		for {
			c, err := bad.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			c.Close()
		}
	}()
	w.name("a.test", "127.0.0.2", "127.0.0.66", "127.0.0.2", "127.0.0.66")
	var got []string
	for range 4 {
		c, status := w.connect(fmt.Sprintf("a.test:%d", good.port()))
		got = append(got, status)
		c.Close()
	}
	if diff := cmp.Diff([]string{"200", "403 address", "200", "403 address"}, got); diff != "" {
		t.Error(diff)
	}
	if w.lookups["a.test"] != 4 {
		t.Errorf("%d look-ups for 4 connections", w.lookups["a.test"])
	}
	for _, order := range []string{"127.0.0.2 127.0.0.66", "127.0.0.66 127.0.0.2"} {
		w.name("mixed.test", order)
		if _, status := w.connect(fmt.Sprintf("mixed.test:%d", good.port())); status != "403 address" {
			t.Errorf("one bad address of %s: %s", order, status)
		}
	}
	select {
	case <-touched:
		t.Error("the denied address was dialled")
	default:
	}
}

func TestSpecialAddresses(t *testing.T) {
	w := newWorld(t, openScope)
	c := w.client(false)
	for _, a := range strings.Fields(`0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.1.1 172.16.0.1 192.0.0.1 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
		255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 2001::1 2001:db8::1 2002:7f00:1:: fc00::1 fe80::1 fe80::1%lo ff02::1`) {
		w.name("special.test", a)
		if got := fetch(t, c, "GET", "http://special.test/"); got != "403 address" {
			t.Errorf("plain, %s: got %q", a, got)
		}
		if _, status := w.connect("special.test:443"); status != "403 address" {
			t.Errorf("tunnel, %s: got %q", a, status)
		}
		c.CloseIdleConnections()
	}
	for _, a := range strings.Fields("169.254.169.254 fd00:ec2::254 100.100.100.200 168.63.129.16 64:ff9b::a9fe:a9fe") {
		w.name("special.test", a)
		if _, status := w.connect("special.test:80"); status != "403 metadata" {
			t.Errorf("tunnel, %s: got %q", a, status)
		}
	}
	w.name("special.test")
	if _, status := w.connect("special.test:443"); status != "502 unresolvable" {
		t.Errorf("no address: got %q", status)
	}
	for _, r := range w.recorded() {
		if strings.Contains(r, "allowed") {
			t.Errorf("recorded as allowed: %s", r)
		}
	}
}

// Addresses of this machine's interfaces are no business of a name either.
func TestOwnInterfacesAndListeners(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	everywhere := w.serve("0.0.0.0", hello)
	w.mu.Lock()
	w.own = []netip.AddrPort{s.addr, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(everywhere.port()))}
	w.mu.Unlock()
	c := w.client(false)
	for _, target := range []string{
		fmt.Sprintf("http://a.test:%d/", s.port()), fmt.Sprintf("http://a.test:%d/", everywhere.port()), fmt.Sprintf("http://127.0.0.5:%d/", everywhere.port()),
		"http://localhost:" + w.addr[strings.LastIndex(w.addr, ":")+1:] + "/", // the proxy itself
	} {
		w.name("localhost", "127.0.0.1")
		if got := fetch(t, c, "GET", target); got != "403 own_listener" {
			t.Errorf("%s: got %q", target, got)
		}
		c.CloseIdleConnections()
	}
	if len(s.requests())+len(everywhere.requests()) > 0 {
		t.Error("an own listener was reached")
	}
}

func TestMalformedRequests(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	port := s.port()
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                                // not a proxy request
		fmt.Sprintf("GET https://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                            // https in the clear
		fmt.Sprintf("GET ws://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                               // goes by CONNECT
		"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                    //
		fmt.Sprintf("GET http://u:p@a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                         // userinfo
		fmt.Sprintf("GET http://evil.test\\@a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                 // backslash
		"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                            //
		"GET http:/// HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                         //
		"CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                       // no port
		"CONNECT u@a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                 //
		"CONNECT http://a.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                           //
		"CONNECT a.test:0 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                     //
		"CONNECT a.test:99999 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                 //
		"CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                           //
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", port), // two lengths
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nX : y\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nX: %s\r\n\r\n", port, strings.Repeat("y", 100<<10)),
	} {
		c := w.dial()
		io.WriteString(c, head)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.60q: %v", head, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("%.60q: %s", head, answer.Status)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("the site was reached: %v", got)
	}
}

// A request in a request's body stays in the body, however its length is told.
func TestSmuggling(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	inner := fmt.Sprintf("GET /smuggled HTTP/1.1\r\nHost: a.test:%d\r\n\r\n", s.port())
	for _, head := range []string{
		fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner), // CL.TE
		fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
		fmt.Sprintf("Connection: Content-Length\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
	} {
		c := w.dial()
		fmt.Fprintf(c, "POST http://a.test:%d/outer HTTP/1.1\r\nHost: ignored.test\r\nConnection: close\r\n%s", s.port(), head)
		io.Copy(io.Discard, c)
	}
	for _, r := range s.requests() {
		if r != "POST /outer" {
			t.Errorf("the site saw %q", r)
		}
	}
	for _, h := range s.host {
		if h != fmt.Sprintf("a.test:%d", s.port()) {
			t.Errorf("the site saw Host %q: the URL's must win", h)
		}
	}
}

func TestClosedTunnels(t *testing.T) {
	w := newWorld(t, openScope+"  - host: tls.test\n    schemes: [https, wss]\n    ports: \"*\"\n    resolves_to: [127.0.0.0/8]\n")
	w.name("a.test", "127.0.0.2")
	w.name("tls.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello, "a.test", "b.test", "127.0.0.5", "tls.test")
	c := w.client(true)
	if got, want := fetch(t, c, "GET", fmt.Sprintf("https://a.test:%d/x", s.port())), fmt.Sprintf("200 hello a.test:%d", s.port()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	before := len(s.requests())
	for name, config := range map[string]*tls.Config{
		"another name": {ServerName: "b.test"},
		"no name":      {ServerName: ""},
		"a suffix":     {ServerName: "test"},
		"a prefix":     {ServerName: "a.test.evil.test"},
		"old ESNI":     {ServerName: "a.test"},
	} {
		raw, status := w.connect(fmt.Sprintf("a.test:%d", s.port()))
		if status != "200" {
			t.Fatalf("%s: %s", name, status)
		}
		config.InsecureSkipVerify = true
		conn := net.Conn(raw)
		if name == "old ESNI" {
			conn = &mangled{Conn: raw}
		}
		if err := tls.Client(conn, config).Handshake(); err == nil {
			t.Errorf("%s: the tunnel carried it", name)
		}
	}
	// Anything but TLS in a tunnel for TLS.
	raw, _ := w.connect(fmt.Sprintf("tls.test:%d", s.port()))
	io.WriteString(raw, "GET / HTTP/1.1\r\nHost: tls.test\r\n\r\n")
	if n, err := raw.Read(make([]byte, 1)); err == nil {
		t.Errorf("plain bytes were carried: %d", n)
	}
	if got := s.requests()[before:]; len(got) != 0 {
		t.Errorf("the site was reached: %v", got)
	}
	want := map[string]int{"sni": 5, "scheme": 1}
	got := map[string]int{}
	for _, r := range w.recorded() {
		if code := strings.Fields(r)[1]; code != "allowed" {
			got[code]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A name in other letters is the same name; a ClientHello in pieces is one.
	raw, _ = w.connect(fmt.Sprintf("A.test.:%d", s.port()))
	secure := tls.Client(&trickle{Conn: raw}, &tls.Config{ServerName: "a.TEST", RootCAs: w.pool})
	if err := secure.Handshake(); err != nil {
		t.Errorf("in pieces: %v", err)
	}
}

// Chromium fills every ClientHello with an encrypted_client_hello extension of
// noise. It passes, byte for byte, where the name outside of it is the tunnel's,
// and nothing else does.
func TestEncryptedClientHello(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	arrived := make(chan []byte, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(c)
			c.Close()
			arrived <- data
		}
	}()
	for _, r := range []struct {
		name   string
		passes bool
	}{{"a.test", true}, {"public.test", false}} {
		hello := clientHello(t, &tls.Config{ServerName: r.name})
		at := bytes.Index(hello, []byte{0, 0x12, 0, 0}) // signed_certificate_timestamp, empty
		if at < 0 {
			t.Fatal("no extension to change")
		}
		hello[at], hello[at+1] = 0xfe, 0x0d
		c, status := w.connect(fmt.Sprintf("a.test:%d", l.Addr().(*net.TCPAddr).Port))
		if status != "200" {
			t.Fatal(status)
		}
		c.Write(hello)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		got := <-arrived
		if r.passes && !bytes.Equal(got, hello) {
			t.Errorf("outside it names %s: %d of %d bytes arrived", r.name, len(got), len(hello))
		}
		if !r.passes && len(got) > 0 {
			t.Errorf("outside it names %s: %d bytes arrived", r.name, len(got))
		}
	}
}

// trickle sends a few bytes at a time.
type trickle struct{ net.Conn }

func (c *trickle) Write(b []byte) (int, error) {
	for i := 0; i < len(b); i += 100 {
		if _, err := c.Conn.Write(b[i:min(i+100, len(b))]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// mangled turns the first ClientHello's session ticket extension into ESNI.
type mangled struct {
	net.Conn
	done bool
}

func (c *mangled) Write(b []byte) (int, error) {
	if !c.done {
		c.done = true
		b = slices.Clone(b)
		for i := range len(b) - 4 {
			if b[i] == 0 && b[i+1] == 0x12 && b[i+2] == 0 && b[i+3] == 0 { // signed_certificate_timestamp, empty
				b[i], b[i+1] = 0xff, 0xce
				break
			}
		}
	}
	return c.Conn.Write(b)
}

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

// In an opened tunnel every request is for the tunnel's host.
func TestHostInATunnel(t *testing.T) {
	w := newWorld(t, openedScope+"  - host: plain.test\n    ports: \"*\"\n    schemes: [http, ws]\n    resolves_to: [127.0.0.0/8]\n")
	w.name("plain.test", "127.0.0.2")
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	port := s.port()
	for head, want := range map[string]string{
		fmt.Sprintf("GET /x HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port):                           "200 ",
		fmt.Sprintf("GET /x HTTP/1.1\r\nHost: PLAIN.test.:%d\r\n\r\n", port):                          "200 ",
		"GET /x HTTP/1.1\r\nHost: plain.test\r\n\r\n":                                                 "403 sni",
		fmt.Sprintf("GET /x HTTP/1.1\r\nHost: a.test:%d\r\n\r\n", port):                               "403 sni",
		fmt.Sprintf("GET http://a.test:%d/x HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port, port):     "403 sni",
		fmt.Sprintf("GET http://plain.test:%d/x HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port, port): "403 malformed",
		fmt.Sprintf("OPTIONS * HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port):                        "403 malformed",
		fmt.Sprintf("GET /a\\b HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port):                        "403 malformed",
		"GET /x HTTP/1.0\r\n\r\n": "403 sni",
		fmt.Sprintf("CONNECT a.test:%d HTTP/1.1\r\nHost: a.test:%d\r\n\r\n", port, port):                           "403 sni",
		fmt.Sprintf("CONNECT plain.test:%d HTTP/1.1\r\nHost: plain.test:%d\r\n\r\n", port, port):                   "403 malformed",
		fmt.Sprintf("GET /x HTTP/1.1\r\nHost: plain.test:%d\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", port): "200 ",
	} {
		c, status := w.connect(fmt.Sprintf("plain.test:%d", port))
		if status != "200" {
			t.Fatal(status)
		}
		io.WriteString(c, head)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%q: %v", head, err)
			continue
		}
		answer.Body.Close()
		if got := fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("X-Chaperone-Refusal")); got != want {
			t.Errorf("%q: got %q, want %q", head, got, want)
		}
	}
	for _, h := range s.head {
		if h.Get("Upgrade") != "" {
			t.Error("h2c reached the site")
		}
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

// A name whose allowed address depends on the path is judged per request.
func TestAddressGoesWithTheRule(t *testing.T) {
	w := newWorld(t, `
allow:
  - host: a.test
    ports: "*"
    paths: ["/in/**"]
    resolves_to: [127.0.0.2]
  - host: a.test
    ports: "*"
    methods: [GET]
`)
	w.name("a.test", "127.0.0.2")
	secure, plain := w.serve("127.0.0.2", hello, "a.test"), w.serve("127.0.0.2", hello)
	c := w.client(false)
	for _, base := range []string{fmt.Sprintf("https://a.test:%d", secure.port()), fmt.Sprintf("http://a.test:%d", plain.port())} {
		for _, r := range [][2]string{{"/in/x", "200"}, {"/out", "403 address"}, {"/in/y", "200"}} {
			if got := fetch(t, c, "GET", base+r[0]); !strings.HasPrefix(got, r[1]) {
				t.Errorf("%s%s: got %q, want %q", base, r[0], got, r[1])
			}
		}
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

// Decisions are recorded when they are made, not when a connection ends.
func TestRecordedAtTheStart(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello, "a.test")
	c, status := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	if status != "200" {
		t.Fatal(status)
	}
	defer c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.records) != 1 {
		t.Fatalf("%d records while the tunnel is open", len(w.records))
	}
	got := w.records[0]
	want := scope.Record{
		At: got.At, Layer: "proxy", Host: "a.test", Port: s.port(), Method: "CONNECT", Address: netip.MustParseAddr("127.0.0.2"),
		Decision: scope.Decision{Allowed: true, Code: "allowed", Rule: "allow[0] a.test"},
	}
	if got != want || time.Since(got.At) > time.Minute {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// At not_after everything open is closed, and nothing new opens.
func TestTunnelsEndWithTheWindow(t *testing.T) {
	end := time.Now().Add(1500 * time.Millisecond)
	w := newWorld(t, openScope+"not_after: "+end.UTC().Format(time.RFC3339Nano)+"\n")
	w.name("a.test", "127.0.0.2")
	hang := func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s, plain := w.serve("127.0.0.2", hang, "a.test"), w.serve("127.0.0.2", hang)
	raw, status := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	if status != "200" {
		t.Fatal(status)
	}
	c := tls.Client(raw, &tls.Config{ServerName: "a.test", RootCAs: w.pool})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan string)
	go func() { waiting <- fetch(t, w.client(false), "GET", fmt.Sprintf("http://a.test:%d/", plain.port())) }()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := c.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); err == nil || ok && timeout.Timeout() {
		t.Errorf("the tunnel outlived not_after: %v", err)
	}
	if time.Now().Before(end) {
		t.Error("closed too early")
	}
	if got := <-waiting; !strings.HasPrefix(got, "error") {
		t.Errorf("a request outlived not_after: %q", got)
	}
	if _, status := w.connect(fmt.Sprintf("a.test:%d", s.port())); status != "403 window" {
		t.Errorf("a new tunnel: %s", status)
	}
}

// A header that never ends, and a tunnel that never says anything, don't keep
// others out; 1,000 connections at once are served, and one over the limit is
// told so.
func TestManyAndSlowConnections(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	var slow []net.Conn
	for i := range 900 {
		c := w.dial()
		if i%2 == 0 {
			io.WriteString(c, "GET http://a.test/ HTT")
		}
		slow = append(slow, c)
	}
	var wait sync.WaitGroup
	results := make(chan string, 100)
	for range 100 {
		wait.Go(func() {
			c := w.client(false)
			results <- fetch(t, c, "GET", fmt.Sprintf("http://a.test:%d/", s.port()))
			c.CloseIdleConnections()
		})
	}
	wait.Wait()
	close(results)
	for got := range results {
		if !strings.HasPrefix(got, "200") {
			t.Fatalf("beside 900 slow ones: %q", got)
		}
	}
	full := false
	for range 300 {
		c := w.dial()
		slow = append(slow, c)
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		b := make([]byte, 512)
		if n, _ := c.Read(b); strings.Contains(string(b[:n]), "X-Chaperone-Refusal: too_many") {
			full = true
			break
		}
	}
	if !full {
		t.Error("there is no limit of connections")
	}
	for _, c := range slow {
		c.Close()
	}
}

// Whichever side goes first, the other one is told and nothing is left.
func TestEitherSideEndsEarly(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	gone := make(chan struct{}, 1)
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			io.WriteString(rw, "half")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/wait":
			<-r.Context().Done()
			gone <- struct{}{}
		}
	})
	c := w.client(false)
	base := fmt.Sprintf("http://a.test:%d", s.port())
	answer, err := c.Get(base + "/cut")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("half an answer passed for a whole one")
	}
	answer.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", base+"/wait", nil)
	if _, err := c.Do(r); err == nil {
		t.Error("no error for the client that left")
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the site still works for a client that left")
	}
	// An upstream that closes at once ends the tunnel.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	raw, _ := w.connect(fmt.Sprintf("a.test:%d", l.Addr().(*net.TCPAddr).Port))
	if err := tls.Client(raw, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("a handshake with nobody")
	}
}

// Close ends what is open and leaves nothing running (see TestMain).
func TestClose(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "a.test")
	raw, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	c := tls.Client(raw, &tls.Config{ServerName: "a.test", RootCAs: w.pool})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := w.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel outlived the proxy")
	}
	if err := w.proxy.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.proxy.Serve(l); err == nil {
		t.Error("served after Close")
	}
	if _, err := proxy.New(proxy.Config{}); err == nil {
		t.Error("a proxy without a scope")
	}
}
