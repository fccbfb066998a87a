package ledger

import (
	"context"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Sweep does what time asks for: receipts and grants that expired are moved, and
// what is past its retention goes. Any number of processes may sweep at once.
func (b *Book) Sweep(ctx context.Context) error {
	err := b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		if err := b.expireReviews(tx, `expires_ms<=$2`, now, now.UnixMilli()); err != nil {
			return err
		}
		due, err := b.find(tx, `state in ($2,$3) and expires_ms<=$4`, string(Live), string(Off), now.UnixMilli())
		if err != nil {
			return err
		}
		for _, c := range due {
			if err := b.move(tx, &c, connectionExpired, refusal.Expired, now); err != nil {
				return err
			}
		}
		return nil
	})
	for more := true; err == nil && more; {
		more, err = b.forget(ctx)
	}
	return err
}

// forgetful are the rows that are over and past their time. $1 is the tenant, $2
// the time up to which they go.
var forgetful = []struct {
	name, chosen string
	after        time.Duration
	delete       []string
}{
	{"requests", `select receipt from portal_request where tenant=$1 and state<>'begun' and begun_ms<$2 limit 500`, RequestTime,
		[]string{`delete from portal_request where receipt=$1`}},
	{"reviews", `select receipt from portal_review where tenant=$1 and state in ('used','expired','cancelled') and moved_ms<$2 limit 500`, reviewMemory,
		[]string{`delete from portal_review where receipt=$1`}},
	{"connections", `select connection from portal_connection c where tenant=$1 and state in ('ended','revoked','expired') and moved_ms<$2
		and not exists (select 1 from portal_request r where r.connection=c.connection)
		and not exists (select 1 from portal_review v where v.connection=c.connection) limit 500`, connectionTime,
		[]string{`delete from portal_selected where connection=$1`, `delete from portal_connection where connection=$1`}},
}

// forget deletes a batch of each, and tells whether there may be more.
func (b *Book) forget(ctx context.Context) (more bool, err error) {
	err = b.db.Update(ctx, func(tx *tx) error {
		more = false
		var public []audit.Field
		for _, f := range forgetful {
			keys, err := tx.Texts(f.chosen, b.tenant, time.Now().Add(-f.after).UnixMilli())
			if err != nil {
				return err
			}
			for _, key := range keys {
				for _, statement := range f.delete {
					if _, err := tx.Exec(statement, key); err != nil {
						return err
					}
				}
			}
			if len(keys) > 0 {
				public = append(public, audit.Count(f.name, len(keys)))
			}
			more = more || len(keys) == 500
		}
		if public == nil {
			return nil
		}
		return b.tell(tx, event{kind: "swept", subject: b.tenant, public: public})
	})
	return more, err
}
