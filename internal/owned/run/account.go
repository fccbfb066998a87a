package run

import (
	"context"
	"time"

	"chaperone/internal/refusal"
)

// Account is what the ledger tells of one run.
type Account struct {
	RunID, Epoch, Engagement   string
	Surface, StartedBy, Digest string
	State                      State
	Reason                     refusal.Code // why it is over, "" before
	Started, Moved             time.Time    // Moved: when it came to State
	Sequence                   int64        // of the last action that began
	Actions                    []Deed       // by sequence, tombstones too
}

// Deed is one action and what is known of its effect.
type Deed struct {
	Action
	Outcome Outcome
	Begun   time.Time
	Settled time.Time // zero for as long as it runs
}

// Account answers the latest run with that id; one that was never registered is
// [refusal.Unknown]. It tells what is written: an outcome that rides isn't yet.
func (b *Book) Account(ctx context.Context, runID string) (Account, error) {
	var a Account
	err := b.db.View(ctx, func(tx *tx) error {
		epoch, err := b.latest(tx, runID)
		if err != nil {
			return err
		}
		var started, moved int64
		a = Account{RunID: runID, Epoch: epoch}
		err = tx.QueryRow(`select engagement, surface, started_by, scope_digest, state, reason, started_ms, moved_ms, sequence
			from owned_run where epoch=$1`, epoch).Scan(&a.Engagement, &a.Surface, &a.StartedBy, &a.Digest,
			&a.State, &a.Reason, &started, &moved, &a.Sequence)
		if err != nil {
			return err
		}
		a.Started, a.Moved = time.UnixMilli(started), time.UnixMilli(moved)
		a.Actions, err = deeds(tx, epoch)
		return err
	})
	return a, err
}

// deeds answers a run's actions.
func deeds(tx *tx, epoch string) ([]Deed, error) {
	rows, err := tx.Query(`select sequence, request_id, action, outcome, begun_ms, settled_ms from owned_action
		where epoch=$1 order by sequence`, epoch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Deed
	for rows.Next() {
		var d Deed
		var begun, settled int64
		if err := rows.Scan(&d.Sequence, &d.RequestID, &d.Name, &d.Outcome, &begun, &settled); err != nil {
			return nil, err
		}
		d.Begun = time.UnixMilli(begun)
		if settled > 0 {
			d.Settled = time.UnixMilli(settled)
		}
		all = append(all, d)
	}
	return all, rows.Err()
}
