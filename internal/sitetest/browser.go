package sitetest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

// Options says how a run is started. The zero value allows every port of
// 127.0.0.1 and localhost over http and ws.
type Options struct {
	Scope string         // YAML; "" is the default above
	Roots *x509.CertPool // what the proxy verifies upstream TLS with
	// Resolve answers names; nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Limits  jail.Limits           // zero fields: the defaults
	Config  func(*browser.Config) // last changes to the browser's configuration
	Record  func(scope.Record)    // sees each decision of both layers
}

const anyLoopback = `engagement: sitetest
allow:
  - {host: 127.0.0.1, ports: "*"}
  - {host: localhost, ports: "*"}
`

// Run is one box with its proxy and its browser.
type Run struct {
	*browser.Browser
	Box   *jail.Box
	Scope *scope.Scope

	proxy  *proxy.Proxy
	served sync.WaitGroup
}

// Start boxes a browser. It isn't launched yet.
func Start(ctx context.Context, o Options) (*Run, error) {
	if o.Scope == "" {
		o.Scope = anyLoopback
	}
	s, err := scope.Parse("sitetest.yaml", []byte(o.Scope))
	if err != nil {
		return nil, err
	}
	r := &Run{Scope: s}
	r.proxy, err = proxy.New(proxy.Config{Scope: s, Resolve: o.Resolve, RootCAs: o.Roots, Record: func(rec scope.Record) {
		if o.Record != nil {
			o.Record(rec)
		}
		if b := r.Browser; b != nil {
			b.Observe(rec)
		}
	}})
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx, o); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

func (r *Run) start(ctx context.Context, o Options) error {
	engine, err := jail.FindEngine("")
	if err != nil {
		return err
	}
	r.Box, err = jail.Start(ctx, jail.Config{
		Engine: engine, Args: browser.Flags(jail.ProxyAddr, r.proxy.SPKI()), Limits: o.Limits,
	})
	if err != nil {
		return err
	}
	config := browser.Config{
		Conn: r.Box.Pipe(), Scope: r.Scope, Record: o.Record, Files: r.Box, DownloadDir: jail.DownloadDir,
	}
	if o.Config != nil {
		o.Config(&config)
	}
	if r.Browser, err = browser.Open(ctx, config); err != nil {
		return fmt.Errorf("%w; its last words: %s", err, r.Box.LastWords())
	}
	// The proxy serves only now, so that its records always meet the browser.
	listener := r.Box.Listener()
	r.served.Go(func() { _ = r.proxy.Serve(listener) }) // ends with Close alone
	return nil
}

// Stop ends the run and waits until nothing of it is left.
func (r *Run) Stop() error {
	var errs []error
	if r.Box != nil {
		errs = append(errs, r.Box.Close())
	}
	if r.Browser != nil {
		errs = append(errs, r.Browser.Close())
	}
	errs = append(errs, r.proxy.Close())
	r.served.Wait()
	return errors.Join(errs...)
}

// Browser boxes a browser for one test and launches it.
func Browser(t testing.TB, o Options) *Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := r.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
		t.Fatal(err)
	}
	return r
}
