package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// algorithms that are ever accepted: signatures by a private key. "none" and the
// HMAC family, whose key would be public here, aren't among them.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// header is a token's header. Every other member is refused: `jku`, `jwk`, `x5u`
// and `x5c` would let the token name its own key, `crit` demands what we don't
// do, `b64` and `zip` would change what was signed, `cty` would nest another token.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
	// Thumbprints name a certificate and choose nothing here.
	Thumbprint    string `json:"x5t"`
	ThumbprintNew string `json:"x5t#S256"`
}

// maxToken bounds a token, in bytes.
const maxToken = 32 << 10

// readHeader judges a compact token before anything else is done with it.
func readHeader(token string, allowed []string) (header, error) {
	bad := func(why string) (header, error) {
		return header{}, fmt.Errorf("token: %s: %w", why, refusal.BadToken)
	}
	first, rest, ok := strings.Cut(token, ".")
	if !ok || strings.Count(rest, ".") != 1 || len(token) > maxToken {
		return bad("not three parts, or too long")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return bad("its header isn't base64url")
	}
	var h header
	if err := json.Unmarshal(raw, &h, json.RejectUnknownMembers(true)); err != nil {
		return bad("its header holds something that isn't accepted")
	}
	if !slices.Contains(algorithms, h.Algorithm) || !slices.Contains(allowed, h.Algorithm) {
		return bad("its algorithm isn't accepted")
	}
	return h, nil
}

// fixed answers the one algorithm that a key is used with: what the key says, or
// what its kind implies. "" for a key that isn't used at all.
func fixed(k jose.JSONWebKey) string {
	if !k.IsPublic() || k.Use != "" && k.Use != "sig" {
		return ""
	}
	var kinds []string
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= 2048 {
			kinds = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
		}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			kinds = []string{"ES256"}
		case elliptic.P384():
			kinds = []string{"ES384"}
		case elliptic.P521():
			kinds = []string{"ES512"}
		}
	case ed25519.PublicKey:
		kinds = []string{"EdDSA"}
	}
	switch {
	case k.Algorithm == "" && len(kinds) > 0:
		return kinds[0]
	case slices.Contains(kinds, k.Algorithm):
		return k.Algorithm
	}
	return ""
}

// readKeys reads a key set. Keys of a kind that we don't know are left out; a set
// with two keys of one id is refused, since nobody could tell which is meant.
func readKeys(data []byte) ([]jose.JSONWebKey, error) {
	bad := fmt.Errorf("the provider's keys don't decode: %w", refusal.ProviderError)
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, bad
	}
	var all []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err != nil || fixed(k) == "" {
			continue
		}
		if slices.ContainsFunc(all, func(o jose.JSONWebKey) bool { return o.KeyID == k.KeyID }) {
			return nil, bad
		}
		all = append(all, k)
	}
	return all, nil
}
