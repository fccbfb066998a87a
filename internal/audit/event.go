package audit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

// Limits of an event.
const (
	MaxWord   = 128  // bytes of an id, a word or a digest
	MaxSealed = 1024 // bytes of a sealed value
	MaxFields = 32   // public fields, and sealed ones
)

// KindErased is the kind of the event that tells an erasure; its subject is the
// id of the leaf whose sealed values are gone.
const KindErased = "audit.erased"

// Event is what one leaf tells. It holds no free text: each word and id is
// [A-Za-z0-9_-][A-Za-z0-9._:-]*, at most MaxWord bytes, and what a person might
// read in clear goes in Sealed.
type Event struct {
	Tenant  string       // "" means the log's own tenant
	Kind    string       // what happened, e.g. "owned_run.started"
	Actor   string       // id of who did it, "" where nobody is known
	Subject string       // id of what it happened to, e.g. a run id
	Code    refusal.Code // the outcome, "" where there is none
	Public  []Field      // in clear, for ever
	Sealed  []Sealed     // as salted commitments; values can be erased later
}

// Field is a public value of an allow-listed type: ID, Word, Digest or Count.
type Field struct {
	name, text string
	count      int64
	isCount    bool
}

// ID is an identifier that Chaperone or a caller chose.
func ID(name, id string) Field { return Field{name: name, text: id} }

// Word is a code, a kind or a state.
func Word[T ~string](name string, word T) Field { return Field{name: name, text: string(word)} }

// Digest is a digest with its algorithm: "sha256:…".
func Digest(name, digest string) Field { return Field{name: name, text: digest} }

// Count is a number: a size, a sequence, a duration in ms, a port. It is within
// ±(2^53-1).
func Count[T ~int | ~int64 | ~int32 | ~uint16](name string, n T) Field {
	return Field{name: name, count: int64(n), isCount: true}
}

// Name answers the field's name.
func (f Field) Name() string { return f.name }

// Value answers the field's string, or its int64 where it is a Count.
func (f Field) Value() any {
	if f.isCount {
		return f.count
	}
	return f.text
}

// Sealed is a value that the leaf holds as SHA-256(salt ‖ value) alone; see
// Seal.
type Sealed struct{ name, value string }

// Seal makes a sealed value, at most MaxSealed bytes of valid UTF-8: a host, a
// rule, an address. Never a token, an argument, a result or page text.
func Seal(name, value string) Sealed { return Sealed{name, value} }

// fault is the refusal of an event; it repeats no value.
func fault(kind, name, why string) error {
	return fmt.Errorf("audit event %q: %s: %s: %w", kind, name, why, refusal.BadDocument)
}

// check refuses an event that a leaf can't hold, and orders its fields by name.
func (e *Event) check() error {
	kind := e.Kind
	if !isWord(kind) {
		return fault("", "kind", "want letters, digits and ._:-")
	}
	for _, f := range [...]struct{ name, text string }{{"actor", e.Actor}, {"subject", e.Subject}, {"code", string(e.Code)}} {
		if f.text != "" && !isWord(f.text) {
			return fault(kind, f.name, "want letters, digits and ._:- only; seal what is text")
		}
	}
	if !isWord(e.Tenant) {
		return fault(kind, "tenant", "want letters, digits and ._:-")
	}
	if len(e.Public) > MaxFields || len(e.Sealed) > MaxFields {
		return fault(kind, "fields", "too many")
	}
	// Copies: the caller's slices are the caller's.
	e.Public, e.Sealed = slices.Clone(e.Public), slices.Clone(e.Sealed)
	slices.SortFunc(e.Public, func(a, b Field) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(e.Sealed, func(a, b Sealed) int { return strings.Compare(a.name, b.name) })
	for i, f := range e.Public {
		switch {
		case !isWord(f.name) || i > 0 && f.name == e.Public[i-1].name:
			return fault(kind, "public field", "its name is no word or stands twice")
		case f.isCount && (f.count > canon.MaxInt || f.count < -canon.MaxInt):
			return fault(kind, f.name, "beyond 2^53-1")
		case !f.isCount && f.text != "" && !isWord(f.text):
			return fault(kind, f.name, "want letters, digits and ._:- only; seal what is text")
		}
	}
	for i, s := range e.Sealed {
		switch {
		case !isWord(s.name) || i > 0 && s.name == e.Sealed[i-1].name:
			return fault(kind, "sealed field", "its name is no word or stands twice")
		case len(s.value) > MaxSealed || !utf8.ValidString(s.value):
			return fault(kind, s.name, "over 1024 bytes or no UTF-8")
		}
	}
	return nil
}

// Name answers a name as an event's Actor, Subject or ID takes it: itself where it is
// made of what words are made of, else its digest; "" stays.
func Name(name string) string {
	if name == "" || isWord(name) {
		return name
	}
	return canon.Digest([]byte(name))
}

// isWord tells whether s is made of what ids and codes are made of. It can't
// begin with a dot, since a tenant also names a directory.
func isWord(s string) bool {
	if s == "" || len(s) > MaxWord {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		case i > 0 && (c == '.' || c == ':'):
		default:
			return false
		}
	}
	return true
}
