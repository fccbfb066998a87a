package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

// Prompt is a confirmation that a person is asked for: what their page was sent, and
// what the authority itself knows of it. It is told to that person alone, since it
// holds the arguments.
type Prompt struct {
	controlv1.ConfirmationRequest
	Class  controlv1.Class
	Agent  string // who asks, "" for the person's own session
	Origin controlv1.Origin
	Route  controlv1.ID
}

// Prompts answers what waits for a person, the first to lapse first. What a node asks
// that can't be reached isn't among it: nobody could confirm it.
func (a *Authority) Prompts(ctx context.Context, who identity.Principal) []Prompt {
	a.mu.Lock()
	var all []*flight
	for _, f := range a.flights {
		if f.c.evidence.Principal == a.Principal(who) {
			all = append(all, f)
		}
	}
	a.mu.Unlock()
	var out []Prompt
	for _, f := range all {
		if p, ok := f.prompt(); ok {
			out = append(out, p)
		}
	}
	out = append(out, a.distantPrompts(ctx, who)...)
	slices.SortFunc(out, func(x, y Prompt) int {
		if x.ExpiresMS != y.ExpiresMS {
			return int(x.ExpiresMS - y.ExpiresMS)
		}
		return strings.Compare(x.Call.String(), y.Call.String())
	})
	return out
}

// distantPrompts are those of other nodes.
func (a *Authority) distantPrompts(ctx context.Context, who identity.Principal) (out []Prompt) {
	if a.Bus.Alone() {
		return nil
	}
	all, err := a.Book.Askings(ctx, a.Principal(who))
	if err != nil {
		return nil
	}
	for _, q := range all {
		if a.other(q.Node, nil) == "" {
			continue
		}
		body, err := encodeCall(a.terms, who, q.Call, nil)
		if err != nil {
			continue
		}
		one, cancel := context.WithTimeout(ctx, sendTime)
		text, err := a.Bus.Ask(one, q.Node, topicPrompt, body)
		cancel()
		if err != nil {
			continue
		}
		if p, err := decodePrompt(text); err == nil && p.Call == q.Call {
			out = append(out, p)
		}
	}
	return out
}

// prompt is what a flight asks, while it does.
func (f *flight) prompt() (Prompt, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking == nil || f.call.State != ledger.CallPending {
		return Prompt{}, false
	}
	return Prompt{*f.asking, f.tool.Class(), f.caller.Who.Agent(), f.c.place.Origin, f.c.place.Route}, true
}

// Decide takes a person's word on the authority's own origin: a confirmation of the
// exact request, or a denial where it is nil. It answers the call's state then; who
// confirms what is confirmed already is answered how it stands.
// Refusals: unknown_call for a call that doesn't ask that person, request_conflict
// for another digest, bad_credential for another assertion, authority_lost.
func (a *Authority) Decide(ctx context.Context, who identity.Principal, id controlv1.ID, k *controlv1.Confirm) (ledger.Call, error) {
	node := a.carried(ctx, Caller{Who: who}, id)
	if node == "" {
		return a.decide(ctx, who, id, k)
	}
	body, err := encodeCall(a.terms, who, id, k)
	if err != nil {
		return ledger.Call{}, told(err)
	}
	_, err = a.Bus.Ask(ctx, node, topicDecide, body)
	if err == nil {
		call, err := a.Book.Call(ctx, id)
		if err != nil {
			return ledger.Call{}, told(err)
		}
		return call, nil
	}
	if lost(err) { // what was confirmed before, or by this, stands in the record
		if call, already := a.already(ctx, who, id, k); already == nil {
			return call, nil
		}
	}
	return ledger.Call{}, told(err)
}

// decide is Decide on the node that asks.
func (a *Authority) decide(ctx context.Context, who identity.Principal, id controlv1.ID, k *controlv1.Confirm) (ledger.Call, error) {
	a.mu.Lock()
	f := a.flights[id]
	a.mu.Unlock()
	if f == nil || f.c.evidence.Principal != a.Principal(who) {
		return a.already(ctx, who, id, k)
	}
	p, asking := f.prompt()
	if !asking {
		return a.already(ctx, who, id, k)
	}
	if err := f.c.revalidate(ctx); err != nil {
		return ledger.Call{}, told(err)
	}
	if k == nil {
		f.hear(said{effect: controlv1.NoEffect, here: true})
	} else {
		call, _ := f.stands()
		if _, err := f.verify(call, p.Level, *k); err != nil {
			if now, already := a.already(ctx, who, id, k); already == nil { // by another press, whose assertion was used
				return now, nil
			}
			return ledger.Call{}, told(err)
		}
		f.hear(said{confirm: k, here: true, verified: true})
	}
	for end := time.Now().Add(sendTime); ; {
		changed := f.changes()
		call, err := a.Book.Call(ctx, id)
		if err != nil || call.State != ledger.CallPending || time.Now().After(end) {
			return call, err
		}
		select {
		case <-changed:
		case <-time.After(lookTime):
		case <-ctx.Done():
			return call, ctx.Err()
		}
	}
}

// already answers a person's call whose exact request was confirmed before, on
// whatever node: once more changes nothing, and isn't an error. Anything else doesn't
// ask any more.
func (a *Authority) already(ctx context.Context, who identity.Principal, id controlv1.ID, k *controlv1.Confirm) (ledger.Call, error) {
	if k == nil {
		return ledger.Call{}, refusal.UnknownCall
	}
	own, err := a.Book.Owns(ctx, a.Principal(who), ledger.KillCall, id.String())
	if err != nil || !own {
		return ledger.Call{}, errors.Join(refusal.UnknownCall, err)
	}
	call, err := a.Book.Call(ctx, id)
	if err == nil && (call.Attempts == 0 || call.Confirmation != k.Confirmation) {
		err = refusal.UnknownCall
	}
	if err != nil {
		return ledger.Call{}, told(err)
	}
	return call, nil
}
