package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/go-json-experiment/json/jsontext"
)

// subscription is how many events of one method wait for their reader. One that
// falls behind further is cut off, so that a flood fills no memory.
const subscription = 256

// session is the connection to one target; the one without an id is the engine's
// own. It is a cdp.Session: cdp.Call(ctx, s, page.Navigate, …).
type session struct {
	b      *Browser
	id     string
	kind   string    // of target.Info: page, iframe, worker, …
	target target.ID // an iframe's is its frame's id, a page's its main frame's
	tab    *tab      // whom it belongs to; nil for the engine and shared workers

	// Guarded by Browser.mu.
	contexts map[int64]string // unique ids of execution contexts
	subs     map[string][]*sub
	detached bool
	logged   int // console calls so far
}

type sub struct{ events chan jsontext.Value }

var _ cdp.Session = (*session)(nil)

// Call sends a command and waits for its answer until ctx ends.
func (s *session) Call(ctx context.Context, method string, params, result any) error {
	return s.b.conn.call(ctx, s.id, method, params, result)
}

// post sends a command of which nobody waits for the answer.
func (s *session) post(method string, params any) { s.b.conn.post(s.id, method, params, nil) }

// Subscribe buffers the events of a method from now on. The channel closes when
// the session ends or its reader fell too far behind.
func (s *session) Subscribe(method string) (<-chan jsontext.Value, func()) {
	u := &sub{make(chan jsontext.Value, subscription)}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.detached {
		close(u.events)
		return u.events, func() {}
	}
	if s.subs == nil {
		s.subs = make(map[string][]*sub)
	}
	s.subs[method] = append(s.subs[method], u)
	s.b.listeners[method]++
	return u.events, func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		s.drop(method, u)
	}
}

// drop ends a subscription. Browser.mu is held.
func (s *session) drop(method string, u *sub) {
	for i, have := range s.subs[method] {
		if have == u {
			s.subs[method] = append(s.subs[method][:i:i], s.subs[method][i+1:]...)
			s.b.listeners[method]--
			close(u.events)
			return
		}
	}
}

// publish hands an event to its subscribers. Browser.mu is held.
func (s *session) publish(method string, params jsontext.Value) {
	for _, u := range s.subs[method] {
		select {
		case u.events <- params:
		default:
			s.drop(method, u)
		}
	}
}

// detach ends the session's subscriptions. Browser.mu is held.
func (s *session) detach() {
	s.detached = true
	for method, subs := range s.subs {
		s.b.listeners[method] -= len(subs)
		for _, u := range subs {
			close(u.events)
		}
	}
	s.subs = nil
}
