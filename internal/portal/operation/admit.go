package operation

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"chaperone/internal/portal/tool"
)

// gate is one account's admission on this node. Its fields but for the limiter,
// which locks itself, stand under Desk.mu.
type gate struct {
	limiter *rate.Limiter
	slots   chan struct{} // holds one for each call that runs
	users   int           // those who hold this gate
	used    time.Time
}

// idle is how long an account's gate is kept once nobody is in it.
const idle = time.Minute

// maxGates bounds how many are kept at all.
const maxGates = 10_000

// slot is one of an account's calls at once. It is held until everything that was
// started under it has ended, so that a source which hangs past its deadline can't
// be asked without limit.
type slot struct {
	gate  *gate
	held  atomic.Int32
	leave func()
}

func (s *slot) hold() { s.held.Add(1) }

// drop gives up one hold; a nil slot has none.
func (s *slot) drop() {
	if s == nil {
		return
	}
	if s.held.Add(-1) == 0 {
		<-s.gate.slots
		s.leave()
	}
}

// enter answers the account's gate and how to leave it.
func (d *Desk) enter(actor string) (*gate, func()) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.gates) > maxGates {
		d.evict(now)
	}
	g := d.gates[actor]
	if g == nil {
		g = &gate{limiter: rate.NewLimiter(rate.Limit(d.limits.Rate), d.limits.Burst), slots: make(chan struct{}, d.limits.Parallel)}
		d.gates[actor] = g
	}
	g.users++
	g.used = now
	return g, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.users--
	}
}

// evict drops gates that are as a fresh one would be. d.mu is held.
func (d *Desk) evict(now time.Time) {
	for actor, g := range d.gates {
		full := g.limiter.TokensAt(now) >= float64(d.limits.Burst)
		if g.users == 0 && (full || now.Sub(g.used) > idle) {
			delete(d.gates, actor)
		}
	}
}

// charge counts one call: rate_limited where the account asks too often.
func (d *Desk) charge(actor string) error {
	g, leave := d.enter(actor)
	defer leave()
	r := g.limiter.Reserve()
	if wait := r.Delay(); wait > 0 || !r.OK() {
		r.Cancel()
		return tool.Fail(tool.RateLimited, "retry_after_ms", max(1, (wait+time.Millisecond-1).Milliseconds()))
	}
	return nil
}

// admit takes one of the account's calls at once; busy where none comes free in
// time. The caller drops it.
func (d *Desk) admit(ctx context.Context, actor string) (*slot, error) {
	g, leave := d.enter(actor)
	if err := d.turn(ctx, g); err != nil {
		leave()
		return nil, err
	}
	s := &slot{gate: g, leave: leave}
	s.hold()
	return s, nil
}

// turn waits for one of the gate's slots.
func (d *Desk) turn(ctx context.Context, g *gate) error {
	select {
	case g.slots <- struct{}{}: // one that is free is never missed for a timer
		return nil
	default:
	}
	timer := time.NewTimer(d.limits.Wait)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return tool.Fail(tool.Busy)
	case <-ctx.Done():
		return tool.Fail(tool.Cancelled)
	}
}
