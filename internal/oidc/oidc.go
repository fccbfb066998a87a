// Package oidc is the relying party: it signs a person in at an OpenID provider,
// the built-in one or any other by configuration, lets them step up, and hears
// when the provider logs them out (spec/attended-control.md section 4).
//
// It contains
//
//	oidc.go        Config, New, what is read of the provider's document
//	http.go        the client: 64 KB, no redirects, ten seconds
//	jws.go         which tokens are looked at at all: one signature, a fixed
//	               algorithm for each key, no header that names a key
//	keys.go        the provider's keys, fetched again at most once a minute
//	claims.go      strict reading of claims
//	idtoken.go     every check of an ID token, and of a step-up's
//	begin.go       SignIn, StepUp and Arm: the way there
//	callback.go    Callback: the way back
//	introspect.go  whether an access token is still good (RFC 7662)
//	logout.go      Logout and BackChannel
//	page.go        the pages of the callback
//
// A sign-in is the code flow with PKCE (S256), nonce and state. The state carries
// a MAC under the flow cookie's secret, so it comes back only to the browser that
// began it; what it stands for is in session.Book, claimed once. The `iss`
// response parameter must be the provider's (RFC 9207), and is demanded where the
// provider's document says that it sends one.
//
// A step-up asks for prompt=login, max_age=0 and acr_values, and believes none of
// that until the ID token says so: acr is compared with the configured set by
// exact match, auth_time is a whole number of seconds not before the flow began
// (30 s skew) and not older than five minutes, and issuer and subject are the
// session's. Whatever was true when the flow began is looked at again when it
// comes back. A step-up that arms a page is one like any other, with a route that
// it is for; whoever arms hears of it once it was accepted.
//
// It never follows a redirect of the provider, never puts the provider's words on
// a page or into a log, and never tells a browser more than that it didn't work.
//
// Floor: runtime.
package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Config names a provider and what is asked of it.
type Config struct {
	Issuer                 string   // exactly as the provider writes it
	ClientID, ClientSecret string   // without a secret: a public client
	Origin                 string   // of this server; the callback is Origin + "/auth/callback"
	Embedding              []string // other origins that route sign-in to this server, each with a callback of its own
	ACRValues              []string
	TenantClaim            string // where set, its value must be the session book's tenant
	RolesClaim             string // a claim, or a path with dots: "realm_access.roles"
	Introspection          bool   // ask at each sign-in whether the access token is good
	HTTP                   *http.Client
	// Armed is told of a step-up that was begun by [Party.Arm] and accepted, with the
	// session as it is now and the route that is to be armed, before the page is
	// written. Its error refuses the arming; the step-up itself stands.
	Armed func(w http.ResponseWriter, r *http.Request, s session.Session, route string) error
}

// Party is the relying party; safe for concurrent use.
type Party struct {
	Config
	book *session.Book
	log  *slog.Logger
	http *http.Client
	keys *keySet

	mu    sync.Mutex // over doc, tried and fault
	doc   *document
	tried time.Time
	fault error
}

// document is what is read of the provider's own (OpenID Connect Discovery).
type document struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Introspection string   `json:"introspection_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	SendsIss      bool     `json:"authorization_response_iss_parameter_supported"`
}

// New makes a relying party. A configuration that can't be right is
// [refusal.BadDocument]. The provider itself is asked for its document now where
// it answers, and again when it is needed: a server starts while its provider is
// away.
func New(ctx context.Context, c Config, book *session.Book, log *slog.Logger) (*Party, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Party{Config: c, book: book, log: log, http: bounded(c.HTTP)}
	p.keys = &keySet{party: p}
	if _, err := p.provider(ctx); err != nil {
		log.Warn("the OpenID provider doesn't answer yet", "code", refusal.Of(err))
	}
	return p, nil
}

// check refuses what can't work or must not.
func (c Config) check() error {
	bad := func(what string) error { return fmt.Errorf("issuer: %s: %w", what, refusal.BadDocument) }
	if err := endpoint(c.Issuer); err != nil || strings.ContainsAny(c.Issuer, "?#") {
		return bad("url must be https, or http on this machine, without query and fragment")
	}
	u, err := url.Parse(c.Origin)
	if err != nil || u.Host == "" || u.Path != "" || u.Scheme != "https" && u.Scheme != "http" {
		return bad("the public origin isn't one")
	}
	if c.ClientID == "" {
		return bad("client_id is missing")
	}
	if len(c.ACRValues) == 0 {
		return bad("acr_values is empty, so nobody could ever step up")
	}
	for _, acr := range c.ACRValues {
		if acr == "" || strings.ContainsAny(acr, " \t\r\n") {
			return bad("an acr value has white space in it")
		}
	}
	return nil
}

// endpoint refuses a URL that the provider must not be spoken to over.
func endpoint(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && local(u.Hostname()):
		return nil
	}
	return fmt.Errorf("the provider's address isn't https: %w", refusal.ProviderError)
}

func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// BuiltIn tells whether the provider is this server's own.
func (p *Party) BuiltIn() bool { return p.Issuer == p.Origin+"/idp" }

// redirect is the one address that a flow of an origin comes back to; "" is this
// server's own.
func (p *Party) redirect(origin string) string {
	if origin == "" {
		origin = p.Origin
	}
	return origin + "/auth/callback"
}

// embedding answers the other origin that a request came to, "" for this server's
// own. Package guard lets no third Host this far.
func (p *Party) embedding(r *http.Request) string {
	for _, o := range p.Embedding {
		if _, host, _ := strings.Cut(o, "://"); strings.EqualFold(r.Host, host) {
			return o
		}
	}
	return ""
}

// again is how soon a provider that didn't answer is asked again.
const again = 5 * time.Second

// provider answers the provider's document, which is read once. While it can't
// be had, it is asked for at most every few seconds: [refusal.ProviderError].
func (p *Party) provider(ctx context.Context) (*document, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doc != nil {
		return p.doc, nil
	}
	if p.fault != nil && time.Since(p.tried) < again {
		return nil, p.fault
	}
	doc, err := p.discover(ctx)
	p.doc, p.fault, p.tried = doc, err, time.Now()
	return doc, err
}

// Ready tells whether the provider's document is known.
func (p *Party) Ready(ctx context.Context) error {
	_, err := p.provider(ctx)
	return err
}

// discover reads and judges the document.
func (p *Party) discover(ctx context.Context) (*document, error) {
	data, err := p.fetch(ctx, http.MethodGet, strings.TrimSuffix(p.Issuer, "/")+"/.well-known/openid-configuration", nil, nil)
	if err != nil {
		return nil, err
	}
	doc := &document{}
	if err := json.Unmarshal(data, doc); err != nil {
		return nil, fmt.Errorf("the provider's document doesn't decode: %w", refusal.ProviderError)
	}
	if doc.Issuer != p.Issuer {
		return nil, fmt.Errorf("the provider calls itself otherwise than the configuration: %w", refusal.BadIssuer)
	}
	for _, url := range []string{doc.Authorization, doc.Token, doc.Keys} {
		if err := endpoint(url); err != nil {
			return nil, err
		}
	}
	for _, url := range []string{doc.Introspection, doc.EndSession} {
		if url != "" && endpoint(url) != nil {
			return nil, endpoint(url)
		}
	}
	if p.Introspection && doc.Introspection == "" {
		return nil, fmt.Errorf("the provider has no introspection: %w", refusal.ProviderError)
	}
	doc.Algorithms = slices.DeleteFunc(doc.Algorithms, func(a string) bool { return !slices.Contains(algorithms, a) })
	if len(doc.Algorithms) == 0 {
		return nil, fmt.Errorf("the provider signs in no way that is accepted: %w", refusal.ProviderError)
	}
	return doc, nil
}
