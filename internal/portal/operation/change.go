package operation

import (
	"context"
	"slices"
	"time"

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
