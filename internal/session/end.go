package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"chaperone/internal/refusal"
)

// OnEnd calls f with each session that a verb of this process ends, once its
// commit is durable. f must be short and must not use the database. Sessions
// that the clock ends, and those that another process ends, aren't told here:
// who needs those asks Find.
func (b *Book) OnEnd(f func(Session)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onEnd = append(b.onEnd, f)
}

// tell runs OnEnd's functions after tx has committed.
func (b *Book) tell(tx *tx, s Session) {
	tx.AfterCommit(func() {
		b.mu.Lock()
		all := b.onEnd
		b.mu.Unlock()
		for _, f := range all {
			f(s)
		}
	})
}

// End ends a session by its handle, with the code of why. One that has ended
// already is left as it is; one that isn't there is [refusal.Unknown].
func (b *Book) End(ctx context.Context, id string, why refusal.Code) error {
	return b.db.Update(ctx, func(tx *tx) error {
		var state State
		err := tx.QueryRow(`select state from session where id=$1 and tenant=$2`, id, b.tenant).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("no such session: %w", refusal.Unknown)
		}
		if err != nil || state == Ended {
			return err
		}
		s, _, err := one(tx, `id=$1`, id)
		if err != nil {
			return err
		}
		return b.end(tx, s, why)
	})
}

// EndOthers ends all of the person's sessions but this one, and answers how many.
func (b *Book) EndOthers(ctx context.Context, s Session) (int, error) {
	return b.endAll(ctx, refusal.Revoked, `tenant=$1 and actor=$2 and state=$3 and id<>$4`, b.tenant, s.Actor, string(Active), s.ID)
}

// EndActor ends all of a person's sessions, as when they may not sign in any more.
func (b *Book) EndActor(ctx context.Context, actor string, why refusal.Code) (int, error) {
	return b.endAll(ctx, why, `tenant=$1 and actor=$2 and state=$3`, b.tenant, actor, string(Active))
}

func (b *Book) endAll(ctx context.Context, why refusal.Code, where string, args ...any) (ended int, err error) {
	err = b.db.Update(ctx, func(tx *tx) error {
		all, err := b.of(tx, where, args...)
		if err != nil {
			return err
		}
		ended = len(all)
		return b.each(tx, all, why)
	})
	return ended, err
}

func (b *Book) each(tx *tx, all []Session, why refusal.Code) error {
	for _, s := range all {
		if err := b.end(tx, s, why); err != nil {
			return err
		}
	}
	return nil
}

// end ends one session in a running transaction. What was sealed goes with it.
func (b *Book) end(tx *tx, s Session, why refusal.Code) error {
	now := time.Now()
	if err := move(tx, s.ID, verbEnd, why, now); err != nil {
		return err
	}
	if _, err := tx.Exec(`update session set sealed='' where id=$1`, s.ID); err != nil {
		return err
	}
	b.tell(tx, s)
	return b.audit(tx, verbEnd, s, why)
}

// kept is how long an ended session's row is kept for a person's questions; its
// audit stays.
const kept = 30 * 24 * time.Hour

// Sweep ends what the clock has ended (reason expired) and drops what is too old
// to matter. It is for tidiness alone: nothing waits for it.
func (b *Book) Sweep(ctx context.Context) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		all, err := b.stale(tx, now)
		if err != nil {
			return err
		}
		if err := b.each(tx, all, refusal.Expired); err != nil {
			return err
		}
		if _, err := tx.Exec(`delete from session where tenant=$1 and state=$2 and ended_ms<$3`,
			b.tenant, string(Ended), now.Add(-kept).UnixMilli()); err != nil {
			return err
		}
		return b.sweepFlows(tx, now)
	})
}

// stale answers active sessions that the clock has ended, a bounded number.
func (b *Book) stale(tx *tx, now time.Time) ([]Session, error) {
	rows, err := tx.Query(`select `+columns+` from session where tenant=$1 and state=$2 and (end_ms<=$3 or used_ms<=$4) order by end_ms limit 500`,
		b.tenant, string(Active), now.UnixMilli(), now.Add(-Idle).UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Session
	for rows.Next() {
		s, _, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}
