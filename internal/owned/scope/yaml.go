package scope

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

func readYAML(name string, data []byte) (n *node, err error) {
	// The YAML parser is foreign code over untrusted text: a panic in it is a
	// file that can't be read, not a broken process.
	defer func() {
		if recover() != nil {
			n, err = nil, &Error{File: name, Msg: "not YAML"}
		}
	}()
	if line, column := tooDeep(data); line > 0 {
		return nil, &Error{File: name, Line: line, Column: column, Msg: "nested too deep"}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			line, column := position(doc.Body)
			return nil, &Error{File: name, Line: line, Column: column, Msg: "a second document; one file is one scope"}
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Error{File: name, Line: 1, Column: 1, Msg: "empty; it needs at least `engagement: NAME` and what to allow"}
	}
	return yamlNode(name, body, 0)
}

// tooDeep finds where brackets or the dashes of one line nest deeper than any
// scope: the parser's time grows by the square of that, and its stack with it.
// Brackets inside of strings count too, so the bound is far above maxDepth.
func tooDeep(data []byte) (line, column int) {
	const bound = 16 * maxDepth
	brackets, leading := 0, 0
	line = 1
	for _, c := range data {
		column++
		switch c {
		case '\n':
			line, column, leading = line+1, 0, 0
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(0, brackets-1)
		case '-', '?':
			if leading >= 0 {
				leading++
			}
		case ' ':
		default:
			leading = -1 // no longer at the line's beginning
		}
		if brackets > bound || leading > bound {
			return line, column
		}
	}
	return 0, 0
}

// yamlError keeps the place and the first line of a syntax error.
func yamlError(name string, err error) error {
	e := &Error{File: name, Msg: "not YAML"}
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		e.Msg += ": " + strings.SplitN(syntax.GetMessage(), "\n", 2)[0]
		if token := syntax.GetToken(); token != nil && token.Position != nil {
			e.Line, e.Column = token.Position.Line, token.Position.Column
		}
	}
	return e
}

func position(n ast.Node) (line, column int) {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return 0, 0
}

// yamlNode takes the plain part of YAML. Anchors, aliases, merge keys and tags
// make a file say something else than a reviewer reads, so they are refused.
func yamlNode(name string, in ast.Node, depth int) (*node, error) {
	n := new(node)
	n.line, n.column = position(in)
	fail := func(msg string) (*node, error) {
		return nil, &Error{File: name, Line: n.line, Column: n.column, Msg: msg}
	}
	if depth > maxDepth {
		return fail("nested too deep")
	}
	switch in := in.(type) {
	case *ast.MappingNode:
		n.kind = aMap
		return n, yamlFields(name, n, in.Values, depth)
	case *ast.MappingValueNode:
		n.kind = aMap
		return n, yamlFields(name, n, []*ast.MappingValueNode{in}, depth)
	case *ast.SequenceNode:
		n.kind = aList
		for _, value := range in.Values {
			item, err := yamlNode(name, value, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case *ast.StringNode:
		n.kind, n.text = aString, in.Value
	case *ast.LiteralNode:
		n.kind, n.text = aString, in.Value.Value
	case *ast.IntegerNode:
		n.kind, n.text = aNumber, in.Token.Value
	case *ast.FloatNode:
		n.kind, n.text = aNumber, in.Token.Value
	case *ast.BoolNode:
		n.kind, n.text = aBool, fmt.Sprint(in.Value)
	case *ast.NullNode:
		n.kind = aNull
	default:
		return fail("anchors, aliases, merge keys, tags and directives aren't taken; write the value out")
	}
	return n, nil
}

func yamlFields(name string, n *node, values []*ast.MappingValueNode, depth int) error {
	for _, v := range values {
		f := field{}
		f.line, f.column = position(v.Key)
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return &Error{File: name, Line: f.line, Column: f.column, Msg: "a key must be a plain word"}
		}
		f.key = key.Value
		if n.field(f.key) != nil {
			return &Error{File: name, Line: f.line, Column: f.column, Key: f.key, Msg: "given twice"}
		}
		value, err := yamlNode(name, v.Value, depth+1)
		if err != nil {
			return err
		}
		f.value = value
		if len(n.fields) == 0 {
			n.line, n.column = f.line, f.column // a block mapping begins at its first key
		}
		n.fields = append(n.fields, f)
	}
	return nil
}
