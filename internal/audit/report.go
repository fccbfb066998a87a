package audit

import (
	"fmt"
	"slices"

	"chaperone/internal/refusal"
)

// maxProblems bounds what a report lists; the rest is counted.
const maxProblems = 100

// Report is what a verification found.
type Report struct {
	Tenants  []Tenant  `json:"tenants"`
	Problems []Problem `json:"problems"`
	More     int       `json:"more_problems,omitzero"` // beyond the first hundred
	Notes    []string  `json:"notes"`                  // what was not, or can't be, verified
}

// Tenant is the part of one log.
type Tenant struct {
	Tenant      string `json:"tenant"`
	Records     int64  `json:"records"` // verified, in the tree
	Root        string `json:"root"`    // base64, recomputed
	Unsequenced int64  `json:"unsequenced"`
	Checkpoints int    `json:"checkpoints"` // whose signature and root hold
	Covered     int64  `json:"covered"`     // records under the last of them
	SameOwner   bool   `json:"same_owner_checkpoint"`
	Erased      int64  `json:"erased"` // records whose values were erased
}

// Problem is one thing that doesn't verify.
type Problem struct {
	Tenant string `json:"tenant,omitzero"`
	Seq    int64  `json:"seq"` // -1 where it is no record's
	What   string `json:"what"`
}

func (p Problem) String() string {
	switch {
	case p.Tenant == "":
		return p.What
	case p.Seq < 0:
		return p.Tenant + ": " + p.What
	}
	return fmt.Sprintf("%s: record %d: %s", p.Tenant, p.Seq, p.What)
}

// Err is refusal.Tampered where something doesn't verify, refusal.NothingVerified
// where there was nothing to verify, and nil where all is well.
func (r *Report) Err() error {
	if n := len(r.Problems) + r.More; n > 0 {
		return fmt.Errorf("%w: %d problems, the first: %s", refusal.Tampered, n, r.Problems[0])
	}
	if !slices.ContainsFunc(r.Tenants, func(t Tenant) bool { return t.Records > 0 }) {
		return fmt.Errorf("nothing verified: the log has no record in its tree: %w", refusal.NothingVerified)
	}
	return nil
}

func (r *Report) problem(tenant string, seq int64, format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{tenant, seq, fmt.Sprintf(format, args...)})
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// limits says what this verification can't detect in a log.
func (r *Report) limits(t Tenant) {
	if t.Unsequenced > 0 {
		r.note("%s: %d records are unsequenced: not in the tree yet, so nothing proves them", t.Tenant, t.Unsequenced)
	}
	switch {
	case t.Records == 0:
	case t.Checkpoints == 0:
		r.note("%s: no checkpoint: a log that its owner cut or rebuilt as a whole verifies all the same", t.Tenant)
	default:
		r.note("%s: checkpoints cover the first %d of %d records; records cut from the end after that can't be detected, nor can the removal of the newest checkpoints together with what they covered",
			t.Tenant, t.Covered, t.Records)
		if t.SameOwner {
			r.note("%s: same-owner checkpoint: who owns the database can rewrite the checkpoints too; keep copies elsewhere (chaperone audit export)", t.Tenant)
		}
	}
}
