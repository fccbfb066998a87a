package ledger

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// ReviewState is where a prepare receipt stands.
type ReviewState string

const (
	// Prepared is shown to a person, who hasn't answered.
	Prepared ReviewState = "prepared"
	// Confirmed was acknowledged by the owner's session. That is no proof that a
	// human did it.
	Confirmed ReviewState = "confirmed"
	// Used is over: a change was claimed with it.
	Used ReviewState = "used"
	// Expired is over: its two minutes were.
	Expired ReviewState = "expired"
	// Cancelled is over: it was declined, or the grant under it changed.
	Cancelled ReviewState = "cancelled"
)

const (
	reviewPrepared  verb = "review_prepared"
	reviewConfirmed verb = "review_confirmed"
	reviewUsed      verb = "review_used"
	reviewExpired   verb = "review_expired"
	reviewCancelled verb = "review_cancelled"
)

// reviews is the machine of a prepare receipt; its key is the receipt.
var reviews = machine[ReviewState]{
	update: `update portal_review set state=$1, moved_ms=$2 where receipt=$3 and state=$4`,
	read:   `select state from portal_review where receipt=$1`,
	moves: []step[ReviewState]{
		{reviewPrepared, "", Prepared},
		{reviewConfirmed, Prepared, Confirmed},
		{reviewUsed, Confirmed, Used},
		{reviewExpired, Prepared, Expired},
		{reviewExpired, Confirmed, Expired},
		{reviewCancelled, Prepared, Cancelled},
		{reviewCancelled, Confirmed, Cancelled},
	},
}

// Review is a prepare receipt. Of what was reviewed only the digest stands here.
type Review struct {
	Receipt    string // 32 hex
	Actor      string
	Session    string
	Connection string
	Generation int64
	Tool       tool.Name
	Digest     string
	State      ReviewState
	Expires    time.Time
}

func (b *Book) review(tx *tx, receipt string) (r Review, known bool, err error) {
	var expires int64
	known, err = tx.One(`select receipt, actor, session, connection, generation, tool, digest, state, expires_ms
		from portal_review where tenant=$1 and receipt=$2`, []any{b.tenant, receipt},
		&r.Receipt, &r.Actor, &r.Session, &r.Connection, &r.Generation, &r.Tool, &r.Digest, &r.State, &expires)
	r.Expires = at(expires)
	return r, known, err
}

// Prepare makes the receipt of what a person is about to review: bound to the
// caller's session, its grant and that grant's generation, the tool and the
// digest; good for two minutes and one use. Only the browser surface prepares.
// MaxReviews that are open are busy.
func (b *Book) Prepare(ctx context.Context, c Caller, name tool.Name, digest string) (Review, error) {
	if c.Transport != Browser {
		return Review{}, fmt.Errorf("only the browser surface prepares: %w", tool.FunctionUnavailable)
	}
	r := Review{Receipt: NewID(), Actor: c.Actor, Session: c.Session, Tool: name, Digest: digest, State: Prepared}
	err := b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		g, err := b.grant(tx, c, now)
		if err != nil {
			return err
		}
		r.Connection, r.Generation, r.Expires = g.Connection, g.Generation, now.Add(ReviewTime)
		if err := b.expireReviews(tx, `connection=$2 and expires_ms<=$3`, now, g.Connection, now.UnixMilli()); err != nil {
			return err
		}
		var open int64
		if err := tx.QueryRow(`select count(*) from portal_review where connection=$1 and state in ($2,$3)`,
			g.Connection, string(Prepared), string(Confirmed)).Scan(&open); err != nil {
			return err
		}
		if open >= MaxReviews { // a person's attention is a budget too
			return fmt.Errorf("%d reviews are open: %w", open, tool.Busy)
		}
		_, err = tx.Exec(`insert into portal_review (receipt, tenant, actor, session, connection, generation, tool, digest, state, prepared_ms, expires_ms, moved_ms)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$10)`, r.Receipt, b.tenant, r.Actor, r.Session, r.Connection, r.Generation,
			string(r.Tool), r.Digest, string(born(reviews.moves, reviewPrepared)), now.UnixMilli(), r.Expires.UnixMilli())
		if err != nil {
			return err
		}
		return b.tellReview(tx, r, reviewPrepared, "")
	})
	return r, err
}

func (b *Book) tellReview(tx *tx, r Review, v verb, why refusal.Code) error {
	return b.tell(tx, event{kind: string(v), actor: r.Actor, subject: r.Receipt, code: why, public: []audit.Field{
		audit.ID("connection", r.Connection), audit.Count("generation", r.Generation), audit.ID("session", audit.Name(r.Session)),
		audit.Word("tool", r.Tool), audit.Digest("input", r.Digest)}})
}

// Confirm acknowledges a receipt whose digest the owner's page saw. Confirming it
// again is fine. Refusals: receipt_expired, also for one that isn't this session's;
// receipt_used; cancelled; review_declined where the digest is another.
func (b *Book) Confirm(ctx context.Context, c Caller, receipt, digest string) error {
	return b.answer(ctx, c, receipt, func(tx *tx, r Review, now time.Time) error {
		if !same(r.Digest, digest) {
			return fmt.Errorf("not what was reviewed: %w", tool.ReviewDeclined)
		}
		if r.State == Confirmed {
			return nil
		}
		if _, ok, err := reviews.move(tx, r.Receipt, reviewConfirmed, now); err != nil || !ok {
			return orConflict(err)
		}
		return b.tellReview(tx, r, reviewConfirmed, "")
	})
}

// Decline cancels a receipt at its owner's wish. Refusals are those of Confirm.
func (b *Book) Decline(ctx context.Context, c Caller, receipt string) error {
	return b.answer(ctx, c, receipt, func(tx *tx, r Review, now time.Time) error {
		if _, ok, err := reviews.move(tx, r.Receipt, reviewCancelled, now); err != nil || !ok {
			return orConflict(err)
		}
		return b.tellReview(tx, r, reviewCancelled, tool.ReviewDeclined)
	})
}

func orConflict(err error) error {
	if err == nil {
		err = fmt.Errorf("receipt changed meanwhile: %w", refusal.Conflict)
	}
	return err
}

// answer gives an open receipt of the caller's to fn, in one transaction. The
// refusal of an expired one is told after the commit that moves it.
func (b *Book) answer(ctx context.Context, c Caller, receipt string, fn func(*tx, Review, time.Time) error) error {
	var late error
	err := b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		g, err := b.grant(tx, c, now)
		if err != nil {
			return err
		}
		var r Review
		if r, late, err = b.opened(tx, c, g, receipt, now); err != nil || late != nil {
			return err
		}
		return fn(tx, r, now)
	})
	if err == nil {
		err = late
	}
	return err
}

// opened answers the caller's receipt if it is open still.
func (b *Book) opened(tx *tx, c Caller, g Grant, receipt string, now time.Time) (r Review, late, err error) {
	r, known, err := b.review(tx, receipt)
	switch {
	case err != nil:
		return r, nil, err
	case !known || r.Actor != c.Actor || r.Session != c.Session || r.Connection != g.Connection:
		return r, nil, fmt.Errorf("no such receipt: %w", tool.ReceiptExpired)
	case r.State == Used:
		return r, nil, fmt.Errorf("receipt was used: %w", tool.ReceiptUsed)
	case r.State == Expired:
		return r, nil, fmt.Errorf("receipt is past its time: %w", tool.ReceiptExpired)
	case r.State == Cancelled || r.Generation != g.Generation:
		return r, nil, fmt.Errorf("receipt was cancelled: %w", tool.Cancelled)
	case r.State != Prepared && r.State != Confirmed:
		return r, nil, fmt.Errorf("receipt is in no state: %w", tool.ReceiptExpired)
	case !now.Before(r.Expires):
		if _, ok, err := reviews.move(tx, r.Receipt, reviewExpired, now); err != nil || !ok {
			return r, nil, orConflict(err)
		}
		return r, fmt.Errorf("receipt is past its time: %w", tool.ReceiptExpired), b.tellReview(tx, r, reviewExpired, refusal.Expired)
	}
	return r, nil, nil
}

// spend uses a confirmed receipt up for the change of that digest.
func (b *Book) spend(tx *tx, c Claim, g Grant, now time.Time) (late, err error) {
	r, late, err := b.opened(tx, c.Caller, g, c.Review, now)
	switch {
	case err != nil || late != nil:
		return late, err
	case r.Tool != c.Tool || !same(r.Digest, c.Digest):
		return nil, fmt.Errorf("not what was reviewed: %w", tool.ReviewDeclined)
	case r.State != Confirmed:
		return nil, fmt.Errorf("nobody confirmed it: %w", tool.ReviewDeclined)
	}
	if _, ok, err := reviews.move(tx, r.Receipt, reviewUsed, now); err != nil || !ok {
		return nil, orConflict(err)
	}
	return nil, b.tellReview(tx, r, reviewUsed, "")
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cancelReviews cancels what is open under a grant that changes.
func (b *Book) cancelReviews(tx *tx, connection string, now time.Time) error {
	return b.closeReviews(tx, reviewCancelled, tool.Cancelled, now, `connection=$2 and state in ('prepared','confirmed')`, connection)
}

func (b *Book) expireReviews(tx *tx, where string, now time.Time, args ...any) error {
	return b.closeReviews(tx, reviewExpired, refusal.Expired, now, `state in ('prepared','confirmed') and `+where, args...)
}

func (b *Book) closeReviews(tx *tx, v verb, why refusal.Code, now time.Time, where string, args ...any) error {
	receipts, err := tx.Texts(`select receipt from portal_review where tenant=$1 and `+where+` order by receipt limit 500`, append([]any{b.tenant}, args...)...)
	if err != nil {
		return err
	}
	for _, receipt := range receipts {
		r, _, err := b.review(tx, receipt)
		if err != nil {
			return err
		}
		if _, ok, err := reviews.move(tx, receipt, v, now); err != nil || !ok {
			return orConflict(err)
		}
		if err := b.tellReview(tx, r, v, why); err != nil {
			return err
		}
	}
	return nil
}
