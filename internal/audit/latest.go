package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// LatestPage is some of a log's records, the newest first.
type LatestPage struct {
	Records     []Record // without their places (Seq is -1): those come of counting
	Next        string   // cursor of what came before; "" at the log's beginning
	Size        int64    // leaves in the tenant's tree
	Unsequenced int64    // committed ones that aren't in it yet
}

// Latest answers the newest records of the log's own tenant; see [Latest].
func (l *Log) Latest(ctx context.Context, actor, cursor string, limit int) (LatestPage, error) {
	return Latest(ctx, l.db, l.opts.Tenant, actor, cursor, limit)
}

// Newest answers the newest checkpoint of the log's own tenant; see [Newest].
func (l *Log) Newest() (c Checkpoint, file string, err error) {
	return Newest(l.opts.CheckpointDir, l.opts.Tenant, l.opts.KeyFile)
}

// maxLook bounds how many leaves one page looks through for those of an actor.
const maxLook = 20_000

// Latest answers at most limit records of a tenant, the newest first, that are
// actor's ("" is anybody's), from before a cursor on. A page may hold fewer than
// limit, and none, though Next says that more may come. A cursor that isn't one is
// refusal.BadDocument.
func Latest(ctx context.Context, db *store.DB, tenant, actor, cursor string, limit int) (page LatestPage, err error) {
	before, err := parsePlace(cursor)
	if err != nil {
		return page, err
	}
	err = db.View(ctx, func(tx *store.Tx) error {
		page = LatestPage{}
		if err := tx.QueryRow(`select coalesce(max(size), 0) from audit_tree where tenant=$1`, tenant).Scan(&page.Size); err != nil {
			return err
		}
		mark, err := mark(tx)
		if err != nil {
			return err
		}
		err = tx.QueryRow(`select count(*) from audit_ordered where tenant=$1 and xid >= $2`, tenant, mark).Scan(&page.Unsequenced)
		if err != nil {
			return err
		}
		return page.fill(tx, tenant, actor, before, limit)
	})
	return page, err
}

// fill walks backwards until the page is full.
func (page *LatestPage) fill(tx *store.Tx, tenant, actor string, before place, limit int) error {
	for looked := 0; looked < maxLook && len(page.Records) < limit; {
		leaves, err := preceding(tx, tenant, before, chunkSize/4)
		if err != nil {
			return err
		}
		page.Next = ""
		if len(leaves) == 0 {
			return nil
		}
		var chosen []Record
		for _, leaf := range leaves {
			l, err := decode(leaf.data)
			if err != nil || l.tenant != tenant {
				return fmt.Errorf("a record of %s: %w; run `chaperone audit verify`", tenant, refusal.Tampered)
			}
			before, looked = leaf.place, looked+1
			if actor == "" || l.actor == actor || l.subject == actor {
				chosen = append(chosen, l.record(-1, leaf.data))
			}
			if len(page.Records)+len(chosen) == limit {
				break
			}
		}
		page.Next = before.cursor()
		if err := opened(tx, chosen, func(r Record) error { page.Records = append(page.Records, r); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// preceding reads up to limit of a tenant's leaves before a place, backwards.
func preceding(tx *store.Tx, tenant string, before place, limit int) ([]raw, error) {
	rows, err := tx.Query(`select xid, n, leaf from audit_ordered
		where tenant=$1 and (xid, n) < ($2, $3) order by xid desc, n desc limit $4`, tenant, before.xid, before.n, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []raw
	for rows.Next() {
		r := raw{tenant: tenant}
		if err := rows.Scan(&r.xid, &r.n, &r.data); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func (p place) cursor() string { return fmt.Sprintf("%d-%d", p.xid, p.n) }

// parsePlace reads a cursor; "" is after everything.
func parsePlace(text string) (place, error) {
	const last = 1<<63 - 1
	if text == "" {
		return place{last, last}, nil
	}
	x, n, ok := strings.Cut(text, "-")
	xid, err1 := strconv.ParseInt(x, 10, 64)
	number, err2 := strconv.ParseInt(n, 10, 64)
	if !ok || err1 != nil || err2 != nil || xid < 0 || number < 0 {
		return place{}, fmt.Errorf("cursor: %w", refusal.BadDocument)
	}
	return place{xid, number}, nil
}
