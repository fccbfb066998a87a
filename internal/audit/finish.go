package audit

import (
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// compare holds a rebuilt tile to the stored one.
func (l *log) compare(t tile) {
	key := [2]int64{t.level, t.n}
	if digest, there := l.stored[key]; !there || digest != t.digest() {
		l.odd = append(l.odd, t)
	}
	delete(l.stored, key)
}

// finish compares what only the end tells.
func (v *verifier) finish(sameOwner bool) error {
	for _, tenant := range slices.Sorted(maps.Keys(v.logs)) {
		l := v.logs[tenant]
		l.Records, l.SameOwner = l.built.size, sameOwner && l.Checkpoints > 0
		root := l.built.root()
		l.Root = root.String()
		switch {
		case l.head == nil && l.Records > 0:
			v.report.problem(tenant, -1, "the tree's head is gone")
		case l.head != nil && l.head.size != l.Records:
			v.report.problem(tenant, -1, "the tree's head has %d records and the log %d: cut, or added to", l.head.size, l.Records)
		case l.head != nil && l.head.root != root:
			v.report.problem(tenant, -1, "the records don't make the tree's head")
		}
		for _, t := range l.built.partial() {
			l.compare(t)
		}
		if err := v.oddTiles(l); err != nil {
			return err
		}
		for key := range l.stored {
			v.report.problem(tenant, -1, "stored hashes that no record makes (tile %d/%d)", key[0], key[1])
		}
		for _, c := range l.checkpoints {
			v.report.problem(tenant, -1, "checkpoint %d covers %d records and the log has %d: its tail was cut", c.Number, c.Size, l.Records)
		}
		v.missing(l)
		v.report.Tenants = append(v.report.Tenants, l.Tenant)
		v.report.limits(l.Tenant)
	}
	if v.mark > 0 && v.last != v.mark-1 {
		v.report.problem("", -1, "the mark of what is integrated was moved, or records before it are gone")
	}
	return v.orphans()
}

// missing tells openings that are gone without an erasure.
func (v *verifier) missing(l *log) {
	for id, seq := range l.missing {
		if l.erased[id] {
			l.Erased++
			continue
		}
		v.report.problem(l.Tenant.Tenant, seq, "its sealed values are gone, and no event tells their erasure")
	}
}

// orphans tells openings that belong to no leaf.
func (v *verifier) orphans() error {
	if v.opts.Tenant != "" {
		return nil // the table doesn't tell whose they are
	}
	var total int64
	if err := v.tx.QueryRow("select count(*) from audit_opening").Scan(&total); err != nil {
		return err
	}
	if total != v.opened {
		v.report.problem("", -1, "%d sealed values belong to no record", total-v.opened)
	}
	return nil
}

// oddTiles names the records whose stored hash or place isn't the rebuilt one.
func (v *verifier) oddTiles(l *log) error {
	const named = 8 // tiles; a log that was rebuilt as a whole needs no more
	for i, t := range l.odd {
		if i == named {
			v.report.problem(l.Tenant.Tenant, -1, "%d more tiles of stored hashes differ", len(l.odd)-named)
			break
		}
		was, err := loadTile(v.tx, l.Tenant.Tenant, t.level, t.n)
		if err != nil {
			v.report.problem(l.Tenant.Tenant, -1, "stored hashes are gone (tile %d/%d)", t.level, t.n)
			continue
		}
		v.oddTile(l.Tenant.Tenant, t, was)
	}
	return nil
}

func (v *verifier) oddTile(tenant string, t, was tile) {
	if len(t.hashes) != len(was.hashes) || len(t.places) != len(was.places) {
		v.report.problem(tenant, -1, "stored hashes have another number than the records (tile %d/%d)", t.level, t.n)
		return
	}
	for i := range len(t.hashes) / tlog.HashSize {
		same := string(t.hashes[i*tlog.HashSize:][:tlog.HashSize]) == string(was.hashes[i*tlog.HashSize:][:tlog.HashSize])
		placed := t.level > 0 || string(t.places[i*placeBytes:][:placeBytes]) == string(was.places[i*placeBytes:][:placeBytes])
		switch at := t.n*tileWidth + int64(i); {
		case same && placed:
		case t.level > 0:
			v.report.problem(tenant, -1, "a stored hash differs (tile %d/%d, hash %d)", t.level, t.n, i)
		case !same:
			v.report.problem(tenant, at, "it isn't the record that was integrated here: altered, moved or replaced")
		default:
			v.report.problem(tenant, at, "it was moved to another place")
		}
	}
}
