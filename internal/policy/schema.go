package policy

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

//go:embed schema.cedarschema
var schemaText string

// SchemaText is the entity types and actions that policies are held to, in Cedar's
// schema language.
func SchemaText() string { return strings.Replace(schemaText, "{ARGUMENTS}", "{}", 1) }

// plain is the validator of rules that declare no arguments.
var plain = sync.OnceValue(func() *validate.Validator { return newValidator(nil) })

// newValidator makes the validator of rules that declare these arguments. Each is
// optional, so that a rule must ask whether it is there.
func newValidator(arguments []argument) *validate.Validator {
	var fields []string
	for _, a := range arguments {
		fields = append(fields, fmt.Sprintf("%q?: %s", a.name, a.kind))
	}
	var s schema.Schema
	err := s.UnmarshalCedar([]byte(strings.Replace(schemaText, "ARGUMENTS", strings.Join(fields, ", "), 1)))
	if err != nil {
		panic("policy: the schema doesn't parse: " + err.Error())
	}
	resolved, err := s.Resolve()
	if err != nil {
		panic("policy: the schema doesn't resolve: " + err.Error())
	}
	return validate.New(resolved, validate.WithStrict())
}

// checkSchema holds the rule to the schema, strictly: with it holds that a
// comparison of unlike types, an unknown attribute and one that may be absent are
// refused here and can't fail in evaluation.
func (r *rule) checkSchema() (err error) {
	defer func() {
		if recover() != nil {
			err = r.fault("", "can't be validated")
		}
	}()
	v := plain()
	if len(r.arguments) > 0 {
		v = newValidator(r.arguments)
	}
	if err := v.Policy("", r.ast()); err != nil {
		return r.schemaError(err)
	}
	return nil
}

var quoted = regexp.MustCompile("`([^`]*)`")

// schemaError tells the first fault of a rule, at the word that it is about. The
// validator finds several at once, in another order in each process: the one that
// stands first in the file is told, so that the same file always has the same fault.
func (r *rule) schemaError(err error) (first error) {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	for _, fault := range leaves(err) {
		e := r.placed(fault)
		var was *Error
		if !errors.As(first, &was) || e.before(was) {
			first = e
		}
	}
	return first
}

// leaves answers the single errors of a joined one.
func leaves(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// before orders faults by place, and those of one place by what they say. That no
// action is left is what other faults come to, and is told where it stands alone.
func (e *Error) before(other *Error) bool {
	rest := func(e *Error) int {
		if strings.HasPrefix(e.Msg, "unable to find an applicable action") {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rest(e), rest(other)), cmp.Compare(e.Line, other.Line), cmp.Compare(e.Column, other.Column), cmp.Compare(e.Msg, other.Msg)) < 0
}

// placed tells one fault at the word that it is about.
func (r *rule) placed(err error) *Error {
	msg := strings.SplitN(err.Error(), "\n", 2)[0]
	e := r.source.at("", r.id, msg)
	for _, m := range quoted.FindAllStringSubmatch(msg, -1) {
		word := m[1][strings.LastIndexAny(m[1], ".:")+1:]
		if found := r.source.at(strings.Trim(word, `"`), r.id, msg); found.Line != e.Line || found.Column != e.Column {
			return found
		}
	}
	return e
}
