package pagesock

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// Times of a socket (section 3).
const (
	sendTime  = 5 * time.Second
	closeTime = 5 * time.Second // for the whole of a close, whatever the page does
)

// conn is one WebSocket as the authority sees it. A goroutine of its own reads,
// since the library ends a socket whose read is given up, and then no close code
// could tell why; it holds at most the one frame that nobody has taken yet.
type conn struct {
	ws      *websocket.Conn
	net     net.Conn
	frames  chan frame
	closing chan struct{} // closed by the first Close
	once    sync.Once     // over Close
	reading sync.WaitGroup
}

type frame struct {
	data []byte
	err  error
}

// errGone is the socket's end. It tells nothing of what the page said.
var errGone = errors.New("the page's socket has ended")

func newConn(ws *websocket.Conn, under net.Conn) *conn {
	ws.SetReadLimit(-1) // the limit is ours, and its close code has a reason that is a code
	c := &conn{ws: ws, net: under, frames: make(chan frame), closing: make(chan struct{})}
	c.reading.Go(c.read)
	return c
}

// read hands on one frame after the other, until one can't be.
func (c *conn) read() {
	defer close(c.frames)
	for {
		f := c.next()
		select {
		case c.frames <- f:
		case <-c.closing:
			return
		}
		if f.err != nil {
			return
		}
	}
}

func (c *conn) next() frame {
	kind, r, err := c.ws.Reader(context.Background()) // ended by Close
	if err != nil {
		return frame{err: errGone}
	}
	if kind != websocket.MessageText {
		return frame{err: refusal.Malformed}
	}
	data, err := io.ReadAll(io.LimitReader(r, controlv1.MaxFrame+1))
	switch {
	case len(data) > controlv1.MaxFrame:
		return frame{err: refusal.TooLarge}
	case err != nil:
		return frame{err: errGone}
	}
	return frame{data: data}
}

// Read answers one text frame; after a close it answers none.
func (c *conn) Read(ctx context.Context) ([]byte, error) {
	select {
	case <-c.closing:
		return nil, errGone
	default:
	}
	select {
	case f, ok := <-c.frames:
		if !ok {
			return nil, errGone
		}
		return f.data, f.err
	case <-c.closing:
		return nil, errGone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends one text frame whole. A page that takes longer than five seconds to
// read it has lost its socket; ctx decides only whether it is begun, since half a
// frame could never be taken back.
func (c *conn) Write(ctx context.Context, data []byte) error {
	select {
	case <-c.closing:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	if c.ws.Write(ctx, websocket.MessageText, data) != nil {
		return errGone
	}
	return nil
}

// Close ends it. Nothing is sent or handed on afterwards, and what the page still
// says is dropped.
func (c *conn) Close(code controlv1.Close, reason refusal.Code) {
	c.once.Do(func() {
		close(c.closing)
		c.net.SetDeadline(time.Now().Add(closeTime))
		c.ws.Close(websocket.StatusCode(code), string(reason)) // whoever has gone needs no reason
	})
}

// end waits for the close, which the authority may still be about to begin, and for
// whoever reads.
func (c *conn) end() {
	select {
	case <-c.closing:
	case <-time.After(closeTime):
	}
	c.Close(controlv1.CloseFault, refusal.Failed)
	c.reading.Wait()
}
