package node

import (
	"context"
	"errors"
	"log"
	"sync"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// ended takes the sessions that have just ended. Whoever tells of one holds the
// database, so what follows is done elsewhere; until then the grant is unreachable
// all the same, since its session is.
type ended struct {
	mu   sync.Mutex // guards ids
	ids  []string
	wake chan struct{} // holds one
	once sync.Once
}

func (e *ended) ready() chan struct{} {
	e.once.Do(func() { e.wake = make(chan struct{}, 1) })
	return e.wake
}

// put is told of a session's end.
func (e *ended) put(s session.Session) {
	e.mu.Lock()
	e.ids = append(e.ids, s.ID)
	e.mu.Unlock()
	select {
	case e.ready() <- struct{}{}:
	default:
	}
}

func (e *ended) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := e.ids
	e.ids = nil
	return ids
}

// endGrants lets what a page was allowed end with its session, until ctx is done.
func (n *Node) endGrants(ctx context.Context) {
	for {
		select {
		case <-n.ended.ready():
		case <-ctx.Done():
			return
		}
		for _, id := range n.ended.take() {
			if err := n.ledger.EndSession(ctx, id); err != nil && !errors.Is(err, refusal.Unknown) && ctx.Err() == nil {
				log.Printf("background: the grant of an ended session: %s", refusal.Of(err))
			}
		}
	}
}
