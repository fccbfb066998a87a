package controlv1

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one name of an object: how to read its value, and whether it may be
// absent.
type member struct {
	name     string
	read     func(jsontext.Value) error
	optional bool
	seen     *bool
}

// or makes m optional: the variable keeps what it has now.
func (m member) or() member { m.optional = true; return m }

// told makes m optional and says whether it was there.
func (m member) told(seen *bool) member { m.optional, m.seen = true, seen; return m }

// decode reads one JSON object and nothing after it, of at most most bytes. The
// jsontext decoder refuses duplicate names (at any depth, after unescaping),
// lone surrogates and invalid UTF-8; names are compared exactly. A null stands
// for nothing: where a field is absent, it is absent.
func decode(data []byte, most int, members ...member) error {
	if len(data) > most {
		return large("", "is over its limit")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if d.PeekKind() != '{' {
		return invalid("", "isn't a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed()
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return malformed()
		}
		key := name.String()
		i := slices.IndexFunc(members, func(m member) bool { return m.name == key })
		if i < 0 {
			return invalid("", "has an unknown field") // its name is the sender's text: not repeated
		}
		value, err := d.ReadValue()
		if err != nil {
			return malformed()
		}
		if err := members[i].read(value); err != nil {
			return under(members[i].name, err)
		}
		members[i].optional = true
		if members[i].seen != nil {
			*members[i].seen = true
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return malformed()
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return invalid("", "has data after its JSON object")
	}
	for _, m := range members {
		if !m.optional {
			return invalid(m.name, "is missing")
		}
	}
	return nil
}

// named reads one string of an object before the rest: which message it is. The
// whole is decoded after it, strictly.
func named(data []byte, name string) (string, error) {
	if len(data) > MaxFrame {
		return "", large("", "is over 65,536 bytes")
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if d.PeekKind() != '{' {
		return "", invalid("", "isn't a JSON object")
	}
	d.ReadToken()
	for d.PeekKind() == '"' {
		key, err := d.ReadToken()
		if err != nil {
			return "", malformed()
		}
		found := key.String() == name
		v, err := d.ReadValue()
		if err != nil {
			return "", malformed()
		}
		if found {
			s, err := text(v)
			if err != nil {
				return "", under(name, err)
			}
			return s, nil
		}
	}
	return "", invalid(name, "is missing")
}

func malformed() error { return invalid("", "isn't strict JSON") }

// text reads a string.
func text(v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", invalid("", "isn't a string")
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", invalid("", "isn't a string")
	}
	return string(s), nil
}

// of reads a string into an element by its parser.
func of[E any](name string, into *E, parse func(string) (E, error)) member {
	return member{name: name, read: func(v jsontext.Value) error {
		s, err := text(v)
		if err != nil {
			return err
		}
		*into, err = parse(s)
		return err
	}}
}

// str reads a string that valid accepts.
func str(name string, into *string, valid func(string) bool) member {
	return of(name, into, func(s string) (string, error) {
		if !valid(s) {
			return "", invalid("", "hasn't the form that the protocol asks for")
		}
		return s, nil
	})
}

// exactly reads a string that must be want.
func exactly(name, want string) member {
	var got string
	return str(name, &got, func(s string) bool { return s == want })
}

// yes reads the literal true.
func yes(name string) member {
	return member{name: name, read: func(v jsontext.Value) error {
		if v.Kind() != 't' {
			return invalid("", "isn't literally true")
		}
		return nil
	}}
}

// integer reads an integer written as one: no fraction, exponent or -0.
func integer(name string, into *int64, least, most int64) member {
	return member{name: name, read: func(v jsontext.Value) error {
		if v.Kind() != '0' || bytes.ContainsAny(v, ".eE") || string(v) == "-0" {
			return invalid("", "isn't an integer")
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < least || n > most {
			return invalid("", "is out of range")
		}
		*into = n
		return nil
	}}
}

// moment reads a time in Unix milliseconds.
func moment(name string, into *int64) member { return integer(name, into, 1, MaxInt) }

func generation(name string, into *Generation) member {
	var n int64
	m := integer(name, &n, 1, MaxInt)
	read := m.read
	m.read = func(v jsontext.Value) error {
		err := read(v)
		*into = Generation{n}
		return err
	}
	return m
}

// object reads an object of at most most canonical bytes.
func object(name string, into *Value, most int) member {
	return member{name: name, read: func(v jsontext.Value) error {
		if v.Kind() != '{' {
			return invalid("", "isn't an object")
		}
		var err error
		*into, err = ParseValue(v, most)
		return err
	}}
}

// list reads an array of least to most items.
func list(name string, least, most int, item func(jsontext.Value) error) member {
	return member{name: name, read: func(v jsontext.Value) error {
		if v.Kind() != '[' {
			return invalid("", "isn't an array")
		}
		d := jsontext.NewDecoder(bytes.NewBuffer(v))
		d.ReadToken()
		n := 0
		for d.PeekKind() != ']' {
			value, err := d.ReadValue()
			if err != nil {
				return malformed()
			}
			if n++; n > most {
				return invalid("", "has too many items")
			}
			if err := item(value); err != nil {
				return err
			}
		}
		if n < least {
			return invalid("", "has too few items")
		}
		return nil
	}}
}

// ids reads an array of distinct ids.
func ids(name string, into *[]ID, most int) member {
	return list(name, 1, most, func(v jsontext.Value) error {
		s, err := text(v)
		if err != nil {
			return err
		}
		id, err := ParseID(s)
		if err != nil {
			return err
		}
		if slices.Contains(*into, id) {
			return invalid("", "names one twice")
		}
		*into = append(*into, id)
		return nil
	})
}

// value reads any value of at most most canonical bytes.
func value(name string, into *Value, most int) member {
	return member{name: name, read: func(v jsontext.Value) (err error) {
		*into, err = ParseValue(v, most)
		return err
	}}
}
