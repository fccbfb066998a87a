package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// machine is a box, the proxy that serves its only listener, and the browser
// that is driven through its pipe. One without the others is nothing.
type machine struct {
	box     *jail.Box
	proxy   *proxy.Proxy
	browser *browser.Browser
	folders *folders
	served  sync.WaitGroup // the proxy's Serve

	watching atomic.Pointer[browser.Browser] // browser, for the proxy's goroutines

	closing sync.Once
	err     error
}

// assemble starts the three. After an error nothing of them is left.
func assemble(ctx context.Context, c Config, record func(scope.Record)) (*machine, error) {
	folders, err := openFolders(c.FilesDir, c.DownloadsDir)
	if err != nil {
		return nil, err
	}
	m := &machine{folders: folders}
	p, err := proxy.New(proxy.Config{Scope: c.Scope, Resolve: c.Resolve, Own: c.Own, RootCAs: c.RootCAs, Record: func(r scope.Record) {
		record(r)
		// The proxy knows the address; a navigation that it denies fails as denied.
		if b := m.watching.Load(); b != nil {
			b.Observe(r)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("the egress proxy: %w", err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the egress proxy: %w", err), folders.close())
	}
	m.proxy = p
	m.box, err = jail.Start(ctx, jail.Config{Engine: c.Engine, Args: browser.Flags(jail.ProxyAddr, p.SPKI()), Limits: c.Limits})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	listener := m.box.Listener()
	m.served.Go(func() {
		// Serve ends with close alone; if it ever ended by itself the box has no way
		// out left, which is the safe side.
		_ = p.Serve(listener)
	})
	m.browser, err = browser.Open(ctx, m.folders.into(browser.Config{
		Conn: m.box.Pipe(), Scope: c.Scope, Record: record,
		Timeout: c.Timeout, Dialogs: c.Dialogs, MaxResult: c.MaxResult,
	}, m.box))
	if err != nil {
		err = fmt.Errorf("the browser didn't come up: %w", err)
		if words := m.box.LastWords(); words != "" {
			err = fmt.Errorf("%w; its last words: %s", err, words)
		}
		return nil, errors.Join(err, m.close())
	}
	m.watching.Store(m.browser)
	return m, nil
}

// done is closed when the browser, or the box around it, has ended by itself.
func (m *machine) done() <-chan struct{} { return m.browser.Done() }

// exitTime is how long an engine whose pipe has ended gets to end as well.
const exitTime = 500 * time.Millisecond

// why says why the machine ended by itself. The box knows better than the
// browser, which only sees its pipe end.
func (m *machine) why() error {
	select {
	case <-m.box.Done():
		return m.box.Err()
	case <-time.After(exitTime):
	}
	return errors.Join(fmt.Errorf("the browser's pipe ended: %w", refusal.EngineExited), m.browser.Err())
}

// close kills the box with all that is in it, and waits. It may be called often.
func (m *machine) close() error {
	m.closing.Do(func() {
		var errs []error
		if m.box != nil {
			errs = append(errs, m.box.Close())
		}
		if m.browser != nil {
			errs = append(errs, m.browser.Close())
		}
		errs = append(errs, m.proxy.Close())
		m.served.Wait()
		errs = append(errs, m.folders.close())
		m.err = errors.Join(errs...)
	})
	return m.err
}

// mailbox keeps the decisions that are made before the run's row is durable.
type mailbox struct {
	mu    sync.Mutex
	early []scope.Record
	to    func(scope.Record)
}

func (m *mailbox) put(r scope.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to == nil {
		m.early = append(m.early, r)
		return
	}
	m.to(r)
}

func (m *mailbox) deliver(to func(scope.Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.early {
		to(r)
	}
	m.early, m.to = nil, to
}
