package host

import (
	"context"
	"slices"
	"sync"
)

// turn lets one action run at a time, in the order in which they queued. The
// zero turn is free.
type turn struct {
	mu      sync.Mutex
	busy    bool
	over    bool
	waiting []chan struct{} // each is closed when its turn has come
	idle    chan struct{}   // non-nil while drain waits; closed by the last to leave
}

// queue takes a place and never blocks, so that callers who queue under a lock of
// their own are served in that lock's order. wait must be called next.
func (t *turn) queue() (place chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	place = make(chan struct{})
	if t.busy {
		t.waiting = append(t.waiting, place)
	} else {
		t.busy = true
		close(place)
	}
	return place
}

// wait answers nil when the place's turn has come; leave must follow. After an
// error, which is ctx's cause, the place is given up.
func (t *turn) wait(ctx context.Context, place chan struct{}) error {
	select {
	case <-place:
		return nil
	case <-ctx.Done():
		if t.abandon(place) {
			return context.Cause(ctx)
		}
		return nil // its turn came at the same moment
	}
}

// abandon gives up a place that still waits, and tells whether it did.
func (t *turn) abandon(place chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, place)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return true
}

// leave passes the turn on.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		return
	}
	t.busy = false
	if t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// stop makes stopped true for everybody whose turn comes from now on.
func (t *turn) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *turn) stopped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// drain waits until whoever has the turn, and all who queued, have left.
func (t *turn) drain() {
	t.mu.Lock()
	var idle chan struct{}
	if t.busy {
		idle = make(chan struct{})
		t.idle = idle
	}
	t.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
