// Package proxy is the only way out of a box (spec owned-browser.md, sections 4
// and 5): it serves the listener that the box made inside its own network
// namespace, judges everything that comes in by the run's scope, and dials from
// the host's side. One Proxy is one run.
//
// What comes in is one of three things:
//
//   - a plain HTTP request in absolute form, judged with method and path
//     (request.go);
//   - a CONNECT tunnel, judged by host and port; its first bytes must be a TLS
//     ClientHello for that very host, and are then passed on untouched
//     (tunnel.go, hello.go);
//   - a CONNECT tunnel whose content decides: plain HTTP, or TLS where a rule
//     looks at paths, methods or only one of https and wss. The proxy then ends
//     TLS with a certificate of the run's own authority, which lives in memory
//     only, and judges each request in it (authority.go).
//
// A name is looked up once per connection. Every address that comes back is
// judged, one bad address refuses the name, and the addresses that were judged
// are the ones that are dialled: what the name says a second later doesn't
// matter (upstream.go). The proxy caches nothing, follows nothing, retries
// nothing that has a body, and keeps no path, query or body anywhere.
//
// Close ends every connection and returns when every goroutine is gone. At the
// scope's not_after all connections are closed; new ones are refused by the
// scope itself.
//
// Floor: runtime.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Limits of one run. A browser opens some dozens of connections; these stop a
// page from taking the host's.
const (
	maxConns      = 1024             // at once
	maxHeader     = 64 << 10         // bytes of a request's header
	headerTimeout = 20 * time.Second // to send a header, or the first bytes of a tunnel
	idleTimeout   = 90 * time.Second // of a kept connection between requests
	dialTimeout   = 15 * time.Second // for all addresses of a name
	answerTimeout = 5 * time.Minute  // until an upstream sends its header
	lingerTimeout = 30 * time.Second // for the rest once one side of a tunnel has ended
)

// Config says what a proxy serves.
type Config struct {
	Scope   *scope.Scope
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // nil: the system's resolver
	Own     func() []netip.AddrPort                                      // this node's own listeners, never reached whatever the scope says; may be nil
	Record  func(scope.Record)                                           // called once per decision, at its start, from any goroutine; may be nil
	RootCAs *x509.CertPool                                               // what upstream TLS is verified with where it is opened; nil: the system's
}

// Proxy serves one run.
type Proxy struct {
	config    Config
	patience  time.Duration // headerTimeout, but in tests
	authority *authority    // nil where no tunnel has to be opened
	server    *http.Server
	ctx       context.Context // ends with the proxy
	cancel    context.CancelFunc
	window    *time.Timer // closes everything at not_after; nil without one

	mu      sync.Mutex
	closed  bool
	conns   map[*conn]struct{} // from the box, tunnels included
	serving []netip.AddrPort   // the listeners that are served
	work    sync.WaitGroup     // everything that runs for a connection
}

// New makes a proxy. It fails only if the run's certificate authority can't be
// made.
func New(c Config) (*Proxy, error) { return newProxy(c, headerTimeout) }

func newProxy(c Config, patience time.Duration) (*Proxy, error) {
	if c.Scope == nil {
		return nil, errors.New("proxy: no scope")
	}
	if c.Resolve == nil {
		c.Resolve = systemResolve
	}
	if c.Own == nil {
		c.Own = func() []netip.AddrPort { return nil }
	}
	if c.Record == nil {
		c.Record = func(scope.Record) {}
	}
	p := &Proxy{config: c, patience: patience, conns: map[*conn]struct{}{}}
	if c.Scope.NeedsCA() {
		var err error
		if p.authority, err = newAuthority(time.Now()); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = p.newServer(http.HandlerFunc(p.front))
	p.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if end := c.Scope.Window().NotAfter; !end.IsZero() {
		p.window = time.AfterFunc(time.Until(end), p.hangUp)
	}
	return p, nil
}

// newServer is an HTTP server with the run's limits. Its log is thrown away: it
// would name what pages send.
func (p *Proxy) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: p.patience,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// `OPTIONS *` is judged like any other request, and refused.
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
}

// SPKI is the base64 SHA-256 of the run's authority's public key, which the
// browser is told to trust; "" where no tunnel is ever opened.
func (p *Proxy) SPKI() string {
	if p.authority == nil {
		return ""
	}
	return p.authority.spki
}

// Serve answers on l until Close, which closes l, and then returns nil.
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errors.Join(l.Close(), refusal.Ended)
	}
	if at, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
		p.serving = append(p.serving, at)
	}
	p.work.Add(1)
	p.mu.Unlock()
	defer p.work.Done()
	err := p.server.Serve(listener{l, p})
	if p.ctx.Err() != nil {
		return nil
	}
	return err
}

// Close ends every connection and waits until nothing of the proxy runs.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	if p.window != nil {
		p.window.Stop()
	}
	err := p.server.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // the box ended first and took its listener along
	}
	p.hangUp()
	p.work.Wait()
	return err
}

// hangUp closes every connection from the box, and with it what it holds open
// outside.
func (p *Proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.TCPConn.Close()
	}
}

// begin counts a piece of work that Close has to wait for, unless it is over.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Add(1)
	return true
}

// conn is a connection from the box. It is known to the proxy until closed.
type conn struct {
	*net.TCPConn
	proxy *Proxy
	link  *link // for its plain requests
	once  sync.Once
}

type connKey struct{}

// Close forgets and closes the connection, and what it held open outside. Whoever
// serves it closes it last, which is what Proxy.Close waits for.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.link.drop()
		c.proxy.mu.Lock()
		delete(c.proxy.conns, c)
		c.proxy.mu.Unlock()
		c.proxy.work.Done()
	})
	return c.TCPConn.Close()
}

// listener hands out connections that the proxy knows of, at most maxConns.
type listener struct {
	net.Listener
	proxy *Proxy
}

// Accept waits for a connection from the box. One too many is told so and
// closed.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			return nil, errors.New("proxy: the box's listener isn't TCP")
		}
		if known := l.proxy.admit(tcp); known != nil {
			return known, nil
		}
		// A page that reads nothing mustn't hold up the others.
		tcp.SetDeadline(time.Now().Add(time.Second))
		io.WriteString(tcp, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n"+refusalHeader+": "+string(refusal.TooMany)+"\r\n\r\n")
		tcp.Close()
	}
}

func (p *Proxy) admit(tcp *net.TCPConn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= maxConns {
		return nil
	}
	c := &conn{TCPConn: tcp, proxy: p, link: p.newLink()}
	p.conns[c] = struct{}{}
	p.work.Add(1)
	return c
}
