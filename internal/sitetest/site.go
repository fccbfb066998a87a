// Package sitetest gives tests a small web site whose pages they write
// themselves, and a real Chromium in the real box, behind the real proxy, whose
// scope is that site.
//
// A [Site] listens on 127.0.0.1 on a port of its own, over HTTP or TLS, and
// counts what it is asked for, since the truth of most tests is what did or
// didn't reach the server. A [Run] is one box with its browser; [Start] makes it,
// [Browser] ties it to a test. Test binaries that use it call jail.Init first in
// their TestMain.
//
// [Nginx] is a site as others run one: real files behind Debian's nginx, with the
// operator's own configuration in it.
//
// It never stands in for our own code: everything it starts is what ships.
//
// Floor: test kit.
package sitetest

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Site is a web site for one test.
type Site struct {
	server *httptest.Server
	closed chan struct{}

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	hits  map[string]int
}

// New starts a site that ends with the test.
func New(t testing.TB) *Site {
	s := Make(false)
	t.Cleanup(s.Close)
	return s
}

// NewTLS starts one over TLS, with a certificate for 127.0.0.1 that [Site.Roots]
// verifies.
func NewTLS(t testing.TB) *Site {
	s := Make(true)
	t.Cleanup(s.Close)
	return s
}

// Make starts a site that its caller closes: for one that a whole test binary
// shares.
func Make(tls bool) *Site {
	s := &Site{closed: make(chan struct{}), pages: make(map[string]http.HandlerFunc), hits: make(map[string]int)}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if tls {
		s.server.StartTLS()
	} else {
		s.server.Start()
	}
	return s
}

// Close ends the site at once, with the requests that a handler still holds.
func (s *Site) Close() {
	close(s.closed)
	s.server.CloseClientConnections()
	s.server.Close()
}

// URL is the address of a path: "/" and what follows, a query too.
func (s *Site) URL(path string) string { return s.server.URL + path }

// Host is "127.0.0.1:PORT".
func (s *Site) Host() string {
	return strings.TrimPrefix(strings.TrimPrefix(s.server.URL, "http://"), "https://")
}

// Port is the port alone.
func (s *Site) Port() string {
	u, err := url.Parse(s.server.URL)
	if err != nil {
		panic(err) // httptest made it
	}
	return u.Port()
}

// TLS tells whether the site is served over TLS.
func (s *Site) TLS() bool { return s.server.TLS != nil }

// Roots verifies a TLS site's certificate.
func (s *Site) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	if s.TLS() {
		pool.AddCert(s.server.Certificate())
	}
	return pool
}

// Handle serves a path; the query doesn't count. A later one replaces it.
func (s *Site) Handle(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = h
}

// Page serves an HTML document in standards mode.
func (s *Site) Page(path, html string) {
	s.Handle(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// A browser that went away meanwhile is the test's business, not ours.
		_, _ = w.Write([]byte("<!doctype html>\n" + html))
	})
}

// Redirect answers a path with 302 and a location.
func (s *Site) Redirect(path, location string) {
	s.Handle(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, location, http.StatusFound) })
}

// Hang takes requests of a path and never answers them.
func (s *Site) Hang(path string) {
	s.Handle(path, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
	})
}

// Hits counts the requests that a path has had.
func (s *Site) Hits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hits[r.URL.Path]++
	page := s.pages[r.URL.Path]
	s.mu.Unlock()
	if page == nil {
		http.NotFound(w, r)
		return
	}
	page(w, r)
}
