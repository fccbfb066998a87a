package relay

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"chaperone/internal/refusal"
)

// question is one that this node works at: the asker's name is part of it, so that
// nobody else's word moves it.
type question struct {
	sender string
	id     ticket
}

// work is what is done for a question.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc
	heard  time.Time // of who asked; under NATS.mu
}

func newWork(until context.Context) *work {
	w := &work{heard: time.Now()}
	w.ctx, w.cancel = context.WithCancel(until)
	return w
}

// taken takes a question, and what its asker says of it later.
func (n *NATS) taken(m *nats.Msg) {
	sender, f, ok := n.receive(m)
	if !ok {
		return
	}
	q := question{sender, f.id}
	if f.kind == ask {
		n.asked(q, f)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.working[q]
	switch {
	case w == nil:
	case f.kind == stop:
		w.cancel()
	case f.kind == still:
		w.heard = time.Now()
	}
}

// asked begins to work at a question. One that is worked at already was sent again by
// somebody else: it is nothing.
func (n *NATS) asked(q question, f frame) {
	n.mu.Lock()
	draining, full, again := n.draining, len(n.working) >= MostAsked, n.working[q] != nil
	var w *work
	if !draining && !full && !again {
		w = newWork(n.ending)
		n.working[q] = w
		n.tasks.Add(1)
	}
	n.mu.Unlock()
	switch {
	case again:
	case draining:
		n.reply(q, frame{kind: away, id: q.id})
	case full:
		n.reply(q, refusing(q.id, refusal.Busy))
	default:
		go n.work(w, q, f)
	}
}

// work answers a question, and says every second that it is being worked at. It ends
// where nothing is heard of who asked any more.
func (n *NATS) work(w *work, q question, f frame) {
	defer n.tasks.Done()
	over := make(chan struct{})
	var out []byte
	var err error
	go func() {
		defer close(over)
		out, err = n.side.Asked(w.ctx, f.topic, f.body)
	}()
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for working := true; working; {
		select {
		case <-over:
			working = false
		case <-beat.C:
			n.reply(q, frame{kind: still, id: q.id})
			n.look(w)
		}
	}
	n.mu.Lock()
	delete(n.working, q)
	n.mu.Unlock()
	w.cancel()
	switch {
	case err != nil:
		n.reply(q, refusing(q.id, err))
	case len(out) > MaxBody:
		n.reply(q, refusing(q.id, refusal.TooLarge))
	default:
		n.reply(q, frame{kind: answer, id: q.id, body: out})
	}
}

// look stops work that nobody waits for.
func (n *NATS) look(w *work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(w.heard) > silenceTime {
		w.cancel()
	}
}

// reply goes where the asker's own name and ticket say, and not where the message
// did. What is lost on the way is the asker's to notice.
func (n *NATS) reply(q question, f frame) { n.send(n.backSubject(q.sender, q.id), "", f) }

// Tell hints to the others. See Bus.
func (n *NATS) Tell(topic string, body []byte) {
	n.send(n.hintSubject(), "", frame{kind: hint, topic: topic, body: body})
}

func (n *NATS) told(m *nats.Msg) {
	if _, f, ok := n.receive(m); ok && f.kind == hint {
		n.side.Told(f.topic, f.body)
	}
}
