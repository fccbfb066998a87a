package policy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// State is where a receipt stands. All but Allowed are final.
type State string

const (
	// Allowed was decided so, and waits for the claim of its request.
	Allowed State = "allowed"
	// Denied was decided so; the request is over before anything was written of it.
	Denied State = "denied"
	// Used was claimed once, confirmed no weaker than the decision asks.
	Used State = "used"
	// Dropped: the request ended before its claim, by the person, the caller or a
	// revocation.
	Dropped State = "dropped"
	// Expired: nobody claimed it in time.
	Expired State = "expired"
)

// verb names a move; what happened, in the audit's words.
type verb string

// moves is every way in which a receipt changes.
var moves = []struct {
	verb     verb
	from, to State
}{
	{"allowed", "", Allowed},
	{"denied", "", Denied},
	{"used", Allowed, Used},
	{"dropped", Allowed, Dropped},
	{"expired", Allowed, Expired},
}

// after answers where v leads from a state.
func after(v verb, from State) (State, bool) {
	for _, m := range moves {
		if m.verb == v && m.from == from {
			return m.to, true
		}
	}
	return "", false
}

// exists tells whether some move leads to s.
func exists(s State) bool {
	return slices.ContainsFunc(moves, func(m struct {
		verb     verb
		from, to State
	}) bool {
		return m.to == s
	})
}

// Options of NewBook.
type Options struct {
	// Secret is the home's own, at least 32 bytes. It seals what replay needs, and
	// derives the references under which a receipt names people and agents.
	Secret []byte
}

// Book is where a tenant's receipts stand: one database and its audit log.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	secret []byte
	key    ref.Key
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	key, err := ref.NewKey(opts.Secret)
	if err != nil {
		return nil, err
	}
	return &Book{db, log, tenant, slices.Clone(opts.Secret), key}, nil
}

// update runs fn and says of an error without a code that policies are
// unavailable: what can't be written isn't allowed.
func (b *Book) update(ctx context.Context, fn func(*tx) error) error {
	err := b.db.Update(ctx, fn)
	if err != nil && refusal.Of(err) == "" {
		err = fmt.Errorf("%w: %w", refusal.PolicyUnavailable, err)
	}
	return err
}

// move is the only writer of a receipt's state: one conditional update on the
// state that was read, and its audit row.
func (b *Book) move(tx *tx, r Receipt, v verb, code refusal.Code, now time.Time) error {
	to, ok := after(v, r.State)
	if !ok {
		return fmt.Errorf("a receipt that is %s can't be %s: %w", r.State, v, refusal.Conflict)
	}
	rows, err := tx.Exec(`update policy_receipt set state=$1, given=$2, moved_ms=$3 where receipt=$4 and state=$5`,
		string(to), string(r.Given), now.UnixMilli(), r.ID, string(r.State))
	if err != nil {
		return err
	}
	if rows != 1 {
		return fmt.Errorf("the receipt has changed: %w", refusal.Conflict)
	}
	return b.tell(tx, r, v, code)
}

// tell appends what happened to a receipt inside the change's transaction.
func (b *Book) tell(tx *tx, r Receipt, v verb, code refusal.Code) error {
	public := []audit.Field{
		audit.Digest("request", r.RequestDigest), audit.Word("action", r.Action), audit.Word("kind", r.Kind),
		audit.ID("resource", r.Resource), audit.Word("level", r.Decision.Level), audit.Digest("policy", r.Decision.PolicyVersion),
		audit.Digest("facts", r.facts), audit.Count("expires_ms", r.Expires.UnixMilli()),
	}
	if r.Agent != "" {
		public = append(public, audit.ID("agent", r.Agent))
	}
	if r.Given != "" {
		public = append(public, audit.Word("given", r.Given))
	}
	for i, rule := range r.Decision.Rules[:min(len(r.Decision.Rules), maxTold)] {
		public = append(public, audit.Word(fmt.Sprintf("rule_%d", i+1), rule))
	}
	return b.log.Append(tx, audit.Event{Tenant: b.tenant, Kind: "policy." + string(v), Actor: r.Principal, Subject: r.ID, Code: code, Public: public})
}

// maxTold is how many of the rules that decided a receipt names.
const maxTold = 16
