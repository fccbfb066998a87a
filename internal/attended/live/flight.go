package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// Times of a call under way (section 6).
const (
	cancelTime = 2 * time.Second // for the page's answer to control.cancel
	keepTime   = 2 * time.Minute // a result that nobody has fetched yet
)

// flight is one call under way on this node. Its goroutine is the only one that
// sends the call's frames and that writes what its page said; the ledger's word on
// where the call stands is read after each.
type flight struct {
	a       *Authority
	c       *channel
	id      controlv1.ID
	caller  Caller
	request controlv1.Request // its arguments are nowhere else
	tool    controlv1.Tool
	ask     policy.Request
	claim   ledger.Reference
	keys    passkeys
	heard   bool // its reader was told something by way of another node

	inbox chan said
	wake  chan struct{} // holds one: the ledger moved the call

	mu       sync.Mutex // guards what follows
	change   chan struct{}
	call     ledger.Call        // as it was last read or written
	news     []ledger.CallState // where poke said that the call went
	asking   *controlv1.ConfirmationRequest
	waiters  map[*waiter]bool
	result   controlv1.Value
	taken    bool
	failing  bool // the last write didn't reach the database
	decided  bool // T1 is over
	refused  error
	stood    controlv1.ID // the call that T1 answered, where another waits for the same
	finished bool
}

// waiter is somebody who waits for a call's receipt. Those who wait when the result
// comes are all told it.
type waiter struct{ entitled bool }

// said is what a page said of one call: one of these.
type said struct {
	confirm *controlv1.Confirm
	outcome controlv1.Outcome
	bad     refusal.Code // a result that isn't one
	effect  controlv1.Effect

	here     bool // the person said it on the authority's own origin
	verified bool // and the assertion was judged there
}

// hear takes what the page said. A page that says more than a call can need is not
// listened to.
func (f *flight) hear(what said) {
	select {
	case f.inbox <- what:
	default:
	}
}

// poke says that the call was moved to a state; "" that it may have been.
func (f *flight) poke(to ledger.CallState) {
	f.mu.Lock()
	if !slices.Contains(f.news, to) {
		f.news = append(f.news, to)
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *flight) join() *waiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &waiter{}
	f.waiters[w] = true
	return w
}

func (f *flight) part(w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, w)
}

// moved takes what poke said, and tells whether any of it is news to who knows the
// call as it is given: a flight's own moves aren't.
func (f *flight) moved(call ledger.Call) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := f.news
	f.news = nil
	return slices.ContainsFunc(news, func(to ledger.CallState) bool { return to != call.State })
}

// changes is closed when something has changed since. Of no flight, and of one that
// is over, there is none.
func (f *flight) changes() <-chan struct{} {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished {
		return nil
	}
	return f.change
}

// stands answers where the call stood last, once T1 is over and until the flight is.
func (f *flight) stands() (ledger.Call, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.call, !f.call.ID.IsZero() && !f.finished
}

func (f *flight) trouble() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing
}

// changed wakes whoever waits.
func (f *flight) changed(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set != nil {
		set()
	}
	close(f.change)
	f.change = make(chan struct{})
}

// take answers the result to who waited for it, or once to whoever asks afterwards.
func (f *flight) take(w *waiter) controlv1.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken && !w.entitled || f.result.Digest() != f.call.ResultDigest {
		return controlv1.Value{}
	}
	f.taken = true
	return f.result
}

// admitted waits for another delivery's T1, and answers the call that it met: a
// retry under another request id has none of its own.
func (f *flight) admitted(ctx context.Context) (controlv1.ID, error) {
	for {
		f.mu.Lock()
		decided, refused, stood, change := f.decided, f.refused, f.stood, f.change
		f.mu.Unlock()
		if decided {
			return stood, refused
		}
		select {
		case <-change:
		case <-ctx.Done():
			return controlv1.ID{}, ctx.Err()
		}
	}
}

// over ends a flight that has nothing to carry (any more).
func (f *flight) over(refused error) {
	f.a.mu.Lock()
	if f.a.flights[f.id] == f {
		delete(f.a.flights, f.id)
	}
	f.a.mu.Unlock()
	f.changed(func() { f.decided, f.refused, f.finished = true, refused, true })
}

// begin starts the flight of a call that T1 has just written.
func (f *flight) begin(call ledger.Call) {
	f.changed(func() { f.decided, f.stood, f.call = true, call.ID, call })
	over := f.c.fly()
	go func() {
		defer f.a.tasks.Done()
		f.fly(call)
		over()
		f.mu.Lock()
		keep := !f.result.IsZero() && !f.taken && f.call.State == ledger.CallSucceeded
		f.mu.Unlock()
		f.changed(nil)
		if keep {
			select {
			case <-time.After(keepTime):
			case <-f.a.stop:
			}
		}
		f.over(nil)
	}()
}

// fly carries a call to its end: the person first, for a mutation, then the frame,
// then what comes of it.
func (f *flight) fly(call ledger.Call) {
	if call.State == ledger.CallPending {
		if call = f.confirm(call); call.State == ledger.CallPending {
			return // the node ends; Repair does the rest
		}
	}
	if call.State == ledger.CallDispatched {
		call = f.dispatch(call)
	}
	f.follow(call)
}

// confirm asks the person, and waits for their word until the call stands elsewhere.
func (f *flight) confirm(call ledger.Call) ledger.Call {
	asked, err := f.asked(call)
	if err == nil {
		ask := controlv1.ConfirmationRequest{Call: call.ID, Lease: call.Lease, Request: call.Request, Tool: call.Tool, Schemas: call.Schemas,
			Binding: f.request.Binding, Policy: call.Policy, Arguments: f.request.Arguments, Confirmation: call.Confirmation, Level: asked, ExpiresMS: call.DeadlineMS}
		f.changed(func() { f.asking = &ask })
		err = f.c.send(ask, nil)
	}
	if err != nil {
		return f.retire(call)
	}
	deadline := time.NewTimer(time.Until(time.UnixMilli(call.DeadlineMS)))
	defer deadline.Stop()
	for call.State == ledger.CallPending {
		select {
		case s := <-f.inbox:
			call = f.word(call, asked, s)
		case <-deadline.C:
			call = f.put(func(ctx context.Context) (ledger.Call, error) { return f.a.Book.Lapse(ctx, call.ID) }, call)
			deadline.Reset(time.Second) // where the two clocks differ by a little
		case <-f.wake:
			if f.moved(call) {
				call = f.read(call)
			}
		case <-f.c.gone:
			if call = f.retire(call); call.State == ledger.CallPending {
				return call
			}
		}
	}
	if call.State.Over() && call.Code != refusal.UserDenied {
		f.cancel(call) // its page still shows the prompt
	}
	return call
}

// retire ends a call that nobody can be asked about: nothing was sent.
func (f *flight) retire(call ledger.Call) ledger.Call {
	return f.put(func(ctx context.Context) (ledger.Call, error) {
		if _, err := f.a.Book.Retire(ctx, call.ID, f.claim); err != nil {
			return ledger.Call{}, err
		}
		return f.a.Book.Call(ctx, call.ID)
	}, call)
}

// cancel tells the page to stop. What it doesn't hear is no fault: a page shows
// nothing past a deadline, and silence is unknown.
func (f *flight) cancel(call ledger.Call) {
	reason, err := controlv1.ParseWord(string(call.Code))
	if err != nil {
		reason, _ = controlv1.ParseWord(string(refusal.CallCancelled))
	}
	f.c.send(controlv1.Cancel{Call: call.ID, Reason: reason}, nil)
}

// word is what a page says of a call that waits for its confirmation.
func (f *flight) word(call ledger.Call, asked controlv1.Asked, s said) ledger.Call {
	switch {
	case s.confirm != nil && (s.here || f.a.own(f.c.place.Origin)): // another page's own word doesn't count
		return f.confirmed(call, asked, s)
	case s.effect == controlv1.NoEffect:
		return f.put(func(ctx context.Context) (ledger.Call, error) { return f.a.Book.Deny(ctx, call.ID) }, call)
	}
	// That nothing can begin here isn't the person's no: the page couldn't ask. Any other
	// result before the call was sent is nothing.
	if failure, failed := s.outcome.(controlv1.Failure); failed && controlv1.NothingBegan(refusal.Code(failure.Code.String())) {
		return f.retire(call)
	}
	return call
}

// confirmed is T2, with the caller's grant looked at again before it.
func (f *flight) confirmed(call ledger.Call, asked controlv1.Asked, s said) ledger.Call {
	k, level := *s.confirm, call.Level
	if !s.verified {
		var err error
		if level, err = f.verify(call, asked, k); err != nil {
			return call // that wasn't the confirmation; the deadline still runs
		}
	}
	caller := f.caller
	if caller.Look != nil {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		generation, err := caller.Look(ctx)
		cancel()
		if err != nil {
			generation = -1 // whatever it was, it isn't that any more
		}
		caller.Generation = generation
	}
	claim := ledger.NewReference()
	next := f.put(func(ctx context.Context) (ledger.Call, error) {
		_, err := f.a.Book.Confirm(ctx, ledger.Confirmed{Call: call.ID, Confirmation: k.Confirmation, Level: level, Caller: f.a.caller(caller), Claim: claim})
		if err != nil && refusal.Of(err) == refusal.Replayed { // our own claim, whose answer was lost
			err = nil
		}
		if infra(err) {
			return ledger.Call{}, err
		}
		return f.a.Book.Call(ctx, call.ID)
	}, call)
	if next.State == ledger.CallDispatched {
		f.claim = claim
	}
	return next
}

// dispatch sends the one control.call, after one more look at the owner's sign-in.
// What certainly wasn't sent is withheld: it has no effect.
func (f *flight) dispatch(call ledger.Call) ledger.Call {
	var authorization controlv1.Authorization = controlv1.AsRead{}
	if call.Class.Mutates() {
		authorization = controlv1.AsConfirmed{Confirmation: call.Confirmation}
	}
	var no error
	err := f.c.send(controlv1.Call{Call: call.ID, Lease: call.Lease, Tool: call.Tool, Arguments: f.request.Arguments, DeadlineMS: call.DeadlineMS, Authorization: authorization},
		func() error {
			if f.request.Arguments.Digest() != call.Arguments {
				return refusal.RequestConflict
			}
			if time.Now().UnixMilli() >= call.DeadlineMS {
				return refusal.TimedOut
			}
			if no = f.c.yes.check(context.Background()); no != nil {
				return no
			}
			select {
			case <-f.wake: // moved since the claim, perhaps by a cancel: then it isn't sent at all
				if !f.moved(call) {
					break
				}
				f.poke("") // follow is to hear of it too
				if now := f.read(call); now.State != call.State {
					return refusal.CallCancelled
				}
			default:
			}
			return nil
		})
	if !errors.Is(err, errNotSent) {
		return call // sent, or who knows: what comes of it tells
	}
	// First the call, whose effect is known to be none, and then its channel.
	defer func() { f.c.verdict(no) }()
	return f.put(func(ctx context.Context) (ledger.Call, error) {
		c, err := f.a.Book.Withhold(ctx, call.ID, f.claim, refusal.NotDispatched)
		if err != nil && !infra(err) { // over already, by whatever ended the channel
			return f.a.Book.Call(ctx, call.ID)
		}
		return c, err
	}, call)
}

// follow waits for what comes of a call that was sent, until it is over.
func (f *flight) follow(call ledger.Call) {
	timer := time.NewTimer(f.wait(call, false))
	defer timer.Stop()
	told := false
	gone := f.c.gone
	for !call.State.Over() {
		if call.State == ledger.CallCancelling && !told {
			told = true
			f.cancel(call)
			timer.Reset(cancelTime)
		}
		before := call.State
		select {
		case s := <-f.inbox:
			call = f.outcome(call, s)
		case <-f.wake:
			if f.moved(call) {
				call = f.read(call)
			}
		case <-timer.C:
			call = f.overdue(call)
			timer.Reset(f.wait(call, told))
		case <-gone:
			// The channel's end ends its calls by the ledger, and what it left behind
			// is unknown with no window.
			gone = nil
			timer.Reset(sendTime)
			call = f.read(call)
		case <-f.a.stop:
			if call = f.read(call); !call.State.Over() {
				return // Repair, here or elsewhere, does the rest
			}
		}
		if call.State != before {
			f.changed(nil)
			if call.State == ledger.CallUnknown {
				timer.Reset(f.wait(call, told))
			}
		}
	}
}

// wait is how long until time itself moves the call.
func (f *flight) wait(call ledger.Call, told bool) time.Duration {
	switch {
	case call.State == ledger.CallUnknown:
		return max(time.Until(time.UnixMilli(call.LateUntilMS)), 10*time.Millisecond)
	case told:
		return cancelTime
	}
	return max(time.Until(time.UnixMilli(call.DeadlineMS)), 10*time.Millisecond)
}

// overdue is what time does: a deadline asks the page to stop, silence after that is
// unknown, and the end of the window is the call's.
func (f *flight) overdue(call ledger.Call) ledger.Call {
	return f.put(func(ctx context.Context) (ledger.Call, error) {
		switch call.State {
		case ledger.CallDispatched:
			return f.a.Book.TimeOut(ctx, call.ID)
		case ledger.CallCancelling:
			return f.a.Book.Lose(ctx, call.ID, f.c.code() == "")
		case ledger.CallUnknown:
			return f.a.Book.Reap(ctx, call.ID)
		}
		return call, nil
	}, call)
}

// outcome writes what the page said of a call that was sent. The result itself is
// kept for whoever waits, in memory.
func (f *flight) outcome(call ledger.Call, s said) ledger.Call {
	switch {
	case s.here:
		return call // a word to a prompt that is over: it isn't the page's answer to a cancel
	case s.effect != "":
		return f.put(func(ctx context.Context) (ledger.Call, error) { return f.a.Book.Stopped(ctx, call.ID, s.effect) }, call)
	case s.confirm != nil:
		return call // confirmed already
	}
	bad := s.bad
	outcome := s.outcome
	success, ok := outcome.(controlv1.Success)
	if outcome == nil {
		outcome = controlv1.Success{Value: controlv1.Null} // whose value isn't one: bad says so
	}
	if ok && bad == "" {
		if err := f.tool.ValidOutput(success.Value); err != nil {
			bad = refusal.ResultInvalid
		}
	}
	if ok && bad == "" {
		f.taints()
		f.mu.Lock()
		if f.result.IsZero() { // told only where the ledger takes it
			f.result = success.Value
			for w := range f.waiters {
				w.entitled = true
			}
		}
		f.mu.Unlock()
	}
	return f.put(func(ctx context.Context) (ledger.Call, error) { return f.a.Book.Settle(ctx, call.ID, outcome, bad) }, call)
}

// put writes until the database has it, or the node ends. A refusal means that the
// call stands elsewhere: then that is what it answers. Where it doesn't, somebody
// else wrote at the same moment, and it is tried again.
func (f *flight) put(write func(context.Context) (ledger.Call, error), was ledger.Call) ledger.Call {
	conflicts := 0
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), sendTime)
		call, err := write(ctx)
		if err != nil && !infra(err) {
			conflict := refusal.Of(err) == refusal.Conflict
			call, err = f.a.Book.Call(ctx, was.ID)
			if conflicts++; err == nil && conflict && call.State == was.State && conflicts < 5 {
				cancel()
				continue
			}
		}
		cancel()
		if err == nil {
			f.changed(func() { f.failing, f.call = false, call })
			return call
		}
		f.changed(func() { f.failing = true })
		select {
		case <-time.After(wait):
		case <-f.a.stop:
			return was
		}
	}
}

// read answers where the call stands now.
func (f *flight) read(was ledger.Call) ledger.Call {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	call, err := f.a.Book.Call(ctx, was.ID)
	if err != nil {
		return was // the next look does it
	}
	if call.State != was.State {
		f.changed(func() { f.call = call })
	}
	return call
}
