package live

import (
	"context"
	"maps"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// word is a hint on its way to the other nodes.
type word struct{ topic, about string }

// hinted is how many hints wait to leave; past that they are dropped, and the other
// nodes find what was ended by looking, within a second or two.
const hinted = 1024

// hint says that something may concern other nodes. It never waits.
func (a *Authority) hint(topic, about string) {
	if a.Bus.Alone() {
		return
	}
	select {
	case a.hints <- word{topic, about}:
	default:
	}
}

// tellHints sends hints until the node ends.
func (a *Authority) tellHints() {
	for {
		select {
		case w := <-a.hints:
			a.Bus.Tell(w.topic, []byte(w.about))
		case <-a.stop:
			return
		}
	}
}

// Told hears that another node moved a call or ended an arm. It is a reason to look
// at the record and nothing else. See relay.Side.
func (a *Authority) Told(topic string, about []byte) {
	switch topic {
	case topicCall:
		if id, err := controlv1.ParseID(string(about)); err == nil {
			if f := a.flight(id); f != nil {
				f.poke("")
			}
		}
	case topicArm:
		arm, err := ref.Parse[ref.AttendedKind](string(about))
		if err != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, c := range a.channels[arm] {
			if !a.closed {
				a.tasks.Go(func() { c.standing() })
			}
		}
	}
}

// standing looks whether a channel's arm stands still, and ends it where it doesn't.
// One that opened nothing yet finds out as it does, and isn't looked at.
func (c *channel) standing() (opened bool) {
	c.mu.Lock()
	consumed := c.consumed
	c.mu.Unlock()
	if !consumed {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	if _, err := c.a.Book.Standing(ctx, c.arm.Ref); err != nil && !infra(err) {
		c.end(controlv1.CloseTrust, controlv1.Trust(refusal.Of(err)))
	}
	return true
}

// flight answers the call under way on this node, nil for none.
func (a *Authority) flight(id controlv1.ID) *flight {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flights[id]
}

// heard tells whether a reader was told something by way of another node: what is
// only in that one's memory is in the record too. Where that can't be read, it was.
func (a *Authority) heard(ctx context.Context, r reader) bool {
	if a.Bus.Alone() {
		return false
	}
	heard, err := a.Book.Heard(ctx, r.person, controlv1.MaskAgent(a.Key, r.agent), time.Now().Add(-taintTime), a.ownOrigin, slices.Collect(maps.Keys(clean)))
	return heard || err != nil
}
