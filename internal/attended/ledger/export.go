package ledger

import (
	"context"

	"chaperone/internal/attended/controlv1"
)

// Unexported answers calls that are over and whose export is still to be done, the
// oldest first. What it answers is answered again until Exported says what became
// of it, also on another node and after any restart.
func (b *Book) Unexported(ctx context.Context, most int) (all []Told, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all, err = toldCalls(tx, `tenant=$1 and telemetry=$2 and settled_ms>0 order by settled_ms, call limit $3`, b.tenant, string(controlv1.Queued), most)
		return err
	})
	return all, err
}

// Exported records what became of the export of calls, in one transaction. One that
// another node told of meanwhile is left as it is: recorded stays recorded.
func (b *Book) Exported(ctx context.Context, calls []controlv1.ID, t controlv1.Telemetry) error {
	if _, err := controlv1.ParseTelemetry(string(t)); err != nil {
		return err
	}
	return b.update(ctx, func(tx *tx) (error, error) {
		for _, id := range calls {
			_, err := tx.Exec(`update attended_call set telemetry=$1 where call=$2 and tenant=$3 and telemetry in ($4,$5)`,
				string(t), id.String(), b.tenant, string(controlv1.Queued), string(controlv1.Unavailable))
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}
