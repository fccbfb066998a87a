package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Check is a domain package's invariants, run by Verify in its own snapshot.
type Check func(tx *store.Tx) error

// VerifyOptions of Verify.
type VerifyOptions struct {
	Tenant        string   // "" means all
	CheckpointDir string   // "" means that there are none
	KeyFile       string   // whose public half may have signed checkpoints
	Keys          []string // more public keys, in the note package's text
	Checks        []Check
}

// Verify recomputes everything that db's log claims: each leaf from each of its
// fields, each commitment from its opening, the whole tree and every stored
// hash, each place, and for each checkpoint its signature and its root. It reads
// one snapshot and changes nothing. The error tells that it could not be done;
// what it found is the Report's.
func Verify(ctx context.Context, db *store.DB, opts VerifyOptions) (*Report, error) {
	r := &Report{Tenants: []Tenant{}, Problems: []Problem{}, Notes: []string{}}
	// Before the snapshot: one that is published meanwhile covers what the
	// snapshot doesn't have yet.
	seen, err := readCheckpoints(r, opts)
	if err != nil {
		return nil, err
	}
	err = db.View(ctx, func(tx *store.Tx) error {
		v := &verifier{report: r, tx: tx, opts: opts, logs: map[string]*log{}}
		for tenant, all := range seen {
			v.log(tenant).checkpoints = all
		}
		if err := v.load(); err != nil {
			return err
		}
		if err := v.scan(); err != nil {
			return err
		}
		if err := v.finish(sameOwner(db, opts.CheckpointDir)); err != nil {
			return err
		}
		return v.checks()
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// verifier walks one snapshot.
type verifier struct {
	report *Report
	tx     *store.Tx
	opts   VerifyOptions
	logs   map[string]*log
	mark   int64
	last   int64 // xid of the last leaf before the mark
	opened int64
}

// log is what is known of one tenant's.
type log struct {
	Tenant
	head        *head
	built       tree
	stored      map[[2]int64][sha256.Size]byte // digests of tiles not met yet
	odd         []tile                         // rebuilt, and not as stored
	checkpoints []Checkpoint                   // not passed yet, by size
	missing     map[string]int64               // leaf id to seq: sealed, without opening
	erased      map[string]bool                // leaf ids that erasures tell of
}

func (v *verifier) wants(tenant string) bool { return v.opts.Tenant == "" || v.opts.Tenant == tenant }

func (v *verifier) log(tenant string) *log {
	l := v.logs[tenant]
	if l == nil {
		l = &log{Tenant: Tenant{Tenant: tenant}, stored: map[[2]int64][sha256.Size]byte{}, missing: map[string]int64{}, erased: map[string]bool{}}
		l.built.full = l.compare
		v.logs[tenant] = l
	}
	return l
}

// load reads what the leaves are held to.
func (v *verifier) load() error {
	var err error
	if v.mark, err = mark(v.tx); err != nil {
		v.report.problem("", -1, "the mark of what is integrated can't be read: %v", err)
		if v.tx.Context().Err() != nil {
			return err
		}
	}
	all, err := heads(v.tx)
	if err != nil {
		if !errors.Is(err, refusal.Tampered) {
			return err
		}
		v.report.problem("", -1, "%v", err)
	}
	for tenant, h := range all {
		if v.wants(tenant) {
			v.log(tenant).head = &h
		}
	}
	rows, err := v.tx.Query("select tenant, level, n, hashes, places from audit_tile")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tenant string
		var t tile
		if err := rows.Scan(&tenant, &t.level, &t.n, &t.hashes, &t.places); err != nil {
			return err
		}
		if v.wants(tenant) {
			v.log(tenant).stored[[2]int64{t.level, t.n}] = t.digest()
		}
	}
	return rows.Err()
}

// digest stands for a tile's content while the leaves are walked.
func (t tile) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(t.hashes))))
	h.Write(t.hashes)
	h.Write(t.places)
	h.Sum(sum[:0])
	return sum
}

// judged is a leaf that was taken apart and hashed.
type judged struct {
	raw
	leaf leaf
	hash tlog.Hash
	err  error
	open bool // its opening is there
	bad  bool // and isn't what the leaf commits to
}

// scan walks all leaves. While one chunk is hashed, the next one is read.
func (v *verifier) scan() error {
	var before <-chan []judged
	err := scan(v.tx, func(chunk []raw) error {
		next := judge(chunk)
		if before != nil {
			if err := v.chunk(<-before); err != nil {
				<-next
				return err
			}
		}
		before = next
		return nil
	})
	if before == nil || err != nil {
		return err
	}
	return v.chunk(<-before)
}

// judge takes a chunk's leaves apart on another goroutine, which the receiver
// of its one answer waits for.
func judge(chunk []raw) <-chan []judged {
	answer := make(chan []judged, 1)
	go func() {
		all := make([]judged, len(chunk))
		for i, r := range chunk {
			all[i].raw, all[i].hash = r, tlog.RecordHash(r.data)
			all[i].leaf, all[i].err = decode(r.data)
		}
		answer <- all
	}()
	return answer
}

// chunk holds judged leaves to the tree, the openings and each other.
func (v *verifier) chunk(all []judged) error {
	var ids []string
	for _, j := range all {
		if len(j.leaf.sealed) > 0 && v.wants(j.tenant) {
			ids = append(ids, j.leaf.id)
		}
	}
	bodies, err := openings(v.tx, ids)
	if err != nil {
		return err
	}
	v.opened += int64(len(bodies))
	judgeOpenings(all, bodies)
	for _, j := range all {
		if j.xid < v.mark {
			v.last = j.xid
		}
		if v.wants(j.tenant) {
			v.leaf(v.log(j.tenant), j)
		}
	}
	return nil
}

// judgeOpenings holds each opening to its leaf, on two goroutines.
func judgeOpenings(all []judged, bodies map[string]string) {
	var both sync.WaitGroup
	for _, part := range [][]judged{all[:len(all)/2], all[len(all)/2:]} {
		both.Go(func() {
			for i := range part {
				body, there := bodies[part[i].leaf.id]
				if part[i].open = there; there {
					values, err := decodeOpenings(body)
					part[i].bad = err != nil || !part[i].leaf.opens(values)
				}
			}
		})
	}
	both.Wait()
}

// leaf adds one leaf to its log.
func (v *verifier) leaf(l *log, j judged) {
	seq := int64(-1)
	if j.xid < v.mark {
		seq = l.built.size
		l.built.append(j.hash, j.place)
		l.pass(v.report)
	} else {
		l.Unsequenced++
	}
	switch {
	case j.err != nil:
		v.report.problem(j.tenant, seq, "its text is no leaf")
		return
	case j.leaf.tenant != j.tenant:
		v.report.problem(j.tenant, seq, "it belongs to another tenant's log")
	}
	if j.leaf.kind == KindErased {
		l.erased[j.leaf.subject] = true
	}
	switch {
	case len(j.leaf.sealed) == 0:
	case !j.open:
		l.missing[j.leaf.id] = seq
	case j.bad:
		v.report.problem(j.tenant, seq, "its sealed values aren't what it commits to")
	}
}

// pass compares the checkpoints of the size that the log has just reached.
func (l *log) pass(r *Report) {
	for len(l.checkpoints) > 0 && l.checkpoints[0].Size == l.built.size {
		c := l.checkpoints[0]
		l.checkpoints = l.checkpoints[1:]
		if l.built.root() != c.Root {
			r.problem(l.Tenant.Tenant, -1, "its first %d records aren't those of checkpoint %d: altered, reordered, forked or rebuilt", c.Size, c.Number)
			continue
		}
		l.Checkpoints++
		l.Covered = c.Size
	}
}

// checks runs the domain packages' invariants in the same snapshot.
func (v *verifier) checks() error {
	for _, check := range v.opts.Checks {
		err := check(v.tx)
		switch {
		case err == nil:
		case v.tx.Context().Err() != nil:
			return err
		case errors.Is(err, refusal.OlderDatabase):
			v.report.note("an invariant was not checked: %v", err)
		default:
			v.report.problem("", -1, "an invariant doesn't hold: %v", err)
		}
	}
	return nil
}
