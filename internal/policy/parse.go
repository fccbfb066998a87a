package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"chaperone/internal/canon"
)

//go:embed default.cedar
var defaultText []byte

// Default is the set that decides where the operator has no file
// (spec/attended-control.md, section 7).
func Default() *Set {
	s, err := Parse("default.cedar", defaultText)
	if err != nil {
		panic("policy: the default doesn't parse: " + err.Error())
	}
	return s
}

// DefaultText is the text of the default set.
func DefaultText() []byte { return slices.Clone(defaultText) }

// Set is a whole file of policies, parsed and validated. It never changes.
type Set struct {
	name    string
	rules   []*rule // in the file's order
	version string
}

// Version is the digest of the canonical set: rules by name, without positions,
// comments and layout, and in no order, since none decides.
func (s *Set) Version() string {
	if s == nil {
		return ""
	}
	return s.version
}

// Text prints the rules as a file without comments.
func (s *Set) Text() []byte {
	var out []byte
	for _, r := range s.rules {
		out = append(append(out, r.whole.MarshalCedar()...), "\n\n"...)
	}
	return out
}

// Rule is what a set tells of one of its rules.
type Rule struct {
	ID      string
	Permit  bool
	Level   Level // of @require_confirmation, "" without
	Line    int
	Column  int
	Actions []Action // that its head names
}

// Rules lists the rules in the file's order.
func (s *Set) Rules() []Rule {
	var all []Rule
	for _, r := range s.rules {
		all = append(all, Rule{r.id, r.permit, r.level, r.line, r.column, r.actions()})
	}
	return all
}

// Parse reads a policy file. What isn't Cedar, isn't in our schema, names what
// can't exist or carries an annotation that we don't know is an *Error with line
// and column: a misspelt requirement must not be a missing one.
func Parse(name string, data []byte) (*Set, error) {
	tokens, err := scan(name, data)
	if err != nil {
		return nil, err
	}
	list, err := parseCedar(name, data, tokens)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &Error{File: name, Line: 1, Column: 1, Msg: "no rule; a policy that is meant to deny everything says so in a forbid"}
	}
	if len(list) > MaxRules {
		return nil, &Error{File: name, Msg: fmt.Sprintf("over %d rules", MaxRules)}
	}
	s := &Set{name: name}
	seen := map[string]bool{}
	for i, p := range list {
		r, err := newRule(p, source{name, tokensOf(tokens, list, i)})
		if err != nil {
			return nil, err
		}
		if seen[r.id] {
			return nil, r.source.at("id", r.id, "a rule of that @id stands above")
		}
		seen[r.id] = true
		s.rules = append(s.rules, r)
	}
	return s, s.seal()
}

// parseCedar lets the foreign parser read data; a panic in it is a file that can't
// be read, not a broken process.
func parseCedar(name string, data []byte, tokens []token) (list cedar.PolicyList, err error) {
	defer func() {
		if recover() != nil {
			list, err = nil, &Error{File: name, Msg: "not a policy"}
		}
	}()
	if list, err = cedar.NewPolicyListFromBytes(name, data); err != nil {
		return nil, syntaxError(name, tokens, err)
	}
	return list, nil
}

var (
	syntaxPlace = regexp.MustCompile(`<input>:(\d+):(\d+)( "(?s:.*?)")?: (?s)(.*)$`)
	wanted      = regexp.MustCompile(`^exact got (?s:(.*)) want (\S+)$`)
)

// syntaxError turns the parser's message into ours. The parser tells the place
// after the word that it stumbled over.
func syntaxError(name string, tokens []token, err error) error {
	e := &Error{File: name, Msg: "not a policy"}
	m := syntaxPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return e
	}
	e.Line, _ = strconv.Atoi(m[1])
	e.Column, _ = strconv.Atoi(m[2])
	e.Msg += ": " + strings.ToValidUTF8(strings.SplitN(m[4], "\n", 2)[0], "\ufffd")
	w := wanted.FindStringSubmatch(m[4])
	if m[3] != "" && (w == nil || w[1] != "") {
		e.stumbled(tokens)
	}
	switch {
	case w != nil && w[1] == "":
		e.Msg = "not a policy: it ends where " + w[2] + " is wanted"
	case w != nil:
		e.Msg = fmt.Sprintf("not a policy: %s where %s is wanted", w[1], w[2])
	}
	return e
}

// stumbled moves e from the word after to the word itself.
func (e *Error) stumbled(tokens []token) {
	i := slices.IndexFunc(tokens, func(t token) bool { return t.line == e.Line && t.column == e.Column })
	if i < 0 {
		i = len(tokens) // the end
	}
	if i > 0 {
		e.Line, e.Column = tokens[i-1].line, tokens[i-1].column
	}
}

// tokensOf answers the tokens of the i-th policy.
func tokensOf(tokens []token, list cedar.PolicyList, i int) []token {
	from, to := list[i].Position().Offset, int(^uint(0)>>1)
	if i+1 < len(list) {
		to = list[i+1].Position().Offset
	}
	var mine []token
	for _, t := range tokens {
		if t.offset >= from && t.offset < to {
			mine = append(mine, t)
		}
	}
	return mine
}

// seal computes the version.
func (s *Set) seal() error {
	all := map[string]any{}
	for _, r := range s.rules {
		all[r.id] = canon.Text(r.canonical)
	}
	text, err := canon.Marshal(map[string]any{"language": "chaperone.policy.v1", "rules": all})
	if err != nil {
		return errors.Join(&Error{File: s.name, Msg: "has no canonical form"}, err)
	}
	s.version = canon.Digest(text)
	return nil
}
