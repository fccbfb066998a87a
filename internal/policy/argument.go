package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/go-json-experiment/json"

	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
)

// argument is one field that a rule reads from a call's arguments, and its type.
type argument struct{ name, kind string }

// kinds of argument. A field of another kind can't be read by a rule.
const (
	kindString  = "String"
	kindLong    = "Long"
	kindBool    = "Bool"
	kindStrings = "Set<String>"
	kindLongs   = "Set<Long>"
)

var (
	argumentKinds = []string{kindString, kindLong, kindBool, kindStrings, kindLongs}
	argumentName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

const maxArguments = 16

// parseArguments reads "amount: Long, currency: String".
func parseArguments(text string) ([]argument, error) {
	var all []argument
	for part := range strings.SplitSeq(text, ",") {
		name, kind, _ := strings.Cut(part, ":")
		a := argument{strings.TrimSpace(name), strings.TrimSpace(kind)}
		switch {
		case !argumentName.MatchString(a.name):
			return nil, errors.New(`want "NAME: TYPE, …"; a name is made of letters, digits and _`)
		case !slices.Contains(argumentKinds, a.kind):
			return nil, fmt.Errorf("%s: its type is one of %s", a.name, list(argumentKinds))
		case slices.ContainsFunc(all, func(b argument) bool { return a.name == b.name }):
			return nil, fmt.Errorf("%s stands twice", a.name)
		}
		all = append(all, a)
	}
	if len(all) > maxArguments {
		return nil, fmt.Errorf("over %d", maxArguments)
	}
	return all, nil
}

// checkArguments holds what is declared of an own tool to its input schema.
func (r *rule) checkArguments() error {
	eq, ok := r.ast().Resource.(ast.ScopeTypeEq)
	if !ok || eq.Entity.Type != kindTool {
		return nil
	}
	t, ok := tool.Lookup(string(eq.Entity.ID))
	if !ok {
		return nil // checkLiterals has told
	}
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(t.Input, &schema); err != nil {
		return r.fault(noteArguments, "the schema of %s can't be read", t.Name)
	}
	names := map[string]string{"string": kindString, "integer": kindLong, "boolean": kindBool}
	for _, a := range r.arguments {
		p, known := schema.Properties[a.name]
		switch want := names[p.Type]; {
		case !known:
			return r.fault(noteArguments, "@arguments: %s has no %s", t.Name, a.name)
		case want == "":
			return r.fault(noteArguments, "@arguments: %s of %s is of a type that no rule can read", a.name, t.Name)
		case want != a.kind:
			return r.fault(noteArguments, "@arguments: %s of %s is a %s", a.name, t.Name, want)
		}
	}
	return nil
}

// errArguments is the answer to arguments that are no object.
var errArguments = errors.New("the arguments are no JSON object of the closed subset")

// values is a call's arguments as rules read them.
type values map[string]cedar.Value

// readValues reads JSON arguments. A field that no kind can hold is there as a
// value of none: a rule that declares it fails, and so does the request.
func readValues(text []byte) (values, error) {
	if text == nil {
		return nil, nil
	}
	clean, err := canon.Canonicalize(text)
	if err != nil || len(clean) == 0 || clean[0] != '{' {
		return nil, errArguments
	}
	var fields map[string]jsonValue
	if err := json.Unmarshal(clean, &fields); err != nil {
		return nil, errArguments
	}
	all := values{}
	for name, field := range fields {
		all[name] = field.value()
	}
	return all, nil
}

// jsonValue is canonical JSON text of one field.
type jsonValue []byte

// UnmarshalJSON keeps the text.
func (v *jsonValue) UnmarshalJSON(text []byte) error {
	*v = bytes.Clone(text)
	return nil
}

// value answers the field in Cedar's terms, nil where no kind holds it: null, an
// object, and a list that isn't all text or all numbers.
func (v jsonValue) value() cedar.Value {
	var s string
	var n int64
	switch v[0] {
	case '"':
		if json.Unmarshal(v, &s) == nil {
			return cedar.String(s)
		}
	case 't', 'f':
		return cedar.Boolean(v[0] == 't')
	case '[':
		return v.set()
	default:
		if v[0] != 'n' && json.Unmarshal(v, &n) == nil {
			return cedar.Long(n)
		}
	}
	return nil
}

// set answers a list of texts, or of numbers, as a set.
func (v jsonValue) set() cedar.Value {
	var items []jsonValue
	if json.Unmarshal(v, &items) != nil {
		return nil
	}
	var out []cedar.Value
	for _, item := range items {
		if item[0] != items[0][0] && (item[0] == '"' || items[0][0] == '"') {
			return nil
		}
		one := item.value()
		switch one.(type) {
		case cedar.String, cedar.Long:
			out = append(out, one)
		default:
			return nil
		}
	}
	return cedar.NewSet(out...)
}

// record answers what a rule that declares these sees. A field that is there with
// another type is an error: the rule's author means another tool.
func (v values) record(declared []argument) (cedar.Record, error) {
	fields := cedar.RecordMap{}
	for _, a := range declared {
		value, there := v[a.name]
		if !there {
			continue
		}
		if !a.holds(value) {
			return cedar.Record{}, errors.New("an argument is of another type than the rule declares")
		}
		fields[cedar.String(a.name)] = value
	}
	return cedar.NewRecord(fields), nil
}

// holds tells whether value is of a's kind.
func (a argument) holds(value cedar.Value) bool {
	switch v := value.(type) {
	case cedar.String:
		return a.kind == kindString
	case cedar.Long:
		return a.kind == kindLong
	case cedar.Boolean:
		return a.kind == kindBool
	case cedar.Set:
		for item := range v.All() {
			if _, text := item.(cedar.String); text != (a.kind == kindStrings) {
				return false
			}
		}
		return a.kind == kindStrings || a.kind == kindLongs
	}
	return false
}
