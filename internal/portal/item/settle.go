package item

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/store"
)

// Settle tells what became of the change with that mark, for good: where it isn't
// there, a line is written that refuses it should it still come. The answer
// [Never] and any other can't both be true of one mark, whatever process runs late.
func (b *Book) Settle(ctx context.Context, p Place, mark string) (Written, error) {
	if mark == "" {
		return Written{}, tool.Fail(tool.InvalidInput, "path", "/mark", "rule", "required")
	}
	var w Written
	err := b.update(ctx, func(tx *store.Tx) error {
		err := tx.QueryRow(`select item, version, before, outcome from item_change where tenant=$1 and account=$2 and mark=$3`,
			b.tenant, p.Account, mark).Scan(&w.Item, &w.Version, &w.Before, &w.Outcome)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		w = Written{Outcome: Never}
		_, err = tx.Exec(`insert into item_change (tenant, account, mark, item, outcome, before, version, at_ms) values ($1,$2,$3,'',$4,'','',$5)`,
			b.tenant, p.Account, mark, Never, time.Now().UnixMilli())
		return err
	})
	if err != nil {
		return Written{}, err
	}
	return w, nil
}

// Drop removes all items of a place whose collection was deleted, and answers how
// many. It goes in steps; a crash leaves the rest for the next Drop.
func (b *Book) Drop(ctx context.Context, p Place) (int, error) {
	dropped := 0
	for {
		some, err := b.Page(ctx, p, "", "", 200)
		if err != nil || len(some) == 0 {
			return dropped, err
		}
		for _, i := range some {
			err := b.Delete(ctx, p, i.Item, i.Version, drawVersion())
			if codeOf(err) == tool.NotFound {
				continue // another process drops the same
			}
			if err != nil {
				return dropped, err
			}
			dropped++
		}
	}
}
