package proxy_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/leaktest"
	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

// TestMain fails if anything still runs at the end. A site of the tests lingers
// for half a second over a connection that it has refused.
func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// world is what lies outside of one proxy: names, sites, and what was recorded.
type world struct {
	t     testing.TB
	proxy *proxy.Proxy
	addr  string // of the proxy
	pool  *x509.CertPool
	key   *ecdsa.PrivateKey
	ca    *x509.Certificate

	mu      sync.Mutex
	names   map[string][][]string // host -> the answer of each look-up, the last for ever
	lookups map[string]int
	records []scope.Record
	own     []netip.AddrPort
}

// newWorld serves a proxy for the scope, whose text may say what follows
// `engagement: test`.
func newWorld(t testing.TB, rules string) *world {
	t.Helper()
	return newHastyWorld(t, rules, time.Minute)
}

func newHastyWorld(t testing.TB, rules string, patience time.Duration) *world {
	t.Helper()
	s, err := scope.Parse("test.yaml", []byte("engagement: test\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, names: map[string][][]string{}, lookups: map[string]int{}}
	w.makeCA()
	w.proxy, err = proxy.NewHasty(proxy.Config{
		Scope: s, Resolve: w.resolve, RootCAs: w.pool,
		Own: func() []netip.AddrPort { w.mu.Lock(); defer w.mu.Unlock(); return w.own },
		Record: func(r scope.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.records = append(w.records, r)
		},
	}, patience)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.proxy.Serve(l) }()
	t.Cleanup(func() {
		if err := w.proxy.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

func (w *world) makeCA() {
	w.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "outside"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &w.key.PublicKey, w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ca, _ = x509.ParseCertificate(der)
	w.pool = x509.NewCertPool()
	w.pool.AddCert(w.ca)
}

// certificate is one of the outside world's authority.
func (w *world) certificate(names ...string) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca, &w.key.PublicKey, w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.key}
}

// name makes host resolve to each answer in turn, the last one for ever.
func (w *world) name(host string, answers ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[host] = nil
	for _, a := range answers {
		w.names[host] = append(w.names[host], strings.Fields(a))
	}
}

func (w *world) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups[host]++
	answers := w.names[host]
	if len(answers) == 0 {
		return nil, errors.New("no such host")
	}
	var addrs []netip.Addr
	for _, a := range answers[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if len(answers) > 1 {
		w.names[host] = answers[1:]
	}
	return addrs, nil
}

// recorded is what was decided so far, as "host:port code rule".
func (w *world) recorded() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, r := range w.records {
		list = append(list, fmt.Sprintf("%s:%d %s %s", r.Host, r.Port, r.Code, r.Rule))
	}
	return list
}

// site is a server of the outside world, and what reached it.
type site struct {
	addr netip.AddrPort
	mu   sync.Mutex
	seen []string // "METHOD path"
	head []http.Header
	host []string
}

func (s *site) port() int { return int(s.addr.Port()) }

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// serve runs a site at ip, over TLS where names are given.
func (w *world) serve(ip string, h http.HandlerFunc, names ...string) *site {
	w.t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		w.t.Fatal(err)
	}
	s := &site{addr: netip.MustParseAddrPort(l.Addr().String())}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.RequestURI)
		s.head = append(s.head, r.Header.Clone())
		s.host = append(s.host, r.Host)
		s.mu.Unlock()
		h(rw, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(names) > 0 {
			server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{w.certificate(names...)}}
			server.ServeTLS(l, "", "")
		} else {
			server.Serve(l)
		}
	}()
	w.t.Cleanup(func() { server.Close(); <-done })
	return s
}

func hello(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "hello "+r.Host) }

// client is a browser of the box: its only way out is the proxy. It trusts the
// outside world, or the run's authority.
func (w *world) client(http2 bool) *http.Client {
	via, _ := url.Parse("http://" + w.addr)
	transport := &http.Transport{
		Proxy: http.ProxyURL(via), ForceAttemptHTTP2: http2,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // which certificate comes is asserted where it matters
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch answers "STATUS refusal-code body".
func fetch(t testing.TB, c *http.Client, method, target string, header ...string) string {
	t.Helper()
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if code := answer.Header.Get("X-Chaperone-Refusal"); code != "" {
		return fmt.Sprintf("%d %s", answer.StatusCode, code)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, body)
}

// dial opens a connection to the proxy.
func (w *world) dial() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// connect opens a tunnel and answers the status of the proxy.
func (w *world) connect(authority string) (net.Conn, string) {
	w.t.Helper()
	c := w.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	answer, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: "CONNECT"})
	if err != nil {
		return c, "error: " + err.Error()
	}
	return c, strings.TrimSpace(fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("X-Chaperone-Refusal")))
}
