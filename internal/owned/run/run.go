// Package run is the durable authority over owned runs: which run exists, who
// holds it, whether its one-use bootstrap is spent, what was done in it and what
// its scope decided (spec/owned-browser.md, sections 2, 4 and 6).
//
// It contains
//
//	state.go     the states of a run, the one table of moves, move
//	action.go    the outcomes of an action, their table, Begin, Bury, Settle
//	journal.go   one verb, one transaction, with what rides; how a run ends
//	decision.go  scope decisions: each told once, repeats counted, suggest
//	holder.go    who holds a run, and whether that process is gone
//	book.go      Register, Start, Recover: how a run comes to be and is declared lost
//	account.go   what the ledger tells of one run
//	check.go     the invariants, for audit verify and for every fault test
//
// A [Run] is the handle of the process that holds one run. Each of its verbs is
// one transaction with its audit row inside. Three things ride: the outcome of
// an action, its scope decisions and their counts wait in memory and are written
// by the next commit of any kind, so an action costs one commit, before its
// effect. A crash therefore leaves at most the last action without an outcome:
// the next holder, or audit verify's reader, finds it running in a lost run and
// is told unknown. Nothing here ever repeats an action.
//
// The epoch is minted by the host's process for this one run, and the tokens are
// 256 random bits of which only the SHA-256 stands here; so a process that
// starts later holds another epoch and can't honour an older descriptor.
//
// It never holds a token, an argument, a result, a path, a query or a page's
// text, and it never decides what the scope allows.
//
// Floor: durable authority.
package run

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"chaperone/internal/refusal"
)

// Registration is what a run is made of. Every field is required, but for the
// two of the bootstrap, which a local surface leaves empty.
type Registration struct {
	RunID       string // ^[A-Za-z0-9_-]{1,128}$
	Engagement  string
	Surface     string // host, mcp, browse, rest
	StartedBy   string // who started it, e.g. "uid:1000" or a principal
	ScopeDigest string // "sha256:…"

	Bootstrap      string    // the one-use token; only its hash is kept
	BootstrapUntil time.Time // its expiry
}

// Run is the holder's handle of one run. Its methods may be called at once.
type Run struct {
	book  *Book
	reg   Registration // without the token
	epoch string

	// commit is held by each transaction, so what rides is written in order; mu
	// stands over the fields below it and is never held while the database is
	// awaited. Lock order: commit, then mu.
	commit  sync.Mutex
	mu      sync.Mutex
	settled []settlement
	told    map[decisionKey]*decision
	fresh   []*decision // those of told whose count isn't written yet
}

// Epoch answers the run's 64 hex, minted for this holder and never used again.
func (r *Run) Epoch() string { return r.epoch }

// RunID answers the run's id.
func (r *Run) RunID() string { return r.reg.RunID }

// NewToken answers 256 random bits as 64 lower hex.
func NewToken() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// hash is how a token is stored. A plain SHA-256 is enough for 256 random bits.
func hash(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Open spends the bootstrap token and opens the run with a session token. The
// first of any number of callers wins; the others are [refusal.Replayed]. A
// token that isn't this run's is [refusal.UnauthorizedAdapter] and changes
// nothing; one past its expiry burns the run and is [refusal.Expired].
func (r *Run) Open(ctx context.Context, bootstrap, session string, until time.Time) error {
	return r.spend(ctx, bootstrap, verbOpen, session, until)
}

// Burn spends the bootstrap token for nothing: it was shown with another run's
// binding, so somebody holds it who shouldn't. Refusals are those of Open.
func (r *Run) Burn(ctx context.Context, bootstrap string) error {
	return r.spend(ctx, bootstrap, verbBurn, "", time.Time{})
}

// Expire ends a run whose bootstrap nobody used in time. Of a run that was
// opened meanwhile it is a [refusal.Conflict].
func (r *Run) Expire(ctx context.Context) error {
	return r.transact(ctx, func(tx *tx) error {
		return r.finish(tx, verbExpire, refusal.Expired)
	})
}

// End ends the run with the code of why, after everything that rides. A run that
// has ended already is left as it is.
func (r *Run) End(ctx context.Context, why refusal.Code) error {
	return r.transact(ctx, func(tx *tx) error {
		state, err := stateOf(tx, r.epoch)
		if err != nil || state.Over() {
			return err
		}
		return r.finish(tx, verbEnd, why)
	})
}

// Flush writes what rides without waiting for the next verb. It is for a run
// that falls quiet; with nothing to write it costs nothing.
func (r *Run) Flush(ctx context.Context) error {
	r.mu.Lock()
	idle := len(r.settled) == 0 && len(r.fresh) == 0
	r.mu.Unlock()
	if idle {
		return nil
	}
	return r.transact(ctx, func(*tx) error { return nil })
}
