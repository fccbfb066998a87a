package node

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// ended takes the sessions that have just ended. Whoever tells of one holds the
// database, so what follows is done elsewhere; until then the grant is unreachable
// all the same, since its session is.
type ended struct {
	mu   sync.Mutex // guards all
	all  []gone
	wake chan struct{} // holds one
	once sync.Once
}

// gone is what is needed of a session that has ended; nothing secret is kept of it.
type gone struct {
	id      string
	browser ref.Browser
}

func (e *ended) ready() chan struct{} {
	e.once.Do(func() { e.wake = make(chan struct{}, 1) })
	return e.wake
}

// put is told of a session's end.
func (e *ended) put(s session.Session) { e.again([]gone{{s.ID, s.Browser}}) }

// again takes what could not be ended yet.
func (e *ended) again(all []gone) {
	e.mu.Lock()
	e.all = append(e.all, all...)
	e.mu.Unlock()
	select {
	case e.ready() <- struct{}{}:
	default:
	}
}

func (e *ended) take() []gone {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// againTime is how long until what a session's end failed to end is tried again.
const againTime = time.Second

// endGrants lets what a page was allowed, and what was armed in it, end with its
// session, until ctx is done.
func (n *Node) endGrants(ctx context.Context) {
	for {
		select {
		case <-n.ended.ready():
		case <-ctx.Done():
			return
		}
		var failed []gone
		for _, s := range n.ended.take() {
			err := n.disarm(ctx, s.browser)
			if err != nil && ctx.Err() == nil {
				log.Printf("background: the arms of an ended session: %s", refusal.Of(err))
			}
			grant := n.ledger.EndSession(ctx, s.id)
			if errors.Is(grant, refusal.Unknown) {
				grant = nil
			}
			if grant != nil && ctx.Err() == nil {
				log.Printf("background: the grant of an ended session: %s", refusal.Of(grant))
			}
			if err != nil || grant != nil {
				failed = append(failed, s)
			}
		}
		if len(failed) == 0 {
			continue
		}
		// A page whose sign-in is over must not stay open because a write failed once.
		select {
		case <-time.After(againTime):
			n.ended.again(failed)
		case <-ctx.Done():
			return
		}
	}
}
