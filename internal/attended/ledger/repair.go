package ledger

import (
	"context"
	"errors"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Beat tells that this node lives. A node beats every few seconds; one that didn't
// for NodeTime is gone, and Repair ends what it held. Where a node lives that names
// people by another key it is bad_document: what a person stops here would stand there.
func (b *Book) Beat(ctx context.Context) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now().UnixMilli()
		rows, err := tx.Exec(`update attended_node set beat_ms=$1 where node=$2`, now, b.node)
		if err != nil || rows == 1 {
			return err
		}
		if b.opts.Mark != "" {
			others, err := number(tx, `select count(*) from attended_node where beat_ms>$1 and node like '%.%' and node not like $2`, now-NodeTime.Milliseconds(), "%."+b.opts.Mark)
			if err == nil && others > 0 {
				err = refuse(refusal.BadDocument, "another server that uses this database, now or a moment ago, has another control.key")
			}
			if err != nil {
				return err
			}
		}
		if _, err = tx.Exec(`delete from attended_node where beat_ms<$1`, now-time.Hour.Milliseconds()); err != nil {
			return err
		}
		_, err = tx.Exec(`insert into attended_node (node, beat_ms) values ($1,$2) on conflict do nothing`, b.node, now)
		return err
	})
}

// Repair does what time does and ends what dead nodes left, by the ordinary moves:
// it is for a timer on every node, and for each start. What one pass can't do the
// next one can; several at once are fine.
func (b *Book) Repair(ctx context.Context) error {
	if err := b.Beat(ctx); err != nil {
		return err
	}
	return errors.Join(b.orphans(ctx), b.steps(ctx), b.lapses(ctx))
}

// sweepCalls takes the calls that meet a condition through a verb.
func (b *Book) sweepCalls(ctx context.Context, do func(tx *tx, c call, now time.Time) error, where func(now time.Time) (string, []any)) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		condition, args := where(now)
		ids, err := tx.Texts(`select call from attended_call where `+condition+` order by call limit 200`, args...)
		if err != nil {
			return err
		}
		for _, id := range ids {
			c, err := b.findCall(tx, id)
			if err != nil {
				return err
			}
			if err := do(tx, c, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// dead is a condition on records of nodes that are gone: none of the two times is
// newer than NodeTime.
const dead = ` moved_ms<=$1 and node not in (select node from attended_node where beat_ms>$1)`

func deadSince(now time.Time) int64 { return now.Add(-NodeTime).UnixMilli() }

// orphans ends what nodes that are gone held. Arguments went with the node: what
// wasn't claimed fails without an effect, what was claimed is unknown.
func (b *Book) orphans(ctx context.Context) error {
	unclaimed := b.sweepCalls(ctx, func(tx *tx, c call, now time.Time) error {
		return b.settle(tx, &c, callRetire, end{effect: controlv1.NoEffect, code: refusal.NotDispatched}, now)
	}, func(now time.Time) (string, []any) {
		return `state='pending_confirmation' and tenant=$2 and` + dead, []any{deadSince(now), b.tenant}
	})
	claimed := b.sweepCalls(ctx, func(tx *tx, c call, now time.Time) error {
		if mutant == orphansWithout {
			return b.settle(tx, &c, callWithhold, end{effect: controlv1.NoEffect, code: refusal.NotDispatched}, now)
		}
		if c.Code == "" {
			c.Code = refusal.ChannelUnavailable
		}
		return b.settle(tx, &c, callLose, c.lost(false, now), now)
	}, func(now time.Time) (string, []any) {
		return `state in ('dispatched','cancelling') and tenant=$2 and` + dead, []any{deadSince(now), b.tenant}
	})
	channels := b.sweepArms(ctx, armRevoke, refusal.ChannelUnavailable, func(now time.Time) (string, []any) {
		if mutant == orphanedChannel {
			return `1=0 and moved_ms<=$1 and tenant=$2`, []any{deadSince(now), b.tenant}
		}
		return `tenant=$2 and arm in (select arm from attended_registration where state in ('pending','published') and` + dead + `)`, []any{deadSince(now), b.tenant}
	})
	return errors.Join(unclaimed, claimed, channels)
}

// sweepArms ends the arms that aren't over and meet a condition.
func (b *Book) sweepArms(ctx context.Context, v verb, why refusal.Code, where func(now time.Time) (string, []any)) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		condition, args := where(now)
		var all []arm
		err := tx.Each(`select `+armColumns+` from attended_arm where state in ('recent_auth_active','active','consumed') and `+condition+` order by arm limit 200`, args,
			func(r store.Scanner) error {
				a, err := readArm(r)
				all = append(all, a)
				return err
			})
		if err != nil {
			return err
		}
		for _, a := range all {
			if err := b.endArm(tx, a, v, why, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// steps finishes or ends publications that stand between two of their steps for
// too long, and channels that never sent their catalog.
func (b *Book) steps(ctx context.Context) error {
	late := func(now time.Time) int64 { return now.Add(-2 * StepTime).UnixMilli() }
	silent := b.sweepArms(ctx, armRevoke, refusal.TimedOut, func(now time.Time) (string, []any) {
		return `tenant=$2 and state='consumed' and moved_ms<=$1 and arm not in (select arm from attended_registration)`, []any{late(now), b.tenant}
	})
	unpointed := b.sweepArms(ctx, armRevoke, refusal.TimedOut, func(now time.Time) (string, []any) {
		return `tenant=$2 and state='consumed' and arm in (select arm from attended_registration r where r.state='pending' and r.moved_ms<=$1
			and not exists (select 1 from attended_document d where d.document=r.document and d.registration=r.registration and d.state='pointed'))`, []any{late(now), b.tenant}
	})
	var pointed []string
	err := b.db.View(ctx, func(tx *tx) (err error) {
		pointed, err = tx.Texts(`select r.registration from attended_registration r join attended_document d on d.document=r.document and d.registration=r.registration
			where r.state='pending' and d.state='pointed' and r.tenant=$2 and r.moved_ms<=$1 order by r.registration limit 200`, late(time.Now()), b.tenant)
		return err
	})
	all := []error{silent, unpointed, err}
	for _, id := range pointed {
		r, err := controlv1.ParseID(id)
		if err == nil {
			_, err = b.Publish(ctx, r)
		}
		if refusal.Of(err) == "" { // a refusal is the channel's own end, written by whoever finds it
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// lapses does what time does.
func (b *Book) lapses(ctx context.Context) error {
	armsOver := b.sweepArms(ctx, armExpire, refusal.ArmExpired, func(now time.Time) (string, []any) {
		return `tenant=$2 and (state='recent_auth_active' and grant_until_ms<=$1 or state<>'recent_auth_active' and expires_ms<=$1 or credential_until_ms<=$1)`,
			[]any{now.UnixMilli(), b.tenant}
	})
	leasesOver := b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		var all []lease
		err := tx.Each(`select `+leaseColumns+` from attended_lease where tenant=$2 and state='active' and expires_ms<=$1 order by lease limit 200`,
			[]any{now.UnixMilli(), b.tenant}, func(r store.Scanner) error {
				l, err := readLease(r)
				all = append(all, l)
				return err
			})
		for _, l := range all {
			if err == nil {
				err = b.endLease(tx, l, leaseExpire, refusal.LeaseExpired, true, now)
			}
		}
		return err
	})
	unconfirmed := b.sweepCalls(ctx, func(tx *tx, c call, now time.Time) error {
		return b.settle(tx, &c, callLapse, end{effect: controlv1.NoEffect, code: refusal.ConfirmExpired}, now)
	}, func(now time.Time) (string, []any) {
		return `tenant=$2 and state='pending_confirmation' and deadline_ms<=$1`, []any{now.UnixMilli(), b.tenant}
	})
	overdue := b.sweepCalls(ctx, func(tx *tx, c call, now time.Time) error {
		if c.Code == "" {
			c.Code = refusal.TimedOut
		}
		return b.settle(tx, &c, callLose, c.lost(true, now), now)
	}, func(now time.Time) (string, []any) {
		return `tenant=$2 and state in ('dispatched','cancelling') and deadline_ms<=$1`, []any{now.Add(-OverdueTime).UnixMilli(), b.tenant}
	})
	reaped := b.sweepCalls(ctx, func(tx *tx, c call, now time.Time) error {
		return b.settle(tx, &c, callReap, end{effect: c.unheard(), code: refusal.WindowExpired, late: c.LateUntilMS}, now)
	}, func(now time.Time) (string, []any) {
		return `tenant=$2 and state='unknown' and late_until_ms<=$1`, []any{now.UnixMilli(), b.tenant}
	})
	return errors.Join(armsOver, leasesOver, unconfirmed, overdue, reaped)
}
