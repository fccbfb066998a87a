package pagesock

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"chaperone/internal/refusal"
)

// kind names a cookie, and is what its seal is bound to.
type kind string

// The cookies.
const (
	recentKind   kind = "__Host-chaperone-recent"
	armKind      kind = "__Host-chaperone-arm"
	documentKind kind = "__Host-chaperone-document"
)

// maxSealed bounds a cookie's value: browsers keep no more.
const maxSealed = 4096

// sealer seals and opens cookies.
type sealer struct{ by map[kind]cipher.AEAD }

// newSealer derives a key for each kind.
func newSealer(key []byte) (sealer, error) {
	s := sealer{map[kind]cipher.AEAD{}}
	if len(key) < sha256.Size {
		return s, fmt.Errorf("the control key has under %d bytes: %w", sha256.Size, refusal.BadDocument)
	}
	for _, k := range []kind{recentKind, armKind, documentKind} {
		sub, err := hkdf.Key(sha256.New, key, nil, "chaperone cookie v1 "+string(k), 32)
		if err != nil {
			return s, err
		}
		block, err := aes.NewCipher(sub)
		if err != nil {
			return s, err
		}
		if s.by[k], err = cipher.NewGCM(block); err != nil {
			return s, err
		}
	}
	return s, nil
}

// seal answers a cookie's value.
func (s sealer) seal(k kind, text []byte) string {
	aead := s.by[k]
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails: the runtime ends the process instead
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, text, []byte(k)))
}

// open is the reverse of seal; whatever isn't that is [refusal.Tampered].
func (s sealer) open(k kind, value string) ([]byte, error) {
	if len(value) <= maxSealed && !strings.ContainsAny(value, "\r\n") { // which base64 reads over
		aead := s.by[k]
		data, err := base64.RawURLEncoding.Strict().DecodeString(value)
		if n := aead.NonceSize(); err == nil && len(data) > n {
			if text, err := aead.Open(nil, data[:n], data[n:], []byte(k)); err == nil {
				return text, nil
			}
		}
	}
	return nil, fmt.Errorf("a sealed cookie doesn't open: %w", refusal.Tampered)
}

// sealed answers what a request's one cookie of a kind holds: errNothing where it has
// none, and two are none, since nobody can tell which of them the browser meant.
func (s sealer) sealed(r *http.Request, k kind) ([]byte, error) {
	found := r.CookiesNamed(string(k))
	if len(found) != 1 {
		return nil, errNothing
	}
	return s.open(k, found[0].Value)
}

// cookie makes a browser's cookie for so many seconds; fewer than 1 removes it.
func cookie(k kind, value string, seconds int64) *http.Cookie {
	c := &http.Cookie{Name: string(k), Value: value, Path: "/", MaxAge: int(seconds), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if seconds < 1 {
		c.Value, c.MaxAge = "", -1
	}
	return c
}
