package policy

import (
	"context"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Memory is how long a receipt that is over can be replayed.
const Memory = 30 * 24 * time.Hour

// batch bounds what one transaction of a sweep takes on.
const batch = 500

// Sweep does what time asks for: what nobody claimed in time expires, and what is
// past its retention goes. Any number of processes may sweep at once.
func (b *Book) Sweep(ctx context.Context) error {
	for more := true; more; {
		more = false
		err := b.update(ctx, func(tx *tx) (err error) {
			more, err = b.sweep(tx, time.Now())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep does a batch of each, and tells whether there may be more.
func (b *Book) sweep(tx *tx, now time.Time) (more bool, err error) {
	due, err := b.chosen(tx, `state=$2 and expires_ms<=$3`, string(Allowed), now.UnixMilli())
	if err != nil {
		return false, err
	}
	for _, r := range due {
		if err := b.move(tx, r, "expired", refusal.Expired, now); err != nil {
			return false, err
		}
	}
	old, err := b.chosen(tx, `state<>$2 and moved_ms<$3`, string(Allowed), now.Add(-Memory).UnixMilli())
	if err != nil || len(old) == 0 {
		return len(due) == batch, err
	}
	for _, r := range old {
		if _, err := tx.Exec(`delete from policy_receipt where receipt=$1`, r.ID); err != nil {
			return false, err
		}
	}
	err = b.log.Append(tx, audit.Event{Tenant: b.tenant, Kind: "policy.swept", Subject: b.tenant, Public: []audit.Field{audit.Count("receipts", len(old))}})
	return len(due) == batch || len(old) == batch, err
}

// chosen answers a batch of receipts. $1 is the tenant.
func (b *Book) chosen(tx *tx, where string, args ...any) (all []Receipt, err error) {
	err = tx.Each(`select `+receiptColumns+` from policy_receipt where tenant=$1 and `+where+` order by receipt limit 500`,
		append([]any{b.tenant}, args...), func(rows store.Scanner) error {
			r, _, err := scanReceipt(rows)
			all = append(all, r)
			return err
		})
	return all, err
}
