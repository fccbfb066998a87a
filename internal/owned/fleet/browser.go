package fleet

import (
	"context"
	"sync"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/host"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// endTime bounds how long a browser's end is waited for.
const endTime = 15 * time.Second

// State is where a browser of the fleet stands.
type State string

const (
	Running State = "running" // actions may begin
	Paused  State = "paused"  // a person has paused it: new actions are refused
	Over    State = "over"    // it has ended
)

// Browser is one running browser. Its methods may be called at once.
type Browser struct {
	host    *host.Host
	opening Opening
	digest  string
	handle  string
	started time.Time
	over    chan struct{} // closed when the fleet has forgotten it

	mu      sync.Mutex // guards what follows
	used    time.Time
	paused  bool
	watched int                                   // by how many at once
	current map[*context.CancelCauseFunc]struct{} // the actions that run or wait
}

// Handle answers the secret name by which an agent reaches it: 64 hex.
func (b *Browser) Handle() string { return b.handle }

// RunID answers the run's id in the ledger.
func (b *Browser) RunID() string { return b.opening.RunID }

// Engagement answers the engagement's name.
func (b *Browser) Engagement() string { return b.opening.Engagement }

// Connection answers whose grant opened it, "" where the person did.
func (b *Browser) Connection() string { return b.opening.Connection }

// ScopeDigest names the scope that holds in it.
func (b *Browser) ScopeDigest() string { return b.digest }

// Started answers when it was opened.
func (b *Browser) Started() time.Time { return b.started }

// State answers where it stands.
func (b *Browser) State() State {
	select {
	case <-b.host.Done():
		return Over
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused {
		return Paused
	}
	return Running
}

func (b *Browser) of(p identity.Principal, connection string) bool {
	if p.IsZero() || p.Tenant() != b.opening.Principal.Tenant() || p.Actor() != b.opening.Principal.Actor() {
		return false
	}
	return connection == "" || connection == b.opening.Connection
}

func (b *Browser) idle() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.current) > 0 {
		return 0
	}
	return time.Since(b.used)
}

// Do does one action, as host.Host.Do. While a person has it paused, and where
// they pause it under way, the failure's reason is refusal.Paused.
func (b *Browser) Do(ctx context.Context, a ownedv1.Action) (browser.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !b.begin(&cancel) {
		return browser.Answer{}, paused(false)
	}
	defer b.finish(&cancel)
	answer, err := b.host.Do(ctx, a)
	if err != nil && context.Cause(ctx) == refusal.Paused {
		return answer, paused(sent(err))
	}
	return answer, err
}

func (b *Browser) begin(cancel *context.CancelCauseFunc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused {
		return false
	}
	if b.current == nil {
		b.current = map[*context.CancelCauseFunc]struct{}{}
	}
	b.current[cancel] = struct{}{}
	return true
}

func (b *Browser) finish(cancel *context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.current, cancel)
	b.used = time.Now()
}

func sent(err error) bool {
	f, ok := err.(*browser.Failure)
	return ok && f.Sent
}

func paused(sent bool) *browser.Failure {
	return &browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.Paused, Sent: sent,
		Detail: "a person has paused this browser; it goes on when they resume it"}
}

// Pause refuses new actions and cancels the one that runs. Paused already is no
// error; over is refusal.NoBrowser.
func (b *Browser) Pause() error {
	if b.State() == Over {
		return refusal.NoBrowser
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = true
	for cancel := range b.current {
		(*cancel)(refusal.Paused)
	}
	return nil
}

// Resume lets actions begin again.
func (b *Browser) Resume() error {
	if b.State() == Over {
		return refusal.NoBrowser
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = false
	b.used = time.Now()
	return nil
}

// maxWatchers bounds who looks at one browser at once: each picture is work of the
// browser's own.
const maxWatchers = 4

// Watch counts somebody who looks until they leave. One more than may is
// refusal.TooMany.
func (b *Browser) Watch() (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watched >= maxWatchers {
		return nil, refusal.TooMany
	}
	b.watched++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watched--
	}), nil
}

// Glimpse answers what a person who watches it sees now.
func (b *Browser) Glimpse(ctx context.Context) (browser.Glimpse, error) { return b.host.Glimpse(ctx) }

// End ends the browser with the code of why, and returns when nothing of it is
// left.
func (b *Browser) End(ctx context.Context, why refusal.Code) error {
	err := b.host.Close(ctx, why)
	select {
	case <-b.over:
	case <-ctx.Done():
	}
	return err
}

// Done is closed when the browser has ended.
func (b *Browser) Done() <-chan struct{} { return b.host.Done() }
