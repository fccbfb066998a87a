package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// maxAddresses of one name; nobody needs more, and each is judged.
const maxAddresses = 64

// systemResolve looks host up as the host itself would. An IPv4 address comes
// out of Go's resolver in either of two spellings; here it is always the short
// one, so that IPv4-mapped means that somebody wrote it so.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "localhost" { // never a question for a name server (RFC 6761)
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// upstream is one host and port with the addresses that its one lookup gave.
type upstream struct {
	host  string
	port  int
	addrs []netip.Addr
	own   map[netip.Addr]bool // this host's interface addresses at that time
	trip  *http.Transport     // nil until the first request
}

// resolve looks t's host up, once.
func (p *Proxy) resolve(ctx context.Context, t scope.Target) (*upstream, bool) {
	u := &upstream{host: t.Host, port: t.Port, own: interfaceAddresses()}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		u.addrs = []netip.Addr{addr}
		return u, true
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addrs, err := p.config.Resolve(ctx, t.Host)
	if err != nil || len(addrs) == 0 {
		return nil, false
	}
	u.addrs = addrs[:min(len(addrs), maxAddresses)]
	return u, true
}

// judge holds every address of u against the scope and against the node's own
// listeners. The first bad one refuses the whole name.
func (p *Proxy) judge(u *upstream, t scope.Target, now time.Time) (d scope.Decision, at netip.Addr) {
	for _, addr := range u.addrs {
		own := u.own[addr.Unmap()]
		if p.isOwnListener(addr.Unmap(), u.port, own) {
			return scope.Decision{Code: refusal.OwnListener, Rule: "own listeners"}, addr
		}
		if own {
			d = p.config.Scope.DecideOwnAddress(t, addr, now)
		} else {
			d = p.config.Scope.DecideAddress(t, addr, now)
		}
		if !d.Allowed {
			return d, addr
		}
	}
	return d, u.addrs[0]
}

// interfaceAddresses is read for each connection: interfaces come and go.
func interfaceAddresses() map[netip.Addr]bool {
	mine := map[netip.Addr]bool{}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return mine // special ranges are denied all the same
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			mine[p.Addr().Unmap()] = true
		}
	}
	return mine
}

// isOwnListener compares with the listeners of this node, this proxy's own
// included. A listener on every address is met at each of them, and dialling
// 0.0.0.0 meets whatever listens locally.
func (p *Proxy) isOwnListener(addr netip.Addr, port int, own bool) bool {
	p.mu.Lock()
	listeners := slices.Clone(p.serving)
	p.mu.Unlock()
	listeners = append(listeners, p.config.Own()...)
	local := own || addr.IsLoopback() || addr.IsUnspecified()
	for _, l := range listeners {
		here := l.Addr().Unmap()
		if int(l.Port()) == port && (here == addr || local && (here.IsUnspecified() || addr.IsUnspecified())) {
			return true
		}
	}
	return false
}

// dial connects to the first judged address that answers.
func (u *upstream) dial(ctx context.Context) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var errs []error
	for i, addr := range u.addrs {
		// One dead address mustn't use up the time of the others.
		share := time.Until(deadline(ctx)) / time.Duration(len(u.addrs)-i)
		d := net.Dialer{Timeout: max(share, time.Second)}
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, uint16(u.port)).String())
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func deadline(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// transport sends requests to u and to nothing else.
func (u *upstream) transport(p *Proxy) *http.Transport {
	if u.trip == nil {
		u.trip = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := u.dial(ctx)
				if err != nil {
					return nil, err // never a typed nil
				}
				return c, nil
			},
			TLSClientConfig:        &tls.Config{RootCAs: p.config.RootCAs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // bytes pass as they are
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  answerTimeout,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 256 << 10,
		}
	}
	return u.trip
}

func (u *upstream) hostPort() string { return net.JoinHostPort(u.host, strconv.Itoa(u.port)) }

// link is what one connection from the box holds open outside: one upstream per
// host and port, looked up once. It lives as long as the connection.
type link struct {
	proxy *Proxy
	fixed bool // a tunnel's: its one upstream was looked up at the CONNECT

	mu        sync.Mutex
	upstreams map[string]*upstream
}

func (p *Proxy) newLink() *link {
	return &link{proxy: p, upstreams: map[string]*upstream{}}
}

// maxUpstreams of one kept connection: a browser sends requests for many hosts
// over one, and each keeps sockets.
const maxUpstreams = 32

// find answers the upstream for t, looking it up at first use.
func (l *link) find(ctx context.Context, t scope.Target) (*upstream, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := t.HostPort()
	if u := l.upstreams[key]; u != nil {
		return u, true
	}
	if l.fixed {
		return nil, false
	}
	u, ok := l.proxy.resolve(ctx, t)
	if !ok {
		return nil, false
	}
	if len(l.upstreams) >= maxUpstreams {
		l.dropLocked()
	}
	u.transport(l.proxy)
	l.upstreams[key] = u
	return u, true
}

// drop closes what the link keeps open.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked()
}

func (l *link) dropLocked() {
	for key, u := range l.upstreams {
		if u.trip != nil {
			u.trip.CloseIdleConnections()
		}
		delete(l.upstreams, key)
	}
}
