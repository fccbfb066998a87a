// Package canon is the closed JSON subset of spec/attended-control.md, section 1,
// its one encoding and its digests: what two parties hash when they mean the
// same value.
//
// Contents: [Canonicalize] reads JSON text and writes its canonical bytes,
// [Marshal] writes those of a Go value, [Digest] names bytes by their SHA-256.
// The subset is null, booleans, strings of valid Unicode, integers of at most
// 2^53-1 either way, arrays and objects, nested at most [MaxDepth] deep. Whatever
// is outside is refused on the literal text and never rounded, replaced or
// dropped: a float in any spelling, -0, a lone surrogate, a duplicate key after
// unescaping, invalid UTF-8, a byte order mark.
//
// The encoding has no white space, orders keys by UTF-16 code units and escapes
// only what JSON demands. The page's encoder (web/src/canon.ts) is its twin; both
// are held to spec/vectors/canonical.json and to each other by fuzzing.
//
// The package keeps no state, and its errors never repeat the text.
//
// Floor: wire contract.
package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"chaperone/internal/refusal"
)

// Limits of the subset.
const (
	MaxDepth = 64        // arrays and objects around the innermost value; a scalar alone has depth 0
	MaxInt   = 1<<53 - 1 // largest integer; the least is -MaxInt
)

// Error says what is outside the subset, and where.
type Error struct {
	Code   refusal.Code // bad_document, too_deep or too_large
	Offset int          // in bytes of the text; -1 where there is no text
	Why    string       // made of this package's own words
}

// Error tells the fault; it never repeats the text.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return "not canonical JSON: " + e.Why
	}
	return fmt.Sprintf("not canonical JSON at byte %d: %s", e.Offset, e.Why)
}

// Unwrap lets errors.Is and refusal.Of find the code.
func (e *Error) Unwrap() error { return e.Code }

// Canonicalize answers the canonical bytes of JSON text. It never changes text
// and the answer shares no memory with it. Its error is an *Error.
func Canonicalize(text []byte) ([]byte, error) {
	s := scanner{text: text, out: make([]byte, 0, len(text))}
	if err := s.document(); err != nil {
		return nil, err
	}
	return s.out, nil
}

// Within is [Canonicalize] with a limit on the canonical bytes; more than most
// is an *Error with the code too_large.
func Within(text []byte, most int) ([]byte, error) {
	out, err := Canonicalize(text)
	if err == nil && len(out) > most {
		return nil, &Error{refusal.TooLarge, -1, fmt.Sprintf("%d bytes, over its limit of %d", len(out), most)}
	}
	return out, err
}

// Digest names bytes: "sha256:" and the lower-case hexadecimal SHA-256.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}
