package policy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// MaxTime is the longest life of a receipt that allows: an arm's.
const MaxTime = 15 * time.Minute

// Receipt is one decision over one exact request, as it was written before
// anything of it was sent. It names nobody: people and agents by reference, the
// request by its digest.
type Receipt struct {
	ID               string // 64 hex; the same request of the same person and agent has the same
	Principal, Agent string // references; Agent "" where the person acts alone
	RequestDigest    string
	Action           Action
	Kind, Resource   string // Tool, PageTool or Engagement, and its name
	Decision         Decision
	State            State
	Given            Level // what it was used with, "" before
	Decided, Expires time.Time
	Moved            time.Time
	facts            string // digest of the sealed facts
}

// Ask is what Admit decides over.
type Ask struct {
	Request
	RequestDigest string    // of the request in the protocol's sense (section 1)
	Expires       time.Time // the call's deadline, at most MaxTime ahead
	Claims        bool      // the transaction that asks claims the request too, as nobody has to confirm it
}

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Admit decides over a request by set and writes the receipt, allowed or denied,
// with its audit row in one transaction. The same request again is answered by
// what stands written and never decided a second time (section 6). A receipt that
// doesn't allow is answered too, beside its code: policy_denied; expired or
// conflict where the request is over. What can't be judged is policy_unavailable:
// it has an audit row and no receipt, and may be asked again.
func (b *Book) Admit(ctx context.Context, set *Set, ask Ask) (r Receipt, err error) {
	var failed error
	err = b.update(ctx, func(tx *tx) error {
		r, err = b.AdmitIn(tx, set, ask)
		failed = nil
		if err != nil && r.decided() { // the refusal stands, and is to be kept
			failed, err = err, nil
		}
		return err
	})
	if err == nil {
		err = failed
	}
	if err != nil && !r.decided() {
		r = Receipt{}
	}
	return r, err
}

// decided tells whether r stands for a decision that was or is to be written: a
// receipt, or the audit row of what couldn't be judged.
func (r Receipt) decided() bool { return r.State != "" || r.Decision.Code == refusal.PolicyUnavailable }

// AdmitIn is Admit within another authority's transaction. Where it answers a
// receipt beside its refusal, or a Decision of policy_unavailable, the transaction
// holds their rows, and its owner commits it for the refusal to be told.
func (b *Book) AdmitIn(tx *store.Tx, set *Set, ask Ask) (Receipt, error) {
	now := time.Now()
	r, err := b.identify(ask, now)
	if err != nil {
		return Receipt{}, err
	}
	stands, known, err := b.find(tx, r.ID)
	switch {
	case err != nil:
		return Receipt{}, err
	case known && stands.bound() != r.bound():
		return Receipt{}, fmt.Errorf("that request was asked of something else: %w", refusal.Conflict)
	case known && ask.Claims:
		return stands, b.use(tx, stands, ask.RequestDigest, None, now)
	case known:
		return stands, stands.stands(now)
	}
	ask.At = now // the authority's clock alone decides
	r.Decision = set.Decide(ask.Request)
	return b.write(tx, r, ask, now)
}

// identify makes the receipt that a request would have, undecided.
func (b *Book) identify(ask Ask, now time.Time) (Receipt, error) {
	if err := ask.known(); err != nil {
		return Receipt{}, err
	}
	switch {
	case ask.Who.Tenant() != b.tenant:
		return Receipt{}, fmt.Errorf("another tenant's request: %w", refusal.PolicyDenied)
	case !digestPattern.MatchString(ask.RequestDigest):
		return Receipt{}, fmt.Errorf("a request has a digest: %w", refusal.BadDocument)
	case !ask.Expires.After(now) || ask.Expires.After(now.Add(MaxTime)):
		return Receipt{}, fmt.Errorf("a decision lasts until a deadline that is ahead, at most 15 minutes: %w", refusal.Expired)
	}
	r := Receipt{
		Principal:     ref.Derive[ref.PrincipalKind](b.key, b.tenant, ask.Who.Actor()).String(),
		RequestDigest: ask.RequestDigest, Action: ask.Action, Kind: ask.Resource.kind, Resource: ask.Resource.name,
		Decided: now, Moved: now, Expires: ask.Expires.Truncate(time.Millisecond),
	}
	if agent := ask.Who.Agent(); agent != "" {
		r.Agent = ref.Derive[ref.PrincipalKind](b.key, b.tenant, "agent", agent).String()
	}
	text, err := canon.Marshal(map[string]any{"tenant": b.tenant, "principal": r.Principal, "agent": r.Agent, "request": r.RequestDigest})
	if err != nil {
		return Receipt{}, err
	}
	r.ID = strings.TrimPrefix(canon.Digest(text), "sha256:")
	return r, nil
}

// bound is what a receipt of the same request has in common.
func (r Receipt) bound() string {
	return strings.Join([]string{r.Principal, r.Agent, r.RequestDigest, string(r.Action), r.Kind, r.Resource}, " ")
}

// stands is nil where a receipt still allows, else why not.
func (r Receipt) stands(now time.Time) error {
	switch {
	case r.State == Denied:
		return fmt.Errorf("no policy allows it, or one forbids it: %w", refusal.PolicyDenied)
	case r.State == Expired, r.State == Allowed && !now.Before(r.Expires):
		return fmt.Errorf("the decision's time is over: %w", refusal.Expired)
	case r.State == Used, r.State == Allowed:
		return nil
	}
	return fmt.Errorf("the request is over: %w", refusal.Conflict)
}

// write keeps a fresh decision.
func (b *Book) write(tx *tx, r Receipt, ask Ask, now time.Time) (Receipt, error) {
	if r.Decision.Code == refusal.PolicyUnavailable {
		r.Decision.Rules = r.Decision.Rules[:min(len(r.Decision.Rules), maxTold)]
		return r, b.unjudged(tx, r)
	}
	v, code := verb("allowed"), refusal.Code("")
	if !r.Decision.Allow {
		v, code = "denied", refusal.PolicyDenied
	}
	r.State, _ = after(v, "")
	born, used := r, ask.Claims && r.Decision.Allow && None.AtLeast(r.Decision.Level)
	if used {
		r.State, _ = after("used", r.State)
		r.Given = None
	}
	sealed, err := b.sealFacts(r.ID, ask.Request)
	if err != nil {
		return Receipt{}, err
	}
	r.facts = canon.Digest([]byte(sealed))
	// A crash right after this commit leaves a receipt that nobody claims: it
	// expires, or a caller who asks again is answered by it.
	rows, err := tx.Exec(`insert into policy_receipt (receipt, tenant, principal, agent, request_digest, action, kind, resource, state, code, level,
		policy_version, rules, facts, given, decided_ms, expires_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$17,$15,$16,$15)
		on conflict do nothing`,
		r.ID, b.tenant, r.Principal, r.Agent, r.RequestDigest, string(r.Action), r.Kind, r.Resource, string(r.State), string(code), string(r.Decision.Level),
		r.Decision.PolicyVersion, strings.Join(r.Decision.Rules, " "), sealed, now.UnixMilli(), r.Expires.UnixMilli(), string(r.Given))
	if err == nil && rows == 0 {
		err = refusal.Conflict // another wrote it since this snapshot: its owner asks again
	}
	if err == nil {
		born.facts = r.facts
		err = b.tell(tx, born, v, code)
	}
	if err == nil && used {
		err = b.tell(tx, r, "used", "")
	}
	if err != nil {
		return Receipt{}, err
	}
	if err := r.stands(now); err != nil || used || !ask.Claims {
		return r, err
	}
	return r, tooWeak()
}

// unjudged tells the log of a request that couldn't be judged.
func (b *Book) unjudged(tx *tx, r Receipt) error {
	if r.Decision.PolicyVersion == "" {
		r.Decision.PolicyVersion = "none"
	}
	if err := b.tell(tx, r, "unavailable", refusal.PolicyUnavailable); err != nil {
		return err
	}
	return fmt.Errorf("the request can't be judged: %w", refusal.PolicyUnavailable)
}

const receiptColumns = `receipt, principal, agent, request_digest, action, kind, resource, state, code, level, policy_version, rules, given,
	decided_ms, expires_ms, moved_ms, facts`

// find reads a receipt of the tenant.
func (b *Book) find(tx *tx, id string) (r Receipt, known bool, err error) {
	r, _, err = scanReceipt(tx.QueryRow(`select `+receiptColumns+` from policy_receipt where tenant=$1 and receipt=$2`, b.tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Receipt{}, false, nil
	}
	return r, err == nil, err
}

// scanReceipt reads one row, its sealed facts, and what stands behind them.
func scanReceipt(rows store.Scanner, more ...any) (r Receipt, sealed string, err error) {
	var rules string
	var decided, expires, moved int64
	err = rows.Scan(append([]any{&r.ID, &r.Principal, &r.Agent, &r.RequestDigest, &r.Action, &r.Kind, &r.Resource, &r.State, &r.Decision.Code,
		&r.Decision.Level, &r.Decision.PolicyVersion, &rules, &r.Given, &decided, &expires, &moved, &sealed}, more...)...)
	r.Decision.Allow = r.Decision.Code == "" && r.State != Denied
	r.Decision.Rules = strings.Fields(rules)
	r.Decided, r.Expires, r.Moved = time.UnixMilli(decided), time.UnixMilli(expires), time.UnixMilli(moved)
	r.facts = canon.Digest([]byte(sealed))
	return r, sealed, err
}

// Receipt answers one receipt; one that isn't there is [refusal.Unknown].
func (b *Book) Receipt(ctx context.Context, id string) (r Receipt, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		var known bool
		if r, known, err = b.find(tx, id); err == nil && !known {
			err = fmt.Errorf("no such receipt: %w", refusal.Unknown)
		}
		return err
	})
	return r, err
}
