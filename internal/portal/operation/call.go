package operation

import (
	"context"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Call runs one tool and answers its result in canonical bytes. The error is a
// *tool.Error. The owner's own page and apps call every tool; a browser's agent
// reads, and its changes go through Prepare, Confirm and Execute: review_declined
// here.
func (d *Desk) Call(ctx context.Context, c Caller, name string, arguments []byte) ([]byte, error) {
	return d.call(ctx, c, name, arguments, "")
}

// job is one call on its way.
type job struct {
	who    ledger.Caller
	in     tool.Input
	digest string
	review string // a browser's change: its prepare receipt
}

// result is what a job came to. noted tells that the ledger has it among the
// recent calls.
type result struct {
	json  []byte
	err   error
	noted bool
}

func failed(err error) result { return result{err: err} }

func (d *Desk) call(ctx context.Context, c Caller, name string, arguments []byte, review string) ([]byte, error) {
	who, err := d.caller(ctx, c)
	if err != nil {
		return nil, d.fail(err)
	}
	if err := d.charge(who.Actor); err != nil { // before decoding: that costs too
		return nil, err
	}
	j := job{who: who, review: review}
	r := result{}
	if j.in, err = tool.Decode(name, arguments); err != nil {
		r.err = err
	} else if j.digest, err = tool.Digest(name, arguments); err != nil {
		r.err = tool.Fail(tool.InvalidInput, "path", "", "rule", "json")
	} else {
		r = d.run(ctx, j)
	}
	if r.err == nil {
		return r.json, nil
	}
	told := d.fail(r.err)
	if !r.noted {
		if err := d.noteRefusal(ctx, j, name, told.Code); err != nil {
			return nil, d.fail(err)
		}
	}
	return nil, told
}

func (d *Desk) run(ctx context.Context, j job) result {
	switch in := j.in.(type) {
	case tool.CollectionsList:
		return d.collections(ctx, j, in)
	case tool.ItemsList:
		return d.items(ctx, j, in)
	case tool.ItemRead:
		return d.read(ctx, j, in)
	case tool.ItemWrite:
		return d.change(ctx, j, change{ItemWrite: in, name: tool.WriteItem})
	case tool.ItemDelete:
		return d.change(ctx, j, change{ItemWrite: tool.ItemWrite{Collection: in.Collection, Item: in.Item,
			RequestID: in.RequestID, IfVersion: in.IfVersion}, name: tool.DeleteItem})
	}
	return failed(tool.Fail(tool.UnknownTool))
}

// noteRefusal records a call that was refused before anything was begun. An
// account that is over its limits isn't helped by writing that down too.
func (d *Desk) noteRefusal(ctx context.Context, j job, name string, code refusal.Code) error {
	t, known := tool.Lookup(name)
	if !known || j.who.Transport == ledger.Owner || code == tool.RateLimited || code == tool.Busy || code == tool.Cancelled || ctx.Err() != nil {
		return nil
	}
	call := ledger.Call{Tool: t.Name, Code: code, Digest: j.digest}
	if j.in != nil {
		call.Collection, call.RequestID = about(j.in)
	}
	return d.ledger.Refuse(ctx, j.who, call)
}

// about answers which collection and request an input names.
func about(in tool.Input) (collection, request string) {
	switch in := in.(type) {
	case tool.ItemsList:
		return in.Collection, ""
	case tool.ItemRead:
		return in.Collection, ""
	case tool.ItemWrite:
		return in.Collection, in.RequestID
	case tool.ItemDelete:
		return in.Collection, in.RequestID
	}
	return "", ""
}

// tell answers a read, once the ledger has judged its grant again and recorded it.
func (d *Desk) tell(ctx context.Context, j job, g ledger.Grant, data []byte, err error) result {
	if j.who.Transport == ledger.Owner {
		return result{json: data, err: err, noted: true}
	}
	call := ledger.Call{Tool: j.in.Tool(), Digest: j.digest}
	call.Collection, _ = about(j.in)
	if err != nil {
		call.Code = d.fail(err).Code
	}
	if call.Code == tool.Cancelled {
		return result{err: err, noted: true}
	}
	if over := d.ledger.Told(ctx, j.who, g, call); over != nil {
		return result{err: over}
	}
	return result{json: data, err: err, noted: true}
}
