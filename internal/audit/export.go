package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// ExportFormat names the format: JSON lines, a header and then one record each.
const ExportFormat = "chaperone-audit-export-v1"

// maxLine bounds a line of an export.
const maxLine = 1 << 20

// exportHeader is the first line: the tree that the records are proved against,
// and what ties it to each checkpoint.
type exportHeader struct {
	Format      string             `json:"format"`
	Tenant      string             `json:"tenant"`
	Size        int64              `json:"size"`
	Root        string             `json:"root"`
	Whole       bool               `json:"whole"` // all records, in order: they make the tree
	Unsequenced int64              `json:"unsequenced"`
	Keys        []string           `json:"keys"`
	Checkpoints []exportCheckpoint `json:"checkpoints"`
}

type exportCheckpoint struct {
	Note  string   `json:"note"`
	Proof []string `json:"proof"` // of consistency with the header's tree
}

// exportRecord is every other line.
type exportRecord struct {
	Seq     int64    `json:"seq"`
	Leaf    string   `json:"leaf"`             // canonical JSON, the hashed bytes
	Opening string   `json:"opening,omitzero"` // salts and values, unless withheld or erased
	Proof   []string `json:"proof,omitempty"`  // of inclusion, unless the export is whole
}

// ExportOptions of Export.
type ExportOptions struct {
	VerifyOptions      // checkpoints and keys
	Filter             // which records; its Tenant is the export's
	WithoutValues bool // leaves sealed values out
}

// Export writes a tenant's chosen records with everything that proves them, for
// a verifier without the database (VerifyExport). It answers how many.
func Export(ctx context.Context, db *store.DB, opts ExportOptions, w io.Writer) (n int64, err error) {
	out := bufio.NewWriter(w)
	tenant := opts.Filter.Tenant
	h := exportHeader{Format: ExportFormat, Tenant: tenant, Whole: opts.Filter.whole(), Keys: []string{}, Checkpoints: []exportCheckpoint{}}
	// Before the snapshot, as in Verify.
	notes, err := readNotes(opts.CheckpointDir, tenant)
	if err != nil {
		return 0, err
	}
	if h.Keys, err = opts.keys(); err != nil {
		return 0, err
	}
	err = db.View(ctx, func(tx *store.Tx) error {
		n = 0
		all, err := heads(tx)
		if err != nil {
			return err
		}
		at := all[tenant]
		h.Size, h.Root = at.size, at.root.String()
		hashes := storedHashes(tx, tenant)
		if h.Checkpoints, err = bind(notes, h.Keys, at, hashes); err != nil {
			return err
		}
		if h.Unsequenced, err = unsequenced(tx, tenant); err != nil {
			return err
		}
		if err := writeLine(out, h); err != nil {
			return err
		}
		return records(tx, opts.Filter, func(r Record) error {
			if r.Seq < 0 {
				return nil
			}
			line := exportRecord{Seq: r.Seq, Leaf: string(r.data)}
			if !opts.WithoutValues {
				line.Opening = r.opening
			}
			if !h.Whole {
				path, err := tlog.ProveRecord(at.size, r.Seq, hashes)
				if err != nil {
					return err
				}
				line.Proof = texts(path)
			}
			n++
			return writeLine(out, line)
		})
	})
	return n, errors.Join(err, out.Flush())
}

// readNotes reads a tenant's checkpoint files as they are.
func readNotes(dir, tenant string) ([][]byte, error) {
	if dir == "" || !isWord(tenant) {
		return nil, nil
	}
	path := filepath.Join(dir, tenant)
	numbers, err := published(path)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, number := range numbers {
		data, err := os.ReadFile(filepath.Join(path, fileName(number)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// bind proves each checkpoint's tree to be a beginning of h's. One that isn't
// goes along without a proof, for the verifier to refuse.
func bind(notes [][]byte, keys []string, h head, hashes tlog.HashReader) ([]exportCheckpoint, error) {
	all := []exportCheckpoint{}
	for _, data := range notes {
		line := exportCheckpoint{Note: string(data), Proof: []string{}}
		c, err := ParseCheckpoint(data, keys...)
		if err == nil && c.Size > 0 && c.Size < h.size {
			proof, err := tlog.ProveTree(h.size, c.Size, hashes)
			if err != nil {
				return nil, err
			}
			line.Proof = texts(proof)
		}
		all = append(all, line)
	}
	return all, nil
}

// unsequenced counts a tenant's leaves that aren't in its tree yet.
func unsequenced(tx *store.Tx, tenant string) (n int64, err error) {
	xid, err := mark(tx)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow("select count(*) from audit_ordered where xid >= $1 and tenant = $2", xid, tenant).Scan(&n)
	return n, err
}

func writeLine(w *bufio.Writer, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// VerifyExport verifies an export without its database. keys are the public keys
// that the reader trusts; without any, those that the export names are used, and
// the report says that they prove nothing about who signed.
func VerifyExport(r io.Reader, keys ...string) (*Report, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	report := &Report{Tenants: []Tenant{}, Problems: []Problem{}, Notes: []string{}}
	var h exportHeader
	if err := readLine(in, &h); err != nil {
		return nil, fmt.Errorf("export: its header: %w", errors.Join(refusal.BadDocument, err))
	}
	root, err := tlog.ParseHash(h.Root)
	if err != nil || h.Format != ExportFormat || !isWord(h.Tenant) || h.Size < 0 || h.Size > maxSize {
		return nil, fmt.Errorf("export: not a header of %s: %w", ExportFormat, refusal.BadDocument)
	}
	e := &exported{report: report, header: h, root: root, t: Tenant{Tenant: h.Tenant, Root: h.Root, Unsequenced: h.Unsequenced, SameOwner: true}}
	if len(keys) == 0 {
		if keys = h.Keys; len(h.Checkpoints) > 0 {
			report.note("the keys are the export's own: they tie its parts together and don't tell who signed; name the key that you trust with --key")
		}
	}
	for _, key := range keys {
		if _, err := note.NewVerifier(key); err != nil {
			return nil, fmt.Errorf("export: a verifier key: %w", refusal.BadDocument)
		}
	}
	e.checkpoints(keys)
	for {
		var line exportRecord
		err := readLine(in, &line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("export: line %d: %w", e.t.Records+2, errors.Join(refusal.BadDocument, err))
		}
		e.record(line)
	}
	e.finish()
	return report, nil
}

// exported walks an export.
type exported struct {
	report   *Report
	header   exportHeader
	root     tlog.Hash
	t        Tenant
	built    tree
	last     int64
	withheld int64
}

// checkpoints holds each checkpoint to the header's tree.
func (e *exported) checkpoints(keys []string) {
	h := e.header
	for i, line := range h.Checkpoints {
		c, err := ParseCheckpoint([]byte(line.Note), keys...)
		if err != nil {
			e.report.problem(h.Tenant, -1, "checkpoint %d of the export: %v", i+1, err)
			continue
		}
		proof, err := parseHashes(line.Proof)
		switch {
		case err != nil || c.Tenant != h.Tenant || c.Size > h.Size || c.Size < 1:
			e.report.problem(h.Tenant, -1, "checkpoint %d isn't of this log", c.Number)
			continue
		case c.Size == h.Size:
			if c.Root != e.root {
				err = refusal.Tampered
			}
		default:
			err = tlog.CheckTree(proof, h.Size, e.root, c.Size, c.Root)
		}
		if err != nil {
			e.report.problem(h.Tenant, -1, "the export doesn't extend checkpoint %d", c.Number)
			continue
		}
		e.t.Checkpoints++
		e.t.Covered = max(e.t.Covered, c.Size)
	}
}

// record holds one record to the tree and to its commitments.
func (e *exported) record(line exportRecord) {
	if e.t.Records == 0 {
		e.built.full, e.last = func(tile) {}, -1
	}
	e.t.Records++
	hash := tlog.RecordHash([]byte(line.Leaf))
	l, err := decode([]byte(line.Leaf))
	if err != nil || l.tenant != e.header.Tenant {
		e.report.problem(e.header.Tenant, line.Seq, "its text is no leaf of this log")
		return
	}
	switch {
	case line.Seq <= e.last || line.Seq >= e.header.Size || e.header.Whole && line.Seq != e.last+1:
		e.report.problem(e.header.Tenant, line.Seq, "it is out of order, or records before it are missing")
	case e.header.Whole:
		e.built.append(hash, place{})
	default:
		proof, err := parseHashes(line.Proof)
		if err != nil || tlog.CheckRecord(proof, e.header.Size, e.root, line.Seq, hash) != nil {
			e.report.problem(e.header.Tenant, line.Seq, "its proof doesn't hold: altered, or not of this log")
		}
	}
	e.last = line.Seq
	switch values, err := decodeOpenings(line.Opening); {
	case line.Opening == "" && len(l.sealed) > 0:
		e.withheld++
	case line.Opening == "":
	case err != nil || !l.opens(values):
		e.report.problem(e.header.Tenant, line.Seq, "its sealed values aren't what it commits to")
	}
}

func (e *exported) finish() {
	switch {
	case e.header.Whole && (e.t.Records != e.header.Size || e.t.Records > 0 && e.built.root() != e.root):
		e.report.problem(e.header.Tenant, -1, "its records don't make the tree that it names: cut, altered or added to")
	case !e.header.Whole:
		e.report.note("%s: a selection: each record is proved to be in the log, and nothing tells which others were chosen away", e.t.Tenant)
	}
	if e.withheld > 0 {
		e.report.note("%s: sealed values of %d records are withheld or erased", e.t.Tenant, e.withheld)
	}
	e.t.SameOwner = false // a copy is out of the owner's reach
	e.report.Tenants = slices.Concat(e.report.Tenants, []Tenant{e.t})
	if e.header.Whole {
		e.report.limits(e.t)
	}
}

// readLine reads one line of an export; io.EOF where there is none.
func readLine(in *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return refusal.TooLarge
		case err == nil:
			if err := json.Unmarshal(line, v, json.RejectUnknownMembers(true)); err != nil {
				return errors.New("not a line of an export")
			}
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return io.ErrUnexpectedEOF // cut in the middle
		default:
			return err
		}
	}
}
