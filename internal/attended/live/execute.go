package live

import (
	"context"
	"errors"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
)

// pendingTime is how long execute_call waits for a confirmation before it answers
// that it does.
const pendingTime = 20 * time.Second

// execute goes the way of section 6, in its order: lease and live authority, the
// tool and its schemas, the arguments, T1 with the policy's decision inside, and
// then the flight. A request that was made before is that call, whatever became of
// it.
func (a *Authority) execute(ctx context.Context, c Caller, x controlv1.ExecuteCall) (Answer, error) {
	who := a.caller(c)
	l, err := a.Book.ShowLease(ctx, who, x.Lease)
	if err != nil {
		return nil, err
	}
	request := controlv1.Request{Binding: l.Binding, Lease: x.Lease, ID: x.Request, Tool: x.Tool, Schemas: x.Schemas, Arguments: x.Arguments}
	digest, err := request.Digest()
	if err != nil {
		return nil, refusal.InvalidRequest
	}
	id, err := controlv1.CallID(digest, who.Agent.String())
	if err != nil {
		return nil, err
	}
	away := error(nil)
	if node := a.elsewhere(ctx, c, l.Document); node != "" {
		var answer Answer
		if answer, away, err = a.pass(ctx, node, c, x); away == nil {
			if ctx.Err() != nil {
				a.abandon(ctx, who, id) // that node does it too, where it hears of it
			}
			return answer, err
		}
	}
	f, err := a.prepare(ctx, c, l, request, x)
	if err == nil {
		f.id = id
		id, err = a.submit(ctx, f, x)
	} else if _, old := a.Book.Show(ctx, who, id); old == nil {
		err = nil // what can't be asked any more was asked before
	}
	if away != nil && refusal.Of(err) == refusal.ChannelUnavailable {
		err = away // it is the other node that isn't there, or that may have it
	}
	if err != nil {
		return nil, err
	}
	return a.attend(ctx, who, id)
}

// prepare judges what can be judged before anything is written.
func (a *Authority) prepare(ctx context.Context, c Caller, l ledger.Lease, request controlv1.Request, x controlv1.ExecuteCall) (*flight, error) {
	ch := a.channel(l.Document)
	switch {
	case l.Status == controlv1.LeaseStatus(ledger.LeaseRevoked):
		return nil, refusal.LeaseRevoked
	case l.Status == controlv1.LeaseStatus(ledger.LeaseExpired):
		return nil, refusal.LeaseExpired
	case a.mine(c, ch) != nil || ch.arm.Ref != l.Arm:
		return nil, refusal.ChannelUnavailable
	}
	if err := ch.revalidate(ctx); err != nil {
		return nil, err
	}
	t := ch.catalog.Tool(x.Tool)
	switch {
	case t.IsZero():
		return nil, refusal.UnknownTool
	case t.Schemas() != x.Schemas:
		return nil, refusal.CatalogStale
	}
	if err := t.ValidInput(x.Arguments); err != nil {
		return nil, err
	}
	ask, err := a.ask(c, ch, t)
	if err != nil {
		return nil, err
	}
	f := &flight{a: a, c: ch, caller: c, request: request, tool: t, ask: ask, claim: ledger.NewReference(), inbox: make(chan said, 8), wake: make(chan struct{}, 1),
		change: make(chan struct{}), waiters: map[*waiter]bool{}}
	f.heard = a.heard(ctx, f.reader())
	return f, f.passkeyed(ctx)
}

// submit is T1. The flight is known before it, so that no end of the call is missed.
func (a *Authority) submit(ctx context.Context, f *flight, x controlv1.ExecuteCall) (controlv1.ID, error) {
	done, err := f.c.admit()
	if err != nil {
		return controlv1.ID{}, err
	}
	defer done()
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return controlv1.ID{}, refusal.ChannelUnavailable
	case a.flights[f.id] != nil: // another delivery of it is being admitted right now
		other := a.flights[f.id]
		a.mu.Unlock()
		return other.admitted(ctx)
	}
	a.flights[f.id] = f
	a.tasks.Add(1)
	a.mu.Unlock()

	call, fresh, err := a.write(ctx, f, x)
	if err != nil || !fresh {
		f.changed(func() { f.stood = call.ID })
		f.over(err)
		a.tasks.Done()
		return call.ID, err
	}
	f.begin(call)
	return call.ID, nil
}

// write is T1 with its recovery: what may have been written though its answer was
// lost is retired by its own reference. A caller that leaves meanwhile doesn't stop
// it halfway.
func (a *Authority) write(ctx context.Context, f *flight, x controlv1.ExecuteCall) (ledger.Call, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	call, fresh, err := a.Book.Admit(ctx, ledger.Admission{
		Caller: a.caller(f.caller), Request: f.request, Catalog: x.Catalog, Timeout: time.Duration(x.Timeout(f.tool.Class())) * time.Second,
		Ruling:    ledger.Ruling{Set: a.Policy, Who: f.caller.Who, Resource: f.ask.Resource, Tainted: f.tainted()},
		Reference: f.claim,
	})
	if !infra(err) {
		return call, fresh, err
	}
	// Nobody waits for it: a database that is held would hold the caller for a minute.
	// Another delivery that comes before it finds a call that isn't its own, and is told
	// what becomes of that.
	a.tasks.Go(func() {
		a.insist(context.WithoutCancel(ctx), func(ctx context.Context) error {
			_, err := a.Book.Retire(ctx, f.id, f.claim)
			return err
		})
	})
	return ledger.Call{}, false, errors.Join(refusal.FenceUnavailable, err)
}

// attend waits with the caller: for an end, for as long as a person needs until they
// would rather be asked again, or until the caller leaves, which cancels the call.
func (a *Authority) attend(ctx context.Context, who ledger.Caller, id controlv1.ID) (Answer, error) {
	start := time.Now()
	answer, err := a.await(ctx, who, id, func(c ledger.Call) time.Duration {
		switch c.State {
		case ledger.CallPending:
			return time.Until(start.Add(pendingTime))
		case ledger.CallDispatched, ledger.CallCancelling:
			return time.Hour // a flight ends by its own deadline
		}
		return 0
	})
	if ctx.Err() != nil {
		a.abandon(ctx, who, id)
	}
	return answer, err
}

// abandon cancels the call of a caller that left.
func (a *Authority) abandon(ctx context.Context, who ledger.Caller, id controlv1.ID) {
	ctx = context.WithoutCancel(ctx)
	a.insist(ctx, func(ctx context.Context) error {
		_, err := a.Book.Cancel(ctx, who, id)
		return err
	})
}
