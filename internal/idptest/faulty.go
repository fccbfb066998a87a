package idptest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Faulty is an OpenID provider that says whatever a test wants. It signs in the
// one person it has without asking. Left alone, it behaves.
type Faulty struct {
	URL string // its issuer

	mu sync.Mutex // over all that follows
	Say
	keys     map[string]any // private keys by id
	codes    map[string]url.Values
	requests map[string]int // by path
}

// Say is what a test changes. Each function may be nil.
type Say struct {
	Subject, SID, ACR string
	Claims            func(map[string]any)        // of the ID token, before it is signed
	Sign              func(map[string]any) string // instead of RS256
	Back              func(url.Values)            // of the redirect to the client
	Document          func(map[string]any)        // the discovery document
	Tokens            func(map[string]any)        // the token endpoint's answer
	Standing          func(map[string]any)        // the introspection's answer
	Answer            map[string]http.HandlerFunc // instead of a whole path
	Keys              func(set []map[string]any) []map[string]any
}

// Kid names the provider's two keys: one RSA, one EC P-256.
const (
	RSAKid = "rsa-1"
	ECKid  = "ec-1"
)

// NewFaulty starts one; it ends with the test.
func NewFaulty(t testing.TB) *Faulty {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &Faulty{keys: map[string]any{RSAKid: r, ECKid: e}, codes: map[string]url.Values{}, requests: map[string]int{}}
	f.Say = Say{Subject: "alice", SID: "sid-1", ACR: "gold"}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.URL = s.URL
	return f
}

// Do changes what the provider says.
func (f *Faulty) Do(change func(*Say)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.Say)
}

// Behave undoes every change.
func (f *Faulty) Behave() {
	f.Do(func(s *Say) { *s = Say{Subject: "alice", SID: "sid-1", ACR: "gold"} })
}

// Asked answers how often a path was asked for.
func (f *Faulty) Asked(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[path]
}

// ServeHTTP is the whole provider.
func (f *Faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests[r.URL.Path]++
	instead := f.Say.Answer[r.URL.Path]
	f.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		f.write(w, map[string]any{
			"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize", "token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys",
			"introspection_endpoint": f.URL + "/introspect", "end_session_endpoint": f.URL + "/end?x=y",
			"id_token_signing_alg_values_supported":          []string{"RS256", "PS256", "ES256", "HS256", "none"},
			"authorization_response_iss_parameter_supported": true,
		}, f.Say.Document)
	case "/keys":
		set := f.public()
		if f.Say.Keys != nil {
			set = f.Say.Keys(set)
		}
		f.write(w, map[string]any{"keys": set}, nil)
	case "/authorize":
		f.authorize(w, r)
	case "/token":
		f.token(w, r)
	case "/introspect":
		f.write(w, map[string]any{
			"active": true, "sub": f.Say.Subject, "iss": f.URL, "client_id": "client", "exp": time.Now().Add(time.Hour).Unix(),
		}, f.Say.Standing)
	default:
		http.NotFound(w, r)
	}
}

func (f *Faulty) write(w http.ResponseWriter, v map[string]any, change func(map[string]any)) {
	if change != nil {
		change(v)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *Faulty) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := random()
	f.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {f.URL}}
	if f.Say.Back != nil {
		f.Say.Back(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code once, with PKCE as it must be: the client's share is
// tested by the honest providers, and here too.
func (f *Faulty) token(w http.ResponseWriter, r *http.Request) {
	asked, ok := f.codes[r.FormValue("code")]
	delete(f.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || encode(sum[:]) != asked.Get("code_challenge") || asked.Get("code_challenge_method") != "S256" || r.FormValue("redirect_uri") != asked.Get("redirect_uri") {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": f.URL, "sub": f.Say.Subject, "aud": "client", "azp": "client", "exp": now + 300, "iat": now,
		"auth_time": now, "nonce": asked.Get("nonce"), "sid": f.Say.SID, "name": "Alice", "roles": []string{"reader"},
	}
	if f.Say.ACR != "" {
		claims["acr"] = f.Say.ACR
	}
	if f.Say.Claims != nil {
		f.Say.Claims(claims)
	}
	sign := func(c map[string]any) string { return f.RS256(map[string]any{"kid": RSAKid, "typ": "JWT"}, c) }
	if f.Say.Sign != nil {
		sign = f.Say.Sign
	}
	f.write(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 3600, "id_token": sign(claims)}, f.Say.Tokens)
}

// public answers the key set.
func (f *Faulty) public() []map[string]any {
	r, e := f.keys[RSAKid].(*rsa.PrivateKey), f.keys[ECKid].(*ecdsa.PrivateKey)
	return []map[string]any{
		{"kty": "RSA", "kid": RSAKid, "alg": "RS256", "use": "sig", "n": encode(r.N.Bytes()), "e": encode(big.NewInt(int64(r.E)).Bytes())},
		{"kty": "EC", "kid": ECKid, "crv": "P-256", "use": "sig", "x": encode(e.X.FillBytes(make([]byte, 32))), "y": encode(e.Y.FillBytes(make([]byte, 32)))},
	}
}

// RS256 signs claims (a map, or bytes as they are) with the RSA key.
func (f *Faulty) RS256(header map[string]any, claims any) string {
	return Forge(with(header, "RS256"), claims, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, err := rsa.SignPKCS1v15(rand.Reader, f.keys[RSAKid].(*rsa.PrivateKey), crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		return sig
	})
}

// PS256 signs with the RSA key by the algorithm that it isn't for.
func (f *Faulty) PS256(header map[string]any, claims any) string {
	return Forge(with(header, "PS256"), claims, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		sig, err := rsa.SignPSS(rand.Reader, f.keys[RSAKid].(*rsa.PrivateKey), crypto.SHA256, sum[:], nil)
		if err != nil {
			panic(err)
		}
		return sig
	})
}

// ES256 signs with the EC key.
func (f *Faulty) ES256(header map[string]any, claims any) string {
	return Forge(with(header, "ES256"), claims, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, f.keys[ECKid].(*ecdsa.PrivateKey), sum[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	})
}

// HS256 signs with the RSA key's public half as the secret, in the forms that
// confused verifiers have taken it.
func (f *Faulty) HS256(header map[string]any, claims any, secret []byte) string {
	return Forge(with(header, "HS256"), claims, func(text []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(text)
		return mac.Sum(nil)
	})
}

// Public answers the RSA key's public half.
func (f *Faulty) Public() *rsa.PublicKey { return &f.keys[RSAKid].(*rsa.PrivateKey).PublicKey }

// with answers a header with its algorithm, unless it has one.
func with(header map[string]any, alg string) map[string]any {
	header = maps.Clone(header)
	if header == nil {
		header = map[string]any{}
	}
	if _, has := header["alg"]; !has {
		header["alg"] = alg
	}
	return header
}

// Forge makes a compact token of a header and claims; each is a map, or bytes
// that go in as they are.
func Forge(header, claims any, sign func([]byte) []byte) string {
	text := encode(raw(header)) + "." + encode(raw(claims))
	return text + "." + encode(sign([]byte(text)))
}

func raw(v any) []byte {
	if data, ok := v.([]byte); ok {
		return data
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func random() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Decode answers a token's claims without judging it.
func Decode(token string) map[string]any {
	var out map[string]any
	parts := bytesOf(token)
	if len(parts) != 3 || json.Unmarshal(parts[1], &out) != nil {
		return nil
	}
	return out
}

func bytesOf(token string) (parts [][]byte) {
	for i, start := 0, 0; i <= len(token); i++ {
		if i == len(token) || token[i] == '.' {
			data, err := base64.RawURLEncoding.DecodeString(token[start:i])
			if err != nil {
				return nil
			}
			parts, start = append(parts, data), i+1
		}
	}
	return parts
}
