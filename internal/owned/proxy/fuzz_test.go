package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/owned/proxy"
)

// clientHello is the first flight of Go's own TLS client.
func clientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tls.Client(there, config).Handshake()
		there.Close()
	}()
	here.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 16<<10)
	n, err := here.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	here.Close()
	<-done
	return buf[:n]
}

// FuzzClientHello: the reader never takes more than the ClientHello, and where
// Go's own TLS server reads a name, ours reads the same one.
func FuzzClientHello(f *testing.F) {
	for _, name := range []string{"a.test", "", "xn--bcher-kva.example", strings.Repeat("a.", 100) + "test"} {
		hello := clientHello(f, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		f.Add(hello)
		f.Add(append(hello[:len(hello):len(hello)], 23, 3, 3, 0, 1, 0))
		// In two records.
		half := len(hello) / 2
		split := append([]byte{22, 3, 1, byte((half - 5) >> 8), byte(half - 5)}, hello[5:half]...)
		rest := hello[half:]
		split = append(append(split, 22, 3, 1, byte(len(rest)>>8), byte(len(rest))), rest...)
		f.Add(split)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		name, named, raw, err := proxy.ReadHello(r)
		if err != nil {
			return
		}
		if taken := len(data) - r.Len(); !bytes.Equal(raw, data[:taken]) {
			t.Fatalf("answered other bytes than it read")
		}
		if named == (name == "") {
			t.Fatalf("named %v, name %q", named, name)
		}
		if theirs, ok := goReads(raw); ok && theirs != strings.TrimSuffix(name, ".") {
			t.Fatalf("%q here, %q to crypto/tls", name, theirs)
		}
	})
}

// goReads is the server name that crypto/tls reads, if it reads the hello.
func goReads(raw []byte) (name string, ok bool) {
	stop := errors.New("enough")
	server := tls.Server(oneSided{bytes.NewReader(raw)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, stop
	}})
	server.HandshakeContext(context.Background())
	return name, ok
}

// oneSided is a connection whose other end only listens.
type oneSided struct{ io.Reader }

func (oneSided) Write(b []byte) (int, error)      { return len(b), nil }
func (oneSided) Close() error                     { return nil }
func (oneSided) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (oneSided) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (oneSided) SetDeadline(time.Time) error      { return nil }
func (oneSided) SetReadDeadline(time.Time) error  { return nil }
func (oneSided) SetWriteDeadline(time.Time) error { return nil }

// FuzzPlainRequest: whatever bytes a box sends, a site sees only requests for
// its own name, with an allowed method, below the allowed path.
func FuzzPlainRequest(f *testing.F) {
	w := newWorld(f, `
allow:
  - host: a.test
    ports: "*"
    paths: ["/ok/**"]
    methods: [GET, POST]
    resolves_to: [127.0.0.2]
deny:
  - host: a.test
    paths: ["/ok/secret/**", "/ok/secret"]
`)
	w.name("a.test", "127.0.0.2")
	var mu sync.Mutex
	var wrong []string
	var s *site
	s = w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		// The site's own reading of the request, by another parser than ours.
		path := r.URL.Path
		bad := r.Method != "GET" && r.Method != "POST" || r.Host != fmt.Sprintf("a.test:%d", s.port()) ||
			!strings.HasPrefix(path, "/ok/") && !strings.Contains(path, "/..") && !strings.Contains(path, "/./") || strings.HasPrefix(path, "/ok/secret/") && !strings.Contains(path, "/.")
		if bad {
			mu.Lock()
			wrong = append(wrong, fmt.Sprintf("%s %s of %s", r.Method, r.RequestURI, r.Host))
			mu.Unlock()
		}
	})
	base := fmt.Sprintf("a.test:%d", s.port())
	for _, seed := range []string{
		"GET http://%s/ok/x HTTP/1.1\r\nHost: x\r\n\r\n", "POST http://%s/ok/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "GET http://%s/ok/secret/x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://%s/ok/%%2e%%2e/x HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT %[1]s HTTP/1.1\r\nHost: x\r\n\r\nGET /ok/x HTTP/1.1\r\nHost: %[1]s\r\n\r\n", "CONNECT %[1]s HTTP/1.1\r\n\r\nGET //%[1]s/ok HTTP/1.1\r\nHost: %[1]s\r\n\r\n",
		"POST http://%s/ok/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET http://%[1]s/ok/y HTTP/1.1\r\nHost: y\r\n\r\n", "DELETE http://%s/ok/x HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add(strings.ReplaceAll(fmt.Sprintf(seed, base), base, "HOST"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, strings.ReplaceAll(text, "HOST", base))
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 {
			t.Fatalf("the site saw %q", wrong)
		}
	})
}
