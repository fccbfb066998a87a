package run

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// transact runs one verb with everything that rides, in one transaction. What
// rides stays where it is until a commit has succeeded, and each piece may be
// written twice, so a commit that was applied and reported failed does no harm.
func (r *Run) transact(ctx context.Context, fn func(*tx) error) error {
	r.commit.Lock()
	defer r.commit.Unlock()
	settled, fresh := r.riding()
	err := r.book.db.Update(ctx, func(tx *tx) error {
		for _, s := range settled {
			if err := r.settle(tx, s); err != nil {
				return err
			}
		}
		for _, d := range fresh {
			if err := r.tell(tx, d); err != nil {
				return err
			}
		}
		return fn(tx)
	})
	if err == nil {
		r.landed(len(settled), fresh)
	}
	return err
}

// riding answers copies of what waits for a commit.
func (r *Run) riding() ([]settlement, []decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := make([]decision, len(r.fresh))
	for i, d := range r.fresh {
		fresh[i] = *d
	}
	return r.settled[:len(r.settled):len(r.settled)], fresh
}

// landed forgets what a commit has written. A decision that was counted again
// meanwhile stays.
func (r *Run) landed(settled int, written []decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = r.settled[settled:]
	still := r.fresh[len(written):]
	for i, d := range r.fresh[:len(written)] {
		if d.queued = d.Count != written[i].Count; d.queued {
			still = append(still, d)
		}
	}
	r.fresh = still
}

// spend is the one place where the bootstrap token is judged against its row.
// The refusal of an expired one is told after the commit that burns the run.
func (r *Run) spend(ctx context.Context, bootstrap string, v verb, session string, until time.Time) error {
	var late error
	err := r.transact(ctx, func(tx *tx) error {
		late = nil
		var stored string
		var expiry int64
		known, err := tx.One(`select bootstrap_hash, bootstrap_ms from owned_run where epoch=$1`, []any{r.epoch}, &stored, &expiry)
		if err != nil {
			return err
		}
		if !known || stored == "" || subtle.ConstantTimeCompare([]byte(stored), []byte(hash(bootstrap))) != 1 {
			return fmt.Errorf("not this run's bootstrap token: %w", refusal.UnauthorizedAdapter)
		}
		now := time.Now()
		if v == verbOpen && now.UnixMilli() >= expiry {
			if err := r.finish(tx, verbBurn, refusal.Expired); err != nil {
				return err
			}
			late = fmt.Errorf("the bootstrap token is past its expiry: %w", refusal.Expired)
			return nil
		}
		if v == verbBurn {
			return r.finish(tx, verbBurn, refusal.UnauthorizedAdapter)
		}
		// A crash right after this commit leaves an open run whose session nobody
		// knows: the token is spent, the holder is gone, Recover declares it lost.
		if err := move(tx, r.epoch, v, now); err != nil {
			return err
		}
		if _, err := tx.Exec(`update owned_run set session_hash=$1, session_ms=$2 where epoch=$3`,
			hash(session), until.UnixMilli(), r.epoch); err != nil {
			return err
		}
		return r.audit(tx, v, "", audit.Count("expires_ms", until.UnixMilli()))
	})
	return errors.Join(err, late)
}

// finish moves the run to its end: what still runs is unknown, and the last
// event counts what the run came to.
func (r *Run) finish(tx *tx, v verb, why refusal.Code) error {
	now := time.Now()
	if err := move(tx, r.epoch, v, now); err != nil {
		return err
	}
	if _, err := tx.Exec(`update owned_run set reason=$1 where epoch=$2`, string(why), r.epoch); err != nil {
		return err
	}
	unknown, err := tx.Exec(`update owned_action set outcome=$1, settled_ms=$2 where epoch=$3 and outcome=$4`,
		string(Unknown), now.UnixMilli(), r.epoch, string(Running))
	if err != nil {
		return err
	}
	var sum totals
	if err := sum.read(tx, r.epoch); err != nil {
		return err
	}
	return r.audit(tx, v, why,
		audit.Count("actions", sum.actions), audit.Count("unknown", unknown), audit.Count("last_sequence", sum.sequence),
		audit.Count("decisions", sum.decisions), audit.Count("allowed", sum.allowed), audit.Count("denied", sum.denied))
}

// totals is what a run came to: how many actions began, the last one's sequence,
// how many distinct decisions were told, and how often each way was decided.
type totals struct {
	actions, sequence, decisions, allowed, denied int64
}

func (t *totals) read(tx *tx, epoch string) error {
	err := tx.QueryRow(`select count(*), coalesce(max(sequence),0) from owned_action where epoch=$1 and outcome<>$2`,
		epoch, string(Tombstone)).Scan(&t.actions, &t.sequence)
	if err != nil {
		return err
	}
	return tx.QueryRow(`select count(*), cast(coalesce(sum(case when code=$2 then seen else 0 end),0) as bigint),
		cast(coalesce(sum(case when code=$2 then 0 else seen end),0) as bigint) from owned_decision where epoch=$1`,
		epoch, string(refusal.Allowed)).Scan(&t.decisions, &t.allowed, &t.denied)
}

// audit appends the run's event of a verb, or of an action that began or was
// settled.
func (r *Run) audit(tx *tx, v verb, code refusal.Code, public ...audit.Field) error {
	return r.book.log.Append(tx, audit.Event{
		Tenant: r.book.tenant, Kind: "owned_run." + string(v), Actor: r.reg.StartedBy, Subject: r.reg.RunID, Code: code,
		Public: append(public, audit.ID("epoch", r.epoch)),
	})
}

// stateOf answers where a run stands.
func stateOf(tx *tx, epoch string) (State, error) {
	var s State
	_, err := tx.One(`select state from owned_run where epoch=$1`, []any{epoch}, &s)
	return s, err
}
