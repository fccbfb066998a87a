package ownedv1

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// names says what becomes of a name that isn't among the members.
type names bool

const (
	strict  names = false // refused
	lenient names = true  // skipped; only an action's own params are read so
)

// fault is what the decoder found, before a caller gives it a status.
type fault struct{ field, why string }

func (f *fault) Error() string { return f.field + " " + f.why }

// member is one name of an object: how to read its value, and whether its
// absence is a fault.
type member struct {
	name     string
	read     func(jsontext.Value) (why string)
	optional bool
}

// or makes m optional: the variable keeps the default that it has now.
func (m member) or() member { m.optional = true; return m }

// decode reads one JSON object and nothing after it. The jsontext decoder
// refuses duplicate names (at any depth, after unescaping) and invalid UTF-8;
// names are compared exactly, which struct decoding by encoding/json is not.
func decode(data []byte, unknown names, members ...member) error {
	if len(data) > MaxMessage {
		return &fault{"", "is over 8 MiB"}
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if d.PeekKind() != '{' {
		return &fault{"", "isn't a JSON object"}
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed
	}
	seen := 0
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return malformed
		}
		i := slices.IndexFunc(members, func(m member) bool { return m.name == name.String() })
		if i < 0 && unknown == strict {
			return &fault{"", "has an unknown field"} // its name is the sender's text: not repeated
		}
		value, err := d.ReadValue()
		if err != nil {
			return malformed
		}
		if i < 0 {
			continue
		}
		if why := members[i].read(value); why != "" {
			return &fault{members[i].name, why}
		}
		members[i].optional = true
		seen++
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return malformed
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return &fault{"", "has data after its JSON object"}
	}
	for _, m := range members {
		if !m.optional {
			return &fault{m.name, "is missing"}
		}
	}
	return nil
}

var malformed = &fault{"", "isn't strict JSON"}

// str reads a string that valid accepts (nil: any).
func str(name string, into *string, valid func(string) bool) member {
	return member{name: name, read: func(v jsontext.Value) string {
		if v.Kind() != '"' {
			return "isn't a string"
		}
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return "isn't a string"
		}
		if valid != nil && !valid(string(text)) {
			return "hasn't the form that the protocol asks for"
		}
		*into = string(text)
		return ""
	}}
}

// integer reads an integer written as one: no fraction, exponent or -0, which
// other languages read as something else.
func integer(name string, into *int64, least, most int64) member {
	return member{name: name, read: func(v jsontext.Value) string {
		if v.Kind() != '0' || bytes.ContainsAny(v, ".eE") || string(v) == "-0" {
			return "isn't an integer"
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < least || n > most {
			return "is out of range"
		}
		*into = n
		return ""
	}}
}

// boolean reads true or false.
func boolean(name string, into *bool) member {
	return member{name: name, read: func(v jsontext.Value) string {
		if k := v.Kind(); k != 't' && k != 'f' {
			return "isn't a boolean"
		}
		*into = v.Kind() == 't'
		return ""
	}}
}

// object reads a JSON object as it stands.
func object(name string, into *jsontext.Value) member {
	return member{name: name, read: func(v jsontext.Value) string {
		if v.Kind() != '{' {
			return "isn't an object"
		}
		*into = v.Clone()
		return ""
	}}
}

// Encode marshals v, one of this package's messages. Unlike encoding/json it
// leaves <, > and & alone and writes an empty list as [].
func Encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("ownedv1: " + err.Error()) // a message that this package's decoders never made
	}
	return data
}

// EncodeResult marshals an action's result. A string of the page's that isn't
// valid UTF-8 gets U+FFFD in place of what isn't; a raw value that is no strict
// JSON, and a result that couldn't travel in one message, are errors with the
// codes bad_document and too_large.
func EncodeResult(result any) (jsontext.Value, error) {
	data, err := json.Marshal(result, jsontext.AllowInvalidUTF8(true))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the result isn't strict JSON: %w", refusal.BadDocument)
	case len(data) > MaxResult:
		return nil, fmt.Errorf("the result is over %d bytes: %w", MaxResult, refusal.TooLarge)
	}
	return data, nil
}

// badRequest turns a fault of decode into v's 400.
func (v Verb) badRequest(err error) error {
	if f, ok := err.(*fault); ok {
		return v.Refuse(400, f.field, f.why)
	}
	return err
}

// badAnswer turns a fault of decode into a refusal that has no status.
func badAnswer(code refusal.Code, err error) error {
	if f, ok := err.(*fault); ok {
		return &Bad{Code: code, Field: f.field, Why: f.why}
	}
	return err
}
