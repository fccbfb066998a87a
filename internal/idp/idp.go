// Package idp is the built-in OpenID provider: it signs people of package
// credential in with passkeys, under /idp/ of the server's own origin, for the
// one client that there is, the server itself.
//
// It contains
//
//	idp.go      New, what is served, the RoundTripper for use without a network
//	browser.go  the cookie that binds a request to the browser that began it
//	asked.go    which requests get as far as the library
//	answer.go   what the library's answers lack: `iss`, acr values, strict headers
//	storage.go  the library's storage over credential.Book; it holds no SQL
//	client.go   the one client
//	stands.go   whether a token is good, for this server itself
//	pages.go    the pages: signing in, and enrolling from a link
//	api.go      the endpoints that the pages' script calls
//	text.go     the pages' words, English and Spanish
//
// The protocol is that of zitadel/oidc's op. What op leaves to others is decided
// here: which level a sign-in reached (a passkey with user verification, or a
// recovery code), that each request is answered by a person who proves themselves
// for it (there is no standing sign-in at this provider, so prompt=login and
// max_age=0 always hold and prompt=none never does), that PKCE with S256 and the
// code flow are the only way, and the `iss` response parameter (RFC 9207).
//
// A request belongs to the browser that began it: without that browser's cookie
// nobody can answer it or fetch its code. Otherwise somebody could begin a
// sign-in, send another person its link, and be signed in as them.
//
// It keeps nothing in memory that another node would miss, and logs no token.
//
// Floor: runtime.
package idp

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/text/language"

	"chaperone/internal/credential"
	"chaperone/internal/refusal"
)

// Config of New.
type Config struct {
	Origin      string // public origin; the issuer is Origin + "/idp"
	Credentials *credential.Book
	Redirect    string   // path of the client's callback; "" means /auth/callback
	Embedding   []string // other origins with a callback of their own
}

// ClientID is the one client: the server itself.
const ClientID = "chaperone"

// Provider is the built-in provider; safe for concurrent use.
type Provider struct {
	origin string
	issuer string
	people *credential.Book
	client client
	op     *op.Provider
	mux    *http.ServeMux
}

// New makes a provider. It needs neither the network nor, yet, the database.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.Origin)
	if err != nil || u.Host == "" || u.Path != "" || c.Credentials == nil {
		return nil, fmt.Errorf("the built-in provider needs a public origin and its people: %w", refusal.BadDocument)
	}
	if c.Redirect == "" {
		c.Redirect = "/auth/callback"
	}
	p := &Provider{origin: c.Origin, issuer: c.Origin + "/idp", people: c.Credentials}
	p.client = client{redirects: []string{c.Origin + c.Redirect}, home: c.Origin + "/"}
	for _, o := range c.Embedding {
		p.client.redirects = append(p.client.redirects, o+c.Redirect)
	}
	config := &op.Config{
		CodeMethodS256:           true,
		AuthMethodPost:           false,
		SupportedScopes:          []string{"openid", "profile"},
		SupportedClaims:          []string{"sub", "aud", "exp", "iat", "iss", "auth_time", "nonce", "acr", "amr", "azp", "sid", "name", "roles"},
		SupportedUILocales:       []language.Tag{language.English, language.Spanish},
		DefaultLogoutRedirectURI: p.client.home,
	}
	copy(config.CryptoKey[:], c.Credentials.Derive("idp codes"))
	options := []op.Option{op.WithCORSOptions(nil)} // nothing here is for other origins
	if u.Scheme == "http" {
		options = append(options, op.WithAllowInsecure()) // localhost: who starts the server checks that
	}
	p.op, err = op.NewProvider(config, &storage{p}, op.StaticIssuer(p.issuer), options...)
	if err != nil {
		return nil, err
	}
	p.mux = p.routes()
	return p, nil
}

// Issuer answers the issuer identifier.
func (p *Provider) Issuer() string { return p.issuer }

// ClientSecret answers the one client's secret. It is derived from the key that
// seals the people's rows, so all nodes know it and nothing stores it.
func (p *Provider) ClientSecret() string {
	return hex.EncodeToString(p.people.Derive("idp client"))
}

// routes is everything that is served. What op has besides (a health page, device
// codes, dynamic things) isn't reachable.
func (p *Provider) routes() *http.ServeMux {
	protocol := http.StripPrefix("/idp", p.op)
	mux := http.NewServeMux()
	mux.Handle("GET /idp/.well-known/openid-configuration", p.discovery(protocol))
	mux.Handle("GET /idp/keys", protocol)
	mux.Handle("GET /idp/authorize", p.bound(p.asked(p.named(protocol))))
	mux.Handle("GET /idp/authorize/callback", p.bound(p.named(protocol)))
	mux.Handle("POST /idp/oauth/token", p.form(p.exchanges(p.worded(protocol))))
	mux.Handle("POST /idp/oauth/introspect", p.form(p.worded(protocol)))
	mux.Handle("POST /idp/revoke", p.form(p.worded(protocol)))
	mux.Handle("GET /idp/userinfo", p.worded(protocol))
	mux.Handle("GET /idp/end_session", p.ending(p.worded(protocol)))
	p.pages(mux)
	p.api(mux)
	return mux
}

// maxBody bounds what anybody may send here, in bytes.
const maxBody = 64 << 10

// ServeHTTP answers everything under /idp/.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	p.mux.ServeHTTP(w, r)
}

// inProcess calls the provider's handler without a network.
type inProcess struct{ p *Provider }

// Client answers an HTTP client that reaches this provider, and nothing else,
// without a network: the server signs itself in before it listens anywhere.
func (p *Provider) Client() *http.Client { return &http.Client{Transport: inProcess{p}} }

// RoundTrip answers requests for the issuer.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if r.URL.Scheme+"://"+r.URL.Host != t.p.origin || !strings.HasPrefix(r.URL.Path, "/idp/") {
		return nil, fmt.Errorf("the built-in provider answers for its own issuer alone: %w", refusal.OriginDenied)
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := &recorder{header: http.Header{}}
	t.p.ServeHTTP(out, in)
	return out.response(r), nil
}
