package policy

import (
	"errors"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"chaperone/internal/refusal"
)

// Outlook is what can be said of a request before its arguments are known: at a
// lease's issue, and of a recorded one, whose arguments nobody kept.
type Outlook struct {
	// Depends tells that the arguments decide whether it is allowed, or by which
	// level; Decision is empty then.
	Depends bool
	Decision
}

// Possible judges a request whose arguments aren't known; r.Arguments isn't read.
// Where it neither depends nor allows, no arguments would be allowed.
func (s *Set) Possible(r Request) (o Outlook) {
	defer func() {
		if recover() != nil {
			o = Outlook{Decision: refused(s.Version(), refusal.PolicyUnavailable, nil)}
		}
	}()
	r.Arguments = nil
	if s == nil || len(s.rules) == 0 || r.known() != nil {
		return Outlook{Decision: s.Decide(r)}
	}
	f, err := newFacts(r)
	if err != nil {
		return Outlook{Decision: s.Decide(r)}
	}
	all := r.Action.levels()
	unsure := false
	judge := func(l Level) verdict {
		v := s.foresee(f, l)
		unsure = unsure || v.answer == open
		return v
	}
	d := s.lowest(all, judge)
	// A denial at the strongest level stands, whatever is open below it.
	if unsure && d.Code != refusal.PolicyUnavailable && (d.Allow || s.foresee(f, all[len(all)-1]).answer == open) {
		return Outlook{Depends: true}
	}
	return Outlook{Decision: d}
}

// foresee judges one level as judge does, with rules that may or may not match.
func (s *Set) foresee(f facts, level Level) verdict {
	var forbids, permits, failed []string
	var mayForbid, mayPermit bool
	need, most := None, None
	for _, r := range s.rules {
		sure, may, err := r.mayHold(f, level)
		switch {
		case err != nil:
			failed = append(failed, r.id)
		case !may:
		case !r.permit && sure:
			forbids = append(forbids, r.id)
		case !r.permit:
			mayForbid = true
		default:
			if sure {
				permits = append(permits, r.id)
				need = stricter(need, r.level)
			}
			mayPermit, most = true, stricter(most, r.level)
		}
	}
	switch {
	case failed != nil:
		return verdict{broken, failed}
	case forbids != nil:
		return verdict{no, forbids}
	case !mayPermit:
		return verdict{}
	case !level.AtLeast(need):
		return verdict{no, permits}
	case mayForbid || permits == nil || !level.AtLeast(most):
		return verdict{answer: open}
	}
	return verdict{yes, permits}
}

func stricter(a, b Level) Level {
	if b.AtLeast(a) {
		return b
	}
	return a
}

// mayHold tells whether r matches for some arguments, and whether for all.
func (r *rule) mayHold(f facts, level Level) (sure, may bool, err error) {
	if len(r.arguments) == 0 {
		sure, err = r.holds(f, level)
		return sure, sure, err
	}
	request := f.request
	request.Context = f.context(level, cedar.NewRecord(nil))
	if may, err = matches(r.head, f, request); !may || err != nil {
		return false, may, err
	}
	rest, keep := eval.PartialPolicy(eval.Env{
		Entities: f.entities, Principal: request.Principal, Action: request.Action, Resource: request.Resource,
		Context: f.context(level, eval.Variable("arguments")),
	}, r.ast())
	if !keep {
		return false, false, nil
	}
	if rest == nil {
		return false, false, errors.New("no rest of a rule that was kept")
	}
	return len(rest.Conditions) == 0, true, nil
}
