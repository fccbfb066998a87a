package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// RequestState is what is known of one change's effect.
type RequestState string

const (
	// Begun was claimed: it may be on its way to its source, or there.
	Begun RequestState = "begun"
	// Done took effect; its receipt says what.
	Done RequestState = "done"
	// Refused had no effect; its code says why. Where that is one after which the
	// same call may succeed, the same request can be claimed again.
	Refused RequestState = "refused"
	// Unknown may have taken effect and nothing can tell any more; it is never
	// repeated.
	Unknown RequestState = "unknown"
)

const (
	requestBegun   verb = "begun"
	requestAgain   verb = "retried"
	requestDone    verb = "done"
	requestRefused verb = "refused"
	requestUnknown verb = "unknown"
)

// requestMoves is every way in which a change's outcome becomes known.
var requestMoves = []step[RequestState]{
	{requestBegun, "", Begun},
	{requestAgain, Refused, Begun},
	{requestDone, Begun, Done},
	{requestRefused, Begun, Refused},
	{requestUnknown, Begun, Unknown},
}

// kind answers the audit's word for what a verb did with that tool.
func (v verb) kind(name tool.Name) string {
	switch {
	case v == requestDone && name == tool.DeleteItem:
		return "deleted"
	case v == requestDone:
		return "written"
	case v == requestBegun && name == tool.DeleteItem:
		return "delete_begun"
	case v == requestBegun:
		return "write_begun"
	case name == tool.DeleteItem:
		return "delete_" + string(v)
	}
	return "write_" + string(v)
}

// Claim is one change that a caller wants made.
type Claim struct {
	Caller
	Review    string // browser: the prepare receipt, which is spent with it
	Tool      tool.Name
	Digest    string // of {tool, arguments}
	RequestID string // UUID, lower case
	// What Settle needs to find out what became of it.
	Collection, Item, IfVersion string
	IfAbsent, HasContent        bool
	Metadata                    string // JSON, "" for none
	// What it adds to hosted storage; negative for what it frees.
	Items, Bytes int64
	Until        time.Time // when its source has surely been given up
}

// Request is what the ledger knows of one change. Receipt names it for good.
type Request struct {
	Receipt, Mark string // 32 hex each; the mark is another at each attempt
	Actor         string
	Transport     Transport
	Connection    string // its id, or OwnerConnection
	Generation    int64
	RequestID     string
	Tool          tool.Name
	Digest        string
	Collection    Collection // place, kind and source, also of one that was removed
	Item          string
	IfVersion     string
	IfAbsent      bool
	HasContent    bool
	Metadata      string
	State         RequestState
	Code          refusal.Code // of Refused
	Outcome       string       // JSON: of Done the result, of Refused its details or ""
	Before, After string       // versions, "" for none
	Begun         time.Time
	Until         time.Time
	Settled       time.Time // zero for as long as it is begun
}

const requestColumns = `r.receipt, r.mark, r.actor, r.transport, r.connection, r.generation, r.request_id, r.tool, r.digest,
	r.collection, r.place, coalesce(c.kind,''), coalesce(c.source,''), coalesce(c.incarnation,''), coalesce(c.state,''),
	r.item, r.if_version, r.if_absent, r.has_content, r.metadata, r.state, r.code, r.outcome, r.version_before, r.version_after,
	r.begun_ms, r.until_ms, r.settled_ms from portal_request r left join portal_collection c on c.place=r.place`

func (r *Request) scan(row interface{ Scan(...any) error }) error {
	var absent, content, begun, until, settled int64
	err := row.Scan(&r.Receipt, &r.Mark, &r.Actor, &r.Transport, &r.Connection, &r.Generation, &r.RequestID, &r.Tool, &r.Digest,
		&r.Collection.Collection, &r.Collection.Place, &r.Collection.Kind, &r.Collection.Source, &r.Collection.Incarnation, &r.Collection.State,
		&r.Item, &r.IfVersion, &absent, &content, &r.Metadata, &r.State, &r.Code, &r.Outcome, &r.Before, &r.After, &begun, &until, &settled)
	r.Collection.Actor = r.Actor
	r.IfAbsent, r.HasContent = absent != 0, content != 0
	r.Begun, r.Until, r.Settled = at(begun), at(until), at(settled)
	return err
}

func (b *Book) requests(tx *tx, rest string, args ...any) (out []Request, err error) {
	err = each(tx, `select `+requestColumns+` where r.tenant=$1 and `+rest, append([]any{b.tenant}, args...), func(row *sql.Rows) error {
		var r Request
		if err := r.scan(row); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

func (b *Book) byID(tx *tx, actor, connection, requestID string) (r Request, known bool, err error) {
	all, err := b.requests(tx, `r.actor=$2 and r.connection=$3 and r.request_id=$4`, actor, connection, requestID)
	if err != nil || len(all) == 0 {
		return Request{}, false, err
	}
	return all[0], true, nil
}

// Open tells whether a claim of this request may be fresh: it was never claimed, or
// it surely had no effect, for a reason that passes.
func (r Request) Open() bool {
	return r.Receipt == "" || r.again()
}

func (r Request) again() bool { return r.State == Refused && tool.Fail(r.Code).Retryable() }

// Claim is the one commit before a change's effect: it judges the caller's grant,
// spends the review, counts what the change adds and writes the request with its
// mark. fresh tells that the caller now makes the change, once, and then calls
// Finish. Where it is false the request was claimed before, with the same input,
// and its state says what became of it.
//
// Refusals: those of Allow; of a browser those of Confirm, and review_declined
// where the receipt wasn't confirmed or is another input's; request_conflict;
// quota_exceeded. After any error nothing was or will be sent.
func (b *Book) Claim(ctx context.Context, c Claim) (r Request, fresh bool, err error) {
	var late error
	err = b.db.Update(ctx, func(tx *tx) error {
		r, fresh, late = Request{}, false, nil
		now := time.Now()
		g, err := b.grant(tx, c.Caller, now)
		if err != nil {
			return err
		}
		there, off, err := b.reach(tx, c.Caller, g, c.Collection, c.Tool)
		if err != nil {
			return err
		}
		if c.Transport == Browser {
			if late, err = b.spend(tx, c, g, now); err != nil || late != nil {
				return err
			}
		}
		known := false
		if r, known, err = b.byID(tx, c.Actor, g.Connection, c.RequestID); err != nil {
			return err
		}
		if known && r.Digest != c.Digest {
			return fmt.Errorf("request id was used for another input: %w", tool.RequestConflict)
		}
		if known && !r.again() {
			return nil
		}
		if off != nil {
			return off
		}
		if there.Kind == Storage {
			if err := b.reserve(tx, c.Actor, c.Items, c.Bytes); err != nil {
				return err
			}
		}
		fresh = true
		// A crash right after this commit leaves the request begun: nothing, or
		// everything, reached the source, which Settle is asked once Until is over.
		r, err = b.begin(tx, c, g, there.Collection, r, now)
		return err
	})
	if err == nil {
		err = late
	}
	if err != nil {
		return Request{}, false, err
	}
	return r, fresh, nil
}

// begin writes the request, or takes one that was refused up again.
func (b *Book) begin(tx *tx, c Claim, g Grant, there Collection, old Request, now time.Time) (Request, error) {
	v, receipt, mark := requestBegun, NewID(), NewID()
	if old.Receipt != "" {
		v, receipt = requestAgain, old.Receipt
		if rows, err := tx.Exec(`delete from portal_request where receipt=$1 and state=$2 and mark=$3`, receipt, string(Refused), old.Mark); err != nil || rows != 1 {
			return Request{}, errors.Join(err, refusal.Conflict)
		}
	}
	to, ok := goes(requestMoves, v, old.State)
	if !ok {
		to = born(requestMoves, v)
	}
	_, err := tx.Exec(`insert into portal_request (receipt, tenant, actor, transport, connection, generation, request_id, tool, digest, mark,
		collection, place, item, if_version, if_absent, has_content, metadata, items, bytes, state, code, outcome, version_before, version_after,
		begun_ms, until_ms, settled_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,'','','','',$21,$22,0)`,
		receipt, b.tenant, c.Actor, string(c.Transport), g.Connection, g.Generation, c.RequestID, string(c.Tool), c.Digest, mark,
		c.Collection, there.Place, c.Item, c.IfVersion, flag(c.IfAbsent), flag(c.HasContent), c.Metadata, c.Items, c.Bytes,
		string(to), now.UnixMilli(), c.Until.UnixMilli())
	if err != nil {
		return Request{}, err
	}
	r, _, err := b.byID(tx, c.Actor, g.Connection, c.RequestID)
	if err != nil {
		return Request{}, err
	}
	return r, b.tellRequest(tx, r, v, "")
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

func (b *Book) tellRequest(tx *tx, r Request, v verb, why refusal.Code) error {
	return b.tell(tx, event{kind: v.kind(r.Tool), actor: r.Actor, subject: r.Receipt, code: why,
		public: []audit.Field{audit.Word("transport", r.Transport), audit.ID("connection", r.Connection), audit.Count("generation", r.Generation),
			audit.ID("request", r.RequestID), audit.ID("collection", r.Collection.Collection), audit.Digest("input", r.Digest), audit.ID("mark", r.Mark)},
		sealed: []audit.Sealed{audit.Seal("item", r.Item), audit.Seal("version_before", r.Before), audit.Seal("version_after", r.After)}})
}

// Outcome is what became of a change.
type Outcome struct {
	State         RequestState // Done, Refused or Unknown
	Code          refusal.Code // of Refused and Unknown
	JSON          string       // of Done the result, of Refused its details or ""
	Before, After string       // versions, "" for none
}

func (o Outcome) verb() verb {
	switch o.State {
	case Done:
		return requestDone
	case Refused:
		return requestRefused
	}
	return requestUnknown
}

// Finish writes what became of a change, counts what it freed or didn't take, and
// tells it among the recent calls. Finishing it again in the same way is fine. It
// is [refusal.Conflict] where that attempt is settled in another way, or the
// request was claimed again since.
func (b *Book) Finish(ctx context.Context, r Request, o Outcome) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		var was Request
		all, err := b.requests(tx, `r.receipt=$2`, r.Receipt)
		if err != nil {
			return err
		}
		if len(all) == 1 {
			was = all[0]
		}
		to, ok := goes(requestMoves, o.verb(), was.State)
		if !ok || was.Mark != r.Mark {
			if was.Mark == r.Mark && was.State == o.State && was.Code == o.Code && was.Outcome == o.JSON {
				return nil
			}
			return fmt.Errorf("request is settled: %w", refusal.Conflict)
		}
		var items, bytes int64
		if err := tx.QueryRow(`select items, bytes from portal_request where receipt=$1`, r.Receipt).Scan(&items, &bytes); err != nil {
			return err
		}
		left := [2]int64{items, bytes} // what an unknown one holds is counted until Recount
		switch to {
		case Done:
			err = b.count(tx, was.Actor, min(items, 0), min(bytes, 0))
			left = [2]int64{}
		case Refused:
			err = b.count(tx, was.Actor, -max(items, 0), -max(bytes, 0))
			left = [2]int64{}
		}
		if err != nil {
			return err
		}
		rows, err := tx.Exec(`update portal_request set state=$1, code=$2, outcome=$3, version_before=$4, version_after=$5, settled_ms=$6,
			metadata='', items=$7, bytes=$8 where receipt=$9 and state=$10 and mark=$11`,
			string(to), string(o.Code), o.JSON, o.Before, o.After, now.UnixMilli(), left[0], left[1], r.Receipt, string(was.State), r.Mark)
		if err != nil {
			return err
		}
		if rows != 1 {
			return fmt.Errorf("request changed meanwhile: %w", refusal.Conflict)
		}
		was.Before, was.After = o.Before, o.After
		if err := b.tellRequest(tx, was, o.verb(), o.Code); err != nil {
			return err
		}
		return b.record(tx, Caller{Actor: was.Actor, Transport: was.Transport}, was.Connection, Call{Tool: was.Tool,
			Collection: was.Collection.Collection, Code: o.Code, RequestID: was.RequestID, Receipt: was.Receipt}, now)
	})
}

// Request answers what stands of the caller's request with that id; known is false
// where it was never claimed. Refusals are those of a grant.
func (b *Book) Request(ctx context.Context, c Caller, requestID string) (r Request, known bool, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		g, err := b.grant(tx, c, time.Now())
		if err != nil {
			return err
		}
		r, known, err = b.byID(tx, c.Actor, g.Connection, requestID)
		return err
	})
	return r, known, err
}

// Doubtful answers changes that were begun and whose time is over, the oldest
// first, at most a hundred.
func (b *Book) Doubtful(ctx context.Context, now time.Time) (all []Request, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all, err = b.requests(tx, `r.state=$2 and r.until_ms<$3 order by r.until_ms, r.receipt limit 100`, string(Begun), now.UnixMilli())
		return err
	})
	return all, err
}
