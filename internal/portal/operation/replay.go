package operation

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
)

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
	call := ledger.Call{Tool: r.Tool, Collection: r.Collection.Collection, RequestID: r.RequestID, Receipt: r.Receipt, Digest: r.Digest}
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
