package operation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/canon"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// change is a write or a delete; a delete has an item and a version.
type change struct {
	tool.ItemWrite
	name tool.Name
}

// spare is how long after its source's deadline a change is still left to the node
// that made it, before Repair asks what became of it.
const spare = 5 * time.Second

// change makes one change: judged, claimed, sent once, settled, told.
func (d *Desk) change(ctx context.Context, j job, c change) result {
	known, _, err := d.ledger.Request(ctx, j.who, c.RequestID)
	if err != nil {
		return failed(err)
	}
	if j.who.Transport == ledger.Browser && j.review == "" {
		return failed(tool.Fail(tool.ReviewDeclined)) // nobody reviewed it
	}
	a, src, err := d.target(ctx, j, c, known)
	if err != nil {
		return failed(err)
	}
	claim, s, err := d.claim(ctx, j, c, a, src, known)
	if err != nil {
		return failed(err)
	}
	r, fresh, err := d.ledger.Claim(ctx, claim)
	if err != nil || !fresh {
		s.drop() // who only waits for another's outcome doesn't keep others from running
		if err != nil {
			return failed(err)
		}
		return d.replay(ctx, j, r)
	}
	// From here on the request is begun: whatever happens, it is settled or told
	// unknown.
	defer s.drop()
	switch {
	case ctx.Err() != nil:
		return d.settled(ctx, r, ledger.Outcome{State: ledger.Refused, Code: tool.Cancelled})
	case src == nil:
		return d.settled(ctx, r, ledger.Outcome{State: ledger.Refused, Code: tool.SourceDisconnected})
	case s == nil: // it was forgotten, or refused, since it was looked at
		return d.settled(ctx, r, ledger.Outcome{State: ledger.Refused, Code: tool.Busy})
	}
	return d.send(ctx, s, src, c, r)
}

// target answers the collection and its source. One that is disconnected, or whose
// source can't, still answers what became of a request that was claimed before.
func (d *Desk) target(ctx context.Context, j job, c change, known ledger.Request) (ledger.Allowed, source.Source, error) {
	a, _, err := d.ledger.Allow(ctx, j.who, c.Collection, c.name)
	if known.Receipt != "" && (err == nil || refusal.Of(err) == tool.SourceDisconnected) {
		src, _ := d.source(a.Collection)
		return a, src, nil
	}
	if err != nil {
		return a, nil, err
	}
	if err := c.suits(a.Kind); err != nil {
		return a, nil, err
	}
	src, err := d.source(a.Collection)
	if err == nil && !slices.Contains(src.Functions(), c.name) {
		err = tool.Fail(tool.FunctionUnavailable)
	}
	return a, src, err
}

// flags are what an inbox keeps of a message, and of which type.
var flags = map[string]func(any) bool{
	"seen": isBool, "flagged": isBool, "answered": isBool,
	"keywords": func(v any) bool { _, ok := v.([]any); return ok },
	"folder":   func(v any) bool { s, ok := v.(string); return ok && s != "" },
}

func isBool(v any) bool { _, ok := v.(bool); return ok }

// suits holds a change to what its kind of collection takes (section 1).
func (c change) suits(kind ledger.Kind) error {
	switch {
	case kind == ledger.Storage:
		if c.name == tool.WriteItem && c.IfAbsent && !c.HasContent {
			return tool.Fail(tool.InvalidInput, "path", "/content", "rule", "required")
		}
		return nil
	case kind != ledger.Inbox || c.name == tool.DeleteItem || c.HasContent:
		return tool.Fail(tool.FunctionUnavailable)
	case c.IfAbsent:
		return tool.Fail(tool.InvalidInput, "path", "/if_version", "rule", "required")
	}
	for name, v := range c.Metadata {
		if right, ok := flags[name]; !ok || !right(v) {
			return tool.Fail(tool.InvalidInput, "path", "/metadata", "rule", "properties")
		}
	}
	return nil
}

// claim is what the ledger is to write before the effect, and the slot under which
// the effect is made; nil where the request has its outcome already, or another is
// making it.
func (d *Desk) claim(ctx context.Context, j job, c change, a ledger.Allowed, src source.Source, known ledger.Request) (ledger.Claim, *slot, error) {
	out := ledger.Claim{Caller: j.who, Review: j.review, Tool: c.name, Digest: j.digest, RequestID: c.RequestID,
		Collection: c.Collection, Item: c.Item, IfVersion: c.IfVersion, IfAbsent: c.IfAbsent, HasContent: c.HasContent}
	if c.Metadata != nil {
		metadata, err := canon.Marshal(c.Metadata)
		if err != nil {
			return out, nil, tool.Fail(tool.InvalidInput, "path", "/metadata", "rule", "text")
		}
		out.Metadata = string(metadata)
	}
	if !known.Open() {
		return out, nil, nil
	}
	s, err := d.admit(ctx, j.who.Actor)
	if err == nil && a.Kind == ledger.Storage {
		if err = d.size(ctx, s, c, a, src, &out); err != nil {
			s.drop()
		}
	}
	out.Until = time.Now().Add(d.limits.Deadline + spare)
	return out, s, err
}

// size tells what a change of hosted storage adds or frees. Of a version that isn't
// there any more it doesn't matter: the source will refuse the change.
func (d *Desk) size(ctx context.Context, s *slot, c change, a ledger.Allowed, src source.Source, out *ledger.Claim) error {
	added := int64(len(c.Content))
	if c.IfAbsent {
		out.Items, out.Bytes = 1, added
		return nil
	}
	if !c.HasContent && c.name == tool.WriteItem || src == nil {
		return nil
	}
	now, err := ask(ctx, d, s, func(ctx context.Context) (source.Item, error) { return src.Stat(ctx, d.place(a.Collection), c.Item) })
	switch code := refusal.Of(err); {
	case code == tool.SourceUnavailable || code == tool.SourceDisconnected || code == tool.Cancelled:
		return err
	case err != nil || now.Version != c.IfVersion || now.Size < 0:
		out.Bytes = added
	case c.name == tool.DeleteItem:
		out.Items, out.Bytes = -1, -now.Size
	default:
		out.Bytes = added - now.Size
	}
	return nil
}

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

// stands answers what became of a request.
func stands(r ledger.Request) result {
	switch r.State {
	case ledger.Done:
		return result{json: []byte(r.Outcome), noted: true}
	case ledger.Refused:
		e := tool.Fail(r.Code)
		if r.Outcome != "" {
			e.Details = details(r.Outcome)
		}
		return result{err: e, noted: true}
	}
	return result{err: tool.Fail(tool.UnknownOutcome, "receipt", r.Receipt), noted: true}
}

// details reads a refusal's details back: texts and whole numbers.
func details(text string) map[string]any {
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil // the code alone is true all the same
	}
	for name, v := range raw {
		if n, ok := v.(float64); ok {
			raw[name] = int64(n)
		}
	}
	return raw
}

// replay answers a request that was claimed before: its outcome, or that of who is
// making it just now, as soon as there is one.
func (d *Desk) replay(ctx context.Context, j job, r ledger.Request) result {
	timer := time.NewTimer(d.limits.Deadline + spare)
	defer timer.Stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if r.State != ledger.Begun {
			return d.repeated(ctx, j, r)
		}
		if time.Now().After(r.Until) {
			return d.overdue(ctx, j, r)
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return result{err: tool.Fail(tool.Busy, "receipt", r.Receipt), noted: true}
		case <-timer.C:
			wait.Stop()
			return result{err: tool.Fail(tool.Busy, "receipt", r.Receipt), noted: true}
		}
		again, known, err := d.ledger.Request(ctx, j.who, r.RequestID)
		switch {
		case ctx.Err() != nil:
			return result{err: tool.Fail(tool.Busy, "receipt", r.Receipt), noted: true}
		case err != nil:
			return failed(err)
		case !known:
			return failed(tool.Fail(tool.Busy))
		}
		r = again
	}
}

// overdue finds out about a request whose maker is gone, and answers that.
func (d *Desk) overdue(ctx context.Context, j job, r ledger.Request) result {
	s, err := d.admit(ctx, j.who.Actor)
	if err != nil {
		return failed(err)
	}
	defer s.drop()
	if err := d.settle(ctx, s, r); err != nil {
		return d.unknown(r)
	}
	if r, err = d.ledger.Receipt(ctx, r.Actor, r.Receipt); err != nil {
		return failed(err)
	}
	if r.State == ledger.Begun {
		return d.unknown(r)
	}
	return d.repeated(ctx, j, r)
}

// repeated tells a stored outcome again, as a call of its own.
func (d *Desk) repeated(ctx context.Context, j job, r ledger.Request) result {
	out := stands(r)
	if j.who.Transport == ledger.Owner {
		return out
	}
	call := ledger.Call{Tool: r.Tool, Collection: r.Collection.Collection, RequestID: r.RequestID, Receipt: r.Receipt}
	if out.err != nil {
		call.Code = d.fail(out.err).Code
	}
	who := j.who
	if err := d.ledger.Told(ctx, who, ledger.Grant{Connection: r.Connection, Generation: who.Generation}, call); err != nil {
		return failed(err)
	}
	return out
}

// asked reads a request's metadata back for Settle.
func asked(text string) map[string]any {
	if text == "" {
		return nil
	}
	in, err := tool.Decode(string(tool.WriteItem), []byte(`{"collection":"a","if_version":"v","item":"a","metadata":`+text+
		`,"request_id":"`+strings.Repeat("0", 8)+`-0000-0000-0000-000000000000"}`))
	if w, ok := in.(tool.ItemWrite); err == nil && ok {
		return w.Metadata
	}
	return nil
}
