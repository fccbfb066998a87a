package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"chaperone/internal/refusal"
)

// Secrets are what a browser holds of its session, 64 hex each. They never print.
type Secrets struct{ Cookie, Key string }

// String keeps the secrets out of logs.
func (Secrets) String() string { return "session.Secrets" }

// GoString keeps the secrets out of %#v.
func (Secrets) GoString() string { return "session.Secrets" }

// NewSecret answers 256 random bits as 64 lower hex.
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return hex.EncodeToString(b[:])
}

// hash is how a secret is stored. A plain SHA-256 is enough for 256 random bits.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// CSRF answers the token that a page of this session sends with each change. It
// is computed from the cookie, so nothing is stored and it dies with the cookie.
func CSRF(cookie string) string { return derive(cookie, "chaperone csrf v1") }

// derive computes what belongs to a secret without telling it.
func derive(secret, purpose string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil))
}

// seal encrypts text under a secret that isn't stored, so that the row opens
// only to who shows the secret. purpose keeps one kind of row from being read as
// another.
func seal(secret, purpose, text string) string {
	aead := cipherOf(secret, purpose)
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return hex.EncodeToString(aead.Seal(nonce, nonce, []byte(text), []byte(purpose)))
}

// open is the reverse of seal; anything else is [refusal.Tampered].
func open(secret, purpose, sealed string) (string, error) {
	aead := cipherOf(secret, purpose)
	data, err := hex.DecodeString(sealed)
	if err == nil && len(data) >= aead.NonceSize() {
		n := aead.NonceSize()
		if data, err = aead.Open(nil, data[:n], data[n:], []byte(purpose)); err == nil {
			return string(data), nil
		}
	}
	return "", fmt.Errorf("a sealed row doesn't open: %w", refusal.Tampered)
}

func cipherOf(secret, purpose string) cipher.AEAD {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("chaperone seal v1 " + purpose))
	block, err := aes.NewCipher(mac.Sum(nil)) // 32 bytes: no error
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}
