package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/target"

	"chaperone/internal/refusal"
)

// defaultTimeout is for actions whose context brings no deadline.
const defaultTimeout = 30 * time.Second

// Browser is one run's browser. Its methods may be called from any goroutine.
type Browser struct {
	config Config
	conn   *conn
	engine *session      // the engine's own: Browser, Target and Fetch
	turn   chan struct{} // holds one token; whoever took it acts
	jobs   sync.WaitGroup
	life   context.Context // ends with the pipe
	cancel context.CancelCauseFunc

	mu        sync.Mutex // over everything below and in tab, frame and session
	changed   chan struct{}
	sessions  map[string]*session
	listeners map[string]int // subscriptions of each method
	tabs      []*tab         // live ones, in the order they came
	used      map[string]bool
	nextRef   int64 // of a snapshot; one is never given twice in a run
	imported  bool  // state was: see secretive
	active    *tab  // nil: none
	lost      refusal.Code
	launched  bool
	claiming  int    // createTarget calls under way
	unclaimed []*tab // pages that came meanwhile
	popups    int    // for popup-N
	fresh     int    // for tab-N
	context   cdp.BrowserContextID
	dialogs   DialogMode
	notes     Notes
	downloads []*download
}

// Open attaches to an engine that was started with [Flags] and returns when tab
// "main" is ready. Interception is on before any page can ask for anything. The
// browser owns the pipe from here on, also when Open fails.
func Open(ctx context.Context, config Config) (*Browser, error) {
	b := &Browser{
		config: config, conn: newConn(config.Conn), turn: make(chan struct{}, 1),
		changed: make(chan struct{}), sessions: make(map[string]*session),
		listeners: make(map[string]int), used: make(map[string]bool),
		dialogs: config.Dialogs,
	}
	b.life, b.cancel = context.WithCancelCause(context.Background())
	b.engine = &session{b: b}
	b.sessions[""] = b.engine
	b.conn.wanted, b.conn.event, b.conn.over = b.wanted, b.event, b.oversized
	b.conn.start()
	b.jobs.Go(func() {
		<-b.conn.done
		b.cancel(b.conn.cause())
		b.ended()
	})
	if err := b.prepare(ctx); err != nil {
		if errors.Is(err, refusal.NoBrowser) {
			err = b.conn.cause() // who waited was told that it is gone, and not why
		}
		b.Close()
		return nil, fmt.Errorf("opening the browser: %w", err)
	}
	return b, nil
}

// prepare sets the engine up. The order is the point: interception and the
// download rule stand before the first target exists.
func (b *Browser) prepare(ctx context.Context) error {
	_, err := cdp.Call(ctx, b.engine, fetch.Enable, fetch.EnableParams{
		Patterns: []*fetch.RequestPattern{{URLPattern: "*"}},
	})
	if err != nil {
		return err
	}
	if err := b.downloadRule(ctx); err != nil {
		return err
	}
	if _, err := cdp.Call(ctx, b.engine, target.SetAutoAttach, autoAttach()); err != nil {
		return err
	}
	_, err = b.open(ctx, mainTab)
	return err
}

// downloadRule denies downloads in the present browser context, or has them
// saved under names that the page doesn't choose.
func (b *Browser) downloadRule(ctx context.Context) error {
	on := true
	rule := browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, EventsEnabled: &on, BrowserContextID: b.context,
	}
	if b.config.Saving != nil && b.config.Files != nil {
		rule.Behavior = browser.SetDownloadBehaviorBehaviorAllowAndName
		rule.DownloadPath = b.config.DownloadDir
	}
	_, err := cdp.Call(ctx, b.engine, browser.SetDownloadBehavior, rule)
	return err
}

// autoAttach asks for every target, stopped before its first byte.
func autoAttach() target.SetAutoAttachParams {
	flat := true
	return target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: &flat,
		Filter: filter(
			target.FilterEntry{Type: "browser", Exclude: true},
			target.FilterEntry{Type: "tab", Exclude: true},
			target.FilterEntry{},
		),
	}
}

// Done is closed when the engine's pipe has ended.
func (b *Browser) Done() <-chan struct{} { return b.conn.done }

// Err answers why Done is closed: engine_exited, malformed or ended.
func (b *Browser) Err() error { return b.conn.cause() }

// Close ends the pipe, which ends the engine, and waits for every goroutine of
// the browser. Actions under way fail with no_browser.
func (b *Browser) Close() error {
	b.conn.close()
	b.jobs.Wait()
	return nil
}

// ended marks everything gone after the pipe's end.
func (b *Browser) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.detach()
	}
	for _, t := range b.tabs {
		t.gone(refusal.NoBrowser)
	}
	b.tabs, b.active, b.lost = nil, nil, refusal.NoBrowser
	b.wake()
}

// wake lets everybody who waits for a condition look again. mu is held.
func (b *Browser) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// until waits for a condition over the browser's state. ready is called with mu
// held and must not wait.
func (b *Browser) until(ctx context.Context, ready func() bool) error {
	for {
		b.mu.Lock()
		ok, changed := ready(), b.changed
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.life.Done():
			return refusal.NoBrowser
		}
	}
}

var _ io.Closer = (*Browser)(nil)
