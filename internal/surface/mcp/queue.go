package mcp

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// queue hands out turns in the order in which calls were read. A turn ends when
// its call's answer was written, or when no answer can come any more. Requests
// that need no turn, ping or tools/list, only take a place until then.
type queue struct {
	mu     sync.Mutex
	line   []*turn              // waiting and running, oldest first
	calls  map[jsonrpc.ID]*turn // by the id that the client chose; nil for one without a turn
	places chan struct{}        // one for each without a turn
}

// turn is one call's place in the queue.
type turn struct {
	ready chan struct{} // closed when every older call has been answered
	open  bool          // ready is closed
}

func newQueue() *queue {
	return &queue{calls: map[jsonrpc.ID]*turn{}, places: make(chan struct{}, maxWaiting)}
}

// maxWaiting bounds the calls that are read and not yet answered, and the
// requests without a turn just so.
const maxWaiting = 1000

var inUse = invalid("the id is in use by a call that is not answered yet")

// pass takes the id of a request that needs no turn. Whoever passes then takes a
// place, and reads no further until there is one: a client that doesn't read its
// answers would else fill the memory with them.
func (q *queue) pass(id jsonrpc.ID) *fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, used := q.calls[id]; used {
		return inUse
	}
	q.calls[id] = nil
	return nil
}

// join puts the call at the end. An id that is in use by a call that hasn't been
// answered is refused: nobody could tell two answers under one id apart.
func (q *queue) join(id jsonrpc.ID) *fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, used := q.calls[id]
	switch {
	case used:
		return inUse
	case len(q.line) == maxWaiting:
		return invalid(fmt.Sprintf("%d calls wait already", maxWaiting))
	}
	t := &turn{ready: make(chan struct{})}
	q.calls[id] = t
	q.line = append(q.line, t)
	q.advance()
	return nil
}

// wait returns when it is the call's turn. An unknown id has no turn to wait
// for.
func (q *queue) wait(ctx context.Context, id jsonrpc.ID) error {
	q.mu.Lock()
	t := q.calls[id]
	q.mu.Unlock()
	if t == nil {
		return ctx.Err()
	}
	select {
	case <-t.ready:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer frees an id whose call is about to be answered: who has read the answer
// may use it again. The function that it returns is called after the writing; it
// ends the call's turn, wherever it stands in the queue, or gives its place back.
func (q *queue) answer(id jsonrpc.ID) (written func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, used := q.calls[id]
	delete(q.calls, id)
	switch {
	case t != nil:
		return func() { q.leave(t) }
	case used:
		return func() { <-q.places }
	}
	return func() {}
}

func (q *queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.line, t); i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
	}
	q.advance()
}

func (q *queue) advance() {
	if len(q.line) > 0 && !q.line[0].open {
		q.line[0].open = true
		close(q.line[0].ready)
	}
}
