package ledger

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/refusal"
)

// Outcome is what became of a change.
type Outcome struct {
	State         RequestState // Done, Refused or Unknown
	Code          refusal.Code // of Refused and Unknown
	JSON          string       // of Done the result, of Refused its details or ""
	Before, After string       // versions, "" for none
}

func (o Outcome) verb() verb {
	switch o.State {
	case Done:
		return requestDone
	case Refused:
		return requestRefused
	}
	return requestUnknown
}

// Finish writes what became of a change, counts what it freed or didn't take, and
// tells it among the recent calls. Finishing it again in the same way is fine. It
// is [refusal.Conflict] where that attempt is settled in another way, or the
// request was claimed again since.
func (b *Book) Finish(ctx context.Context, r Request, o Outcome) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		var was Request
		all, err := b.requests(tx, `r.receipt=$2`, r.Receipt)
		if err != nil {
			return err
		}
		if len(all) == 1 {
			was = all[0]
		}
		to, ok := goes(requestMoves, o.verb(), was.State)
		if !ok || was.Mark != r.Mark {
			if was.Mark == r.Mark && was.State == o.State && was.Code == o.Code && was.Outcome == o.JSON {
				return nil
			}
			return fmt.Errorf("request is settled: %w", refusal.Conflict)
		}
		var items, bytes int64
		if err := tx.QueryRow(`select items, bytes from portal_request where receipt=$1`, r.Receipt).Scan(&items, &bytes); err != nil {
			return err
		}
		left := [2]int64{items, bytes} // what an unknown one holds is counted until Recount
		switch to {
		case Done:
			err = b.count(tx, was.Actor, min(items, 0), min(bytes, 0))
			left = [2]int64{}
		case Refused:
			err = b.count(tx, was.Actor, -max(items, 0), -max(bytes, 0))
			left = [2]int64{}
		}
		if err != nil {
			return err
		}
		rows, err := tx.Exec(`update portal_request set state=$1, code=$2, outcome=$3, version_before=$4, version_after=$5, settled_ms=$6,
			metadata='', items=$7, bytes=$8 where receipt=$9 and state=$10 and mark=$11`,
			string(to), string(o.Code), o.JSON, o.Before, o.After, now.UnixMilli(), left[0], left[1], r.Receipt, string(was.State), r.Mark)
		if err != nil {
			return err
		}
		if rows != 1 {
			return fmt.Errorf("request changed meanwhile: %w", refusal.Conflict)
		}
		was.Before, was.After = o.Before, o.After
		if err := b.tellRequest(tx, was, o.verb(), o.Code); err != nil {
			return err
		}
		return b.record(tx, Caller{Actor: was.Actor, Transport: was.Transport}, was.Connection, Call{Tool: was.Tool,
			Collection: was.Collection.Collection, Code: o.Code, RequestID: was.RequestID, Receipt: was.Receipt}, now)
	})
}
