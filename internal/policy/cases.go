package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"chaperone/internal/canon"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

// MaxCases bounds a file of cases.
const MaxCases = 2000

// Case is one request with the answer that a person expects.
type Case struct {
	Name    string
	Line    int
	Expect  string   // deny, unavailable, allow (without confirmation), visible_click or passkey
	Rules   []string // that must decide, in the file's order; nil leaves it open
	request Request
}

// expectations that a case may have.
var expectations = []string{Deny, Failing, "allow", string(VisibleClick), string(Passkey)}

// written is a case as it stands in the file.
type written struct {
	Name       string         `yaml:"name"`
	Tenant     string         `yaml:"tenant"`
	Person     string         `yaml:"person"`
	Agent      string         `yaml:"agent"`
	Roles      []string       `yaml:"roles"`
	Action     string         `yaml:"action"`
	Tool       string         `yaml:"tool"`
	Page       string         `yaml:"page"`
	Origin     string         `yaml:"origin"`
	Route      string         `yaml:"route"`
	Engagement string         `yaml:"engagement"`
	Time       string         `yaml:"time"`
	Tainted    bool           `yaml:"tainted"`
	Arguments  map[string]any `yaml:"arguments"`
	Expect     string         `yaml:"expect"`
	Rules      []string       `yaml:"rules"`
}

// ParseCases reads `cases:` of a YAML file. Unknown and duplicate keys, and what no
// request can be, are an *Error with line and column.
func ParseCases(name string, data []byte) (all []Case, err error) {
	defer func() {
		if recover() != nil { // foreign code over a file
			all, err = nil, &Error{File: name, Msg: "not YAML"}
		}
	}()
	if len(data) > MaxFile {
		return nil, &Error{File: name, Msg: fmt.Sprintf("over %d bytes", MaxFile)}
	}
	if strings.Count(string(data), "[")+strings.Count(string(data), "{") > MaxFile/16 {
		return nil, &Error{File: name, Msg: "too many brackets"}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	items, err := caseNodes(name, file)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		c, err := newCase(name, i+1, item)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// caseNodes answers the list behind `cases:`, the file's one key.
func caseNodes(name string, file *ast.File) ([]ast.Node, error) {
	fail := func(n ast.Node, msg string) ([]ast.Node, error) { return nil, placed(name, n, "", msg) }
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && body != nil {
			return fail(doc.Body, "a second document")
		}
		body = doc.Body
	}
	var keys []*ast.MappingValueNode
	switch b := body.(type) {
	case *ast.MappingNode:
		keys = b.Values
	case *ast.MappingValueNode:
		keys = []*ast.MappingValueNode{b}
	default:
		return nil, &Error{File: name, Line: 1, Column: 1, Msg: "want `cases:` and a list"}
	}
	for _, k := range keys {
		if k.Key.String() != "cases" || len(keys) > 1 {
			return fail(k.Key, "the file's one key is `cases`")
		}
	}
	list, ok := keys[0].Value.(*ast.SequenceNode)
	switch {
	case !ok || len(list.Values) == 0:
		return fail(keys[0].Key, "want a list of cases")
	case len(list.Values) > MaxCases:
		return fail(keys[0].Key, fmt.Sprintf("over %d cases", MaxCases))
	}
	return list.Values, nil
}

// placed makes an error at a node.
func placed(name string, n ast.Node, rule, msg string) *Error {
	e := &Error{File: name, Rule: rule, Msg: msg}
	if t := n.GetToken(); t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// yamlError keeps the place and the first line of the foreign error.
func yamlError(name string, err error) *Error {
	e := &Error{File: name, Msg: "not YAML"}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		e.Msg = strings.SplitN(syntax.GetMessage(), "\n", 2)[0]
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = t.Position.Line, t.Position.Column
		}
	}
	return e
}

// newCase reads one case.
func newCase(file string, number int, node ast.Node) (Case, error) {
	var w written
	if err := yaml.NodeToValue(node, &w, yaml.Strict()); err != nil {
		return Case{}, yamlError(file, err)
	}
	if w.Name == "" {
		w.Name = fmt.Sprintf("case %d", number)
	}
	at := placed(file, first(node), w.Name, "")
	request, err := w.request()
	switch {
	case !slices.Contains(expectations, w.Expect):
		err = fmt.Errorf("expect is one of %s", list(expectations))
	case len(w.Rules) > MaxRules:
		err = errors.New("too many rules")
	}
	if err != nil {
		at.Msg = strings.TrimSuffix(strings.TrimSuffix(err.Error(), ": "+string(refusal.PolicyDenied)), ": "+string(refusal.BadDocument))
		return Case{}, at
	}
	return Case{w.Name, at.Line, w.Expect, w.Rules, request}, nil
}

// first is the node whose token stands at a mapping's beginning.
func first(n ast.Node) ast.Node {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return m.Key
	}
	return n
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// request makes the request that a case describes.
func (w written) request() (r Request, err error) {
	r.Action, r.Tainted = Action(w.Action), w.Tainted
	if r.Who, err = identity.New(identity.Claims{Tenant: or(w.Tenant, "local"), Actor: w.Person, Agent: w.Agent, Roles: w.Roles}); err != nil {
		return r, fmt.Errorf("person, agent, roles or tenant: %w", err)
	}
	if r.Resource, err = w.resource(); err != nil {
		return r, err
	}
	if w.Time != "" {
		if r.At, err = time.Parse(time.RFC3339, w.Time); err != nil {
			return r, errors.New("time is a date and time with zone, as in 2026-12-01T09:00:00Z")
		}
	}
	if w.Arguments != nil {
		if r.Arguments, err = canon.Marshal(w.Arguments); err != nil {
			return r, fmt.Errorf("arguments: %w", err)
		}
	}
	return r, r.known()
}

func (w written) resource() (Resource, error) {
	route := or(w.Route, "shell")
	switch {
	case w.Engagement != "" && (w.Tool != "" || w.Page != "" || w.Origin != "" || w.Route != ""):
		return Resource{}, errors.New("a case is about an engagement or about a tool")
	case w.Engagement != "":
		return Engagement(w.Engagement)
	case w.Page != "" && w.Origin != "":
		return Resource{}, errors.New("page is the origin of a page that isn't ours, origin that of one of ours")
	case w.Page != "":
		return PageTool(w.Tool, w.Page, route)
	}
	return OwnTool(w.Tool, or(w.Origin, "http://localhost:7080"), route)
}

// Run judges the case, and tells whether the answer is the expected one.
func (c Case) Run(s *Set) (d Decision, met bool) {
	d = s.Decide(c.request)
	got := d.word()
	if got == string(None) {
		got = "allow"
	}
	return d, got == c.Expect && (c.Rules == nil || slices.Equal(c.Rules, d.Rules))
}
