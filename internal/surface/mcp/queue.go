package mcp

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// queue hands out turns in the order in which calls were read. A turn ends when
// its call's answer was written, or when no answer can come any more.
type queue struct {
	mu    sync.Mutex
	line  []*turn              // waiting and running, oldest first
	calls map[jsonrpc.ID]*turn // by the id that the client chose
}

// turn is one call's place in the queue.
type turn struct {
	ready chan struct{} // closed when every older call has been answered
	open  bool          // ready is closed
}

func newQueue() *queue { return &queue{calls: map[jsonrpc.ID]*turn{}} }

// maxWaiting bounds the calls that are read and not yet answered.
const maxWaiting = 1000

// join puts the call at the end. An id that is in use by a call that hasn't been
// answered is refused: nobody could tell two answers under one id apart.
func (q *queue) join(id jsonrpc.ID) *fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.calls[id] != nil:
		return invalid("the id is in use by a call that is not answered yet")
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

// leave ends the call's turn, wherever it stands in the queue.
func (q *queue) leave(id jsonrpc.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.calls[id]
	if t == nil {
		return
	}
	delete(q.calls, id)
	for i := range q.line {
		if q.line[i] == t {
			q.line = append(q.line[:i], q.line[i+1:]...)
			break
		}
	}
	q.advance()
}

func (q *queue) advance() {
	if len(q.line) > 0 && !q.line[0].open {
		q.line[0].open = true
		close(q.line[0].ready)
	}
}
