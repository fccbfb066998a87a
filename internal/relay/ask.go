package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"chaperone/internal/refusal"
)

// reply is what comes back to one question: a frame, or that nobody is there.
type reply struct {
	frame
	sender string
	nobody bool
}

// waiter is who waits, and for which node: no other one's word counts.
type waiter struct {
	node    string
	replies chan reply
}

// Ask asks a node. See Bus.
func (n *NATS) Ask(ctx context.Context, node, topic string, body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("a question between nodes: %w", refusal.TooLarge)
	}
	if !nodeForm.MatchString(node) {
		return nil, ErrGone
	}
	id, replies := newTicket(), make(chan reply, 8)
	n.mu.Lock()
	n.waiting[id] = waiter{node, replies}
	n.mu.Unlock()
	defer func() { n.mu.Lock(); delete(n.waiting, id); n.mu.Unlock() }()
	if err := n.send(n.toSubject(node), n.backSubject(n.me, id), frame{kind: ask, id: id, topic: topic, body: body}); err != nil {
		return nil, err
	}
	return n.await(ctx, node, id, replies)
}

// await waits for the answer, and says every second that it does. That also tells at
// once where the node has gone since: nobody takes it any more.
func (n *NATS) await(ctx context.Context, node string, id ticket, replies <-chan reply) ([]byte, error) {
	give := func(err error) ([]byte, error) {
		n.send(n.toSubject(node), "", frame{kind: stop, id: id})
		return nil, err
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	heard, told := time.Now(), false
	for {
		select {
		case r := <-replies:
			switch {
			case r.nobody && !told: // the server's answer to the question itself
				return nil, ErrGone
			case r.nobody:
				return nil, ErrLost
			case r.kind == away:
				return nil, ErrGone
			case r.kind == answer:
				return r.body, nil
			case r.kind == refuse:
				return nil, r.refused()
			}
			heard = time.Now()
		case <-beat.C:
			if time.Since(heard) > silenceTime {
				return give(ErrLost)
			}
			told = true
			n.send(n.toSubject(node), n.backSubject(n.me, id), frame{kind: still, id: id})
		case <-ctx.Done():
			return give(ctx.Err())
		case <-n.ending.Done():
			return give(ErrLost)
		}
	}
}

// back hands what comes back to who waits for it.
func (n *NATS) back(m *nats.Msg) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" { // the server's own word
		var id ticket
		text := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if read, err := hex.DecodeString(text); err == nil && len(read) == len(id) {
			copy(id[:], read)
			n.hand(id, reply{nobody: true})
		}
		return
	}
	sender, f, ok := n.receive(m)
	if ok && m.Subject == n.backSubject(n.me, f.id) {
		n.hand(f.id, reply{frame: f, sender: sender})
	}
}

// hand never waits. Of one who doesn't listen the oldest goes, which isn't the
// answer: nothing comes after that.
func (n *NATS) hand(id ticket, r reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w, ok := n.waiting[id]
	if !ok || !r.nobody && r.sender != w.node {
		return
	}
	for {
		select {
		case w.replies <- r:
			return
		default:
		}
		select {
		case <-w.replies:
		default:
		}
	}
}
