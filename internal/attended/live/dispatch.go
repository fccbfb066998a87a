package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// Scopes that let an agent ask for calls: three names of one (section 5).
var scopes = []string{"control:write", "kg:write", "kg:admin"}

// Dispatch does what a caller asks: MCP, REST and workflows come in here. Its error
// has a code of section 6. A ctx that ends while a call is under way cancels the
// call; one that ends in get_call leaves it alone.
func (a *Authority) Dispatch(ctx context.Context, c Caller, what controlv1.Action) (Answer, error) {
	if c.Who.IsZero() {
		return nil, refusal.Unauthenticated
	}
	if c.Who.Tenant() != a.Tenant || !slices.ContainsFunc(scopes, c.Who.HasScope) {
		return nil, refusal.Forbidden
	}
	answer, err := a.act(ctx, c, what)
	if err != nil {
		return nil, told(err)
	}
	return answer, nil
}

func (a *Authority) act(ctx context.Context, c Caller, what controlv1.Action) (Answer, error) {
	switch x := what.(type) {
	case controlv1.ListDocuments:
		return a.list(ctx, c)
	case controlv1.IssueLease:
		return a.issue(ctx, c, x)
	case controlv1.RevokeLease:
		return a.revokeLease(ctx, c, x)
	case controlv1.ExecuteCall:
		return a.execute(ctx, c, x)
	case controlv1.CancelCall:
		return a.cancel(ctx, c, x)
	case controlv1.ReconcileCall:
		return a.reconcile(ctx, c, x)
	case controlv1.AskCall:
		return a.follow(ctx, c, x)
	}
	return nil, refusal.InvalidRequest
}

// told is an error as a caller may see it: one code of section 6, and where it isn't
// a refusal what of ours was unavailable.
func told(err error) error {
	if infra(err) {
		return errors.Join(refusal.OutcomeUnavailable, err)
	}
	switch code := refusal.Of(err); code {
	case refusal.NoArm, refusal.ArmExpired, refusal.ArmMismatch, refusal.ArmReplayed, refusal.Revoked, refusal.SignedOut, refusal.Replaced,
		refusal.RevalidationFailed, refusal.NoSession, refusal.Conflict, refusal.Expired, refusal.Replayed:
		return refusal.AuthorityLost
	default:
		return err
	}
}

// caller is c in the ledger's terms.
func (a *Authority) caller(c Caller) ledger.Caller {
	return ledger.Caller{Principal: a.Principal(c.Who), Agent: controlv1.MaskAgent(a.Key, c.Who.Agent()), Roles: c.Who.Roles(),
		PolicyVersion: a.terms, GrantGeneration: c.Generation}
}

// list answers the caller's live documents, whatever node holds them.
func (a *Authority) list(ctx context.Context, c Caller) (Answer, error) {
	rows, err := a.Book.Documents(ctx, a.Principal(c.Who))
	if err != nil {
		return nil, err
	}
	var out controlv1.Documents
	var others []ledger.Document
	for _, r := range rows {
		if here := a.here(r); here != nil {
			out.All = append(out.All, here...)
		} else if a.other(r.Node, nil) != "" && !a.Bus.Alone() {
			others = append(others, r)
		}
	}
	there, away := a.distant(ctx, c, others)
	out.All = append(out.All, there...)
	if len(out.All) == 0 && away != nil {
		return nil, refusal.ChannelUnavailable // that there is nothing isn't known
	}
	slices.SortFunc(out.All, func(x, y controlv1.Document) int { return strings.Compare(x.Ref.String(), y.Ref.String()) })
	return out, nil
}

// here is a document as its caller is told of it, where this node holds its channel.
func (a *Authority) here(r ledger.Document) []controlv1.Document {
	ch := a.channel(r.Document)
	if ch == nil || ch.arm.Ref != r.Arm {
		return nil
	}
	return []controlv1.Document{{Ref: r.Document, Origin: ch.place.Origin, Route: ch.place.Route, Generation: r.Generation, Catalog: ch.catalog, ArmExpiresMS: r.ArmExpiresMS}}
}

// mine answers the live channel of the caller's own document. Anybody else's is told
// like one that doesn't exist, and isn't disturbed.
func (a *Authority) mine(c Caller, ch *channel) error {
	if ch == nil || ch.evidence.Principal != a.Principal(c.Who) {
		return refusal.UnknownDocument
	}
	return nil
}

func (a *Authority) issue(ctx context.Context, c Caller, x controlv1.IssueLease) (Answer, error) {
	if node := a.elsewhere(ctx, c, x.Document); node != "" {
		answer, away, err := a.pass(ctx, node, c, x)
		return answer, errors.Join(away, err)
	}
	ch := a.channel(x.Document)
	if err := a.mine(c, ch); err != nil {
		return nil, err
	}
	if err := ch.revalidate(ctx); err != nil {
		return nil, err
	}
	for _, id := range x.Tools {
		t := ch.catalog.Tool(id)
		if t.IsZero() {
			return nil, refusal.UnknownTool
		}
		ask, err := a.ask(c, ch, t)
		if err != nil {
			return nil, err
		}
		if o := a.Policy.Possible(ask); !o.Depends && !o.Allow {
			return nil, o.Err()
		}
	}
	l, err := a.Book.Issue(ctx, a.caller(c), ledger.Ask{Document: x.Document, Tools: x.Tools, TTL: time.Duration(x.TTLSeconds) * time.Second, Policy: a.terms})
	if err != nil {
		return nil, err
	}
	return l.LeaseReceipt, nil
}

// ask is a call of a tool in the policy's terms.
func (a *Authority) ask(c Caller, ch *channel, t controlv1.Tool) (policy.Request, error) {
	make := policy.PageTool
	if a.own(ch.place.Origin) {
		make = policy.OwnTool
	}
	resource, err := make(t.ID().String(), ch.place.Origin.String(), ch.place.Route.String())
	return policy.Request{Who: c.Who, Action: policy.OfClass(string(t.Class())), Resource: resource}, err
}

func (a *Authority) revokeLease(ctx context.Context, c Caller, x controlv1.RevokeLease) (Answer, error) {
	who := a.caller(c)
	l, err := a.Book.RevokeLease(ctx, who, x.Lease, refusal.LeaseRevoked)
	if err != nil {
		return nil, err
	}
	return l.LeaseReceipt, nil
}

// cancel stops a call: at once where nothing was sent, else by way of its page.
func (a *Authority) cancel(ctx context.Context, c Caller, x controlv1.CancelCall) (Answer, error) {
	who := a.caller(c)
	call, err := a.Book.Show(ctx, who, x.Call)
	if err != nil {
		return nil, err
	}
	if node := a.knows(ctx, c, call); node != "" {
		if answer, away, err := a.pass(ctx, node, c, x); away == nil {
			return answer, err
		}
	}
	if ch := a.channel(call.Document); ch != nil {
		// A no ends the owner's channel; what was asked for is done all the same, from
		// the durable record.
		ch.revalidate(ctx)
	}
	if _, err = a.Book.Cancel(ctx, who, x.Call); err != nil {
		return nil, err
	}
	start := time.Now()
	return a.await(ctx, who, x.Call, func(c ledger.Call) time.Duration {
		if c.State.Over() || c.State == ledger.CallUnknown {
			return 0
		}
		return time.Until(start.Add(cancelTime + sendTime))
	})
}

// reconcile answers what is known of a call now, from the durable record.
func (a *Authority) reconcile(ctx context.Context, c Caller, x controlv1.ReconcileCall) (Answer, error) {
	who := a.caller(c)
	call, err := a.Book.Show(ctx, who, x.Call)
	if err != nil {
		return nil, err
	}
	if node := a.knows(ctx, c, call); node != "" {
		if answer, away, err := a.pass(ctx, node, c, x); away == nil {
			return answer, err
		}
	}
	if ch := a.channel(call.Document); ch != nil && !call.State.Over() {
		if err := ch.revalidate(ctx); err != nil {
			return nil, err
		}
	}
	answer, err := a.await(ctx, who, x.Call, func(ledger.Call) time.Duration { return 0 })
	return exported(answer, call), err
}

// exported is an answer with what the record says of the call's export, of which no
// flight hears: it is told later, and by any node.
func exported(answer Answer, of ledger.Call) Answer {
	if r, ok := answer.(controlv1.Receipt); ok && of.State.Over() {
		r.Telemetry = of.Telemetry
		return r
	}
	return answer
}

// follow is get_call: the receipt once it changes, or as it stands after the wait.
func (a *Authority) follow(ctx context.Context, c Caller, x controlv1.AskCall) (Answer, error) {
	who := a.caller(c)
	call, err := a.Book.Show(ctx, who, x.Call)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if node := a.knows(ctx, c, call); node != "" {
		if answer, away, err := a.pass(ctx, node, c, x); away == nil {
			return answer, err
		}
	}
	answer, err := a.await(ctx, who, x.Call, func(c ledger.Call) time.Duration {
		if c.State.Over() || c.State != call.State {
			return 0
		}
		return time.Until(start.Add(time.Duration(x.WaitSeconds) * time.Second))
	})
	return exported(answer, call), err
}

// knows answers the other node that may know more of a call than the record: that
// carries it, or has its result still.
func (a *Authority) knows(ctx context.Context, c Caller, call ledger.Call) string {
	if call.State.Over() && call.State != ledger.CallSucceeded {
		return ""
	}
	return a.carried(ctx, c, call.ID)
}

// lookTime is how often a call that another node carries is looked at.
const lookTime = 250 * time.Millisecond

// await answers a call's receipt once patience says of where it stands that there is
// none left. A result goes out with it, once.
func (a *Authority) await(ctx context.Context, who ledger.Caller, id controlv1.ID, patience func(ledger.Call) time.Duration) (Answer, error) {
	a.mu.Lock()
	f := a.flights[id]
	a.mu.Unlock()
	var w *waiter
	if f != nil {
		w = f.join()
		defer f.part(w)
	}
	var stop <-chan struct{} = a.stop
	var last time.Time
	for {
		changed, look := f.changes(), lookTime
		call, err := a.stands(ctx, f, who, id)
		if err != nil {
			return nil, err
		}
		left := patience(call)
		if !last.IsZero() && left > 0 {
			left = min(left, time.Until(last))
		}
		if left <= 0 {
			return receipt(call, f, w), nil
		}
		if f.trouble() {
			return nil, refusal.OutcomeUnavailable
		}
		if changed != nil {
			look = left
		}
		timer := time.NewTimer(min(left, look))
		select {
		case <-changed:
		case <-timer.C:
		case <-stop: // what the node's end ends is written in a moment, or by another node
			stop, last = nil, time.Now().Add(sendTime)
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// stands answers where a caller's call stands: by its flight, or else by the record.
func (a *Authority) stands(ctx context.Context, f *flight, who ledger.Caller, id controlv1.ID) (ledger.Call, error) {
	if f != nil {
		own := a.caller(f.caller)
		if call, ok := f.stands(); ok && own.Principal == who.Principal && own.Agent == who.Agent {
			return call, nil
		}
	}
	return a.Book.Show(ctx, who, id)
}

// receipt is what a caller is told, with the result where it is here still.
func receipt(c ledger.Call, f *flight, w *waiter) controlv1.Receipt {
	r := c.Receipt()
	if f != nil && c.State == ledger.CallSucceeded {
		r.Result = f.take(w)
	}
	return r
}
