// Package host is one owned run: a contained browser, the proxy that is its only
// way out, its scope and its journal, started together and ended together
// (spec/owned-browser.md, sections 2 to 5).
//
// It contains
//
//	host.go      Config, Start, Close: the life of a run
//	box.go       the box, the proxy and the browser, joined
//	turn.go      one action at a time, first come first served
//	do.go        an action: its turn, its commit, its effect, its outcome
//	session.go   the one handshake and the session it opens
//	wire.go      the protocol's action and cancel
//	folder.go    the registration: a private folder, published when ready
//	files.go     the two folders of the host that a run may read and write
//	commit.go    the build's own revision
//
// A host is starting until Start returns, then running, then over; over is final
// and [Host.Err] says why. It ends when it is closed, when its box or browser
// ends, when its session expires, and when its bootstrap expires unused or is
// burned. However it ends, the order is one: no new action starts, the box is
// killed with what runs in it, the proxy closes, and the journal gets the end.
//
// The database opens while the box starts, since each takes longer than the
// other can wait; no action and no handshake begins before the run's first row
// is durable.
//
// It never retries an action, never starts a browser without a scope and a box,
// and never listens: a surface brings messages to it.
//
// Floor: runtime.
package host

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Defaults and limits of a host.
const (
	DefaultTimeout = 30 * time.Second                          // of a local action without a deadline
	BootstrapTime  = ownedv1.MaxBootstrapMS * time.Millisecond // from registration to handshake
	SessionTime    = ownedv1.MaxSessionMS * time.Millisecond   // from handshake to the end
	flushEvery     = time.Second                               // how long an outcome waits at most for its commit
	endTime        = 10 * time.Second                          // for the last commit
	maxTombstones  = 1024                                      // of one session
)

// Config says what run to host. Engagement, RunID, StartedBy, Surface, Scope,
// Engine and Open are required.
type Config struct {
	Engagement string // must be the scope's own
	RunID      string // ^[A-Za-z0-9_-]{1,128}$
	StartedBy  string // who started it, as audit tells it: "uid:1000", a principal's id
	Surface    string // host, mcp, browse or rest
	Scope      *scope.Scope
	Engine     string // the browser's executable; see jail.FindEngine

	// Open opens the book that the run is written in; it is called while the box
	// starts. Whoever opened it closes it after the host is over.
	Open func(ctx context.Context) (*run.Book, error)

	// Handshake makes the run wait for one handshake of owned-browser-v1. Without
	// it the run is open from birth and its only caller is Do.
	Handshake bool
	Session   time.Duration // from the handshake to the end; 0 or too long: SessionTime

	Limits       jail.Limits        // zero fields are jail.DefaultLimits'
	Timeout      time.Duration      // of a Do whose context has no deadline; 0: DefaultTimeout
	FilesDir     string             // where uploads come from; "": none
	DownloadsDir string             // where downloads go; "": denied
	Dialogs      browser.DialogMode // zero: dismissed
	MaxResult    int                // bytes of one result; 0: what fits an owned-browser-v1 answer

	Own     func() []netip.AddrPort                                      // this node's own listeners, which no scope reaches
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error) // nil: the system's
	RootCAs *x509.CertPool                                               // nil: the system's
	Record  func(scope.Record)                                           // also told of each decision; mustn't block; may be nil
}

// Host is a running run. Its methods may be called at once, and Close from
// anywhere at any time.
type Host struct {
	config  Config
	machine *machine
	run     *run.Run
	turn    turn
	commit  string // the build's revision; "" without Handshake

	ending chan struct{} // closed by the first who wants the end
	done   chan struct{} // closed when everything is gone and written
	once   sync.Once
	why    error // why it ended; set before ending is closed
	err    error // what went wrong in ending; set before done is closed

	session session
}

// Start starts a run and answers when it can act. Its error tells what is
// missing or refused, and then nothing is left behind. ctx bounds the start only.
func Start(ctx context.Context, c Config) (*Host, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	h := &Host{config: c, ending: make(chan struct{}), done: make(chan struct{})}
	h.session.init(c.Handshake)
	var begun *run.Run
	var records mailbox
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		h.machine, err = assemble(ctx, c, records.put)
		return err
	})
	group.Go(func() (err error) {
		begun, err = h.register(ctx)
		return err
	})
	if c.Handshake {
		// An unstamped build hashes itself, which takes as long as the box.
		group.Go(func() (err error) {
			h.commit, err = Commit()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, h.abandon(begun))
	}
	h.run = begun
	records.deliver(h.record)
	go h.live()
	return h, nil
}

// check refuses a Config that no run can be made of.
func (c *Config) check() error {
	switch {
	case c.Scope == nil || c.Open == nil || c.Engine == "":
		panic("host: Config without Scope, Open or Engine")
	case !ownedv1.ValidID(c.RunID):
		return fmt.Errorf("run id must match ^[A-Za-z0-9_-]{1,128}$: %w", refusal.BadDocument)
	case c.Scope.Engagement() != c.Engagement:
		return fmt.Errorf("the scope is engagement %q's, not %q's: %w", c.Scope.Engagement(), c.Engagement, refusal.BadDocument)
	}
	if c.Session <= 0 || c.Session > SessionTime {
		c.Session = SessionTime
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return nil
}

// register opens the book and writes the run's first row.
func (h *Host) register(ctx context.Context) (*run.Run, error) {
	book, err := h.config.Open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := book.Recover(ctx); err != nil {
		return nil, err
	}
	reg := run.Registration{
		RunID: h.config.RunID, Engagement: h.config.Engagement, Surface: h.config.Surface,
		StartedBy: h.config.StartedBy, ScopeDigest: h.config.Scope.Digest(),
	}
	if !h.config.Handshake {
		return book.Start(ctx, reg)
	}
	reg.Bootstrap, reg.BootstrapUntil = h.session.bootstrap, h.session.bootstrapUntil
	return book.Register(ctx, reg)
}

// abandon undoes what a failed Start began.
func (h *Host) abandon(begun *run.Run) error {
	var errs []error
	if h.machine != nil {
		errs = append(errs, h.machine.close())
	}
	if begun != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		errs = append(errs, begun.End(ctx, refusal.Failed))
	}
	return errors.Join(errs...)
}

// record journals a decision and passes it on.
func (h *Host) record(r scope.Record) {
	h.run.Record(r)
	if h.config.Record != nil {
		h.config.Record(r)
	}
}

// live waits for whatever ends the run, and ends it.
func (h *Host) live() {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case <-flush.C:
			// Best effort by design: what it couldn't write rides the next commit, and
			// the run's end tells of a database that is gone.
			ctx, cancel := context.WithTimeout(context.Background(), endTime)
			_ = h.run.Flush(ctx)
			cancel()
		case <-h.session.timer.C:
			h.expire()
		case <-h.machine.done():
			h.end(h.machine.why())
		case <-h.ending:
			h.finish()
			return
		}
	}
}

// end asks for the run's end; the first reason stands.
func (h *Host) end(why error) {
	h.once.Do(func() {
		h.why = why
		close(h.ending)
	})
}

// finish is the one order in which a run ends.
func (h *Host) finish() {
	defer close(h.done)
	h.session.timer.Stop()
	h.turn.stop()
	err := h.machine.close()
	h.turn.drain()
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	h.err = errors.Join(err, h.last(ctx))
}

// last writes the run's end under the verb that fits.
func (h *Host) last(ctx context.Context) error {
	code := refusal.Of(h.why)
	if code == refusal.Expired && h.config.Handshake {
		// Lost only to a handshake that came first; then the session is ended.
		if err := h.run.Expire(ctx); !errors.Is(err, refusal.Conflict) {
			return err
		}
	}
	if code == "" {
		code = refusal.Failed
	}
	return h.run.End(ctx, code)
}

// Close ends the run with a reason, waits until nothing of it is left, and
// answers what went wrong in that. Of a run that is over it answers the same.
func (h *Host) Close(ctx context.Context, reason refusal.Code) error {
	h.end(fmt.Errorf("run was stopped: %w", reason))
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the run is over and nothing of it is left.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err says why the run ended, with its code; nil while it lives.
func (h *Host) Err() error {
	select {
	case <-h.ending:
		return h.why
	default:
		return nil
	}
}

// Epoch answers the run's epoch.
func (h *Host) Epoch() string { return h.run.Epoch() }

// Usage answers what the box uses now.
func (h *Host) Usage() (jail.Usage, error) { return h.machine.box.Usage() }
