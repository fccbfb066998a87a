package controlv1

import (
	"strings"

	"chaperone/internal/canon"
)

// ID is an identifier of this protocol: ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$. The
// zero ID is none.
type ID struct{ text string }

// ParseID reads one.
func ParseID(s string) (ID, error) {
	if !isID(s, 128) {
		return ID{}, invalid("", "isn't an id of this protocol")
	}
	return ID{s}, nil
}

// String answers the id, "" for the zero one.
func (i ID) String() string { return i.text }

// IsZero tells whether i is no id.
func (i ID) IsZero() bool { return i.text == "" }

func isID(s string, most int) bool {
	for n, c := range []byte(s) {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9':
		case n > 0 && (c == '.' || c == '_' || c == ':' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= most
}

// Word is a machine code: ^[a-z][a-z0-9_-]{0,63}$. The zero Word is none.
type Word struct{ text string }

// ParseWord reads one.
func ParseWord(s string) (Word, error) {
	for n, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z':
		case n > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-'):
		default:
			return Word{}, invalid("", "isn't a machine code")
		}
	}
	if s == "" || len(s) > 64 {
		return Word{}, invalid("", "isn't a machine code")
	}
	return Word{s}, nil
}

// String answers the code, "" for the zero Word.
func (w Word) String() string { return w.text }

// IsZero tells whether w is no code.
func (w Word) IsZero() bool { return w.text == "" }

// Digest is "sha256:" and 64 lower-case hex digits. The zero Digest is none.
type Digest struct{ text string }

// ParseDigest reads one.
func ParseDigest(s string) (Digest, error) {
	rest, ok := strings.CutPrefix(s, "sha256:")
	if !ok || !isHex(rest, 64) {
		return Digest{}, invalid("", "isn't sha256: and 64 lower-case hex digits")
	}
	return Digest{s}, nil
}

// digestOf names canonical bytes.
func digestOf(canonical []byte) Digest { return Digest{canon.Digest(canonical)} }

// String answers the digest, "" for the zero one.
func (d Digest) String() string { return d.text }

// IsZero tells whether d is no digest.
func (d Digest) IsZero() bool { return d.text == "" }

func isHex(s string, n int) bool { return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" }

// Generation is a page's registration generation, 1 to 2^53-1. The zero one is
// none.
type Generation struct{ n int64 }

// NewGeneration checks the range.
func NewGeneration(n int64) (Generation, error) {
	if n < 1 || n > MaxInt {
		return Generation{}, invalid("", "isn't a generation, 1 to 2^53-1")
	}
	return Generation{n}, nil
}

// Int answers the number, 0 for none.
func (g Generation) Int() int64 { return g.n }

// IsZero tells whether g is none.
func (g Generation) IsZero() bool { return g.n == 0 }

// Value is a JSON value of the closed subset in its canonical bytes. The zero
// Value is none, which is another thing than null.
type Value struct{ canonical string }

// ParseValue canonicalises JSON text of at most most canonical bytes; more is
// too_large.
func ParseValue(text []byte, most int) (Value, error) {
	c, err := canon.Within(text, most)
	if err != nil {
		return Value{}, under("", err)
	}
	return Value{string(c)}, nil
}

// Bytes answers the canonical bytes; the caller may keep them.
func (v Value) Bytes() []byte { return []byte(v.canonical) }

// IsZero tells whether v is no value at all.
func (v Value) IsZero() bool { return v.canonical == "" }

// IsObject tells whether v is a JSON object.
func (v Value) IsObject() bool { return strings.HasPrefix(v.canonical, "{") }

// Null is the value null.
var Null = Value{"null"}

// tag tells a character of the TAG block, or of the variation selectors that spell
// bytes as well as tags do.
func tag(r rune) bool { return 0xE0000 <= r && r <= 0xE0FFF }

// Hidden tells whether r changes how text is read without being seen: a bidi
// control, a zero-width character or one of the TAG block (section 2).
func Hidden(r rune) bool {
	switch {
	case r == 0x061C, r == 0x200E, r == 0x200F, 0x202A <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069: // bidi
		return true
	case 0x200B <= r && r <= 0x200D, r == 0x2060, r == 0xFEFF, r == 0x180E, r == 0x00AD, 0x2061 <= r && r <= 0x2064: // zero width
		return true
	case tag(r):
		return true
	}
	return false
}
