package live_test

import (
	"context"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// second is another socket of the same arm, as a page that was duplicated opens it.
func (p *page) second() *page {
	q := &page{w: p.w, who: p.who, place: p.place, arm: p.arm, nonce: p.nonce}
	return q.dial()
}

// The end of an arm and the end of the node reach every socket that came with it,
// also one that wasn't the first and has said nothing.
func TestEveryEndReachesASecondSocket(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.person(catalog).armed().dial()
		q := first.second()
		q.say(q.open()) // the second has the arm; the first has none
		for range 100 {
			if arm := must[any](t)(first.state()); arm == "consumed" {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		start := time.Now()
		if err := w.a.Revoke(ctx, q.who, q.arm.Ref, q.place, refusal.Revoked); err != nil {
			t.Fatal(err)
		}
		q.closed(controlv1.CloseTrust, refusal.Revoked)
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("revoked, and closed after %v", took)
		}

		third := w.person(catalog).armed().dial()
		fourth := third.second()
		time.Sleep(100 * time.Millisecond)
		end, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := w.a.Close(end); err != nil {
			t.Error(err)
		}
		third.closed(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
		fourth.closed(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
	})
}

func (p *page) state() (any, error) {
	arm, err := p.w.book.Find(ctx, p.arm.Ref)
	return string(arm.State), err
}
