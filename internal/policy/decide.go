package policy

import (
	"errors"

	"github.com/cedar-policy/cedar-go"

	"chaperone/internal/refusal"
)

// Decide judges a request. It answers for every request: what can't be judged is
// policy_unavailable, what can't exist policy_denied. It takes microseconds and has
// no effect, so a caller judges as often as it likes; what counts is the receipt.
func (s *Set) Decide(r Request) (d Decision) {
	defer func() {
		if recover() != nil {
			d = refused(s.Version(), refusal.PolicyUnavailable, nil)
		}
	}()
	if s == nil || len(s.rules) == 0 {
		return refused("", refusal.PolicyUnavailable, nil)
	}
	f, err := newFacts(r)
	if err != nil {
		code := refusal.PolicyUnavailable
		if errors.Is(err, refusal.PolicyDenied) {
			code = refusal.PolicyDenied
		}
		return refused(s.version, code, nil)
	}
	return s.lowest(r.Action.levels(), func(l Level) verdict { return s.judge(f, l) })
}

// verdict is what one level would be answered.
type verdict struct {
	answer answer
	rules  []string
}

type answer int

const (
	no     answer = iota // a forbid, or no permit
	yes                  // permitted at this level
	broken               // a rule failed
	open                 // depends on arguments that aren't known
)

// lowest answers the lowest level from which on everything is allowed.
func (s *Set) lowest(all []Level, judge func(Level) verdict) Decision {
	d := refused(s.version, refusal.PolicyDenied, nil)
	top := len(all) - 1
	for i := top; i >= 0; i-- {
		switch v := judge(all[i]); {
		case v.answer == broken:
			return refused(s.version, refusal.PolicyUnavailable, v.rules)
		case v.answer == yes && (i == top || d.Allow && d.Level == all[i+1]):
			d = Decision{Allow: true, Level: all[i], PolicyVersion: s.version, Rules: v.rules}
		case i == top:
			d.Rules = v.rules
		}
	}
	return d
}

// judge answers one level. Every rule is evaluated, whatever the others say: one
// that fails makes the whole judgement fail, since a forbid that can't be read must
// not be one that isn't there.
func (s *Set) judge(f facts, level Level) verdict {
	var forbids, permits, failed []string
	need := None
	for _, r := range s.rules {
		holds, err := r.holds(f, level)
		switch {
		case err != nil:
			failed = append(failed, r.id)
		case holds && r.permit:
			permits = append(permits, r.id)
			if r.level.AtLeast(need) {
				need = r.level
			}
		case holds:
			forbids = append(forbids, r.id)
		}
	}
	switch {
	case failed != nil:
		return verdict{broken, failed}
	case forbids != nil:
		return verdict{no, forbids}
	case permits != nil && level.AtLeast(need):
		return verdict{yes, permits}
	case permits != nil:
		return verdict{no, permits}
	}
	return verdict{}
}

var errEvaluation = errors.New("the rule failed in evaluation")

// holds tells whether r matches. Its head is asked first: what it declares of the
// arguments need not be so of other tools'.
func (r *rule) holds(f facts, level Level) (bool, error) {
	request := f.request
	request.Context = f.context(level, cedar.NewRecord(nil))
	if ok, err := matches(r.head, f, request); !ok || err != nil {
		return false, err
	}
	arguments, err := f.arguments.record(r.arguments)
	if err != nil {
		return false, err
	}
	request.Context = f.context(level, arguments)
	return matches(r.whole, f, request)
}

// matches evaluates one policy by itself.
func matches(p *cedar.Policy, f facts, request cedar.Request) (bool, error) {
	one := cedar.NewPolicySet()
	one.Add("rule", p)
	_, diagnostic := cedar.Authorize(one, f.entities, request)
	if len(diagnostic.Errors) > 0 {
		return false, errEvaluation
	}
	return len(diagnostic.Reasons) > 0, nil
}
