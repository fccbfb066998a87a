package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"chaperone/internal/refusal"
)

// Times of one server.
const (
	drainTime  = 20 * time.Second // for calls in flight, once it is told to end
	repairTime = 30 * time.Second // between two looks for what a crash left
)

// Limits of one HTTP connection.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 32 << 10
)

// health answers /healthz and /readyz. It is what a load balancer asks.
type health struct {
	ready  atomic.Bool
	off    string       // what doesn't serve all the same, and why
	writes func() error // tells whether the database takes what is written
	nodes  func() error // tells whether the other nodes can be reached
}

func (h *health) live(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

func (h *health) serving(w http.ResponseWriter, _ *http.Request) {
	if !h.ready.Load() {
		http.Error(w, "ending", http.StatusServiceUnavailable)
		return
	}
	if h.writes() != nil { // its words are the log's, not a stranger's
		http.Error(w, "the database can't be written", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
	if h.off != "" {
		fmt.Fprintln(w, h.off)
	}
	if h.nodes() != nil { // all else serves
		fmt.Fprintln(w, "The relay is down: pages that other nodes hold can't be reached.")
	}
}

// beats is what the last write of a node that does nothing else told.
type beats struct {
	mu   sync.Mutex // guards what follows
	err  error
	last time.Time // of one that went well
}

func (b *beats) put(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err = err; err == nil {
		b.last = time.Now()
	}
}

// trouble tells why nothing can be written: the last beat failed, or hangs.
func (b *beats) trouble() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && time.Since(b.last) > 3*beatTime {
		return refusal.TimedOut
	}
	return b.err
}

// writes tells whether the database takes what is written: the beats of attended
// control, and the log's last batch.
func (n *Node) writes() error {
	if n.attended != nil {
		if err := n.beats.trouble(); err != nil {
			return err
		}
	}
	return n.log.Err()
}

// WhenListening has f called by Serve once every listener is open and before the
// first answer: what is told sooner may be told of an address that is taken. Its
// error ends Serve.
func (n *Node) WhenListening(f func() error) { n.listening = f }

// Serve listens and answers until ctx is done, and then ends in order. It closes
// the node.
func (n *Node) Serve(ctx context.Context) error {
	listener, err := n.listen()
	if err != nil {
		return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
	// What is in flight when the server is told to end goes on until the drain is over.
	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	server := &http.Server{
		Handler: n.handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return calls },
		ErrorLog:    log.New(discard{}, "", 0), // a peer's bad TLS or early leave is no news
		// OPTIONS * is a request like any other, for our Host alone.
		DisableGeneralOptionsHandler: true,
	}
	var tasks sync.WaitGroup
	background, stop := context.WithCancel(ctx)
	n.background(background, &tasks)
	err = n.mail(background, &tasks)
	if err == nil && n.listening != nil {
		err = n.listening()
	}
	if err != nil {
		stop()
		tasks.Wait()
		return errors.Join(err, listener.Close(), n.Close(context.WithoutCancel(ctx)))
	}
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- server.Serve(listener) })
	n.health.ready.Store(true)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	n.health.ready.Store(false)
	stop()
	close(n.ending) // a stream would hold the drain up for nothing
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var others sync.WaitGroup // whose callers are at other nodes are in flight here too
	others.Go(func() { n.bus.Drain(drain) })
	if ended := server.Shutdown(drain); ended != nil {
		endCalls()
		server.Close()
	}
	others.Wait()
	tasks.Wait()
	return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
}

// discard drops what net/http says of single connections.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// listen opens the one port, with TLS where the configuration has a certificate.
func (n *Node) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", n.config.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w; another server may be running there, or set listen in chaperone.yaml", err)
	}
	if n.config.TLSCert == "" {
		return l, nil
	}
	pair, err := tls.LoadX509KeyPair(n.config.TLSCert, n.config.TLSKey)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tls_cert and tls_key: %w", err), l.Close())
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), nil
}

// background repairs what a crash left and drops what time has ended, now and then
// again, until ctx is done.
func (n *Node) background(ctx context.Context, tasks *sync.WaitGroup) {
	tasks.Go(func() { n.endGrants(ctx) })
	tasks.Go(func() {
		tick := time.NewTicker(repairTime)
		defer tick.Stop()
		for {
			n.repair(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// repair is one round. Each part is safe to fail: the next round does it again, and
// a database that is gone is told by everything else.
func (n *Node) repair(ctx context.Context) {
	for name, f := range map[string]func(context.Context) error{
		"accounts": n.desk.Repair, "sessions": n.sessions.Sweep, "grants": n.sweepTokens, "runs": n.recoverRuns, "content": n.sweepContent, "people": n.credentials.Sweep,
		"decisions": n.receipts.Sweep,
	} {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.Printf("background: %s: %s", name, refusal.Of(err))
		}
	}
}

// sweepTokens ends the connections of token families that time has ended.
func (n *Node) sweepTokens(ctx context.Context) error {
	ended, err := n.tokens.Sweep(ctx)
	errs := []error{err}
	for _, f := range ended {
		if err := n.ledger.Revoke(ctx, f.Actor, f.Connection); err != nil && refusal.Of(err) != refusal.Unknown {
			errs = append(errs, err)
		}
		if n.fleet != nil {
			errs = append(errs, n.fleet.EndConnection(ctx, f.Connection))
		}
	}
	return errors.Join(errs...)
}

func (n *Node) recoverRuns(ctx context.Context) error {
	_, err := n.runs.Recover(ctx)
	return err
}

func (n *Node) sweepContent(ctx context.Context) error {
	if n.sources.Hosted == nil {
		return nil
	}
	_, err := n.sources.Hosted.Sweep(ctx)
	return err
}

// proxies reads behind_proxy.
func (n *Node) proxies() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range n.config.BehindProxy {
		if prefix, err := proxyPrefix(p); err == nil { // checked when it was read
			out = append(out, prefix)
		}
	}
	return out
}
