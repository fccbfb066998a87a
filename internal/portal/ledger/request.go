package ledger

import (
	"context"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
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

func (r *Request) scan(row store.Scanner) error {
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
	err = tx.Each(`select `+requestColumns+` where r.tenant=$1 and `+rest, append([]any{b.tenant}, args...), func(row store.Scanner) error {
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

func (b *Book) tellRequest(tx *tx, r Request, v verb, why refusal.Code) error {
	return b.tell(tx, event{kind: v.kind(r.Tool), actor: r.Actor, subject: r.Receipt, code: why,
		public: []audit.Field{audit.Word("transport", r.Transport), audit.ID("connection", r.Connection), audit.Count("generation", r.Generation),
			audit.ID("request", r.RequestID), audit.ID("collection", r.Collection.Collection), audit.Digest("input", r.Digest), audit.ID("mark", r.Mark)},
		sealed: []audit.Sealed{audit.Seal("item", r.Item), audit.Seal("version_before", r.Before), audit.Seal("version_after", r.After)}})
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
