package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
