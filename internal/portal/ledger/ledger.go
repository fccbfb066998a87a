// Package ledger is the durable authority over the portal's accounts: which
// collections an account has, which apps and browser sessions may use which
// functions of them, what a person reviewed, and what became of each change
// (spec/portal-tools.md, sections 2 to 4).
//
// It contains
//
//	state.go       steps and tables of moves
//	account.go     accounts, their usage and its limits
//	collection.go  collections: connected, disconnected, removed
//	connection.go  grants and their one way to change: move, by generation
//	selection.go   Connect and Revoke; what a grant selects, and how that is written
//	surface.go     a session's grant: Enable, Select, Disable, EndSession
//	grant.go       the one judgement of a caller against what stands here
//	review.go      prepare receipts: prepared, confirmed, used once
//	request.go     what is known of a change, and its states
//	claim.go       Claim, the one commit before an effect
//	finish.go      Finish, the one after it
//	call.go        the ring of recent calls
//	show.go        what people are told of their connections and receipts
//	sweep.go       what time does: expiry and retention
//	check.go       the invariants, for audit verify and for every fault test
//	history.go     rows held to the log
//
// A grant names collections by id and incarnation. An incarnation is drawn at
// each creation and each new connection, so one that comes later under an old id
// is in nobody's selection.
//
// Durable steps of a change, and what a crash right after each leaves:
//
//  1. Claim commits: a request that is begun, with its mark. Once its time is
//     over, Repair of portal/operation asks the source what became of it.
//  2. the source took the change: the same; the source knows by the mark.
//  3. Finish commits: nothing to repair.
//
// Nothing here repeats an effect. Each verb is one transaction with its audit row
// inside and holds under any number of processes; nothing durable is in memory.
//
// It never holds content, a secret or a token. Of arguments it keeps the digest;
// of a change that is on its way also what Settle needs (item, condition,
// metadata), whose metadata goes when it is settled.
//
// Floor: durable authority.
package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// Times and limits of the contract.
const (
	ReviewTime     = 2 * time.Minute     // a prepare receipt's life
	RequestTime    = 30 * 24 * time.Hour // how long a request is remembered
	SessionTime    = 12 * time.Hour      // the longest life of a browser grant
	Ring           = 200                 // recent calls of an account
	MaxCollections = 200                 // of an account
	MaxConnections = 100                 // of an account, those that may still be used
	MaxReviews     = 8                   // of a connection, those that are open
	reviewMemory   = 24 * time.Hour      // a receipt that is over stays so long
	connectionTime = 90 * 24 * time.Hour // a connection that is over stays so long
)

// Options of NewBook.
type Options struct {
	External []External // the external sources of each account
	Items    int64      // of hosted storage, an account; default 10,000
	Bytes    int64      // default 1 GiB
}

// External is a configured external source. Each account has one collection of it.
type External struct {
	Collection, Title string
	Source            string // its name among the operation's sources; default external
}

// Book is where a tenant's accounts stand: one database and its audit log.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	opts   Options
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	if opts.Items == 0 {
		opts.Items = 10_000
	}
	if opts.Bytes == 0 {
		opts.Bytes = 1 << 30
	}
	return &Book{db, log, tenant, opts}, nil
}

// Tenant answers whose accounts they are.
func (b *Book) Tenant() string { return b.tenant }

// NewID draws 128 random bits as 32 lower hex: ids, incarnations and marks.
func NewID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// event is an audit event with the fields that this package's have in common.
type event struct {
	kind, actor, subject string
	code                 refusal.Code
	public               []audit.Field
	sealed               []audit.Sealed
}

// tell appends e inside the change's transaction.
func (b *Book) tell(tx *tx, e event) error {
	return b.log.Append(tx, audit.Event{
		Tenant: b.tenant, Kind: "portal." + e.kind, Actor: audit.Name(e.actor), Subject: e.subject, Code: e.code,
		Public: e.public, Sealed: e.sealed,
	})
}

// at reads a time of the ledger; 0 is none.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
