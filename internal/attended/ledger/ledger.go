// Package ledger is the durable authority of attended control: which person armed
// which page, which catalog a page registered, which agent has a lease over which
// tools, and what became of each call (spec/attended-control.md, sections 4 to 7).
//
// It contains
//
//	state.go         steps, tables of moves, and move, the only writer of a state
//	arm.go           one-use attended arms: Grant, Finalize, Open, Revoke
//	end.go           how arms end, and everything under them with them
//	registration.go  Register, Point, Publish; Disconnect
//	lease.go         Issue, RevokeLease; the judgement of a caller
//	call.go          a call's states and facts
//	admit.go         T1: the fence, its pending trace and, of a read, its claim
//	confirm.go       T2: confirmation and claim; deny, retire, withhold
//	settle.go        what became of a call: settle, stop, lose, reap
//	ruling.go        the policy's decision over a call, and its receipt
//	trace.go         run traces, tool calls and outcome evaluations
//	kill.go          the kill switch
//	repair.go        what time does, and what a dead node left
//	check.go         the invariants; history.go: rows held to the log
//	show.go          what callers are told; person.go: what people are
//	export.go        calls whose telemetry is still to be exported
//
// Durable steps of a channel, and what a crash right after each leaves:
//
//  1. Grant: a grant that expires within a minute.
//  2. Finalize: an active arm that expires, or that another finalize replaces.
//  3. Open: a consumed arm without a registration; it expires, or Repair ends it
//     with its node.
//  4. Register: a pending registration that no document points to.
//  5. Point: the document points to a pending registration. Publish finishes it
//     on the node that lives, Repair ends it where the node is gone.
//  6. Publish: nothing to repair.
//
// Of a call: T1 leaves a pending confirmation, or of a read a claim; T2 leaves a
// claim. A claim whose answer was lost wasn't sent, and who made it says so
// (Withhold, by its own claim reference); one whose node is gone becomes unknown.
// Nothing is ever sent again.
//
// Each verb is one transaction with its audit row inside and holds under any
// number of processes. Revoking an arm, its registration, leases and calls is one
// transaction too.
//
// It never holds a cookie, a token, a raw arm receipt, arguments, a result, or the
// name of a person, origin or route.
//
// Floor: durable authority.
package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// Times and limits of the contract.
const (
	GrantTime    = 60 * time.Second
	ArmTime      = 15 * time.Minute
	LeaseTime    = 15 * time.Minute // at most
	LateTime     = 30 * time.Second // how long a result may come late
	NodeTime     = 20 * time.Second // a node that didn't beat for so long is gone
	StepTime     = 10 * time.Second // channel.open, and the first catalog
	OverdueTime  = 10 * time.Second // past its deadline a call is unknown
	MaxPrompts   = 8                // confirmations that one page holds at once
	BudgetTime   = 5 * time.Minute  // attention: so many prompts a person in this time
	BudgetPrompt = 10
)

// Options of NewBook.
type Options struct {
	ArmTime  time.Duration // an arm's life, at most and by default 15 minutes
	Receipts *policy.Book  // where T1 writes the decision over each call, in its own transaction
	Exports  bool          // somebody exports telemetry; else no call has any, and says so
	Mark     string        // of the key that names people here, "" where nobody is named; nodes with another one can't live beside it
}

// Book is where a tenant's attended control stands: one database and its log.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	node   string // random per process, with the mark: a name that is used again owns nothing
	opts   Options

	mu    sync.Mutex // over the two below
	onArm []func(ref.Attended, refusal.Code)
	onAny []func(controlv1.ID, CallState)
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	if opts.Receipts == nil {
		return nil, refuse(refusal.PolicyUnavailable, "no calls without decisions over them")
	}
	if opts.ArmTime <= 0 || opts.ArmTime > ArmTime {
		opts.ArmTime = ArmTime
	}
	node := random()[:32]
	if opts.Mark != "" {
		node += "." + opts.Mark
	}
	return &Book{db: db, log: log, tenant: tenant, node: node, opts: opts}, nil
}

// Node answers this process's name among the nodes.
func (b *Book) Node() string { return b.node }

// OnArmEnd calls f with each arm that a verb of this process ends, and why, once
// its commit is durable. f must be short and must not use the database.
func (b *Book) OnArmEnd(f func(ref.Attended, refusal.Code)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onArm = append(b.onArm, f)
}

// OnCall calls f with each call that a verb of this process moves, and where to, once
// its commit is durable. f must be short and must not use the database.
func (b *Book) OnCall(f func(controlv1.ID, CallState)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onAny = append(b.onAny, f)
}

// random draws 256 bits as 64 lower hex.
func random() string {
	var r [32]byte
	rand.Read(r[:])
	return hex.EncodeToString(r[:])
}

// hash is how a nonce is stored. A plain SHA-256 is enough for 256 random bits.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// update runs fn in a transaction. refused is told once the commit is durable: a
// verb that finds something over by the clock writes that and still refuses.
func (b *Book) update(ctx context.Context, fn func(tx *tx) (refused, err error)) error {
	var refused error
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		refused, err = fn(tx)
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// refuse is an error with a code; what is the package's own words.
func refuse(code refusal.Code, what string) error { return fmt.Errorf("%s: %w", what, code) }

// number answers a statement's one number.
func number(tx *tx, query string, args ...any) (n int64, err error) {
	err = tx.QueryRow(query, args...).Scan(&n)
	return n, err
}
