// Package operation runs the five account tools: one Desk under HTTP MCP, the
// owner API and the page's WebMCP (spec/portal-tools.md, sections 1 to 4).
//
// It contains
//
//	operation.go  the Desk, its callers and its limits
//	admit.go      how many and how often an account may ask
//	call.go       Call: decode, judge, run, record
//	list.go       collections_list and items_list
//	read.go       item_read
//	change.go     item_write and item_delete: judge, measure, claim
//	send.go       the effect, and the outcome that is written of it
//	replay.go     what is told of a request that was claimed before
//	review.go     Prepare, Confirm, Decline, Execute
//	show.go       what a person is shown of a change before it is made
//	ask.go        one call of a source, under its deadline, and what it may answer
//	cursor.go     the cursors of collections_list
//	encode.go     results in canonical bytes, at most 512 KiB
//	repair.go     what a crash or a silent source left
//
// Order of a change. The arguments are decoded once; the grant is judged; then
// [ledger.Book.Claim] judges it again, spends the review and writes the request
// with its mark in one commit; then the source is called, once; then the outcome
// is written; then it is told. So an acknowledged change is durable with its
// receipt, the same request_id never has a second effect, and what a crash leaves
// is a request that is begun: Repair asks the source, by the mark, what became of
// it, or tells unknown_outcome.
//
// A source is somebody else's program. It gets its deadline and no longer: what
// answers later is written down and told to nobody. What it answers is checked
// against what was asked, and its own words end here: an error is one of the
// contract's codes with versions and numbers of ours.
//
// A read is judged twice, before it is sent and before it is told, so a late
// result never crosses into another session or selection.
//
// It holds no SQL, no lock and no admission slot while a person reviews, and it
// never repeats a change that a source may have seen.
//
// Floor: runtime.
package operation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Transports of a Caller.
const (
	Bearer  = string(ledger.Bearer)
	Browser = string(ledger.Browser)
	Owner   = string(ledger.Owner)
)

// Caller is who asks, as the surface has verified it.
type Caller struct {
	Principal  identity.Principal
	Transport  string // Bearer, Browser or Owner
	Connection string // Bearer: the token's connection; else ""
	Session    string // Browser and Owner: the session's id
	// Generation is that of the grant (not of the session) that the caller acts
	// under; 0 means whatever stands. Another than what stands is grant_revoked.
	Generation int64
}

// Limits of an account; a zero one is its default.
type Limits struct {
	Parallel int           // calls at once; default 8
	Rate     float64       // calls a second; default 20
	Burst    int           // default 40
	Deadline time.Duration // of one call of a source; default 10 s
	Wait     time.Duration // for one of the Parallel to end; default 1 s
	Doubt    time.Duration // how long a source that doesn't answer Settle is asked again; default 24 h
}

// Config of a Desk.
type Config struct {
	Ledger *ledger.Book
	// Sources by name: inbox, storage, and of each external collection the name in
	// ledger.External (external where it has none). A collection whose source isn't
	// here is source_disconnected.
	Sources map[string]source.Source
	Limits  Limits
	// Trouble, where set, hears faults of this node's own (a database that fails), which
	// callers are told as source_unavailable.
	Trouble func(error)
}

// Desk runs the tools; safe for concurrent use. Close waits for what it started.
type Desk struct {
	ledger  *ledger.Book
	sources map[string]source.Source
	limits  Limits
	trouble func(error)
	opened  sync.Map       // actors who surely have an account; spares a look
	running sync.WaitGroup // calls of sources

	mu    sync.Mutex // over gates
	gates map[string]*gate
}

// New makes a Desk over an open ledger.
func New(c Config) *Desk {
	l := &c.Limits
	l.Parallel = or(l.Parallel, 8)
	l.Rate = or(l.Rate, 20)
	l.Burst = or(l.Burst, 40)
	l.Deadline = or(l.Deadline, 10*time.Second)
	l.Wait = or(l.Wait, time.Second)
	l.Doubt = or(l.Doubt, 24*time.Hour)
	if c.Trouble == nil {
		c.Trouble = func(error) {}
	}
	return &Desk{ledger: c.Ledger, sources: c.Sources, limits: *l, trouble: c.Trouble, gates: map[string]*gate{}}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Close waits until every call of a source has ended and what it answered is
// written, or until ctx ends; what is running then is told by the next Repair.
func (d *Desk) Close(ctx context.Context) error {
	done := make(chan struct{})
	go func() { d.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// caller reads who asks into the ledger's terms and makes sure of the account.
func (d *Desk) caller(ctx context.Context, c Caller) (ledger.Caller, error) {
	who := ledger.Caller{Actor: c.Principal.Actor(), Transport: ledger.Transport(c.Transport), Connection: c.Connection,
		Session: c.Session, Generation: c.Generation}
	if c.Principal.IsZero() || c.Principal.Tenant() != d.ledger.Tenant() {
		if who.Transport == ledger.Bearer {
			return who, tool.Fail(tool.GrantRevoked)
		}
		return who, tool.Fail(tool.SessionExpired)
	}
	if who.Transport == ledger.Owner {
		who.Connection, who.Generation = "", 0
	}
	if _, ok := d.opened.Load(who.Actor); !ok {
		if err := d.ledger.EnsureAccount(ctx, who.Actor); err != nil {
			return who, err
		}
		d.opened.Store(who.Actor, true)
	}
	return who, nil
}

// source answers the collection's source.
func (d *Desk) source(c ledger.Collection) (source.Source, error) {
	if s, ok := d.sources[c.Source]; ok {
		return s, nil
	}
	return nil, tool.Fail(tool.SourceDisconnected)
}

// place answers where a source keeps the collection's items.
func (d *Desk) place(c ledger.Collection) source.Place {
	return source.Place{Account: source.Account{Tenant: d.ledger.Tenant(), Actor: c.Actor}, Collection: c.Collection, Incarnation: c.Place}
}

// fail makes any error of ours the contract's: its code where it has one of the
// contract's; else something of this node's own is broken, and the account can't be
// reached. An end of the caller's context is cancelled, so what may have been sent
// isn't judged here.
func (d *Desk) fail(err error) *tool.Error {
	var told *tool.Error
	switch code := refusal.Of(err); {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return told
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return tool.Fail(tool.Cancelled)
	case code == refusal.DatabaseBusy, code == refusal.Conflict:
		return tool.Fail(tool.Busy)
	case code != "" && tool.Fail(code).Status() != http.StatusInternalServerError:
		return tool.Fail(code)
	}
	d.trouble(err)
	return tool.Fail(tool.SourceUnavailable)
}

// lied is the answer to a source that answered what nobody asked.
func lied(what string) error { return fmt.Errorf("source: %s: %w", what, tool.SourceUnavailable) }
