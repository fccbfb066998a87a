package policy

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Use takes a receipt for the claim of its request, once. given is how the person
// confirmed (None for a read). The decision isn't made again, but all that it is
// bound to is compared: another request's digest is conflict, a confirmation weaker
// than it asks for policy_denied, past its time expired, a second claim replayed.
func (b *Book) Use(ctx context.Context, id, requestDigest string, given Level) error {
	return b.update(ctx, func(tx *tx) error { return b.UseIn(tx, id, requestDigest, given) })
}

// UseIn is Use within the transaction that claims, whose undoing undoes it too.
func (b *Book) UseIn(tx *store.Tx, id, requestDigest string, given Level) error {
	now := time.Now()
	r, known, err := b.find(tx, id)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("no such receipt: %w", refusal.PolicyDenied)
	}
	return b.use(tx, r, requestDigest, given, now)
}

func tooWeak() error {
	return fmt.Errorf("the decision asks for a stronger confirmation: %w", refusal.PolicyDenied)
}

func (b *Book) use(tx *tx, r Receipt, requestDigest string, given Level, now time.Time) error {
	switch {
	case r.RequestDigest != requestDigest:
		return fmt.Errorf("the decision is over another request: %w", refusal.Conflict)
	case r.State == Used:
		return fmt.Errorf("the decision was used: %w", refusal.Replayed)
	}
	if err := r.stands(now); err != nil {
		return err
	}
	if !r.Decision.Allow || !given.AtLeast(r.Decision.Level) {
		return tooWeak()
	}
	r.Given = given
	// A crash right after this commit leaves what the claim's own leaves.
	return b.move(tx, r, "used", "", now)
}

// Drop ends a receipt whose request ended before its claim, and why. One that is
// over already stays as it is.
func (b *Book) Drop(ctx context.Context, id string, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) error { return b.DropIn(tx, id, why) })
}

// DropIn is Drop within another authority's transaction.
func (b *Book) DropIn(tx *store.Tx, id string, why refusal.Code) error {
	r, known, err := b.find(tx, id)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("no such receipt: %w", refusal.Unknown)
	case r.State != Allowed:
		return nil
	}
	return b.move(tx, r, "dropped", why, time.Now())
}
