package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// tunnel answers a CONNECT: host and port are judged, the name is looked up,
// its addresses are judged, and only then anything is said or dialled.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	host, port, err := scope.ParseAuthority(r.RequestURI, 0)
	t := scope.Target{Host: host, Port: port, Method: http.MethodConnect}
	if err != nil {
		p.refuse(w, r, scope.Target{Method: http.MethodConnect}, scope.Decision{Code: refusal.Malformed, Rule: "no rule"})
		return
	}
	now := time.Now()
	may := p.config.Scope.Tunnel(host, port, now)
	if !may.Allowed {
		p.refuse(w, r, t, may.Decision)
		return
	}
	u, ok := p.resolve(r.Context(), t)
	if !ok {
		p.refuse(w, r, t, scope.Decision{Code: refusal.Unresolvable})
		return
	}
	d, addr := p.judge(u, t, now)
	p.record(now, t, addr, d)
	if !d.Allowed {
		refuse(w, r, d)
		return
	}
	var up *net.TCPConn
	if may.TLS && !may.Intercept {
		// Dialled before the answer, so that an unreachable host is told as such.
		if up, err = u.dial(r.Context()); err != nil {
			refuse(w, r, scope.Decision{Code: refusal.Unreachable})
			return
		}
		defer up.Close()
	}
	hijacked, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the browser is gone
	}
	defer hijacked.Close()
	c, ok := hijacked.(*conn)
	if !ok {
		panic("proxy: a tunnel came over no connection of ours")
	}
	p.carry(c, buffered.Reader, t, addr, may, u, up)
}

// carry says that the tunnel is open and lets its first byte decide what it
// carries. up is dialled already where TLS would be passed on unopened.
func (p *Proxy) carry(c *conn, from *bufio.Reader, t scope.Target, addr netip.Addr, may scope.Tunnel, u *upstream, up *net.TCPConn) {
	c.SetDeadline(time.Now().Add(p.patience))
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	first, err := from.Peek(1)
	if err != nil {
		return // opened for later, and never used
	}
	isTLS := first[0] == recordHandshake
	deny := func(code refusal.Code) {
		p.record(time.Now(), t, addr, scope.Decision{Code: code, Rule: may.Rule})
	}
	switch {
	case isTLS && may.Intercept:
		p.serveInside(c, from, "https", u)
	case isTLS && may.TLS:
		raw, ok := p.checkHello(from, t.Host)
		if !ok {
			deny(refusal.BadServerName)
			return
		}
		p.splice(c, from, raw, up)
	case !isTLS && may.Plain:
		p.serveInside(c, from, "http", u)
	default:
		deny(refusal.BadScheme) // TLS where only plain is allowed, or the other way round
	}
}

// checkHello reads the ClientHello and holds its server name against the host
// that the tunnel was opened for.
func (p *Proxy) checkHello(from *bufio.Reader, host string) (raw []byte, ok bool) {
	h, raw, err := readHello(from)
	if err != nil || h.encrypted {
		return nil, false
	}
	return raw, sameName(h.name, h.named, host)
}

// sameName compares a server name with the tunnel's host. An address has none.
func sameName(name string, named bool, host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return !named
	}
	return named && strings.EqualFold(strings.TrimSuffix(name, "."), host)
}

// splice sends what was read already and then leaves the rest to the kernel.
func (p *Proxy) splice(c *conn, from *bufio.Reader, raw []byte, up *net.TCPConn) {
	early, err := from.Peek(from.Buffered())
	if err != nil {
		return
	}
	up.SetWriteDeadline(time.Now().Add(p.patience))
	if _, err := up.Write(append(raw, early...)); err != nil {
		return
	}
	up.SetDeadline(time.Time{})
	c.SetDeadline(time.Time{})
	relay(c.TCPConn, up)
}

// serveInside opens the tunnel and judges each request in it.
func (p *Proxy) serveInside(c *conn, from *bufio.Reader, scheme string, u *upstream) {
	c.SetDeadline(time.Time{})
	u.transport(p)
	l := &link{proxy: p, fixed: true, upstreams: map[string]*upstream{u.hostPort(): u}}
	defer l.drop()
	single := newSingle(&peeked{Conn: c, from: from})
	if scheme == "https" {
		single.give = tls.Server(single.peeked, p.tlsConfig(u.host))
	}
	server := p.newServer(inside{p, scheme, u.host, u.port, l})
	// Serve ends with errOver once its only connection is closed.
	if err := server.Serve(single); err != nil {
		server.Close()
	}
}

func (p *Proxy) tlsConfig(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if !sameName(h.ServerName, h.ServerName != "", host) {
				return nil, refusal.BadServerName
			}
			return p.authority.certify(host)
		},
	}
}

// peeked is a connection of which some bytes were read ahead. It embeds the
// interface: with a *net.TCPConn's WriteTo a copy would pass those bytes by.
type peeked struct {
	net.Conn
	from *bufio.Reader
	once sync.Once
	over chan struct{} // closed with the connection
}

// Read reads what was peeked at first.
func (c *peeked) Read(b []byte) (int, error) { return c.from.Read(b) }

// Close closes the connection and ends the listener that gave it out.
func (c *peeked) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.Conn.Close()
}

// errOver ends the Serve of a single.
var errOver = errors.New("the tunnel has ended")

// single is a listener of one connection, which an HTTP server needs to serve it.
type single struct {
	peeked *peeked
	give   net.Conn // the connection as the server gets it; nil once given
}

func newSingle(c *peeked) *single {
	c.over = make(chan struct{})
	return &single{c, c}
}

// Accept gives the connection out, and then waits for its end.
func (s *single) Accept() (net.Conn, error) {
	if c := s.give; c != nil {
		s.give = nil
		return c, nil
	}
	<-s.peeked.over
	return nil, errOver
}

// Close does nothing: the connection's end is the listener's.
func (s *single) Close() error { return nil }

// Addr is the address of the connection.
func (s *single) Addr() net.Addr { return s.peeked.LocalAddr() }
