package scope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a scope file. A person writes and reviews it; one that is
// larger isn't one.
const maxFile = 1 << 20

// maxDepth bounds nesting: a scope needs three levels, a roe.json a few more.
const maxDepth = 16

// kind is what a node of a document is.
type kind string

const (
	aMap    kind = "a mapping"
	aList   kind = "a list"
	aString kind = "a string"
	aNumber kind = "a number"
	aBool   kind = "true or false"
	aNull   kind = "nothing"
)

// node is one value of a YAML or JSON document, with its place. It holds text
// and no decoded values: what a word means is the reader's to say.
type node struct {
	kind         kind
	line, column int
	text         string // of a scalar
	items        []*node
	fields       []field
}

// field is one entry of a mapping.
type field struct {
	key          string
	line, column int
	value        *node
}

// document reads data as JSON where it is JSON, else as YAML. JSON goes its own
// way because YAML readers take neither tabs nor every escape of it.
func document(name string, data []byte) (*node, error) {
	whole := func(msg string) error { return &Error{File: name, Msg: msg} }
	if len(data) > maxFile {
		return nil, whole(fmt.Sprintf("larger than %d bytes", maxFile))
	}
	if strings.HasSuffix(name, ".json") || jsonish(data) {
		return readJSON(name, data)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, whole("holds a NUL byte; it must be UTF-8 text")
	}
	return readYAML(name, data)
}

// jsonish reports whether data is one JSON object.
func jsonish(data []byte) bool {
	v := jsontext.Value(bytes.TrimSpace(data))
	return len(v) > 0 && v[0] == '{' && v.IsValid(jsontext.AllowDuplicateNames(true))
}

func readJSON(name string, data []byte) (*node, error) {
	// Duplicate names are found below, where their place is known.
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	r := jsonReader{name, data, d}
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, r.fail(d.InputOffset(), "", "something follows the JSON value")
	}
	return n, nil
}

type jsonReader struct {
	name string
	data []byte
	d    *jsontext.Decoder
}

// place turns a byte offset into a line and a column in characters.
func (r jsonReader) place(offset int64) (line, column int) {
	before := r.data[:min(int(offset), len(r.data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, len([]rune(string(before[start:]))) + 1
}

func (r jsonReader) fail(offset int64, key, msg string) error {
	line, column := r.place(offset)
	return &Error{File: r.name, Line: line, Column: column, Key: key, Msg: msg}
}

// start is where the next token begins: the decoder stands behind the last one,
// before commas, colons and white space.
func (r jsonReader) start() int64 {
	at := int(r.d.InputOffset())
	for at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[at]) >= 0 {
		at++
	}
	return int64(at)
}

func (r jsonReader) value(depth int) (*node, error) {
	at := r.start()
	if depth > maxDepth {
		return nil, r.fail(at, "", "nested too deep")
	}
	token, err := r.d.ReadToken()
	if err != nil {
		return nil, r.fail(at, "", "not JSON: "+reason(err))
	}
	n := new(node)
	n.line, n.column = r.place(at)
	switch token.Kind() {
	case '{':
		n.kind = aMap
		err = r.object(n, depth)
	case '[':
		n.kind = aList
		err = r.list(n, depth)
	case '"':
		n.kind, n.text = aString, token.String()
	case '0':
		n.kind, n.text = aNumber, token.String()
	case 't', 'f':
		n.kind, n.text = aBool, token.String()
	default:
		n.kind = aNull
	}
	return n, err
}

func (r jsonReader) object(n *node, depth int) error {
	for r.d.PeekKind() == '"' {
		at := r.start()
		key, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if n.field(key.text) != nil {
			return r.fail(at, key.text, "given twice")
		}
		n.fields = append(n.fields, field{key.text, key.line, key.column, value})
	}
	return r.end()
}

func (r jsonReader) list(n *node, depth int) error {
	for k := r.d.PeekKind(); k != ']' && k > 0; k = r.d.PeekKind() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return r.end()
}

// end reads the closing bracket, or finds what stands in its place.
func (r jsonReader) end() error {
	at := r.start()
	if _, err := r.d.ReadToken(); err != nil {
		return r.fail(at, "", "not JSON: "+reason(err))
	}
	return nil
}

// reason is a decoder's error without its package's name and place.
func reason(err error) string {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && syntactic.Err != nil {
		return syntactic.Err.Error()
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

func readYAML(name string, data []byte) (n *node, err error) {
	// The YAML parser is foreign code over untrusted text: a panic in it is a
	// file that can't be read, not a broken process.
	defer func() {
		if recover() != nil {
			n, err = nil, &Error{File: name, Msg: "not YAML"}
		}
	}()
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

// field answers the value under key, nil where there is none.
func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}
