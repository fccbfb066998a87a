package item

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Change is one write: content by its digest (and metadata), or metadata alone.
type Change struct {
	Item       string
	HasContent bool
	Digest     string // claimed before, and its file in place
	File       string // what Claim answered
	Size       int64
	MediaType  string // "" keeps, or application/octet-stream
	Metadata   map[string]any
	IfVersion  string // exactly one of the two
	IfAbsent   bool
	Mark       string
}

// Put makes one change. Refusals: already_exists, not_found, version_conflict
// (with the current version), quota_exceeded, cancelled where the change was
// settled before it came; unknown_outcome where the commit's answer is lost.
func (b *Book) Put(ctx context.Context, p Place, c Change) (Written, error) {
	if c.IfAbsent == (c.IfVersion != "") || c.Mark == "" || c.IfAbsent && !c.HasContent {
		return Written{}, tool.Fail(tool.InvalidInput, "path", "/if_version", "rule", "oneOf")
	}
	var w Written
	err := b.update(ctx, func(tx *store.Tx) (err error) {
		w, err = b.put(tx, p, c)
		return err
	})
	if err != nil {
		return Written{}, err
	}
	return w, nil
}

func (b *Book) put(tx *store.Tx, p Place, c Change) (Written, error) {
	if err := b.unsettled(tx, p, c.Mark); err != nil {
		return Written{}, err
	}
	old, found, err := b.row(tx, p, c.Item)
	switch {
	case err != nil:
		return Written{}, err
	case c.IfAbsent && found:
		return Written{}, tool.Fail(tool.AlreadyExists)
	case c.IfVersion != "" && !found:
		return Written{}, tool.Fail(tool.NotFound)
	case c.IfVersion != "" && c.IfVersion != old.Version:
		return Written{}, tool.Fail(tool.VersionConflict, "version", old.Version)
	}
	next := next(old, c)
	if c.HasContent {
		if err := holds(tx, c); err != nil {
			return Written{}, err
		}
	}
	items, bytes := int64(0), next.Size-old.Size
	if !found {
		items = 1
	}
	if err := b.use(tx, p, items, bytes); err != nil {
		return Written{}, err
	}
	if err := b.save(tx, p, next, old.Version, found); err != nil {
		return Written{}, err
	}
	if err := touch(tx, old.Digest, next.Digest); err != nil {
		return Written{}, err
	}
	w := Written{c.Item, next.Version, old.Version, outcome(c)}
	return w, b.record(tx, p, c.Mark, w, next.Size)
}

// outcome names what a change that takes effect is.
func outcome(c Change) string {
	switch {
	case c.IfAbsent:
		return Created
	case c.HasContent:
		return Replaced
	}
	return Updated
}

// next is the row after the change.
func next(old Item, c Change) Item {
	n := old
	n.Item, n.Version, n.Mark, n.Modified = c.Item, drawVersion(), c.Mark, time.Now()
	if c.HasContent {
		n.Digest, n.Size = c.Digest, c.Size
	}
	if c.MediaType != "" {
		n.MediaType = c.MediaType
	}
	if n.MediaType == "" {
		n.MediaType = "application/octet-stream"
	}
	if c.Metadata != nil {
		n.Metadata = c.Metadata
	}
	if n.Metadata == nil {
		n.Metadata = map[string]any{}
	}
	return n
}

// save writes the row by compare-and-swap.
func (b *Book) save(tx *store.Tx, p Place, n Item, before string, found bool) error {
	metadata, err := canon.Marshal(n.Metadata)
	if err != nil {
		return tool.Fail(tool.InvalidInput, "path", "/metadata", "rule", "type")
	}
	var rows int64
	if found {
		rows, err = tx.Exec(`update item set version=$1, size=$2, media_type=$3, metadata=$4, digest=$5, mark=$6, modified_ms=$7
			where tenant=$8 and account=$9 and collection=$10 and incarnation=$11 and item=$12 and version=$13`,
			n.Version, n.Size, n.MediaType, string(metadata), n.Digest, n.Mark, n.Modified.UnixMilli(),
			b.tenant, p.Account, p.Collection, p.Incarnation, n.Item, before)
	} else {
		rows, err = tx.Exec(`insert into item (tenant, account, collection, incarnation, item, version, size, media_type, metadata, digest, mark, modified_ms)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12) on conflict do nothing`,
			b.tenant, p.Account, p.Collection, p.Incarnation, n.Item, n.Version, n.Size, n.MediaType, string(metadata),
			n.Digest, n.Mark, n.Modified.UnixMilli())
	}
	if err != nil {
		return err
	}
	if rows != 1 { // can't be on a serialisable transaction: refuse all the same
		return tool.Fail(tool.VersionConflict)
	}
	return nil
}

// Delete removes that version. Refusals: not_found, version_conflict, cancelled
// where it was settled before it came, unknown_outcome.
func (b *Book) Delete(ctx context.Context, p Place, item, ifVersion, mark string) error {
	if ifVersion == "" || mark == "" {
		return tool.Fail(tool.InvalidInput, "path", "/if_version", "rule", "required")
	}
	return b.update(ctx, func(tx *store.Tx) error {
		if err := b.unsettled(tx, p, mark); err != nil {
			return err
		}
		old, found, err := b.row(tx, p, item)
		switch {
		case err != nil:
			return err
		case !found:
			return tool.Fail(tool.NotFound)
		case old.Version != ifVersion:
			return tool.Fail(tool.VersionConflict, "version", old.Version)
		}
		rows, err := tx.Exec(`delete from item where tenant=$1 and account=$2 and collection=$3 and incarnation=$4 and item=$5 and version=$6`,
			b.tenant, p.Account, p.Collection, p.Incarnation, item, ifVersion)
		if err != nil {
			return err
		}
		if rows != 1 {
			return tool.Fail(tool.VersionConflict)
		}
		if err := errors.Join(b.use(tx, p, -1, -old.Size), touch(tx, old.Digest)); err != nil {
			return err
		}
		return b.record(tx, p, mark, Written{item, "", ifVersion, Deleted}, old.Size)
	})
}

// use moves the account's usage and holds it to the quota. What shrinks is never
// refused.
func (b *Book) use(tx *store.Tx, p Place, items, bytes int64) error {
	if items == 0 && bytes == 0 {
		return nil
	}
	haveItems, haveBytes, err := b.usage(tx, p.Account)
	if err != nil {
		return err
	}
	haveItems, haveBytes = haveItems+items, haveBytes+bytes
	switch {
	case items > 0 && haveItems > b.opts.MaxItems:
		return tool.Fail(tool.QuotaExceeded, "limit", b.opts.MaxItems, "used", haveItems-items)
	case bytes > 0 && haveBytes > b.opts.MaxBytes:
		return tool.Fail(tool.QuotaExceeded, "limit", b.opts.MaxBytes, "used", haveBytes-bytes)
	}
	_, err = tx.Exec(`insert into item_usage (tenant, account, items, bytes) values ($1,$2,$3,$4)
		on conflict (tenant, account) do update set items=excluded.items, bytes=excluded.bytes`,
		b.tenant, p.Account, haveItems, haveBytes)
	return err
}

// record writes the change's line and its audit row.
func (b *Book) record(tx *store.Tx, p Place, mark string, w Written, size int64) error {
	rows, err := tx.Exec(`insert into item_change (tenant, account, mark, item, outcome, before, version, at_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8) on conflict do nothing`,
		b.tenant, p.Account, mark, w.Item, w.Outcome, w.Before, w.Version, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	if rows != 1 {
		return tool.Fail(tool.Cancelled)
	}
	return b.log.Append(tx, audit.Event{
		Tenant: b.tenant, Kind: "item." + w.Outcome, Subject: mark,
		Public: []audit.Field{audit.Word("collection", p.Collection), audit.ID("before", w.Before), audit.ID("version", w.Version), audit.Count("size", size)},
		Sealed: []audit.Sealed{audit.Seal("account", p.Account), audit.Seal("item", w.Item)},
	})
}

// unsettled refuses a change that was settled as never, or that is here twice.
func (b *Book) unsettled(tx *store.Tx, p Place, mark string) error {
	var outcome string
	err := tx.QueryRow(`select outcome from item_change where tenant=$1 and account=$2 and mark=$3`, b.tenant, p.Account, mark).Scan(&outcome)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return tool.Fail(tool.Cancelled, "cause", string(refusal.Replayed))
}
