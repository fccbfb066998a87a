// Package proxy is the only way out of a box.
//
// Floor: runtime.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"

	"chaperone/internal/owned/scope"
)

// Config says what a proxy serves.
type Config struct {
	Scope   *scope.Scope
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // nil: the system's
	Own     func() []netip.AddrPort                                      // this node's own listeners, never reached; may be nil
	Record  func(scope.Record)                                           // called once per decision, at its start, from any goroutine; may be nil
	RootCAs *x509.CertPool                                               // what upstream TLS is verified with; nil: the system's
}

// Proxy serves one run.
type Proxy struct{}

// New makes a proxy.
func New(c Config) (*Proxy, error) { return nil, errors.New("not built yet") }

// SPKI is the base64 SHA-256 of the run CA's public key; "" where nothing is intercepted.
func (p *Proxy) SPKI() string { return "" }

// Serve answers on l until Close.
func (p *Proxy) Serve(l net.Listener) error { return errors.New("not built yet") }

// Close ends everything.
func (p *Proxy) Close() error { return nil }
