package run

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Outcome is what is known of one action's effect.
type Outcome string

const (
	// Running was begun; its outcome hasn't been written yet.
	Running Outcome = "running"
	// Done was sent and the browser confirmed it.
	Done Outcome = "done"
	// Failed was sent and the browser answered that it failed.
	Failed Outcome = "failed"
	// NotSent had no effect: refused, or stopped before anything was sent.
	NotSent Outcome = "not_sent"
	// Unconfirmed was sent and nothing told whether it took effect.
	Unconfirmed Outcome = "sent_unconfirmed"
	// Unknown was running when its holder died.
	Unknown Outcome = "unknown"
	// Tombstone was cancelled before it arrived and never starts.
	Tombstone Outcome = "tombstone"
)

// settles is every way in which an action's outcome changes. Running and
// Tombstone are also born, and NotSent is for an action that never got its turn.
var settles = []struct{ from, to Outcome }{
	{Running, Done},
	{Running, Failed},
	{Running, NotSent},
	{Running, Unconfirmed},
	{Running, Unknown},
}

// Action names one action of a run. Its arguments have no place here.
type Action struct {
	Sequence  int64  // >= 1, strictly higher than any that began before
	RequestID string // 32 lower hex, never used before in the run
	Name      string
}

// settlement is an outcome that rides.
type settlement struct {
	Action
	outcome Outcome
	at      time.Time
}

// Begin is the one commit before an action's effect. A sequence that isn't
// higher than every earlier one, or a request id that was used, is
// [refusal.Replayed]; a run that isn't open is [refusal.Conflict]. After any
// error the action must not be sent, and the caller settles it as NotSent.
func (r *Run) Begin(ctx context.Context, a Action) error {
	return r.transact(ctx, func(tx *tx) error {
		// A crash right after this commit leaves the action running in a run whose
		// holder is gone: Recover tells it as unknown.
		rows, err := tx.Exec(`update owned_run set sequence=$1 where epoch=$2 and state=$3 and sequence<$1`,
			a.Sequence, r.epoch, string(Open))
		if err != nil {
			return err
		}
		if rows == 0 {
			return r.whyNot(tx)
		}
		if err := r.insertAction(tx, a, Running, time.Now()); err != nil {
			return err
		}
		return r.audit(tx, "began", "", a.fields()...)
	})
}

// fields is what the audit tells of an action.
func (a Action) fields() []audit.Field {
	fields := []audit.Field{audit.Count("sequence", a.Sequence), audit.ID("request", a.RequestID)}
	if a.Name != "" { // a tombstone's action was never named
		fields = append(fields, audit.Word("action", a.Name))
	}
	return fields
}

// Bury writes the tombstone of an action that was cancelled before it arrived.
// It consumes no sequence for others. A pair of which one half is known with
// another half is [refusal.Conflict]; the same pair again is fine.
func (r *Run) Bury(ctx context.Context, a Action) error {
	return r.transact(ctx, func(tx *tx) error {
		var sequence int64
		var request string
		known, err := tx.One(`select sequence, request_id from owned_action where epoch=$1 and (sequence=$2 or request_id=$3)`,
			[]any{r.epoch, a.Sequence, a.RequestID}, &sequence, &request)
		switch {
		case err != nil:
			return err
		case !known:
			if err := r.insertAction(tx, a, Tombstone, time.Now()); err != nil {
				return err
			}
			return r.audit(tx, "settled", refusal.Code(Tombstone), a.fields()...)
		case sequence != a.Sequence || request != a.RequestID:
			return fmt.Errorf("that sequence and request id belong to different actions: %w", refusal.Conflict)
		}
		return nil
	})
}

// Settle says what became of an action. It is written by the next commit.
func (r *Run) Settle(a Action, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = append(r.settled, settlement{a, o, time.Now()})
}

// insertAction writes a new row; one that exists under either key is a replay.
func (r *Run) insertAction(tx *tx, a Action, o Outcome, at time.Time) error {
	rows, err := tx.Exec(`insert into owned_action (epoch, sequence, request_id, action, outcome, begun_ms, settled_ms)
		values ($1,$2,$3,$4,$5,$6,$7) on conflict do nothing`,
		r.epoch, a.Sequence, a.RequestID, a.Name, string(o), at.UnixMilli(), settledAt(o, at))
	if err == nil && rows == 0 {
		err = fmt.Errorf("sequence or request id was used before: %w", refusal.Replayed)
	}
	return err
}

// settledAt is 0 for as long as an action runs.
func settledAt(o Outcome, at time.Time) int64 {
	if o == Running {
		return 0
	}
	return at.UnixMilli()
}

// settle is the only writer of an outcome. It may meet its own earlier writing,
// when a commit was applied and reported failed, and then changes nothing; and it
// may find no row, when the action's own commit wasn't applied or it never got
// its turn, and then writes one.
func (r *Run) settle(tx *tx, s settlement) error {
	for _, m := range settles {
		if m.to != s.outcome {
			continue
		}
		rows, err := tx.Exec(`update owned_action set outcome=$1, settled_ms=$2 where epoch=$3 and sequence=$4 and request_id=$5 and outcome=$6`,
			string(s.outcome), s.at.UnixMilli(), r.epoch, s.Sequence, s.RequestID, string(m.from))
		if err != nil {
			return err
		}
		if rows == 1 {
			return r.audit(tx, "settled", refusal.Code(s.outcome), s.fields()...)
		}
	}
	rows, err := tx.Exec(`insert into owned_action (epoch, sequence, request_id, action, outcome, begun_ms, settled_ms)
		values ($1,$2,$3,$4,$5,$6,$6) on conflict do nothing`,
		r.epoch, s.Sequence, s.RequestID, s.Name, string(s.outcome), s.at.UnixMilli())
	if err != nil || rows == 0 {
		return err
	}
	return r.audit(tx, "settled", refusal.Code(s.outcome), s.fields()...)
}

// whyNot tells an open run's stale sequence from a run that isn't open.
func (r *Run) whyNot(tx *tx) error {
	state, err := stateOf(tx, r.epoch)
	switch {
	case err != nil:
		return err
	case state == Open:
		return fmt.Errorf("sequence isn't higher than the last: %w", refusal.Replayed)
	}
	return fmt.Errorf("run is %s, not open: %w", state, refusal.Conflict)
}
