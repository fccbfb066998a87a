package corpus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// siteHosts are the names that the scope under test allows.
var siteHosts = []string{"in.test", "special.in.test", "meta.in.test", "mixed.in.test", "rebind.in.test"}

// sighting is one thing seen outside the box that the scope doesn't allow.
type sighting struct {
	Vector string // "" where nothing tells which vector it was
	How    string // "http GET fetch.out.test:443", "udp 20.1.0.9:3478", …
}

// sinks is the corpus' internet: every address answers, on the ports listened
// on, and whatever arrives outside the scope is written down.
type sinks struct {
	servers []io.Closer
	cert    tls.Certificate
	roots   *x509.CertPool
	spki    string
	wait    sync.WaitGroup

	mu      sync.Mutex
	seen    []sighting
	pages   map[string]Vector       // what /v/<name> serves
	byAddr  map[netip.Addr]string   // the vectors' own addresses
	lookups int                     // of rebind.in.test
	own     map[netip.AddrPort]bool // the corpus' own listeners, which only its raw vectors dial
}

// listenPorts are the TCP ports that the sinks answer on, and whether by TLS.
var listenPorts = map[int]bool{80: false, 443: true, 8443: true, 8080: false, 7080: false}

// openSinks starts every sink, and the sniffer. The caller is in a world made by
// [Enter].
func openSinks(vectors []Vector) (*sinks, error) {
	s := &sinks{pages: map[string]Vector{}, byAddr: map[netip.Addr]string{}, own: map[netip.AddrPort]bool{}}
	for _, v := range vectors {
		s.pages[v.Name] = v
		s.byAddr[v.addr()] = v.Name
	}
	if err := s.certify(); err != nil {
		return nil, err
	}
	for port, secure := range listenPorts {
		server, err := s.listen(port, secure)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.servers = append(s.servers, server)
	}
	dns, err := net.ListenPacket("udp", ":53")
	if err != nil {
		s.Close()
		return nil, err
	}
	s.servers = append(s.servers, dns)
	s.wait.Go(func() { s.answerNames(dns) })
	sniffer, err := openSniffer(s.packet)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.servers = append(s.servers, sniffer)
	s.wait.Go(sniffer.run)
	return s, nil
}

// listen starts a sink on one TCP port of every address.
func (s *sinks) listen(port int, secure bool) (io.Closer, error) {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	if secure {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{s.cert}, NextProtos: []string{"h2", "http/1.1"}}
	}
	s.wait.Go(func() {
		if secure {
			_ = server.ServeTLS(l, "", "") // ends when the server is closed
			return
		}
		_ = server.Serve(l)
	})
	return sink{server, l}, nil
}

// sink closes its listener itself: a server that wasn't serving yet would do so
// only later.
type sink struct {
	*http.Server
	listener net.Listener
}

func (s sink) Close() error {
	_ = s.listener.Close()
	return s.Server.Close()
}

// Close ends every sink and waits for them.
func (s *sinks) Close() error {
	for _, c := range s.servers {
		_ = c.Close()
	}
	s.wait.Wait()
	return nil
}

// certify makes the one certificate that all sinks present.
func (s *sinks) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "containment corpus"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"in.test", "*.in.test", "*.out.test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(parsed)
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	s.spki = base64.StdEncoding.EncodeToString(sum[:])
	s.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return nil
}

var hitName = regexp.MustCompile(`/hit/([a-z0-9-]+)`)

// serve answers everything that reaches any sink.
func (s *sinks) serve(w http.ResponseWriter, r *http.Request) {
	if how, outside := outsideScope(r); outside {
		name := ""
		if m := hitName.FindStringSubmatch(strings.ReplaceAll(strings.ToLower(r.RequestURI), "%2f", "/")); m != nil {
			name = m[1]
		}
		s.note(sighting{name, how})
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Headers", "*")
	w.Header().Set("Access-Control-Allow-Methods", "*")
	query := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Path, "/v/"):
		s.page(w, strings.TrimPrefix(r.URL.Path, "/v/"))
	case r.URL.Path == "/echo":
		w.Header().Set("Content-Type", query.Get("type"))
		w.Header().Set("Service-Worker-Allowed", "/")
		_, _ = io.WriteString(w, query.Get("body"))
	case r.URL.Path == "/redir":
		status, err := strconv.Atoi(query.Get("status"))
		if err != nil {
			status = http.StatusFound
		}
		w.Header().Set("Location", query.Get("to"))
		w.WriteHeader(status)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>sink</title>")
	}
}

// outsideScope tells whether a request that arrived is one that the scope under
// test doesn't allow, and says how it came.
func outsideScope(r *http.Request) (string, bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return "http on " + local.String(), true
	}
	path, _, _ := strings.Cut(strings.ToLower(r.RequestURI), "?")
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	in := at.Addr().Unmap() == siteAddr && (at.Port() == 80 || at.Port() == 443) &&
		slices.Contains(siteHosts, strings.ToLower(host)) &&
		(r.TLS == nil || r.TLS.ServerName == "" || slices.Contains(siteHosts, r.TLS.ServerName)) &&
		slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, r.Method) &&
		!strings.Contains(path, "closed") &&
		r.Header.Get("X-HTTP-Method-Override") == ""
	return fmt.Sprintf("http %s %s at %s", r.Method, host, at), !in
}

// page serves the in-scope page of one vector.
func (s *sinks) page(w http.ResponseWriter, name string) {
	s.mu.Lock()
	v, ok := s.pages[name]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "no such vector", http.StatusNotFound)
		return
	}
	for k, value := range v.Header {
		w.Header().Set(k, v.fill(value))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>%s</title>%s<body>", html.EscapeString(name), v.fill(v.Head))
	if v.Script != "" {
		fmt.Fprintf(w, "<script>%s\n(async () => { try { %s } catch {} })()</script>", v.fill(prelude), v.Script)
	}
}

// prelude is what the scripts of the vectors see.
const prelude = `const NAME = "{{NAME}}", OUT = "{{OUT}}", HTTP = "{{HTTP}}", WSS = "{{WSS}}", WS = "{{WS}}", HIT = "{{HIT}}", ADDR = "{{ADDR}}";
const echo = (type, body) => location.origin + "/echo?type=" + encodeURIComponent(type) + "&body=" + encodeURIComponent(body).replaceAll("'", "%27");
const redir = (to, status) => location.origin + "/redir?status=" + status + "&to=" + encodeURIComponent(to);`

// note writes a sighting down.
func (s *sinks) note(x sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) < 100_000 {
		s.seen = append(s.seen, x)
	}
}

// take returns what was seen since the last call.
func (s *sinks) take() []sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.seen
	s.seen = nil
	return out
}

// has tells whether the vector was seen since the last take, and how.
func (s *sinks) has(name string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen {
		if x.Vector == name {
			return x.How, true
		}
	}
	return "", false
}

// packet judges one packet that the sniffer saw begin a conversation: a TCP SYN
// or a datagram. Only TCP to the site's two ports is in scope.
func (s *sinks) packet(protocol string, to netip.AddrPort) {
	addr := to.Addr().Unmap()
	if protocol == "tcp" && addr == siteAddr && (to.Port() == 80 || to.Port() == 443) {
		return
	}
	s.mu.Lock()
	name, own := s.byAddr[addr], s.own[netip.AddrPortFrom(addr, to.Port())]
	s.mu.Unlock()
	if own {
		return
	}
	s.note(sighting{name, fmt.Sprintf("%s %s", protocol, netip.AddrPortFrom(addr, to.Port()))})
}

// ours leaves a listener of the corpus itself out of what the sniffer reports.
func (s *sinks) ours(a net.Addr) {
	if at, err := netip.ParseAddrPort(a.String()); err == nil {
		s.mu.Lock()
		s.own[at] = true
		s.mu.Unlock()
	}
}
