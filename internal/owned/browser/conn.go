package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// maxPending bounds the calls that wait for an answer, and sendQueue what waits to
// be written. The engine always reads; one that doesn't stalls its own run only,
// and each caller leaves with its context.
const (
	maxPending = 8192
	sendQueue  = 8192
)

// conn speaks the debugging protocol over one pipe. Events and the replies to
// posted calls run on the reading goroutine, in the engine's order, and so must
// not wait for anything.
type conn struct {
	rw      io.ReadWriteCloser
	send    chan []byte
	done    chan struct{} // closed when the pipe has ended
	end     sync.Once
	workers sync.WaitGroup
	wanted  func(method string) bool                                  // of an event; one that nobody wants isn't even decoded
	event   func(method, session string, params jsontext.Value) error // an error ends the run
	over    func(method, session string, rest []byte)                 // an oversized event was skipped

	mu      sync.Mutex // guards what follows
	next    int64
	pending map[int64]reply
	err     error // why done is closed
}

// reply takes the answer of one call, once.
type reply func(result jsontext.Value, err error)

func newConn(rw io.ReadWriteCloser) *conn {
	return &conn{
		rw: rw, send: make(chan []byte, sendQueue), done: make(chan struct{}),
		pending: make(map[int64]reply),
	}
}

// start runs the two goroutines. wanted, event and over must be set before.
func (c *conn) start() {
	c.workers.Go(c.read)
	c.workers.Go(c.write)
}

// close ends the pipe and waits for both goroutines. Not for the reading one.
func (c *conn) close() {
	c.fail(refusal.Ended)
	c.workers.Wait()
}

// fail ends the pipe for a reason; the first one stays.
func (c *conn) fail(err error) {
	c.end.Do(func() {
		c.mu.Lock()
		c.err = err
		pending := c.pending
		c.pending = nil
		c.mu.Unlock()
		close(c.done)
		c.rw.Close() // it is of no use any more, whatever Close says
		for _, r := range pending {
			r(nil, err)
		}
	})
}

func (c *conn) read() {
	r := bufio.NewReaderSize(c.rw, 64<<10)
	for {
		frame, over, err := readFrame(r, maxFrame)
		if err != nil {
			c.fail(fmt.Errorf("the engine's pipe ended: %w", refusal.EngineExited))
			return
		}
		if over {
			c.skipped(frame)
			continue
		}
		if err := c.receive(frame); err != nil {
			c.fail(err)
			return
		}
	}
}

// receive dispatches one frame. Its error ends the run.
func (c *conn) receive(frame []byte) error {
	if method := eventName(frame); method != "" && !c.wanted(method) {
		return nil
	}
	m, err := decodeMessage(frame)
	if err != nil {
		return err
	}
	if m.ID == 0 {
		if err := c.event(m.Method, m.Session, m.Params); err != nil {
			return fmt.Errorf("%w: %w", refusal.Malformed, err)
		}
		return nil
	}
	c.mu.Lock()
	r, known := c.pending[m.ID]
	delete(c.pending, m.ID)
	sent := m.ID <= c.next
	c.mu.Unlock()
	switch {
	case known && m.Error != nil:
		r(nil, &protocolError{Code: m.Error.Code, Message: m.Error.Message})
	case known:
		r(m.Result, nil)
	case !sent:
		return fmt.Errorf("an answer to no call: %w", refusal.Malformed)
	}
	return nil
}

// skipped fails the call that an oversized answer belonged to, or tells of the
// event by what its head and its tail say.
func (c *conn) skipped(rest []byte) {
	m := scanHead(rest)
	if m.ID == 0 {
		c.over(m.Method, tailSession(rest), rest)
		return
	}
	c.mu.Lock()
	r, known := c.pending[m.ID]
	delete(c.pending, m.ID)
	c.mu.Unlock()
	if known {
		r(nil, refusal.TooLarge)
	}
}

func (c *conn) write() {
	w := bufio.NewWriterSize(c.rw, 64<<10)
	for {
		select {
		case frame := <-c.send:
			w.Write(frame)
			w.WriteByte(0)
			if len(c.send) > 0 {
				continue // one write for what came together
			}
			if err := w.Flush(); err != nil {
				c.fail(fmt.Errorf("the engine's pipe ended: %w", refusal.EngineExited))
				return
			}
		case <-c.done:
			return
		}
	}
}

// post sends a call and never waits, since the reading goroutine uses it with a
// lock held. r, which may be nil, takes the answer later; nobody calls it when the
// pipe has ended already. An engine that reads nothing ends its run.
func (c *conn) post(session, method string, params any, r reply) {
	id, frame, err := c.register(session, method, params, r)
	if err == nil {
		select {
		case c.send <- frame:
			return
		case <-c.done:
			return
		default:
			err = refusal.TooMany
		}
	}
	c.forget(id)
	c.workers.Go(func() { c.fail(fmt.Errorf("the engine takes no more calls: %w", err)) })
}

// call sends a call and waits for its answer. When ctx ends first the call isn't
// undone: whoever needs that stops it by name (see act.go).
func (c *conn) call(ctx context.Context, session, method string, params, result any) error {
	answers := make(chan answer, 1)
	id, frame, err := c.register(session, method, params, func(result jsontext.Value, err error) {
		answers <- answer{result, err}
	})
	if err != nil {
		return err
	}
	queue := c.send
	for {
		select {
		case queue <- frame:
			queue = nil // sent once
		case a := <-answers:
			return finish(method, a.result, a.err, result)
		case <-ctx.Done():
			c.forget(id)
			return context.Cause(ctx)
		}
	}
}

// finish decodes the answer of a call.
func finish(method string, raw jsontext.Value, err error, result any) error {
	var refused *protocolError
	if errors.As(err, &refused) {
		return &protocolError{Method: method, Code: refused.Code, Message: refused.Message}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, result, lenientText); err != nil {
		return fmt.Errorf("%s: an answer that isn't the protocol: %w", method, refusal.Malformed)
	}
	return nil
}

// answer is what came of a call.
type answer struct {
	result jsontext.Value
	err    error
}

// begin sends a call and returns at once. The answer arrives whenever it does, or
// never, if the pipe ends.
func (c *conn) begin(session, method string, params any) <-chan answer {
	answers := make(chan answer, 1)
	c.post(session, method, params, func(result jsontext.Value, err error) { answers <- answer{result, err} })
	return answers
}

// register numbers a call and keeps who waits for its answer.
func (c *conn) register(session, method string, params any, r reply) (id int64, frame []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return 0, nil, c.err
	}
	if len(c.pending) >= maxPending {
		return 0, nil, fmt.Errorf("%s: %d calls without an answer: %w", method, maxPending, refusal.TooMany)
	}
	c.next++
	frame, err = encode(c.next, session, method, params)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", method, refusal.Malformed)
	}
	if r != nil {
		c.pending[c.next] = r
	}
	return c.next, frame, nil
}

// forget drops whoever waits for the answer of a call.
func (c *conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// cause answers why the pipe ended; nil while it lives.
func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
