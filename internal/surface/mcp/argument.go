package mcp

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is a parameter's JSON type: the portable ones, that every client knows.
type kind int

const (
	text kind = iota
	integer
	boolean
	texts  // an array of strings, not empty
	object // any object; the action reads it
)

// word is the kind as schemas and errors write it.
func (k kind) word() string {
	return [...]string{"string", "integer", "boolean", "array", "object"}[k]
}

// param is one parameter of a tool.
type param struct {
	name     string
	kind     kind
	required bool
	about    string   // "" where the name says it
	enum     []string // of a text
	min, max int64    // of an integer, both ends included
}

// arguments are the checked arguments of a call, by name, as they stood.
type arguments map[string]jsontext.Value

// argumentError is a bad argument. It names parameters and types, never values.
type argumentError string

func (e argumentError) Error() string { return string(e) }

func badArgument(format string, args ...any) error {
	return argumentError(fmt.Sprintf(format, args...))
}

// parse checks a call's arguments against the tool's parameters. The message
// was read strictly before, so that keys are unique and strings are whole.
func (t *tool) parse(raw []byte) (arguments, error) {
	args := arguments{}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return args, t.complete(args)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, badArgument("arguments must be an object")
	}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return nil, badArgument("arguments must be an object")
		}
		name := key.String()
		p := t.param(name)
		if p == nil {
			return nil, badArgument("unknown argument; %s", t.known())
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, badArgument("%s can't be read", p.name)
		}
		if err := p.check(value); err != nil {
			return nil, err
		}
		args[p.name] = value.Clone()
	}
	return args, t.complete(args)
}

func (t *tool) param(name string) *param {
	for i := range t.params {
		if t.params[i].name == name {
			return &t.params[i]
		}
	}
	return nil
}

// known lists what a caller may send.
func (t *tool) known() string {
	if len(t.params) == 0 {
		return t.name + " takes none"
	}
	names := make([]string, len(t.params))
	for i, p := range t.params {
		names[i] = p.name
	}
	return t.name + " takes " + strings.Join(names, ", ")
}

func (t *tool) complete(args arguments) error {
	for _, p := range t.params {
		if p.required {
			if err := args.need(p.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// check is one value's type and range; nothing is coerced.
func (p *param) check(v jsontext.Value) error {
	switch k := v.Kind(); {
	case p.kind == text && k == '"':
		if len(p.enum) > 0 && !slices.Contains(p.enum, unquote(v)) {
			return badArgument("%s must be one of %s", p.name, strings.Join(p.enum, ", "))
		}
		return nil
	case p.kind == integer && k == '0':
		// ParseInt refuses 1.0 and 1e3: a number that isn't written as an integer
		// isn't one.
		n, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil:
			return badArgument("%s must be an integer", p.name)
		case n < p.min || n > p.max:
			return badArgument("%s must be from %d to %d", p.name, p.min, p.max)
		}
		return nil
	case p.kind == boolean && (k == 't' || k == 'f'):
		return nil
	case p.kind == texts && k == '[':
		return p.checkTexts(v)
	case p.kind == object && k == '{':
		return nil
	}
	if p.kind == integer {
		return badArgument("%s must be an integer", p.name)
	}
	return badArgument("%s must be a %s", p.name, strings.Replace(p.kind.word(), "array", "list of strings", 1))
}

func (p *param) checkTexts(v jsontext.Value) error {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	dec.ReadToken()
	n := 0
	for ; dec.PeekKind() != ']'; n++ {
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '"' {
			return badArgument("%s must be a list of strings", p.name)
		}
	}
	if n == 0 {
		return badArgument("%s must hold at least one string", p.name)
	}
	return nil
}

func unquote(v jsontext.Value) string {
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

func (a arguments) has(name string) bool { return a[name] != nil }

func (a arguments) need(name string) error {
	if !a.has(name) {
		return badArgument("%s is required", name)
	}
	return nil
}

// text is the argument's string, "" where it is absent or another type.
func (a arguments) text(name string) string { return unquote(a[name]) }

// integer is the argument's number, or otherwise.
func (a arguments) integer(name string, otherwise int) int {
	n, err := strconv.Atoi(string(a[name]))
	if err != nil {
		return otherwise
	}
	return n
}

// encode writes the arguments as an action's params, those of skip left out.
func (a arguments) encode(skip ...string) []byte {
	b := []byte{'{'}
	for name, v := range a {
		if slices.Contains(skip, name) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = append(b, v...)
	}
	return append(b, '}')
}

// schema writes the parameters as JSON Schema. Only type, enum, description and
// the bounds are used: some clients drop a tool whose schema has more.
func schema(params []param) []byte {
	b := []byte(`{"type":"object","properties":{`)
	var required []string
	for i, p := range params {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, p.name), `:{"type":`...)
		b = appendString(b, p.kind.word())
		if p.kind == texts {
			b = append(b, `,"items":{"type":"string"},"minItems":1`...)
		}
		if len(p.enum) > 0 {
			b = append(b, `,"enum":[`...)
			for j, e := range p.enum {
				if j > 0 {
					b = append(b, ',')
				}
				b = appendString(b, e)
			}
			b = append(b, ']')
		}
		if p.kind == integer {
			b = append(b, `,"minimum":`...)
			b = strconv.AppendInt(b, p.min, 10)
		}
		if p.about != "" {
			b = appendString(append(b, `,"description":`...), p.about)
		}
		b = append(b, '}')
		if p.required {
			required = append(required, p.name)
		}
	}
	b = append(b, '}')
	for i, name := range required {
		if i == 0 {
			b = append(b, `,"required":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	if len(required) > 0 {
		b = append(b, ']')
	}
	return append(b, `,"additionalProperties":false}`...)
}

// appendString quotes s for JSON without escaping < > &. Bytes that aren't UTF-8
// become U+FFFD: results of ours have none.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
