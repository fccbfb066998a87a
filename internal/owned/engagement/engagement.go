// Package engagement is one turn of an agent with its browser around it: a run
// at a LangGraph-compatible API, and the host whose registration carries that
// run's id (spec/owned-browser.md, section 3).
//
// It contains
//
//	engagement.go  Config, Result, Run: the one order of a turn
//	input.go       what the caller may hand in, and the two keys that are ours
//	api.go         requests to the API, and what its refusals mean to a person
//	stream.go      the run's event stream, which is the caller's lifeline too
//	follow.go      the run's true status, asked for until it is final
//	cancel.go      the end of a run that mustn't go on
//	folder.go      the registrations directory: judged before, swept after
//
// A turn goes: directory judged, thread, run (the server makes its id), pending
// to running, host started, registration published, joined, true status read,
// revoked, torn down. The run is created together with its stream and
// on_disconnect "cancel": the server itself ends a run whose caller died, at
// any moment after its creation, kill -9 included. The join answers when the
// stream ends, and tells nothing by it; what the server then says of the run's
// status counts.
//
// Crash at each step leaves: before the run, an empty thread; after it, nothing
// at the server (the lifeline) and nothing here (the host ends with its
// starter's death, and its guardian removes the registration).
//
// Whatever fails after the run was made also cancels it: bounded, and shielded
// from the caller's own cancellation. It never extends the 60 seconds of a
// bootstrap, never starts a second host for a run, never invents a run id, never
// follows a redirect and never quotes what a server answered.
//
// Floor: runtime.
package engagement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// Statuses of a run, as the API tells them. Unknown is ours alone: the server
// couldn't be asked.
const (
	Pending     = "pending"
	Running     = "running"
	Success     = "success"
	Failed      = "error"
	TimedOut    = "timeout"
	Interrupted = "interrupted"
	Unknown     = "unknown"
)

// Defaults of a Config.
const (
	DefaultWait     = time.Minute
	DefaultPatience = 30 * time.Second
)

// Host is a started host, whose registration is published.
type Host interface {
	Done() <-chan struct{}           // closed when it has ended, for whatever reason
	Err() error                      // why, once it has ended by itself
	Close(ctx context.Context) error // revokes, ends, and waits until nothing is left
}

// StartHost starts the host of exactly this run, with its registration in dir,
// and answers when that is published. After an error nothing of it is left.
type StartHost func(ctx context.Context, engagement, runID, dir string) (Host, error)

// Config says what turn to run. API, Assistant, Engagement, Registrations, Input
// and Host are required.
type Config struct {
	API           string         // http(s)://HOST[:PORT][/PREFIX]
	Key           string         // sent as x-api-key; "": none
	Assistant     string         // an assistant's or a graph's id
	Engagement    string         // as in the scope
	Thread        string         // "": a new one
	Input, Config jsontext.Value // as the caller wrote them; Config may be nil
	Registrations string         // a private directory, mounted at the agent server
	Host          StartHost

	Wait     time.Duration // pending to running; 0: DefaultWait
	Patience time.Duration // for one answer of the API; twice that for a server that is away; 0: DefaultPatience

	Progress func(step string) // told of each step; may be nil
}

// Result is what is known of a turn when it is over.
type Result struct {
	RunID    string         `json:"run_id"`
	ThreadID string         `json:"thread_id"`
	Status   string         `json:"status"`           // the server's own word, read after the end, or unknown
	Values   jsontext.Value `json:"values,omitempty"` // the graph's values at the run's end
	Failure  jsontext.Value `json:"error,omitempty"`  // what the graph failed with, as the server tells it
}

// turn is one call of Run.
type turn struct {
	Config
	api    *api
	dir    *registrations
	result Result
	stream *stream
	follow *follower

	cancelled bool // the API was asked to end the run
}

// Run runs one turn from start to end. The Result is meaningful, also beside an
// error, as soon as it has a RunID. A run that ended in another status than
// success is no error of Run.
func Run(ctx context.Context, c Config) (Result, error) {
	body, err := c.check()
	if err != nil {
		return Result{}, err
	}
	t := &turn{Config: c}
	if t.api, err = newAPI(c.API, c.Key, c.Patience); err != nil {
		return Result{}, err
	}
	defer t.api.close()
	// Before anything is made anywhere: a directory that no host could use.
	if t.dir, err = openRegistrations(c.Registrations); err != nil {
		return Result{}, err
	}
	defer t.dir.close()
	if err := t.begin(ctx, body); err != nil {
		return t.result, err
	}
	defer t.stream.close() // last: until then it is the lifeline
	t.follow = t.api.follow(t.result, c.Engagement, t.stream, c.Patience)
	defer t.follow.stop()
	err = t.attended(ctx)
	return t.finish(err)
}

// attended waits until the run is active and keeps a host beside it until it is
// over. Its error says why the turn failed.
func (t *turn) attended(ctx context.Context) error {
	t.tell("run " + t.result.RunID + " waits for its turn")
	wait := time.NewTimer(t.Wait)
	defer wait.Stop()
	select {
	case <-t.follow.running:
	case <-t.follow.over:
		return t.early()
	case <-wait.C:
		return fmt.Errorf("the run was still pending after %s: give it longer with --wait, or the server more workers: %w", t.Wait, refusal.TimedOut)
	case <-ctx.Done():
		return errTold
	}
	t.tell("starting its browser")
	host, err := t.start(ctx)
	if err != nil {
		return err
	}
	t.tell("the run has its browser")
	err = t.join(ctx, host)
	// The run is over or cancelled by now: the status is read, then all is revoked.
	if err != nil {
		err = errors.Join(err, t.cancel())
	}
	t.tell("taking the browser away")
	return errors.Join(err, t.dismiss(host))
}

// errTold is the caller's own wish.
var errTold = fmt.Errorf("told to end: %w", refusal.Cancelled)

// early is the error of a run that was over before it had a browser.
func (t *turn) early() error {
	if err := t.follow.err; err != nil {
		return err
	}
	return fmt.Errorf("the run ended (%s) before its browser was ready: the graph must wait for its registration when it begins (initialize_native_browser): %w", t.follow.status, refusal.Failed)
}

// start starts the host and looks at what it has published.
func (t *turn) start(ctx context.Context) (Host, error) {
	starting, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-t.follow.over:
			stop()
		case <-starting.Done():
		}
	})
	host, err := t.Host(starting, t.Engagement, t.result.RunID, t.dir.path)
	stop()
	watch.Wait()
	over := false
	select {
	case <-t.follow.over:
		over = true
	default:
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errors.Join(errTold, t.dir.swept(t.result.RunID))
	case err != nil && over:
		return nil, errors.Join(t.early(), t.dir.swept(t.result.RunID))
	case err != nil:
		return nil, errors.Join(fmt.Errorf("the browser's host didn't start: %w", err), t.dir.swept(t.result.RunID))
	case over:
		return nil, errors.Join(t.early(), t.dismiss(host))
	}
	if err := t.dir.published(t.Engagement, t.result.RunID); err != nil {
		return nil, errors.Join(err, t.dismiss(host))
	}
	return host, nil
}

// join waits for the run's end, and for whatever ends it before.
func (t *turn) join(ctx context.Context, host Host) error {
	select {
	case <-t.follow.over:
		return t.follow.err
	case <-host.Done():
	case <-ctx.Done():
		return errTold
	}
	select {
	case <-t.follow.over: // both at once: the run had what it needed
		return t.follow.err
	default:
		return fmt.Errorf("the browser's host ended while the run went on: %w", errors.Join(host.Err(), refusal.EngineExited))
	}
}

// dismissTime bounds the teardown of a host.
const dismissTime = 30 * time.Second

// dismiss ends the host and makes sure that its registration is gone.
func (t *turn) dismiss(host Host) error {
	ctx, cancel := context.WithTimeout(context.Background(), dismissTime)
	defer cancel()
	ended := host.Err()
	err := host.Close(ctx)
	if ended != nil {
		err = nil // told already, as the reason
	}
	return errors.Join(err, t.dir.swept(t.result.RunID))
}

// finish makes sure that a run that failed here is over at the server too, and
// reads what is left to be known.
func (t *turn) finish(failed error) (Result, error) {
	if failed != nil && !t.cancelled && !t.follow.final() {
		failed = errors.Join(failed, t.cancel())
	}
	t.follow.stop()
	t.result.Status = t.follow.last()
	t.stream.close()
	t.result.Values, t.result.Failure = t.stream.told()
	if t.result.Values == nil && t.result.Status != Unknown {
		t.result.Values = t.api.values(t.result.ThreadID)
	}
	return t.result, failed
}

func (t *turn) tell(step string) {
	if t.Progress != nil {
		t.Progress(step)
	}
}
