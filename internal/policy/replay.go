package policy

import (
	"context"
	"time"

	"chaperone/internal/store"
)

// Replayed is a recorded decision that another set would decide otherwise, or that
// can't be decided again.
type Replayed struct {
	Receipt  string
	Decided  time.Time
	Action   Action
	Kind     string // Tool, PageTool or Engagement
	Resource string
	Was      string // deny, or the level: none, visible_click, passkey
	Would    string // the same, or depends, unavailable, unreadable
	WasRules []string
	Rules    []string // that would decide; empty where none would match
}

// What a replayed decision would be, beside deny and the levels.
const (
	Deny       = "deny"
	Depends    = "depends"     // on arguments, which nobody kept
	Failing    = "unavailable" // a rule fails in evaluation
	Unreadable = "unreadable"  // the facts don't open under this home's key
)

// Summary counts a replay.
type Summary struct {
	PolicyVersion string
	Recorded      int
	Same          int
	Stricter      int // denied, or at a stronger level than before
	Looser        int // allowed, or at a weaker level
	Depends       int
	Failing       int
	Unreadable    int
}

// Replay judges every recorded decision since then by set, at its own time, and
// tells fn of those that would be another. Nothing is written.
func (b *Book) Replay(ctx context.Context, set *Set, since time.Time, fn func(Replayed) error) (s Summary, err error) {
	s.PolicyVersion = set.Version()
	query := `select ` + receiptColumns + ` from policy_receipt where tenant=$1 and decided_ms>=$2 order by decided_ms, receipt`
	err = b.db.View(ctx, func(tx *tx) error {
		return tx.Each(query, []any{b.tenant, max(0, since.UnixMilli())}, func(rows store.Scanner) error {
			r, sealed, err := scanReceipt(rows)
			if err != nil {
				return err
			}
			if again := b.again(set, r, sealed); s.count(again) {
				return fn(again)
			}
			return nil
		})
	})
	return s, err
}

// again judges one recorded decision.
func (b *Book) again(set *Set, r Receipt, sealed string) Replayed {
	again := Replayed{Receipt: r.ID, Decided: r.Decided, Action: r.Action, Kind: r.Kind, Resource: r.Resource,
		Was: r.Decision.word(), WasRules: r.Decision.Rules}
	request, err := b.openFacts(r.ID, sealed)
	if err != nil {
		again.Would = Unreadable
		return again
	}
	o := set.Possible(request)
	again.Would, again.Rules = o.word(), o.Rules
	if o.Depends {
		again.Would = Depends
	}
	return again
}

// word is a decision in one.
func (d Decision) word() string {
	switch {
	case d.Allow:
		return string(d.Level)
	case d.Code == "policy_unavailable":
		return Failing
	}
	return Deny
}

// count takes one in, and tells whether it is worth telling.
func (s *Summary) count(r Replayed) bool {
	s.Recorded++
	was, would := Level(r.Was), Level(r.Would)
	switch {
	case r.Would == Unreadable:
		s.Unreadable++
	case r.Would == Failing:
		s.Failing++
	case r.Would == Depends:
		s.Depends++
	case r.Was == r.Would:
		s.Same++
		return false
	case r.Would == Deny, r.Was != Deny && would.AtLeast(was):
		s.Stricter++
	default:
		s.Looser++
	}
	return true
}
