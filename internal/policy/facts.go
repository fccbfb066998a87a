package policy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/canon"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

// What a rule can look at, but for the arguments, is kept for replay under a key
// that isn't in the database: a receipt names nobody and no page (section 7).

// recorded is a request's facts as they are sealed.
type recorded struct {
	Tenant  string   `json:"tenant"`
	Actor   string   `json:"actor"`
	Agent   string   `json:"agent"`
	Roles   []string `json:"roles"`
	Action  Action   `json:"action"`
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Origin  string   `json:"origin"`
	Route   string   `json:"route"`
	AtMS    int64    `json:"at_ms"`
	Tainted bool     `json:"tainted"`
}

const sealPurpose = "chaperone.policy.facts.v1"

// cipher answers the key's own AEAD.
func (b *Book) cipher() (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, b.secret)
	mac.Write([]byte(sealPurpose))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// sealFacts encrypts what replay needs, bound to its receipt.
func (b *Book) sealFacts(receipt string, r Request) (string, error) {
	text, err := canon.Marshal(map[string]any{
		"tenant": r.Who.Tenant(), "actor": r.Who.Actor(), "agent": r.Who.Agent(), "roles": r.Who.Roles(), "action": string(r.Action),
		"kind": r.Resource.kind, "name": r.Resource.name, "origin": r.Resource.origin, "route": r.Resource.route,
		"at_ms": r.At.UnixMilli(), "tainted": r.Tainted,
	})
	if err != nil {
		return "", err
	}
	aead, err := b.cipher()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return base64.RawStdEncoding.EncodeToString(aead.Seal(nonce, nonce, text, []byte(sealPurpose+" "+receipt))), nil
}

// openFacts is the reverse. Another key, another receipt's, a changed byte:
// [refusal.Tampered].
func (b *Book) openFacts(receipt, sealed string) (Request, error) {
	bad := fmt.Errorf("recorded facts don't open: %w", refusal.Tampered)
	aead, err := b.cipher()
	if err != nil {
		return Request{}, err
	}
	data, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil || len(data) < aead.NonceSize() {
		return Request{}, bad
	}
	text, err := aead.Open(nil, data[:aead.NonceSize()], data[aead.NonceSize():], []byte(sealPurpose+" "+receipt))
	if err != nil {
		return Request{}, bad
	}
	var f recorded
	if err := json.Unmarshal(text, &f, json.RejectUnknownMembers(true)); err != nil {
		return Request{}, bad
	}
	return f.request()
}

// request builds the request again.
func (f recorded) request() (Request, error) {
	who, err := identity.New(identity.Claims{Tenant: f.Tenant, Actor: f.Actor, Agent: f.Agent, Roles: f.Roles})
	if err != nil {
		return Request{}, err
	}
	return Request{Who: who, Action: f.Action, Resource: Resource{f.Kind, f.Name, f.Origin, f.Route}, At: time.UnixMilli(f.AtMS), Tainted: f.Tainted}, nil
}
