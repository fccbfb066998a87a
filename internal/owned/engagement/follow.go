package engagement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chaperone/internal/refusal"
)

// How often a run's status is asked for: while it is pending, while it runs, and
// while its end has been told by the stream and not by the status.
const (
	pendingEvery = 250 * time.Millisecond
	runningEvery = 5 * time.Second
	endedEvery   = 500 * time.Millisecond
)

// follower asks for one run's status until it is final, or can't be known any
// more. The stream's end makes it ask at once.
type follower struct {
	running chan struct{} // closed when the run is active, or was
	over    chan struct{} // closed when the status is final, or err says why nobody can tell
	cancel  context.CancelFunc
	done    chan struct{} // closed when the goroutine has ended

	// set before over is closed
	status string
	err    error

	mu  sync.Mutex
	now string // the last answer
}

func (a *api) follow(r Result, engagement string, s *stream, patience time.Duration) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{running: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}), cancel: cancel, now: Unknown}
	go func() {
		defer close(f.done)
		f.status, f.err = f.loop(ctx, a, r, engagement, s, patience)
		if ctx.Err() == nil {
			close(f.over)
		}
	}()
	return f
}

// loop asks until the status is final.
func (f *follower) loop(ctx context.Context, a *api, r Result, engagement string, s *stream, patience time.Duration) (string, error) {
	ended, active := s.ended, false
	answered, limit := time.Now(), 2*patience
	for {
		status, stamp, err := a.status(ctx, r)
		var refused *apiError
		switch {
		case ctx.Err() != nil:
			return Unknown, ctx.Err()
		case errors.As(err, &refused) && lasting(refused.status):
			return Unknown, err
		case err != nil && time.Since(answered) > limit:
			return Unknown, fmt.Errorf("the server hasn't told the run's status for %s: %w", limit, err)
		case err == nil:
			answered = time.Now()
			f.keep(status)
			if err := stamp.check(r.RunID, engagement, s); err != nil {
				return status, err
			}
			if final(status) {
				return status, nil
			}
			if status == Running && !active {
				active = true
				close(f.running)
			}
		}
		every := pendingEvery
		switch {
		case ended == nil || err != nil:
			every = endedEvery
		case active:
			every = runningEvery
		}
		if refused != nil {
			every = max(every, min(refused.again, patience))
		}
		select {
		case <-time.After(every):
		case <-ended:
			ended = nil // told once
			// A living server has ended the run by now, or cancels it: no need to wait
			// as long as beside a stream that stands.
			limit = patience / 2
		case <-ctx.Done():
		}
	}
}

// lasting tells a refusal that asking again won't change.
func lasting(status int) bool {
	return status/100 == 3 || status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// final tells a status that doesn't change any more.
func final(status string) bool {
	return status != Pending && status != Running && status != Unknown
}

// check wants the run's configuration to bind it to its registration, where the
// server shows it, and the stream to be the run's own.
func (s *stamp) check(runID, engagement string, events *stream) error {
	switch {
	case events.foreign():
		return fmt.Errorf("the API's stream is of another run: %w", refusal.IncompatibleRuntime)
	case s != nil && s.RunID != runID:
		return fmt.Errorf("the server didn't stamp configurable.run_id with the run's own id, so no registration could be bound to it: %w", refusal.IncompatibleRuntime)
	case s != nil && s.Engagement != engagement:
		return fmt.Errorf("the server didn't keep configurable.%s, so the run's agent would refuse its browser: %w", engagementKey, refusal.IncompatibleRuntime)
	}
	return nil
}

func (f *follower) keep(status string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = status
}

// last answers the last status that the server told.
func (f *follower) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// final tells whether the server said that the run is over.
func (f *follower) final() bool { return final(f.last()) }

// stop ends the asking, and waits. It may be called often.
func (f *follower) stop() {
	f.cancel()
	<-f.done
}
