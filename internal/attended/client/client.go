// Package client is attended control for programs: a workflow asks for calls by it,
// from another process over POST /browser/control or within the server itself, and
// in both it meets the same entry and the same fences (spec/attended-control.md,
// sections 5 and 6).
//
// It contains
//
//	client.go  Client: the seven actions, and Do, one call to its end
//	http.go    a server elsewhere, with a bearer token
//	within.go  the authority of this process
//
// A refusal is an error whose code refusal.Of finds. A receipt is none, also where
// it tells of a failure: what is known of the effect stands in it.
//
// A request that is asked again is the same call, so a lost answer is asked for
// again and repeats nothing. The package never makes another request_id: whether
// something is to be done twice is its caller's to say.
//
// It keeps nothing, and no error of it holds arguments, results or the token.
//
// Floor: runtime.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Carrier takes one action to an authority: [HTTP] or [Within].
type Carrier interface {
	// Do answers the text of what the action is answered. A refusal is a *Refused;
	// any other error means that nobody knows whether the action arrived.
	Do(ctx context.Context, a controlv1.Action) ([]byte, error)
}

// Refused is an authority's no.
type Refused struct {
	Code        refusal.Code
	Retryable   bool   // the same request may be asked again and succeed
	Correlation string // by which the server's log tells more; "" within the server
}

// Error tells the code.
func (r *Refused) Error() string { return "attended control: " + string(r.Code) }

// Unwrap lets errors.Is and refusal.Of find the code.
func (r *Refused) Unwrap() error { return r.Code }

// Client asks for calls as one caller.
type Client struct{ carry Carrier }

// New makes one.
func New(c Carrier) *Client { return &Client{c} }

// Documents answers the caller's live documents with their tools.
func (c *Client) Documents(ctx context.Context) ([]controlv1.Document, error) {
	all, err := ask(ctx, c, controlv1.ListDocuments{}, controlv1.DecodeDocuments)
	return all.All, err
}

// Lease asks for a lease over tools of a document. It is never renewed.
func (c *Client) Lease(ctx context.Context, document ref.Document, ttl time.Duration, tools ...controlv1.ID) (controlv1.LeaseReceipt, error) {
	return ask(ctx, c, controlv1.IssueLease{Document: document, Tools: tools, TTLSeconds: int64(ttl / time.Second)}, controlv1.DecodeLeaseReceipt)
}

// RevokeLease ends a lease and every active call of it.
func (c *Client) RevokeLease(ctx context.Context, lease controlv1.ID, reason controlv1.Word) (controlv1.LeaseReceipt, error) {
	return ask(ctx, c, controlv1.RevokeLease{Lease: lease, Reason: reason}, controlv1.DecodeLeaseReceipt)
}

// Call asks for one call and answers its first receipt. A mutation that still waits
// for its person is pending_confirmation.
func (c *Client) Call(ctx context.Context, e controlv1.ExecuteCall) (controlv1.Receipt, error) {
	return ask(ctx, c, e, controlv1.DecodeReceipt)
}

// MaxWait is how long one Wait waits at most.
const MaxWait = 50 * time.Second

// Wait answers a call's receipt once it changes, or as it stands after the wait.
func (c *Client) Wait(ctx context.Context, call controlv1.ID, wait time.Duration) (controlv1.Receipt, error) {
	wait = min(max(wait, 0), MaxWait)
	return ask(ctx, c, controlv1.AskCall{Call: call, WaitSeconds: int64(wait / time.Second)}, controlv1.DecodeReceipt)
}

// Cancel asks that a call be stopped, and answers what became of it.
func (c *Client) Cancel(ctx context.Context, call controlv1.ID, reason controlv1.Word) (controlv1.Receipt, error) {
	return ask(ctx, c, controlv1.CancelCall{Call: call, Reason: reason}, controlv1.DecodeReceipt)
}

// Reconcile answers at once what is known of a call whose outcome is unknown.
func (c *Client) Reconcile(ctx context.Context, call controlv1.ID) (controlv1.Receipt, error) {
	return ask(ctx, c, controlv1.ReconcileCall{Call: call}, controlv1.DecodeReceipt)
}

// ask carries an action and reads its answer strictly.
func ask[A any](ctx context.Context, c *Client, a controlv1.Action, decode func([]byte) (A, error)) (A, error) {
	var none A
	text, err := c.carry.Do(ctx, a)
	if err != nil {
		return none, err
	}
	return decode(text)
}

// Over tells whether nothing more is to be learned of a call by waiting.
func Over(r controlv1.Receipt) bool {
	return r.Status != controlv1.StatusPending && r.Status != controlv1.StatusDispatched && r.Status != controlv1.StatusUnknown
}

// pauses between attempts whose answer was lost.
var pauses = []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}

// stopTime is how long a call is stopped for whose caller has given up.
const stopTime = 10 * time.Second

// Do asks for one call and follows it until it is over: a mutation through its
// confirmation, one whose outcome is unknown until that is known or its window is
// over. When ctx ends first the call is cancelled, and Do answers the receipt of
// that beside ctx's error.
func (c *Client) Do(ctx context.Context, e controlv1.ExecuteCall) (controlv1.Receipt, error) {
	r, err := steadily(ctx, func() (controlv1.Receipt, error) { return c.Call(ctx, e) })
	for err == nil && !Over(r) {
		var next controlv1.Receipt
		next, err = steadily(ctx, func() (controlv1.Receipt, error) { return c.Wait(ctx, r.Call, MaxWait) })
		if err == nil {
			r = next
		}
	}
	if err == nil || ctx.Err() == nil || r.Call.IsZero() {
		return r, err
	}
	reason, _ := controlv1.ParseWord("caller_gone")
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer done()
	last, failed := c.Cancel(stop, r.Call, reason)
	if failed != nil {
		return r, errors.Join(ctx.Err(), failed)
	}
	return last, ctx.Err()
}

// steadily asks again where an answer was lost: the same request is the same call.
func steadily(ctx context.Context, ask func() (controlv1.Receipt, error)) (controlv1.Receipt, error) {
	for _, pause := range pauses {
		r, err := ask()
		var no *Refused
		var bad *controlv1.Bad
		if err == nil || errors.As(err, &no) || errors.As(err, &bad) || ctx.Err() != nil {
			return r, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return controlv1.Receipt{}, fmt.Errorf("attended control: %w", ctx.Err())
		}
	}
	return ask()
}
