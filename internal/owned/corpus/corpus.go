// Package corpus is the containment corpus: the ways in which a page, an agent
// or a program in the box could try to reach what the scope doesn't allow, the
// sinks that would see it arrive, and the run that judges both.
//
// A run happens in a network namespace of its own, the world (see [Enter]),
// where every address is local: whatever a vector aims at, a sink or the sniffer
// there sees it, and nothing can leave the machine. The judges are the sinks and
// the sniffer, never Chaperone's own log.
//
// Each vector is tried twice. First in a control, where it has to arrive: the
// same box and proxy with the scope widened or, for what no proxy can carry, the
// same engine with the box removed. A vector that doesn't arrive in its control
// proves nothing and counts as failed. Then in the box with the scope under
// test, where nothing of it may be seen. States of a row: contained (arrived in
// the control, unseen in the box), leaked (seen in the box), unproven (never
// arrived in the control).
//
// It never touches the machine's own network, and it decides nothing for a run:
// it asks jail, proxy, browser and scope as a host would.
//
// Floor: runtime.
package corpus

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what is qualified.
type Config struct {
	Engine  string // the engine's executable
	Version string // what the engine calls itself, for the report
	// Unboxed starts the engine without a box, with exactly these arguments, in
	// the calling process' namespaces. It is for the control of what no proxy can
	// carry; the world has no way out either.
	Unboxed func(args []string) (pipe io.ReadWriteCloser, err error)
	// Only, where it isn't nil, chooses the vectors; a whole run has nil.
	Only     func(Vector) bool
	Progress func(done, of int, vector string) // may be nil
}

// run is one qualification under way.
type run struct {
	Config
	sinks *sinks
	rows  map[string]*Row
	delay map[string]time.Duration // how long the control waited for each vector
	done  int
	of    int
}

// Run tries every vector. The calling process is in a world made by [Enter].
// An error means that the run itself couldn't be done; what it found is in the
// report.
func Run(ctx context.Context, config Config) (Report, error) {
	vectors, paths := choose(Vectors, config.Only), choose(Paths, config.Only)
	report := Report{Engine: config.Engine, Version: config.Version, Kernel: Kernel(), UID: os.Getuid(), Started: time.Now().UTC()}
	s, err := openSinks(append(append([]Vector{}, vectors...), paths...))
	if err != nil {
		return report, err
	}
	defer s.Close()
	r := &run{Config: config, sinks: s, rows: map[string]*Row{}, delay: map[string]time.Duration{}, of: 2 * (len(vectors) + len(paths))}
	for _, v := range append(append([]Vector{}, vectors...), paths...) {
		r.rows[v.Name] = &Row{Vector: v.Name, Group: v.Group, Control: v.Control, Verdict: Unproven}
	}
	if err := r.control(ctx, vectors, paths); err != nil {
		return report, fmt.Errorf("control: %w", err)
	}
	refusals, err := r.contained(ctx, vectors, paths)
	if err != nil {
		return report, fmt.Errorf("contained: %w", err)
	}
	report.Refusals = refusals
	for _, v := range append(append([]Vector{}, vectors...), paths...) {
		row := r.rows[v.Name]
		switch {
		case row.Seen != "":
			row.Verdict = Leaked
		case row.Arrived != "":
			row.Verdict = Contained
		}
		report.Rows = append(report.Rows, *row)
	}
	for _, x := range s.take() {
		report.Strays = append(report.Strays, strings.TrimSpace(x.Vector+" "+x.How))
	}
	report.Seconds = time.Since(report.Started).Seconds()
	return report, nil
}

func choose(all []Vector, only func(Vector) bool) []Vector {
	var out []Vector
	for _, v := range all {
		if only == nil || only(v) {
			out = append(out, v)
		}
	}
	return out
}

// control lets every vector arrive, and remembers how and how soon.
func (r *run) control(ctx context.Context, vectors, paths []Vector) error {
	all := append(append([]Vector{}, vectors...), paths...)
	scoped, open, raw := split(all)
	if err := r.prove(ctx, scoped, r.boxed(wideScope, false)); err != nil {
		return err
	}
	// Where a box has its proxy, the control without one has a sink.
	inPlace, err := r.sinks.listen(3128, false)
	if err != nil {
		return err
	}
	defer inPlace.Close()
	if err := r.prove(ctx, open, r.unboxed()); err != nil {
		return err
	}
	relay, err := openRelay(r.sinks.resolve)
	if err != nil {
		return err
	}
	defer relay.Close()
	r.sinks.ours(relay.listener.Addr())
	for _, v := range raw {
		r.tell(v)
		if err := v.Raw(relay.dial, v); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		r.await(v, time.Second)
	}
	// What the sniffer still has in hand belongs to the control.
	time.Sleep(300 * time.Millisecond)
	r.sinks.take()
	return nil
}

// tries is how often the control plays a vector that doesn't arrive: a page may lose
// its moment on a busy machine, and the control proves what can arrive, not how
// often. In the box each is played once and any arrival counts.
const tries = 3

// prove plays vectors in a control, and those that didn't arrive again, in a fresh
// session.
func (r *run) prove(ctx context.Context, vectors []Vector, start starter) error {
	for try := range tries {
		if try > 0 {
			r.of += len(vectors)
		}
		if err := r.pass(ctx, vectors, start, r.arrive); err != nil {
			return err
		}
		vectors = slices.DeleteFunc(slices.Clone(vectors), func(v Vector) bool { return r.rows[v.Name].Arrived != "" })
	}
	return nil
}

// contained lets every vector try, in the box with the scope under test.
func (r *run) contained(ctx context.Context, vectors, paths []Vector) (refusals []Refusal, err error) {
	for _, part := range []struct {
		vectors []Vector
		scope   string
	}{{vectors, hostScope}, {paths, pathScope}} {
		if len(part.vectors) == 0 {
			continue
		}
		scoped, open, raw := split(part.vectors)
		start := r.boxed(part.scope, true)
		if err := r.pass(ctx, append(scoped, open...), start, r.dwell); err != nil {
			return nil, err
		}
		s, err := start(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range raw {
			r.tell(v)
			if err := v.Raw(s.dial, v); err != nil {
				s.Close()
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
		}
		if part.scope == hostScope {
			refusals = s.schemes(ctx)
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	// What a vector left behind (a retry, a keepalive, a reporting timer) has this
	// long to show itself after the last box is gone.
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, x := range r.sinks.take() {
		if row := r.rows[x.Vector]; row != nil {
			row.Seen = x.How
		} else {
			r.sinks.note(x)
		}
	}
	return refusals, nil
}

// split parts the vectors by what plays them.
func split(all []Vector) (scoped, open, raw []Vector) {
	for _, v := range all {
		switch {
		case v.Raw != nil:
			raw = append(raw, v)
		case v.Control == Open:
			open = append(open, v)
		default:
			scoped = append(scoped, v)
		}
	}
	return scoped, open, raw
}

// pass plays vectors in sessions made by start. After each it calls settle. A
// session that a vector ended is replaced; so is one after many vectors, since
// their service workers and tabs stay.
func (r *run) pass(ctx context.Context, vectors []Vector, start starter, settle func(Vector)) error {
	const perSession = 40
	var s *session
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for i, v := range vectors {
		if s != nil && (i%perSession == 0 || s.ended()) {
			if err := s.Close(); err != nil {
				return err
			}
			s = nil
		}
		if s == nil {
			var err error
			if s, err = start(ctx); err != nil {
				return err
			}
		}
		r.tell(v)
		s.play(ctx, v)
		settle(v)
		s.tidy(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// arrive waits until the vector reached a sink, and takes down how.
func (r *run) arrive(v Vector) { r.await(v, 5*time.Second) }

func (r *run) await(v Vector, limit time.Duration) {
	started := time.Now()
	for time.Since(started) < limit {
		if how, ok := r.sinks.has(v.Name); ok {
			r.rows[v.Name].Arrived = how
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.delay[v.Name] = time.Since(started)
}

// dwell gives a vector in the box three times what its control needed and a quarter
// of a second: its page is closed afterwards.
func (r *run) dwell(v Vector) {
	time.Sleep(min(3*r.delay[v.Name]+250*time.Millisecond, 3*time.Second))
}

func (r *run) tell(v Vector) {
	r.done++
	if r.Progress != nil {
		r.Progress(r.done, r.of, v.Name)
	}
}

// Kernel names this machine's kernel: its system, release and machine.
func Kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

// ownListener is a listener of the node under test: denied whatever the scope
// says. The widened control has none.
func ownListener() []netip.AddrPort { return []netip.AddrPort{netip.AddrPortFrom(siteAddr, 7080)} }
