package ledger

import (
	"context"
	"fmt"

	"chaperone/internal/refusal"
)

// Connection answers one connection with its selection; one that isn't there is
// [refusal.Unknown].
func (b *Book) Connection(ctx context.Context, id string) (c Connection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all, err := b.find(tx, `connection=$2`, id)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("no such connection: %w", refusal.Unknown)
		}
		c = all[0]
		c.Selection, err = selected(tx, c.ID)
		return err
	})
	return c, err
}

// Connections answers a person's connections with their selections, the newest
// first, those that are over too.
func (b *Book) Connections(ctx context.Context, actor string) (all []Connection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		if all, err = b.find(tx, `actor=$2`, actor); err != nil {
			return err
		}
		for i := range all {
			if all[i].Selection, err = selected(tx, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// Receipt answers the durable mutation receipt of that id, if it is the person's;
// else [refusal.Unknown].
func (b *Book) Receipt(ctx context.Context, actor, receipt string) (r Request, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all, err := b.requests(tx, `r.receipt=$2 and r.actor=$3`, receipt, actor)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("no such receipt: %w", refusal.Unknown)
		}
		r = all[0]
		return nil
	})
	return r, err
}
