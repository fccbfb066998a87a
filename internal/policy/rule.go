package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"chaperone/internal/canon"
)

// rule is one policy of a set.
type rule struct {
	id           string
	permit       bool
	level        Level // "" without @require_confirmation
	arguments    []argument
	line, column int
	source       source
	head, whole  *cedar.Policy // without its conditions; with them
	canonical    []byte        // without position
}

// ast is the rule as the parser read it.
func (r *rule) ast() *ast.Policy { return (*ast.Policy)(r.whole.AST()) }

// source is the text of one rule, to tell places in it.
type source struct {
	file   string
	tokens []token
}

// at makes an error at the first token whose text is word, with or without quotes;
// else at the rule's beginning.
func (s source) at(word, rule, msg string) *Error {
	e := &Error{File: s.file, Rule: rule, Msg: msg}
	if len(s.tokens) > 0 {
		e.Line, e.Column = s.tokens[0].line, s.tokens[0].column
	}
	for _, t := range s.tokens {
		if word != "" && (t.text == word || t.text == `"`+word+`"`) {
			e.Line, e.Column = t.line, t.column
			return e
		}
	}
	return e
}

var ruleID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// annotations that a rule may have. Everything else is refused: an annotation that
// is misspelt would be one that silently isn't there.
const (
	noteID        = "id"
	noteConfirm   = "require_confirmation"
	noteArguments = "arguments"
	noteWhy       = "why"
)

// newRule checks one policy and compiles it.
func newRule(p *cedar.Policy, src source) (*rule, error) {
	notes := p.Annotations()
	r := &rule{id: string(notes[noteID]), permit: p.Effect() == cedar.Permit, source: src,
		line: p.Position().Line, column: p.Position().Column, whole: p}
	if _, named := notes[noteID]; !named {
		return nil, src.at("", "", `a rule needs a name: @id("…")`)
	}
	if !ruleID.MatchString(r.id) {
		return nil, src.at(noteID, "", "an @id is made of a-z, 0-9, dot, - and _, at most 64, and begins with a letter or digit")
	}
	for name, value := range notes {
		if err := r.annotate(string(name), string(value)); err != nil {
			return nil, err
		}
	}
	if err := r.compile(); err != nil {
		return nil, err
	}
	for _, check := range []func() error{r.checkLiterals, r.checkSchema, r.checkLevel, r.checkArguments} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *rule) fault(word, format string, values ...any) error {
	return r.source.at(word, r.id, fmt.Sprintf(format, values...))
}

// annotate takes one annotation in.
func (r *rule) annotate(name, value string) (err error) {
	switch name {
	case noteID, noteWhy:
	case noteConfirm:
		if r.level = Level(value); r.level != VisibleClick && r.level != Passkey {
			return r.fault(value, "@require_confirmation takes visible_click or passkey")
		}
		if !r.permit {
			return r.fault(noteConfirm, `a forbid takes no @require_confirmation; write unless { context.confirmation == Level::"passkey" }`)
		}
	case noteArguments:
		if r.arguments, err = parseArguments(value); err != nil {
			return r.fault(noteArguments, "@arguments: %v", err)
		}
	default:
		return r.fault(name, "unknown annotation @%s; known: id, require_confirmation, arguments, why", name)
	}
	return nil
}

// compile makes the head, and the canonical form.
func (r *rule) compile() error {
	head := *r.whole.AST()
	head.Conditions = nil
	r.head = cedar.NewPolicyFromAST(&head)
	text, err := r.whole.MarshalJSON()
	if err == nil {
		r.canonical, err = canon.Canonicalize(text)
	}
	if err != nil {
		return r.fault("", "a number beyond 2^53-1, or text without canonical form")
	}
	return nil
}

// actions answers those that the head names.
func (r *rule) actions() []Action {
	var all []Action
	for _, a := range Actions() {
		if inActionScope(r.ast().Action, a) {
			all = append(all, a)
		}
	}
	return all
}

// inActionScope tells whether a head's action is a, or a group of it.
func inActionScope(scope ast.IsActionScopeNode, a Action) bool {
	is := func(uid cedar.EntityUID) bool {
		return string(uid.ID) == string(a) || uid.ID == mutate && (a == LocalUIMutation || a == AccountMutation)
	}
	switch s := scope.(type) {
	case ast.ScopeTypeAll:
		return true
	case ast.ScopeTypeEq:
		return string(s.Entity.ID) == string(a)
	case ast.ScopeTypeIn:
		return is(s.Entity)
	case ast.ScopeTypeInSet:
		return slices.ContainsFunc(s.Entities, is)
	}
	return false
}

// mutate is the group of both mutations.
const mutate = "mutate"

// checkLevel refuses a confirmation where none is ever asked for: a reader would
// take it for a protection.
func (r *rule) checkLevel() error {
	if r.level != "" && slices.Contains(r.actions(), Observe) {
		return r.fault(noteConfirm, "observe is never confirmed; name the other actions in this rule's head")
	}
	return nil
}

// list makes "a, b and c" of words.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
