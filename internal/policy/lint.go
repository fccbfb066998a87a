package policy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// Warning is a rule that does nothing, or not what it looks like. A file with
// warnings is still a policy, and means what it says.
type Warning struct {
	Line, Column int
	Rule, Msg    string
}

// Lint answers the warnings, in the file's order. It finds what is cheap to find:
// conditions that can't hold, heads that another rule without conditions covers,
// copies, and a forbid that an agent gets around.
func (s *Set) Lint() []Warning {
	var all []Warning
	warn := func(r *rule, format string, values ...any) {
		all = append(all, Warning{r.line, r.column, r.id, fmt.Sprintf(format, values...)})
	}
	for i, r := range s.rules {
		if !r.canMatch() {
			warn(r, "can never match")
			continue
		}
		if p, ok := r.ast().Principal.(ast.ScopeTypeEq); ok && !r.permit && p.Entity.Type == "Person" {
			warn(r, "forbids the person and not an agent that acts for them; write principal in %s", p.Entity)
		}
		if msg := s.idle(i); msg != "" {
			warn(r, "%s", msg)
		}
	}
	return all
}

// idle says why the i-th rule decides nothing, a forbid's word before a permit's.
func (s *Set) idle(i int) (why string) {
	for j, other := range s.rules {
		if i == j || !other.canMatch() {
			continue
		}
		msg := s.rules[i].idleBeside(other, i < j)
		if msg != "" && (why == "" || !other.permit) {
			why = msg
		}
	}
	return why
}

// idleBeside says why r decides nothing where other stands, "" where it may. Of two
// that cover each other the first is kept.
func (r *rule) idleBeside(other *rule, first bool) string {
	covered := len(other.ast().Conditions) == 0 && other.covers(r)
	mutual := covered && len(r.ast().Conditions) == 0 && r.covers(other)
	same := r.permit == other.permit && bytes.Equal(r.body(), other.body())
	weaker := stricter(other.levelOrNone(), r.levelOrNone()) == other.levelOrNone()
	switch {
	case covered && r.permit && !other.permit:
		return fmt.Sprintf("can never allow anything: %s forbids all of it", other.id)
	case first && (mutual || same):
		return ""
	case same && (!r.permit || weaker):
		return fmt.Sprintf("says what %s says", other.id)
	case covered && !r.permit && !other.permit:
		return fmt.Sprintf("adds nothing: %s forbids all of it already", other.id)
	case covered && r.permit && other.permit && weaker:
		return fmt.Sprintf("adds nothing: %s permits all of it already", other.id)
	}
	return ""
}

func (r *rule) levelOrNone() Level {
	if r.level == "" {
		return None
	}
	return r.level
}

// body is the rule without its annotations.
func (r *rule) body() []byte {
	p := *r.whole.AST()
	p.Annotations = nil
	text, err := cedar.NewPolicyFromAST(&p).MarshalJSON()
	if err != nil {
		return []byte(r.id)
	}
	return text
}

// canMatch tells whether the conditions could hold for anybody, anything and any
// time, at a level at which the rule would count.
func (r *rule) canMatch() bool {
	for _, a := range r.actions() {
		for _, l := range a.levels() {
			if l.AtLeast(r.levelOrNone()) && r.canHold(a, l) {
				return true
			}
		}
	}
	return false
}

func (r *rule) canHold(a Action, l Level) bool {
	context := cedar.NewRecord(cedar.RecordMap{
		"confirmation": uid("Level", string(l)), "time": eval.Variable("time"),
		"tainted": eval.Variable("tainted"), "arguments": eval.Variable("arguments"),
	})
	f := facts{entities: cedar.EntityMap{}}
	_, keep := eval.PartialPolicy(eval.Env{Entities: f.entities, Principal: eval.Variable("principal"), Action: f.action(a),
		Resource: eval.Variable("resource"), Context: context}, r.ast())
	return keep
}

// covers tells whether r's head holds wherever other's does.
func (r *rule) covers(other *rule) bool {
	mine, theirs := r.ast(), other.ast()
	for _, a := range other.actions() {
		if !slices.Contains(r.actions(), a) {
			return false
		}
	}
	return scopeCovers(mine.Principal, theirs.Principal) && scopeCovers(mine.Resource, theirs.Resource)
}

// scopeCovers tells whether scope a surely holds wherever b does.
func scopeCovers(a, b ast.IsScopeNode) bool {
	var kind cedar.EntityType // what b says of the type
	var within *cedar.EntityUID
	switch b := b.(type) {
	case ast.ScopeTypeEq:
		kind, within = b.Entity.Type, &b.Entity
	case ast.ScopeTypeIn:
		within = &b.Entity
	case ast.ScopeTypeIs:
		kind = b.Type
	case ast.ScopeTypeIsIn:
		kind, within = b.Type, &b.Entity
	}
	switch a := a.(type) {
	case ast.ScopeTypeAll:
		return true
	case ast.ScopeTypeEq:
		eq, ok := b.(ast.ScopeTypeEq)
		return ok && eq.Entity == a.Entity
	case ast.ScopeTypeIn:
		return within != nil && *within == a.Entity
	case ast.ScopeTypeIs:
		return kind == a.Type
	case ast.ScopeTypeIsIn:
		return kind == a.Type && within != nil && *within == a.Entity
	}
	return false
}
