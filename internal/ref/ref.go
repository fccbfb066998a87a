// Package ref is the opaque references that the server hands out: login_,
// browser_, document_, attended_ and principal_, each followed by 64 lower-case
// hexadecimal digits (spec/attended-control.md, section 4).
//
// Contents: [Ref] is one reference, of a type of its own for each kind, so that
// a login can't be passed where a document is asked for; [Mint] draws a fresh
// one, [Derive] computes one from a secret [Key] and the facts it stands for, and
// [Parse] reads one back. A reference tells nothing about what it stands for, and
// without the key nobody can tell which facts it came from.
//
// The package stores nothing and never compares references in a time that
// depends on them.
//
// Floor: wire contract.
package ref

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"chaperone/internal/refusal"
)

// The kinds of reference. Each is a type of its own.
type (
	Login     = Ref[LoginKind]     // a sign-in at the provider
	Browser   = Ref[BrowserKind]   // a browser session
	Document  = Ref[DocumentKind]  // one load of a page
	Attended  = Ref[AttendedKind]  // an arm
	Principal = Ref[PrincipalKind] // tenant and actor, in private form
)

// The kinds themselves, to name in Mint[LoginKind] and its like.
type (
	LoginKind     struct{}
	BrowserKind   struct{}
	DocumentKind  struct{}
	AttendedKind  struct{}
	PrincipalKind struct{}
)

func (LoginKind) prefix() string     { return "login_" }
func (BrowserKind) prefix() string   { return "browser_" }
func (DocumentKind) prefix() string  { return "document_" }
func (AttendedKind) prefix() string  { return "attended_" }
func (PrincipalKind) prefix() string { return "principal_" }

type kind interface{ prefix() string }

// Ref is a reference of kind K. The zero value refers to nothing and equals no
// reference, not even another zero value.
type Ref[K kind] struct{ text string }

// digits is the length of a reference after its prefix.
const digits = 2 * sha256.Size

func of[K kind](sum []byte) Ref[K] {
	var k K
	return Ref[K]{k.prefix() + hex.EncodeToString(sum)}
}

// Mint draws a fresh reference from the system's randomness.
func Mint[K kind]() Ref[K] {
	var b [sha256.Size]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return of[K](b[:])
}

// Parse reads a reference of kind K. Another kind, another length, an upper-case
// digit: an error with the code bad_document that doesn't repeat the text.
func Parse[K kind](text string) (Ref[K], error) {
	var k K
	rest, ok := strings.CutPrefix(text, k.prefix())
	if !ok || len(rest) != digits || strings.Trim(rest, "0123456789abcdef") != "" {
		return Ref[K]{}, fmt.Errorf("a reference is %s and %d lower-case hex digits: %w", k.prefix(), digits, refusal.BadDocument)
	}
	return Ref[K]{text}, nil
}

// String answers the reference as it travels, "" for the zero value.
func (r Ref[K]) String() string { return r.text }

// IsZero tells whether r refers to nothing.
func (r Ref[K]) IsZero() bool { return r.text == "" }

// Equal compares in a time that doesn't depend on where the two differ.
func (r Ref[K]) Equal(other Ref[K]) bool {
	return !r.IsZero() && subtle.ConstantTimeCompare([]byte(r.text), []byte(other.text)) == 1
}

// MarshalText writes the reference; the zero value has no text.
func (r Ref[K]) MarshalText() ([]byte, error) {
	if r.IsZero() {
		return nil, fmt.Errorf("an empty reference: %w", refusal.BadDocument)
	}
	return []byte(r.text), nil
}

// UnmarshalText is [Parse].
func (r *Ref[K]) UnmarshalText(text []byte) (err error) {
	*r, err = Parse[K](string(text))
	return err
}

// Key derives references. It never prints.
type Key struct{ secret []byte }

// NewKey takes a secret of at least 32 bytes.
func NewKey(secret []byte) (Key, error) {
	if len(secret) < sha256.Size {
		return Key{}, fmt.Errorf("a reference key needs at least %d bytes: %w", sha256.Size, refusal.BadDocument)
	}
	return Key{append([]byte(nil), secret...)}, nil
}

// String keeps the secret out of logs.
func (Key) String() string { return "ref.Key" }

// GoString keeps the secret out of %#v.
func (Key) GoString() string { return "ref.Key" }

// Derive computes the one reference of kind K to these facts under key: HMAC-SHA256
// over the kind and each fact behind its length, so that ("ab","c") and
// ("a","bc") differ and no kind's reference is another's. A zero Key panics.
func Derive[K kind](key Key, facts ...string) Ref[K] {
	if len(key.secret) == 0 {
		panic("ref: Derive without a key") // would make references that anyone can compute
	}
	var k K
	mac := hmac.New(sha256.New, key.secret)
	for _, fact := range append([]string{k.prefix()}, facts...) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(fact))))
		mac.Write([]byte(fact))
	}
	return of[K](mac.Sum(nil))
}
