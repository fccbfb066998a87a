package audit

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Record is a leaf as people and programs read it.
type Record struct {
	Seq     int64             `json:"seq"` // its place in the tree, -1 while unsequenced
	ID      string            `json:"id"`
	At      time.Time         `json:"at"`
	Tenant  string            `json:"tenant"`
	Kind    string            `json:"kind"`
	Actor   string            `json:"actor,omitzero"`
	Subject string            `json:"subject,omitzero"`
	Code    refusal.Code      `json:"code,omitzero"`
	Public  map[string]any    `json:"public,omitempty"`
	Values  map[string]string `json:"values,omitempty"` // opened sealed values
	Erased  []string          `json:"erased,omitempty"` // names whose values are gone

	data    []byte
	opening string
}

// Filter chooses records; a zero field chooses all.
type Filter struct {
	Tenant  string
	Subject string    // a run id
	Kind    string    // a kind, or its beginning where it ends in "."
	Since   time.Time // not earlier
	Record  string    // one: its id or its sequence number
}

func (f Filter) matches(r Record) bool {
	return (f.Tenant == "" || r.Tenant == f.Tenant) &&
		(f.Subject == "" || r.Subject == f.Subject) &&
		(f.Kind == "" || r.Kind == f.Kind || f.Kind[len(f.Kind)-1] == '.' && len(r.Kind) > len(f.Kind) && r.Kind[:len(f.Kind)] == f.Kind) &&
		!r.At.Before(f.Since) &&
		(f.Record == "" || r.ID == f.Record || r.Seq >= 0 && fmt.Sprint(r.Seq) == f.Record)
}

// whole tells whether f chooses all records of a tenant.
func (f Filter) whole() bool {
	return f == Filter{Tenant: f.Tenant}
}

// Records gives each chosen record to fn, in the log's order. A leaf that
// doesn't decode is refusal.Tampered.
func Records(ctx context.Context, db *store.DB, f Filter, fn func(Record) error) error {
	return db.View(ctx, func(tx *store.Tx) error { return records(tx, f, fn) })
}

// Each is Records within a snapshot or transaction that is open already.
func Each(tx *store.Tx, f Filter, fn func(Record) error) error { return records(tx, f, fn) }

func records(tx *store.Tx, f Filter, fn func(Record) error) error {
	mark, err := mark(tx)
	if err != nil {
		return err
	}
	seqs := map[string]int64{}
	return scan(tx, func(chunk []raw) error {
		var chosen []Record
		for _, leaf := range chunk {
			l, err := decode(leaf.data)
			if err != nil || l.tenant != leaf.tenant {
				return fmt.Errorf("record %d of %s: %w; run `chaperone audit verify`", seqs[leaf.tenant], leaf.tenant, refusal.Tampered)
			}
			r := l.record(-1, leaf.data)
			if leaf.xid < mark {
				r.Seq = seqs[leaf.tenant]
				seqs[leaf.tenant]++
			}
			if f.matches(r) {
				chosen = append(chosen, r)
			}
		}
		return opened(tx, chosen, fn)
	})
}

// DecodeLeaf reads a leaf's canonical bytes, as proofs and exports hold them.
// Its place isn't in them, so Seq is -1, and sealed values count as erased.
// Whatever isn't a leaf to the byte is refusal.BadDocument.
func DecodeLeaf(data []byte) (Record, error) {
	l, err := decode(data)
	if err != nil {
		return Record{}, err
	}
	return l.record(-1, data), nil
}

// record answers the leaf as a Record without its values.
func (l leaf) record(seq int64, data []byte) Record {
	r := Record{
		Seq: seq, ID: l.id, At: time.UnixMilli(l.at).UTC(), Tenant: l.tenant, Kind: l.kind,
		Actor: l.actor, Subject: l.subject, Code: l.code, data: data,
	}
	if len(l.public) > 0 {
		r.Public = make(map[string]any, len(l.public))
		for _, f := range l.public {
			r.Public[f.name] = f.Value()
		}
	}
	for _, c := range l.sealed {
		r.Erased = append(r.Erased, c.name) // until it is opened
	}
	return r
}

// opened adds the values of records and gives them to fn.
func opened(tx *store.Tx, all []Record, fn func(Record) error) error {
	var ids []string
	for _, r := range all {
		if len(r.Erased) > 0 {
			ids = append(ids, r.ID)
		}
	}
	bodies, err := openings(tx, ids)
	if err != nil {
		return err
	}
	for _, r := range all {
		if body, there := bodies[r.ID]; there {
			values, err := decodeOpenings(body)
			if err != nil {
				return fmt.Errorf("values of record %s: %w; run `chaperone audit verify`", r.ID, refusal.Tampered)
			}
			r.open(values, body)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (r *Record) open(values map[string]opening, body string) {
	r.Values, r.opening = make(map[string]string, len(values)), body
	var left []string
	for _, name := range r.Erased {
		if o, there := values[name]; there {
			r.Values[name] = o.Value
		} else {
			left = append(left, name)
		}
	}
	r.Erased = left
}

// scan gives the log's leaves to fn in chunks, in their order.
func scan(tx *store.Tx, fn func([]raw) error) error {
	after := place{-1, -1}
	for {
		chunk, err := following(tx, after, chunkSize)
		if err != nil || len(chunk) == 0 {
			return err
		}
		if err := fn(chunk); err != nil {
			return err
		}
		after = chunk[len(chunk)-1].place
	}
}

const chunkSize = 2048

// openings reads the side table's rows of those ids.
func openings(tx *store.Tx, ids []string) (map[string]string, error) {
	const width = 64 // of one statement; a shorter one is filled up
	found := make(map[string]string, len(ids))
	for len(ids) > 0 {
		n := min(width, len(ids))
		args := make([]any, width)
		for i := range args {
			args[i] = ""
			if i < n {
				args[i] = ids[i]
			}
		}
		ids = ids[n:]
		if err := readOpenings(tx, found, args); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func readOpenings(tx *store.Tx, into map[string]string, args []any) error {
	query := bytes.NewBufferString("select id, body from audit_opening where id in (")
	for i := range args {
		if i > 0 {
			query.WriteByte(',')
		}
		fmt.Fprintf(query, "$%d", i+1)
	}
	query.WriteByte(')')
	rows, err := tx.Query(query.String(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, body string
		if err := rows.Scan(&id, &body); err != nil {
			return err
		}
		into[id] = body
	}
	return rows.Err()
}

// mark answers where the unsequenced leaves begin.
func mark(tx *store.Tx) (xid int64, err error) {
	err = tx.QueryRow("select xid from audit_mark where one=1").Scan(&xid)
	return xid, err
}

// Proof is a record's proof of inclusion in a tree.
type Proof struct {
	Size       int64    `json:"size"`
	Root       string   `json:"root"`      // base64
	Hash       string   `json:"leaf_hash"` // base64, SHA-256(0 ‖ leaf)
	Leaf       string   `json:"leaf"`      // canonical JSON
	Path       []string `json:"path"`      // base64, from the leaf up
	Checkpoint string   `json:"checkpoint,omitzero"`
}

// Prove proves that r is in its tenant's tree; the proof was checked.
func Prove(ctx context.Context, db *store.DB, r Record) (Proof, error) {
	if r.Seq < 0 {
		return Proof{}, fmt.Errorf("record %s isn't in the tree yet; try again in a second", r.ID)
	}
	var p Proof
	err := db.View(ctx, func(tx *store.Tx) error {
		all, err := heads(tx)
		if err != nil {
			return err
		}
		h := all[r.Tenant]
		path, err := tlog.ProveRecord(h.size, r.Seq, storedHashes(tx, r.Tenant))
		if err != nil {
			return err
		}
		hash := tlog.RecordHash(r.data)
		if err := tlog.CheckRecord(path, h.size, h.root, r.Seq, hash); err != nil {
			return fmt.Errorf("record %d of %s: %w: its proof doesn't hold", r.Seq, r.Tenant, refusal.Tampered)
		}
		p = Proof{Size: h.size, Root: h.root.String(), Hash: hash.String(), Leaf: string(r.data), Path: texts(path)}
		return nil
	})
	return p, err
}

// texts answers hashes in base64.
func texts(hashes []tlog.Hash) []string {
	out := make([]string, 0, len(hashes))
	for _, h := range hashes {
		out = append(out, h.String())
	}
	return out
}

// parseHashes is its inverse.
func parseHashes(texts []string) ([]tlog.Hash, error) {
	if len(texts) > 128 {
		return nil, fmt.Errorf("proof: %w", refusal.TooLarge)
	}
	var out []tlog.Hash
	for _, text := range texts {
		h, err := tlog.ParseHash(text)
		if err != nil {
			return nil, fmt.Errorf("proof: %w", refusal.BadDocument)
		}
		out = append(out, h)
	}
	return out, nil
}
