package audit

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/store"
)

// batchSize bounds a batch, and so how long its commit holds up the writers.
const batchSize = 4096

// errLost tells that another process integrated first.
var errLost = errors.New("another process integrated first")

// raw is a leaf as it lies in the database.
type raw struct {
	place
	tenant  string
	data    []byte
	settled bool
}

// batch is what one pass integrates: the settled leaves after the mark, in
// their order, and the trees that they extend.
type batch struct {
	from, to int64 // of the mark
	trees    map[string]*tree
	before   map[string]head
	tiles    map[string][]tile
	full     bool // there may be more
	left     bool // some aren't settled yet
}

// integrateAll integrates until nothing settled is left; left tells that
// something unsettled is.
func (l *Log) integrateAll(ctx context.Context) (left bool, err error) {
	for {
		b, err := l.read(ctx)
		if err != nil {
			return false, err
		}
		if b.to == b.from {
			return b.left, nil
		}
		err = l.write(ctx, b)
		if err != nil && !errors.Is(err, errLost) {
			return false, err
		}
		if err == nil && !b.full {
			return b.left, nil
		}
	}
}

// read takes the next batch from a snapshot, outside of any write: hashing
// holds nobody up.
func (l *Log) read(ctx context.Context) (*batch, error) {
	var b *batch
	err := l.db.View(ctx, func(tx *store.Tx) error {
		b = &batch{trees: map[string]*tree{}, tiles: map[string][]tile{}}
		if err := tx.QueryRow("select xid from audit_mark where one=1").Scan(&b.from); err != nil {
			return err
		}
		leaves, err := b.leaves(tx)
		if err != nil || len(leaves) == 0 {
			return err
		}
		if b.before, err = heads(tx); err != nil {
			return err
		}
		for _, leaf := range leaves {
			t := b.trees[leaf.tenant]
			if t == nil {
				h := b.before[leaf.tenant]
				h.tenant = leaf.tenant
				if t, err = loadTree(tx, h); err != nil {
					return err
				}
				t.full = func(done tile) { b.tiles[leaf.tenant] = append(b.tiles[leaf.tenant], done) }
				b.trees[leaf.tenant] = t
			}
			t.append(tlog.RecordHash(leaf.data), leaf.place)
		}
		return nil
	})
	return b, err
}

// leaves reads the settled leaves from the mark on, whole transactions only,
// and moves the batch's end behind them.
func (b *batch) leaves(tx *store.Tx) ([]raw, error) {
	b.to = b.from
	for limit := batchSize; ; limit *= 8 {
		all, err := following(tx, place{b.from, -1}, limit)
		if err != nil {
			return nil, err
		}
		b.full = len(all) == limit
		if i := slices.IndexFunc(all, func(r raw) bool { return !r.settled }); i >= 0 {
			all, b.left, b.full = all[:i], true, false
		}
		if b.full {
			// The last transaction may go on behind the limit: it waits for the
			// next batch, unless it is all there is.
			last := all[len(all)-1].xid
			all = all[:slices.IndexFunc(all, func(r raw) bool { return r.xid == last })]
			if len(all) == 0 {
				continue
			}
		}
		if len(all) > 0 {
			b.to = all[len(all)-1].xid + 1
		}
		return all, nil
	}
}

// following reads up to limit leaves after a place, in their order.
func following(tx *store.Tx, after place, limit int) ([]raw, error) {
	rows, err := tx.Query(`select xid, n, tenant, leaf, settled from audit_ordered
		where (xid, n) > ($1, $2) order by xid, n limit $3`, after.xid, after.n, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make([]raw, 0, min(limit, batchSize))
	for rows.Next() {
		var r raw
		if err := rows.Scan(&r.xid, &r.n, &r.tenant, &r.data, &r.settled); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// write moves the mark from where the batch was read, and with it writes the
// batch's tiles and heads. A crash leaves all of it or nothing.
func (l *Log) write(ctx context.Context, b *batch) error {
	return l.db.Update(ctx, func(tx *store.Tx) error {
		moved, err := tx.Exec("update audit_mark set xid=$1 where one=1 and xid=$2", b.to, b.from)
		if err != nil {
			return err
		}
		if moved == 0 {
			return errLost
		}
		for _, tenant := range slices.Sorted(maps.Keys(b.trees)) {
			if err := writeTree(tx, tenant, b.before[tenant].size, b.trees[tenant], b.tiles[tenant]); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeTree(tx *store.Tx, tenant string, before int64, t *tree, full []tile) error {
	for _, tile := range slices.Concat(full, t.partial()) {
		places := tile.places
		if places == nil {
			places = []byte{}
		}
		if _, err := tx.Exec(`insert into audit_tile (tenant, level, n, hashes, places) values ($1,$2,$3,$4,$5)
			on conflict (tenant, level, n) do update set hashes=excluded.hashes, places=excluded.places`,
			tenant, tile.level, tile.n, tile.hashes, places); err != nil {
			return err
		}
	}
	root := t.root()
	rows, err := tx.Exec(`insert into audit_tree (tenant, size, root) values ($1,$2,$3)
		on conflict (tenant) do update set size=excluded.size, root=excluded.root where audit_tree.size=$4`,
		tenant, t.size, root[:], before)
	if err == nil && rows == 0 {
		return errLost
	}
	return err
}
