// Package telemetry exports attended calls that are over, as OpenTelemetry traces
// over OTLP/HTTP, to a collector, to Langfuse, or to both
// (spec/attended-control.md, sections 6 and 7).
//
// It contains
//
//	telemetry.go  Exporter: what is sent when, and when it is given up
//	span.go       a call as spans
//	collector.go  where they go, by the official exporter's client
//
// The ledger is the queue: a call that is over and says queued is still to be sent,
// by whichever node comes to it. It becomes recorded once every collector has
// acknowledged it and never before, and unavailable when it was tried often enough
// over some minutes. A crash between the acknowledgement and the ledger's commit
// sends the call again under the same ids, which are derived from the ledger's own,
// so a collector has it once.
//
// Spans hold digests, counts, codes and references: never arguments, results or the
// name of a person, an agent, a page or a tool. What a collector answers is its own
// text, and goes nowhere.
//
// One goroutine sends; Close waits for it. Nothing waits for an export.
//
// Floor: runtime.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
)

// Config of an Exporter.
type Config struct {
	Book    *ledger.Book // made with Options.Exports
	To      []Collector  // at least one; a call is recorded when all have it
	Version string       // of this server
	Log     *slog.Logger
	Limits  Limits // zero is what a server has
}

// Limits say when an export is given up.
type Limits struct {
	Every  time.Duration // how often the queue is looked at where nothing happens
	Settle time.Duration // how long more calls are waited for, to send them as one
	Tries  int           // and
	Window time.Duration // over how long, before a call is unavailable
	Most   time.Duration // between two tries
}

func (l Limits) or(d Limits) Limits {
	if l == (Limits{}) {
		return d
	}
	return l
}

var usual = Limits{Every: 10 * time.Second, Settle: 500 * time.Millisecond, Tries: 5, Window: 3 * time.Minute, Most: 30 * time.Second}

// batch is how many calls are sent as one.
const batch = 100

// Exporter sends what is over.
type Exporter struct {
	Config
	sinks []*sink
	nudge chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	tried map[controlv1.ID]tries // of the one goroutine
	pause time.Duration
}

// tries are those of one call, in this process.
type tries struct {
	n     int
	first time.Time
}

// Start begins to export, until Close.
func Start(c Config) (*Exporter, error) {
	if c.Book == nil || len(c.To) == 0 {
		return nil, fmt.Errorf("telemetry needs a ledger and a collector: %w", refusal.BadDocument)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.or(usual)
	ctx, stop := context.WithCancel(context.Background())
	e := &Exporter{Config: c, nudge: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), tried: map[controlv1.ID]tries{}}
	for _, to := range c.To {
		s, err := to.open(ctx)
		if err != nil {
			stop()
			return nil, err
		}
		e.sinks = append(e.sinks, s)
	}
	c.Book.OnCall(func(controlv1.ID, ledger.CallState) {
		select {
		case e.nudge <- struct{}{}:
		default: // it will look anyway
		}
	})
	go e.run(ctx)
	return e, nil
}

// Close ends it. What wasn't sent stays in the ledger for the next start.
func (e *Exporter) Close(ctx context.Context) error {
	e.stop()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Exporter) run(ctx context.Context) {
	defer close(e.done)
	defer e.close()
	wait := time.Duration(0) // what an earlier process left goes first
	for {
		timer := time.NewTimer(wait)
		nudge := e.nudge
		if e.pause > 0 {
			nudge = nil // a collector that is down isn't asked more often
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-nudge:
			timer.Stop()
			if !sleep(ctx, e.Limits.Settle) {
				return
			}
		case <-timer.C:
		}
		if err := e.round(ctx); err != nil && ctx.Err() == nil {
			e.Log.Warn("exporting telemetry", "code", string(refusal.Of(err)))
		}
		if wait = e.Limits.Every; e.pause > 0 {
			wait = e.pause
		}
	}
}

func (e *Exporter) close() {
	for _, s := range e.sinks {
		s.close()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// round sends what is queued, until nothing is or a collector fails.
func (e *Exporter) round(ctx context.Context) error {
	for {
		calls, err := e.Book.Unexported(ctx, batch)
		if err != nil || len(calls) == 0 {
			e.pause = 0
			return err
		}
		failed, err := e.send(ctx, calls)
		if err != nil {
			return err
		}
		if failed {
			e.pause = min(max(2*e.pause, time.Second), e.Limits.Most)
			return nil
		}
		if e.pause = 0; len(calls) < batch {
			return nil
		}
	}
}

// send sends calls as one, and where a collector has answered that it doesn't take
// them, one by one: another's fault isn't theirs. failed tells that some are left.
func (e *Exporter) send(ctx context.Context, calls []ledger.Told) (failed bool, err error) {
	sent, refused := e.upload(ctx, calls)
	if sent {
		return false, e.told(ctx, calls, controlv1.Recorded)
	}
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	if !refused || len(calls) == 1 {
		return true, e.missed(ctx, calls)
	}
	for _, c := range calls {
		f, err := e.send(ctx, []ledger.Told{c})
		if failed = failed || f; err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// upload hands calls to every collector. refused tells that one answered no, so that
// there is somebody there.
func (e *Exporter) upload(ctx context.Context, calls []ledger.Told) (sent, refused bool) {
	spans := resource(e.Version, calls)
	for _, s := range e.sinks {
		if err := s.upload(ctx, spans); err != nil {
			return false, s.answered()
		}
	}
	return true, false
}

// missed counts a failed try, and gives up those calls that had enough of them.
func (e *Exporter) missed(ctx context.Context, calls []ledger.Told) error {
	now := time.Now()
	var over []ledger.Told
	for _, c := range calls {
		t, known := e.tried[c.ID]
		if !known {
			t.first = now
		}
		t.n++
		e.tried[c.ID] = t
		if t.n >= e.Limits.Tries && now.Sub(t.first) >= e.Limits.Window {
			over = append(over, c)
		}
	}
	return e.told(ctx, over, controlv1.Unavailable)
}

// told writes what became of calls.
func (e *Exporter) told(ctx context.Context, calls []ledger.Told, t controlv1.Telemetry) error {
	for some := range slices.Chunk(calls, batch) {
		ids := make([]controlv1.ID, len(some))
		for i, c := range some {
			ids[i] = c.ID
		}
		if err := e.Book.Exported(ctx, ids, t); err != nil {
			return err
		}
		for _, id := range ids {
			delete(e.tried, id)
		}
	}
	return nil
}
