package operation

import (
	"context"
	"errors"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// send is the effect: one call of the source, which isn't cancelled any more, since
// then nobody could tell what it did.
func (d *Desk) send(ctx context.Context, s *slot, src source.Source, c change, r ledger.Request) result {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.limits.Deadline)
	d.running.Add(1) // until the outcome is written
	done := start(d, s, within, func(ctx context.Context) (source.Written, error) {
		p := d.place(r.Collection)
		if c.name == tool.DeleteItem {
			return source.Written{Item: c.Item, Before: c.IfVersion}, src.Delete(ctx, p, c.Item, c.IfVersion, r.Mark)
		}
		return src.Write(ctx, p, source.Write{Item: c.Item, Content: c.Content, HasContent: c.HasContent, MediaType: c.MediaType,
			Metadata: c.Metadata, IfVersion: c.IfVersion, IfAbsent: c.IfAbsent, Mark: r.Mark})
	})
	var a answer[source.Written]
	select {
	case a = <-done:
	case <-within.Done():
		a = last(done)
	}
	cancel()
	if errors.Is(a.err, errGivenUp) {
		// What it answers later is still the truth, and is written down for whoever
		// asks with the same request_id.
		go func() {
			defer d.running.Done()
			if o, ok := outcome(r, <-done); ok {
				d.settled(ctx, r, o)
			}
		}()
		return d.unknown(r)
	}
	defer d.running.Done()
	if o, ok := outcome(r, a); ok {
		return d.settled(ctx, r, o)
	}
	return d.unknown(r)
}

// unknown answers a change that may have taken effect. Its request stays begun, and
// Repair or the same request_id find out.
func (d *Desk) unknown(r ledger.Request) result {
	return result{err: tool.Fail(tool.UnknownOutcome, "receipt", r.Receipt), noted: true}
}

// outcome reads what a source answered. Where it isn't sure, ok is false: an answer
// that can't be, a code that a source has no business with, a panic.
func outcome(r ledger.Request, a answer[source.Written]) (o ledger.Outcome, ok bool) {
	if a.err == nil {
		return done(r, a.value)
	}
	e := refused(a.err, tool.UnknownOutcome)
	if e.Code == tool.UnknownOutcome {
		return o, false
	}
	o = ledger.Outcome{State: ledger.Refused, Code: e.Code}
	if len(e.Details) > 0 {
		details, err := canon.Marshal(e.Details)
		if err != nil {
			return o, false
		}
		o.JSON = string(details)
	}
	return o, true
}

// done is the outcome of a change that took effect.
func done(r ledger.Request, w source.Written) (o ledger.Outcome, ok bool) {
	o = ledger.Outcome{State: ledger.Done, Before: r.IfVersion, After: w.Version}
	var told any = tool.WriteResult{Item: w.Item, Version: w.Version, Outcome: w.Outcome, Receipt: r.Receipt}
	if r.Tool == tool.DeleteItem {
		o.After = ""
		told = tool.DeleteResult{Item: r.Item, Outcome: "deleted", Receipt: r.Receipt}
	} else if !plausible(r, w) {
		return o, false
	}
	data, err := encode(told)
	o.JSON = string(data)
	return o, err == nil
}

// plausible holds a write's answer to what was asked.
func plausible(r ledger.Request, w source.Written) bool {
	right := map[string]bool{
		source.Created:  r.IfAbsent,
		source.Replaced: !r.IfAbsent && r.HasContent,
		source.Updated:  !r.IfAbsent && !r.HasContent,
		source.Moved:    !r.IfAbsent && !r.HasContent && r.Collection.Kind == ledger.Inbox,
	}
	return right[w.Outcome] && isVersion.MatchString(w.Version) && tool.ValidItem(w.Item) && (w.Item == r.Item || w.Outcome == source.Moved)
}

// settled writes an outcome down, and answers what stands then.
func (d *Desk) settled(ctx context.Context, r ledger.Request, o ledger.Outcome) result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var err error
	for range 3 { // an answer of the commit that was lost: writing it again is fine
		if err = d.ledger.Finish(ctx, r, o); err == nil || errors.Is(err, refusal.Conflict) {
			break
		}
	}
	if err == nil {
		r.State, r.Code, r.Outcome = o.State, o.Code, o.JSON
		return stands(r)
	}
	if stood, again := d.ledger.Receipt(ctx, r.Actor, r.Receipt); again == nil && stood.Mark == r.Mark && stood.State != ledger.Begun {
		return stands(stood) // another settled it first
	}
	// The effect may be there and its receipt isn't: that is told as it is.
	return d.unknown(r)
}
