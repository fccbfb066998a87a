package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"chaperone/internal/portal/tool"
)

// checkLiterals holds every entity that a rule names to what can exist. A rule that
// names what nothing is called would never hold, and nobody would notice.
func (r *rule) checkLiterals() error {
	for _, uid := range r.literals() {
		if why := impossible(uid); why != "" {
			return r.fault(string(uid.ID), "%s", why)
		}
	}
	return r.checkNames()
}

// attributes that there are, by what they are of.
var (
	ofContext  = []string{"confirmation", "time", "tainted", "arguments"}
	ofEntities = []string{"tenant", "person", "route"}
)

// checkNames holds the names of attributes and types in the conditions to those
// that there are. The validator lets a name pass where it sees that the expression
// can't be reached, and asking whether an undeclared argument is there is such a
// place.
func (r *rule) checkNames() (err error) {
	for _, c := range r.ast().Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				err = r.checkAttribute(n.StrOpNode)
			case ast.NodeTypeHas:
				err = r.checkAttribute(n.StrOpNode)
			case ast.NodeTypeIs:
				err = r.checkType(n.EntityType)
			case ast.NodeTypeIsIn:
				err = r.checkType(n.EntityType)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rule) checkAttribute(n ast.StrOpNode) error {
	known, of := ofEntities, "who asks or what is asked for"
	switch on := n.Arg.(type) {
	case ast.NodeTypeVariable:
		if on.Name == "context" {
			known, of = ofContext, "context"
		}
	case ast.NodeTypeAccess:
		if on.Value == "arguments" {
			return r.checkDeclared(string(n.Value))
		}
	}
	if !slices.Contains(known, string(n.Value)) {
		return r.fault(string(n.Value), "unknown attribute of %s; known: %s", of, list(known))
	}
	return nil
}

func (r *rule) checkDeclared(name string) error {
	if !slices.ContainsFunc(r.arguments, func(a argument) bool { return a.name == name }) {
		return r.fault(name, "an argument that this rule doesn't declare; write @arguments(\"%.64s: TYPE\")", name)
	}
	return nil
}

func (r *rule) checkType(t cedar.EntityType) error {
	if !slices.Contains(types, string(t)) {
		return r.fault(string(t), "unknown type; known: %s", list(types))
	}
	return nil
}

// types that there are.
var types = []string{"Person", "Agent", "Role", kindTool, kindPageTool, "Origin", kindEngagement}

// literals lists the entities that the rule names, the head's first.
func (r *rule) literals() []cedar.EntityUID {
	p := r.ast()
	var all []cedar.EntityUID
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Action, p.Resource} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			all = append(all, s.Entity)
		case ast.ScopeTypeIn:
			all = append(all, s.Entity)
		case ast.ScopeTypeInSet:
			all = append(all, s.Entities...)
		case ast.ScopeTypeIsIn:
			all = append(all, s.Entity)
		}
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			if v, ok := n.(ast.NodeValue); ok {
				if uid, ok := v.Value.(cedar.EntityUID); ok {
					all = append(all, uid)
				}
			}
			return true
		})
	}
	return all
}

// impossible says why nothing can be called so, "" where something may be.
func impossible(uid cedar.EntityUID) string {
	id := string(uid.ID)
	switch uid.Type {
	case "Action":
		if id != mutate && Action(id).levels() == nil {
			return "no such action; there are observe, local-ui-mutation, account-mutation, launch, and mutate for both mutations"
		}
	case "Level":
		if Level(id) != None && Level(id) != VisibleClick && Level(id) != Passkey {
			return "no such level; there are none, visible_click and passkey"
		}
	case kindTool:
		if _, ok := tool.Lookup(id); !ok {
			return "no own tool is called so; one of another page is PageTool::\"ORIGIN#TOOL\""
		}
	case kindPageTool:
		origin, name, _ := strings.Cut(id, "#")
		if !isOrigin(origin) || !idPattern.MatchString(name) {
			return "a page's tool is PageTool::\"ORIGIN#TOOL\", as in \"https://shop.example#checkout\""
		}
	case "Origin":
		if !isOrigin(id) {
			return "an origin is https://HOST[:PORT] in lower case, as the browser writes it, without a path"
		}
	case kindEngagement:
		if !engagementPattern.MatchString(id) {
			return "an engagement's name is 1 to 128 letters, digits, _ or -"
		}
	case "Person", "Agent", "Role":
		if id == "" || strings.TrimSpace(id) != id || len(id) > 256 {
			return "a name is 1 to 256 bytes, without space around it"
		}
	default:
		return "unknown type; known: " + list(types)
	}
	return ""
}
