package operation

import (
	"context"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Review is what a person decides on, and the receipt of it.
type Review struct {
	ReceiptID   string `json:"receipt_id"`
	Digest      string `json:"digest"` // of {tool, arguments}, as Confirm is to give it back
	ExpiresAtMS int64  `json:"expires_at_ms"`
	Review      Shown  `json:"review"`
}

// Prepare looks what a browser's change would do and makes the receipt of its
// review: bound to the session, the grant's generation, the tool and the digest, for
// two minutes. What would surely be refused is refused here, so nobody reviews it.
// Nothing is held while the person decides.
func (d *Desk) Prepare(ctx context.Context, c Caller, name string, arguments []byte) (Review, error) {
	who, err := d.caller(ctx, c)
	if err != nil {
		return Review{}, d.fail(err)
	}
	if err := d.charge(who.Actor); err != nil {
		return Review{}, err
	}
	j := job{who: who}
	r, err := d.prepare(ctx, &j, name, arguments)
	if err == nil {
		return r, nil
	}
	told := d.fail(err)
	if err := d.noteRefusal(ctx, j, name, told.Code); err != nil {
		return Review{}, d.fail(err)
	}
	return Review{}, told
}

func (d *Desk) prepare(ctx context.Context, j *job, name string, arguments []byte) (out Review, err error) {
	if j.who.Transport != ledger.Browser {
		return out, tool.Fail(tool.FunctionUnavailable)
	}
	if j.in, err = tool.Decode(name, arguments); err != nil {
		return out, err
	}
	c, ok := changeOf(j.in)
	if !ok { // a read needs no review
		return out, tool.Fail(tool.InvalidInput, "path", "/tool", "rule", "enum")
	}
	if j.digest, err = tool.Digest(name, arguments); err != nil {
		return out, tool.Fail(tool.InvalidInput, "path", "", "rule", "json")
	}
	known, _, err := d.ledger.Request(ctx, j.who, c.RequestID)
	if err != nil {
		return out, err
	}
	a, src, err := d.target(ctx, *j, c, known)
	if err != nil {
		return out, err
	}
	if known.Receipt != "" && known.Digest != j.digest {
		return out, tool.Fail(tool.RequestConflict)
	}
	s, err := d.admit(ctx, j.who.Actor)
	if err != nil {
		return out, err
	}
	defer s.drop()
	if out.Review, err = d.show(ctx, s, c, a, src, arguments, known.Receipt != ""); err != nil {
		return out, err
	}
	r, err := d.ledger.Prepare(ctx, j.who, c.name, j.digest)
	out.ReceiptID, out.Digest, out.ExpiresAtMS = r.Receipt, r.Digest, r.Expires.UnixMilli()
	return out, err
}

// changeOf answers the change that an input asks for.
func changeOf(in tool.Input) (change, bool) {
	switch in := in.(type) {
	case tool.ItemWrite:
		return change{ItemWrite: in, name: tool.WriteItem}, true
	case tool.ItemDelete:
		return change{ItemWrite: tool.ItemWrite{Collection: in.Collection, Item: in.Item, RequestID: in.RequestID, IfVersion: in.IfVersion},
			name: tool.DeleteItem}, true
	}
	return change{}, false
}

// Confirm acknowledges a review for the session that prepared it; again is fine.
func (d *Desk) Confirm(ctx context.Context, c Caller, receiptID, digest string) error {
	return d.decide(ctx, c, func(who ledger.Caller) error { return d.ledger.Confirm(ctx, who, receiptID, digest) })
}

// Decline cancels a review at its owner's wish.
func (d *Desk) Decline(ctx context.Context, c Caller, receiptID string) error {
	return d.decide(ctx, c, func(who ledger.Caller) error { return d.ledger.Decline(ctx, who, receiptID) })
}

func (d *Desk) decide(ctx context.Context, c Caller, verb func(ledger.Caller) error) error {
	who, err := d.caller(ctx, c)
	if err == nil {
		err = d.charge(who.Actor)
	}
	if err == nil && who.Transport != ledger.Browser {
		err = tool.Fail(tool.FunctionUnavailable)
	}
	if err == nil {
		err = verb(who)
	}
	if err != nil {
		return d.fail(err)
	}
	return nil
}

// Execute runs a browser's tool: a read as it is, a change with the receipt of its
// confirmed review, which is spent by it. Arguments of another digest than was
// reviewed are review_declined.
func (d *Desk) Execute(ctx context.Context, c Caller, receiptID, name string, arguments []byte) ([]byte, error) {
	if c.Transport != Browser {
		return nil, tool.Fail(tool.FunctionUnavailable)
	}
	return d.call(ctx, c, name, arguments, receiptID)
}

// absent tells a source that has no such item.
func absent(err error) bool { return refusal.Of(err) == tool.NotFound }
