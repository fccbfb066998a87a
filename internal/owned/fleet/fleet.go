// Package fleet is the owned browsers of one server: who opened which, for what
// engagement, and how a person looks at them, pauses them and ends them
// (spec/product.md, "One server", and spec/owned-browser.md, section 6).
//
// It contains
//
//	fleet.go       Config, Open, Find, List: the browsers that are there
//	browser.go     one of them: its actions, pause, glimpse, end
//	engagement.go  the scopes that the operator has put into a folder
//
// A browser is opened for an engagement by its name. The scope is the operator's
// file of that name and never comes with a request; its digest is what the run is
// registered with. A browser belongs to the person for whom it was opened, and an
// agent reaches only those that its own connection opened: anybody else's handle
// is answered as one that doesn't exist.
//
// States: opening (it counts against the limit already), running, paused (new
// actions are refused, the one that ran was cancelled), over. What was done in
// one is in the durable ledger of owned/run; this package remembers only what is
// running, and a restart leaves nothing running.
//
// It never listens, never widens a scope and never repeats an action.
//
// Floor: runtime.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/owned/host"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// DefaultMost is how many browsers a server runs at once where nothing is said.
const DefaultMost = 4

// Config says what a fleet is made of. Book and Engagements are required.
type Config struct {
	Book        *run.Book
	Engagements string        // the folder with one scope file an engagement
	Engine      string        // the browser's executable; see jail.FindEngine
	Most        int           // browsers at once; 0: DefaultMost
	Idle        time.Duration // without an action for as long ends it; 0: 30 minutes

	// Allowed judges an opening, with the digest of its scope, before anything of it
	// is started; nil: whoever has the engagement opens.
	Allowed func(ctx context.Context, o Opening, scope string) error

	Own func() []netip.AddrPort // where this server listens, which no scope reaches; nil: nowhere
}

// idleTime is how long a browser may do nothing.
const idleTime = 30 * time.Minute

// Fleet is the browsers of one server. Its methods may be called at once.
type Fleet struct {
	config Config

	mu      sync.Mutex // guards what follows
	running map[string]*Browser
	opening int
	closed  bool
	waiting sync.WaitGroup // one for each browser's watch
}

// New answers a fleet without browsers.
func New(c Config) *Fleet {
	if c.Most == 0 {
		c.Most = DefaultMost
	}
	if c.Idle == 0 {
		c.Idle = idleTime
	}
	return &Fleet{config: c, running: map[string]*Browser{}}
}

// Opening says for whom a browser is opened.
type Opening struct {
	Engagement string
	Principal  identity.Principal
	Connection string // "" where the person opened it
	RunID      string // "" for one of ours
	Surface    string // mcp or rest, as audit tells it
}

// Open starts a browser and launches it. Refusals: unknown (no such engagement),
// bad_document (its file), what Allowed says, too_many (the limit), prerequisite_missing, conflict
// (that run id is running), ended (the server is ending).
func (f *Fleet) Open(ctx context.Context, o Opening) (*Browser, error) {
	s, err := f.scope(o.Engagement)
	if err != nil {
		return nil, err
	}
	if o.RunID == "" {
		o.RunID = o.Surface + "-" + run.NewToken()[:16]
	}
	if f.config.Allowed != nil {
		if err := f.config.Allowed(ctx, o, s.Digest()); err != nil {
			return nil, err
		}
	}
	if err := f.reserve(); err != nil {
		return nil, err
	}
	started, err := host.Start(ctx, host.Config{
		Engagement: s.Engagement(), RunID: o.RunID, StartedBy: startedBy(o), Surface: o.Surface,
		Scope: s, Engine: f.config.Engine, Own: f.config.Own,
		Open: func(context.Context) (*run.Book, error) { return f.config.Book, nil },
	})
	if err == nil {
		_, err = started.Do(ctx, ownedv1.Launch{Headless: true})
		if err != nil {
			err = errors.Join(err, started.Close(context.WithoutCancel(ctx), refusal.Failed))
		}
	}
	return f.enter(o, s.Digest(), started, err)
}

// startedBy is how the ledger names who started a run: the agent's connection, or
// the person alone.
func startedBy(o Opening) string {
	if o.Connection != "" {
		return "connection:" + o.Connection
	}
	return "person:" + o.Principal.Actor()
}

// reserve counts a browser before it is there.
func (f *Fleet) reserve() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return refusal.Ended
	case len(f.running)+f.opening >= f.config.Most:
		return refusal.TooMany
	}
	f.opening++
	return nil
}

// enter makes a started browser known, and watches it from here on.
func (f *Fleet) enter(o Opening, digest string, started *host.Host, err error) (*Browser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opening--
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b := &Browser{host: started, opening: o, digest: digest, started: now, used: now, handle: run.NewToken(), over: make(chan struct{})}
	f.running[b.handle] = b
	f.waiting.Go(func() { f.watch(b) })
	if f.closed { // the server began to end meanwhile
		f.waiting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), endTime)
			defer cancel()
			_ = b.End(ctx, refusal.Ended) // the caller is told that the server is ending
		})
		return nil, refusal.Ended
	}
	return b, nil
}

// watch waits for a browser's end, brings it about where nobody uses it, and
// forgets it.
func (f *Fleet) watch(b *Browser) {
	defer close(b.over)
	tick := time.NewTicker(f.config.Idle / 10)
	defer tick.Stop()
	for {
		select {
		case <-b.host.Done():
			f.mu.Lock()
			delete(f.running, b.handle)
			f.mu.Unlock()
			return
		case <-tick.C:
			if b.idle() > f.config.Idle {
				// Its end is told through Done, and its errors through the ledger's check.
				ctx, cancel := context.WithTimeout(context.Background(), endTime)
				_ = b.host.Close(ctx, refusal.Expired)
				cancel()
			}
		}
	}
}

// Find answers the browser behind a handle, to the connection that opened it or,
// where connection is "", to the person for whom it was opened. Anybody else's is
// refusal.Unknown, like one that never was.
func (f *Fleet) Find(p identity.Principal, connection, handle string) (*Browser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.running[handle]
	if !ok || !b.of(p, connection) {
		return nil, refusal.Unknown
	}
	return b, nil
}

// Run is Find by the run's id.
func (f *Fleet) Run(p identity.Principal, connection, runID string) (*Browser, error) {
	for _, b := range f.List(p, connection) {
		if b.RunID() == runID {
			return b, nil
		}
	}
	return nil, refusal.Unknown
}

// List answers the browsers that p, or that connection, may reach, oldest first.
func (f *Fleet) List(p identity.Principal, connection string) []*Browser {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Browser
	for _, b := range f.running {
		if b.of(p, connection) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *Browser) int {
		return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.handle, b.handle))
	})
	return out
}

// EndConnection ends every browser that a connection opened: its grant is gone.
func (f *Fleet) EndConnection(ctx context.Context, connection string) error {
	f.mu.Lock()
	var theirs []*Browser
	for _, b := range f.running {
		if connection != "" && b.opening.Connection == connection {
			theirs = append(theirs, b)
		}
	}
	f.mu.Unlock()
	return endAll(ctx, theirs)
}

// Close ends every browser and waits for it. Nothing can be opened afterwards.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	all := make([]*Browser, 0, len(f.running))
	for _, b := range f.running {
		all = append(all, b)
	}
	f.mu.Unlock()
	err := endAll(ctx, all)
	f.waiting.Wait()
	return err
}

func endAll(ctx context.Context, all []*Browser) error {
	errs := make([]error, len(all))
	var ends sync.WaitGroup
	for i, b := range all {
		ends.Go(func() { errs[i] = b.End(ctx, refusal.Ended) })
	}
	ends.Wait()
	return errors.Join(errs...)
}
