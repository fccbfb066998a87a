package scope

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonish reports whether data is one JSON object.
func jsonish(data []byte) bool {
	v := jsontext.Value(bytes.TrimSpace(data))
	return len(v) > 0 && v[0] == '{' && v.IsValid(jsontext.AllowDuplicateNames(true))
}

func readJSON(name string, data []byte) (*node, error) {
	// Duplicate names are found below, where their place is known.
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	r := &jsonReader{name: name, data: data, d: d}
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
	last struct{ offset, line, column int } // what place counted up to, from 0
}

// place turns a byte offset into a line and a column in characters. Offsets rise,
// so it counts on from the last one.
func (r *jsonReader) place(offset int64) (line, column int) {
	to := min(int(offset), len(r.data))
	if to < r.last.offset {
		r.last.offset, r.last.line, r.last.column = 0, 0, 0
	}
	for _, c := range string(r.data[r.last.offset:to]) {
		r.last.column++
		if c == '\n' {
			r.last.line, r.last.column = r.last.line+1, 0
		}
	}
	r.last.offset = to
	return r.last.line + 1, r.last.column + 1
}

func (r *jsonReader) fail(offset int64, key, msg string) error {
	line, column := r.place(offset)
	return &Error{File: r.name, Line: line, Column: column, Key: key, Msg: msg}
}

// start is where the next token begins: the decoder stands behind the last one,
// before commas, colons and white space.
func (r *jsonReader) start() int64 {
	at := int(r.d.InputOffset())
	for at < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[at]) >= 0 {
		at++
	}
	return int64(at)
}

func (r *jsonReader) value(depth int) (*node, error) {
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

func (r *jsonReader) object(n *node, depth int) error {
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

func (r *jsonReader) list(n *node, depth int) error {
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
func (r *jsonReader) end() error {
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
