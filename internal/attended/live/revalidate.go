package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"chaperone/internal/refusal"
)

// Times of revalidation (section 4).
const (
	answerTime = 3 * time.Second  // without an answer in it, the frame or call is refused
	yesTime    = 10 * time.Second // without a yes in it, the channel is closed
	probeTime  = time.Second      // between two tries while no yes comes
)

// errSilent is that nothing answered: neither yes nor no.
var errSilent = errors.New("the sign-in couldn't be revalidated")

// revalidator asks whether a page's sign-in still stands, and keeps no yes. Checks
// that come while one is on its way share the next one: a round is shared only by
// those who asked before it was sent.
type revalidator struct {
	ask func(context.Context) error

	mu      sync.Mutex // guards what follows
	next    *round     // that nobody has sent yet
	running bool
}

type round struct {
	done chan struct{}
	err  error
}

func newRevalidator(ask func(context.Context) error) *revalidator { return &revalidator{ask: ask} }

// check answers nil for an exact yes that was asked for after check was called. An
// exact no is the refusal that the sign-in ended with; no answer is errSilent, with
// the code revalidation_failed.
func (v *revalidator) check(ctx context.Context) error {
	if v.ask == nil {
		return refusal.RevalidationFailed
	}
	v.mu.Lock()
	if v.next == nil {
		v.next = &round{done: make(chan struct{})}
	}
	mine := v.next
	if !v.running {
		v.running = true
		go v.run()
	}
	v.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return silent(ctx.Err())
	}
}

// run sends rounds until nobody waits for one. Each ends by itself.
func (v *revalidator) run() {
	for {
		v.mu.Lock()
		r := v.next
		v.next = nil
		if r == nil {
			v.running = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		r.err = v.ask(ctx)
		if r.err != nil && (refusal.Of(r.err) == "" || ctx.Err() != nil) {
			r.err = silent(r.err)
		}
		cancel()
		close(r.done)
	}
}

func silent(err error) error { return errors.Join(errSilent, refusal.RevalidationFailed, err) }
