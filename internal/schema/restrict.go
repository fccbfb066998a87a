package schema

import (
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"chaperone/internal/refusal"
)

// shape says what stands under a keyword.
type shape int

const (
	values  shape = iota // no schema
	one                  // a schema
	list                 // an array of schemas
	named                // an object of schemas
	refused              // nothing: the keyword isn't allowed
)

// keywords are those of 2020-12 that assert or apply. What isn't here is an
// annotation and is dropped.
var keywords = map[string]shape{
	"type": values, "enum": values, "const": values,
	"multipleOf": values, "maximum": values, "exclusiveMaximum": values, "minimum": values, "exclusiveMinimum": values,
	"maxLength": values, "minLength": values, "pattern": values,
	"maxItems": values, "minItems": values, "uniqueItems": values, "maxContains": values, "minContains": values,
	"maxProperties": values, "minProperties": values, "required": values, "dependentRequired": values,
	"$ref": values,

	"not": one, "if": one, "then": one, "else": one, "items": one, "contains": one, "propertyNames": one,
	"additionalProperties": one, "unevaluatedItems": one, "unevaluatedProperties": one,
	"allOf": list, "anyOf": list, "oneOf": list, "prefixItems": list,
	"$defs": named, "properties": named, "patternProperties": named, "dependentSchemas": named,

	"$id": refused, "$anchor": refused, "$dynamicRef": refused, "$dynamicAnchor": refused,
	"$recursiveRef": refused, "$recursiveAnchor": refused, "$vocabulary": refused,
}

const dialect = "https://json-schema.org/draft/2020-12/schema"

// node is one subschema as its cost is counted: its own, what stands in it, and
// the definition that it refers to ("" for none).
type node struct {
	own      int
	children []*node
	ref      string
	where    string
}

// restricter rewrites a schema and gathers what is counted.
type restricter struct {
	refs int
	defs map[string]*node
}

// restrict answers the schema in the closed dialect, or an *Error.
func restrict(root map[string]any) (map[string]any, error) {
	if s, ok := root["$schema"]; ok && s != dialect && s != dialect+"#" {
		return nil, &Error{refusal.BadDocument, "/$schema", "the one dialect is " + dialect}
	}
	r := &restricter{defs: map[string]*node{}}
	clean, n, err := r.object(root, "", 0)
	if err != nil {
		return nil, err
	}
	for _, def := range r.defs { // an unused definition is compiled as well
		n.children = append(n.children, def)
	}
	_, err = r.cost(n, map[*node]int{}, nil)
	return clean, err
}

// schema rewrites what stands where a schema is asked for.
func (r *restricter) schema(v any, at string, depth int) (any, *node, error) {
	switch v := v.(type) {
	case bool:
		return v, &node{own: 1, where: at}, nil
	case map[string]any:
		return r.object(v, at, depth)
	}
	return nil, nil, &Error{refusal.BadDocument, at, "a schema is an object, true or false"}
}

func (r *restricter) object(v map[string]any, at string, depth int) (map[string]any, *node, error) {
	if depth > MaxDepth {
		return nil, nil, &Error{refusal.TooDeep, at, fmt.Sprintf("nested over %d deep", MaxDepth)}
	}
	clean, n := map[string]any{}, &node{own: 1, where: at}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		kind, known := keywords[key]
		if !known {
			continue
		}
		value, err := r.keyword(n, kind, key, v[key], at+"/"+escape(key), depth)
		if err != nil {
			return nil, nil, err
		}
		clean[key] = value
	}
	return clean, n, nil
}

// keyword rewrites one keyword's value and adds its cost to n.
func (r *restricter) keyword(n *node, kind shape, key string, v any, at string, depth int) (any, error) {
	bad := func(why string) error { return &Error{refusal.BadDocument, at, why} }
	switch kind {
	case refused:
		return nil, bad("this keyword isn't allowed")
	case one:
		clean, child, err := r.schema(v, at, depth+1)
		n.children = append(n.children, child)
		return clean, err
	case list:
		items, ok := v.([]any)
		if !ok {
			return nil, bad("this keyword asks for an array of schemas")
		}
		clean := make([]any, len(items))
		for i, item := range items {
			c, child, err := r.schema(item, fmt.Sprint(at, "/", i), depth+1)
			if err != nil {
				return nil, err
			}
			clean[i], n.children = c, append(n.children, child)
		}
		return clean, nil
	case named:
		members, ok := v.(map[string]any)
		if !ok {
			return nil, bad("this keyword asks for an object of schemas")
		}
		return r.named(n, key, members, at, depth)
	}
	return v, r.values(n, key, v, bad)
}

func (r *restricter) named(n *node, key string, members map[string]any, at string, depth int) (any, error) {
	if key == "$defs" && depth > 0 {
		return nil, &Error{refusal.BadDocument, at, "definitions stand at the top only"}
	}
	clean := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		where := at + "/" + escape(name)
		if key == "patternProperties" {
			if err := pattern(n, name, where); err != nil {
				return nil, err
			}
		}
		c, child, err := r.schema(members[name], where, depth+1)
		if err != nil {
			return nil, err
		}
		clean[name] = c
		if key == "$defs" {
			r.defs[name] = child // costs where it is referred to
		} else {
			n.children = append(n.children, child)
		}
	}
	return clean, nil
}

// values counts the keywords that hold no schema but cost something.
func (r *restricter) values(n *node, key string, v any, bad func(string) error) error {
	switch key {
	case "$ref":
		text, _ := v.(string)
		name, ok := strings.CutPrefix(text, "#/$defs/")
		if !ok || name == "" || strings.ContainsAny(name, "/~%") {
			return bad("a reference is #/$defs/NAME, to a plain name in this schema")
		}
		if r.refs++; r.refs > MaxRefs {
			return &Error{refusal.TooLarge, n.where, fmt.Sprintf("over %d references", MaxRefs)}
		}
		n.ref = name
	case "enum":
		items, _ := v.([]any)
		n.own += len(items) / 16
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return bad("a pattern is a string")
		}
		return pattern(n, text, n.where+"/pattern")
	}
	return nil
}

// pattern refuses a regular expression that is long or that Go's engine, which
// never backtracks, doesn't know, and counts the size of its program: what each
// byte of a string can cost.
func pattern(n *node, text, at string) error {
	if len(text) > MaxPattern {
		return &Error{refusal.TooLarge, at, fmt.Sprintf("a pattern over %d bytes", MaxPattern)}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &Error{refusal.BadDocument, at, "a pattern that isn't RE2 (it has no lookaround and no backreference)"}
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return &Error{refusal.BadDocument, at, "a pattern that doesn't compile"}
	}
	if n.own += len(prog.Inst) / 4; n.own > MaxWork {
		return &Error{refusal.TooLarge, at, "it would cost too much to validate with"}
	}
	return nil
}

// cost adds up what one place of a value can cost: each subschema once for every
// way that leads to it. open holds the definitions on the way here.
func (r *restricter) cost(n *node, known map[*node]int, open []string) (int, error) {
	if c, ok := known[n]; ok {
		return c, nil
	}
	sum := n.own
	add := func(child *node, open []string) error {
		c, err := r.cost(child, known, open)
		if sum += c; err == nil && sum > MaxWork {
			err = &Error{refusal.TooLarge, n.where, "it would cost too much to validate with"}
		}
		return err
	}
	for _, child := range n.children {
		if err := add(child, open); err != nil {
			return 0, err
		}
	}
	if n.ref != "" {
		def := r.defs[n.ref]
		switch {
		case def == nil:
			return 0, &Error{refusal.BadDocument, n.where + "/$ref", "no such definition"}
		case slices.Contains(open, n.ref):
			return 0, &Error{refusal.BadDocument, n.where + "/$ref", "references in a circle"}
		}
		if err := add(def, append(slices.Clone(open), n.ref)); err != nil {
			return 0, err
		}
	}
	known[n] = sum
	return sum, nil
}
