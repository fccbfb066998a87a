package mcp

import (
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// AuthorizationConfig says who gives tokens, and how.
type AuthorizationConfig struct {
	Consents
	Origin string                     // the public origin, which is the issuer
	Scopes []string                   // those that metadata names; default collections
	Peer   func(*http.Request) string // whose rate a request counts against; default its address
	Log    *slog.Logger
}

// Authorization is the HTTP of an OAuth 2.1 authorization server for public
// clients: metadata (RFC 9728, 8414), registration (RFC 7591), the authorization
// request up to the page that asks a person, tokens and revocation (RFC 7009).
// It decides nothing: oauth does, and a person.
type Authorization struct {
	AuthorizationConfig
	resource, server                   []byte // the two documents
	asking, trading, ending, enrolling *guard.Limiter
}

// NewAuthorization makes the handlers.
func NewAuthorization(cfg AuthorizationConfig) (*Authorization, error) {
	if cfg.Tokens == nil || cfg.Ledger == nil || cfg.Tokens.Resource() != cfg.Origin+resourceTail {
		return nil, errors.New("mcp: authorization needs both authorities, and the origin that its book was made with")
	}
	if cfg.Scopes == nil {
		cfg.Scopes = []string{oauth.ScopeCollections}
	}
	if cfg.Peer == nil {
		cfg.Peer = address
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authorization{AuthorizationConfig: cfg, asking: guard.NewLimiter(2, 60), trading: guard.NewLimiter(5, 100), ending: guard.NewLimiter(2, 60), enrolling: guard.NewLimiter(0.2, 30)}
	return a, a.describe()
}

// Routes lists the handlers for the server's table. Who may call them is theirs
// to say: a client shows what it has in the request itself.
func (a *Authorization) Routes() []guard.Route {
	return []guard.Route{
		{Method: "GET", Path: resourcePath, Who: guard.Nobody, Handler: a.ProtectedResource},
		{Method: "GET", Path: resourcePath + resourceTail, Who: guard.Nobody, Handler: a.ProtectedResource},
		{Method: "GET", Path: serverPath, Who: guard.Nobody, Handler: a.Server},
		{Method: "GET", Path: "/oauth/authorize", Who: guard.Nobody, Handler: a.Authorize},
		{Method: "POST", Path: "/oauth/register", Who: guard.Nobody, Handler: a.Register},
		{Method: "POST", Path: "/oauth/token", Who: guard.Nobody, Handler: a.Token},
		{Method: "POST", Path: "/oauth/revoke", Who: guard.Nobody, Handler: a.RevokeToken},
	}
}

// describe makes the two documents, which never change.
func (a *Authorization) describe() (err error) {
	a.resource, err = json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
		Docs     string   `json:"resource_documentation"`
	}{a.Origin + resourceTail, []string{a.Origin}, a.Scopes, []string{"header"}, "Chaperone", a.Origin + "/docs"})
	if err != nil {
		return err
	}
	a.server, err = json.Marshal(struct {
		Issuer       string   `json:"issuer"`
		Authorize    string   `json:"authorization_endpoint"`
		Token        string   `json:"token_endpoint"`
		Register     string   `json:"registration_endpoint"`
		Revoke       string   `json:"revocation_endpoint"`
		Scopes       []string `json:"scopes_supported"`
		Responses    []string `json:"response_types_supported"`
		Modes        []string `json:"response_modes_supported"`
		Grants       []string `json:"grant_types_supported"`
		Methods      []string `json:"token_endpoint_auth_methods_supported"`
		RevokeBy     []string `json:"revocation_endpoint_auth_methods_supported"`
		Challenges   []string `json:"code_challenge_methods_supported"`
		IssParameter bool     `json:"authorization_response_iss_parameter_supported"`
		Documents    bool     `json:"client_id_metadata_document_supported"`
		Docs         string   `json:"service_documentation"`
	}{
		a.Origin, a.Origin + "/oauth/authorize", a.Origin + "/oauth/token", a.Origin + "/oauth/register", a.Origin + "/oauth/revoke",
		a.Scopes, []string{"code"}, []string{"query"}, []string{"authorization_code", "refresh_token"}, []string{"none"}, []string{"none"},
		[]string{"S256"}, true, true, a.Origin + "/docs",
	})
	return err
}

// ProtectedResource answers RFC 9728's document.
func (a *Authorization) ProtectedResource(w http.ResponseWriter, r *http.Request) {
	a.document(w, a.resource)
}

// Server answers RFC 8414's document.
func (a *Authorization) Server(w http.ResponseWriter, r *http.Request) { a.document(w, a.server) }

// document is public: any page may read it.
func (a *Authorization) document(w http.ResponseWriter, data []byte) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	writeJSON(w, http.StatusOK, data)
}

// Authorize judges a client's request and sends the browser to the page that asks
// the person. While the redirect URI isn't known to be the client's, an error is
// shown and goes nowhere (RFC 6749, section 4.1.2.1).
func (a *Authorization) Authorize(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !a.asking.Allow(a.Peer(r)) {
		tooMany(w)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(r.URL.RawQuery) > 8<<10 || len(query["client_id"]) != 1 || len(query["redirect_uri"]) != 1 {
		showFault(w, r, http.StatusBadRequest, refusal.Malformed)
		return
	}
	client, err := a.Tokens.Client(r.Context(), query.Get("client_id"))
	switch code := refusal.Of(err); {
	case code == refusal.Unknown || code == refusal.BadDocument || code == refusal.BadRedirect:
		showFault(w, r, http.StatusBadRequest, code)
		return
	case err != nil:
		a.Log.Error("looking up a client", "code", string(code))
		showFault(w, r, http.StatusServiceUnavailable, refusal.Failed)
		return
	}
	redirect := query.Get("redirect_uri")
	if !client.Admits(redirect) {
		showFault(w, r, http.StatusBadRequest, refusal.BadRedirect)
		return
	}
	id, problem := a.ask(r, client, query)
	if problem != "" {
		next, _ := a.Tokens.Back(client, redirect, query.Get("state"), problem)
		found(w, next)
		return
	}
	found(w, "/connect/"+id)
}

// found sends the browser on. The address can hold a code, so it stays out of the
// body that http.Redirect would write.
func found(w http.ResponseWriter, next string) {
	w.Header().Set("Location", next)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusFound)
}

// ask records a request of a client whose redirect URI is its own, or answers the
// problem in OAuth's words.
func (a *Authorization) ask(r *http.Request, client oauth.Client, query url.Values) (id, problem string) {
	for _, values := range query {
		if len(values) > 1 {
			return "", "invalid_request"
		}
	}
	switch {
	case query.Get("response_type") != "code":
		return "", "unsupported_response_type"
	case query.Get("code_challenge_method") != "S256" || query.Has("request") || query.Has("request_uri"):
		return "", "invalid_request"
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return "", "invalid_request"
	}
	scopes, err := oauth.ParseScope(query.Get("scope"))
	// What nothing serves yet can't be granted either.
	if err != nil || slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(a.Scopes, s) }) {
		return "", "invalid_scope"
	}
	if len(scopes) == 0 {
		scopes = []string{oauth.ScopeCollections}
	}
	id, err = a.Tokens.Begin(r.Context(), oauth.Ask{Client: client, Redirect: query.Get("redirect_uri"), State: query.Get("state"),
		Challenge: query.Get("code_challenge"), Scopes: scopes, Resource: query.Get("resource")})
	switch code := refusal.Of(err); {
	case err == nil:
		return id, ""
	case code == refusal.BadResource:
		return "", "invalid_target"
	case code == refusal.BadDocument:
		return "", "invalid_request"
	case code == refusal.TooMany || code == refusal.DatabaseBusy:
		return "", "temporarily_unavailable"
	}
	a.Log.Error("recording an authorization request", "code", string(refusal.Of(err)))
	return "", "server_error"
}

// address is a request's peer: one IPv4 address, or a /64 of IPv6, which is what
// one customer has.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}

// faults are the texts of the page, by language and code.
var faults = map[string]map[refusal.Code]string{
	"en": {
		"title":             "This app can't be connected",
		"back":              "Nothing was granted. Close this page and start again in the app.",
		refusal.Malformed:   "The app's request is incomplete.",
		refusal.Unknown:     "The app isn't registered here, or its registration has expired.",
		refusal.BadDocument: "What the app says of itself can't be read or isn't allowed.",
		refusal.BadRedirect: "The app asked to be answered at an address that isn't its own.",
		refusal.Failed:      "This server can't answer now. Try again in a moment.",
	},
	"es": {
		"title":             "No se puede conectar esta aplicación",
		"back":              "No se ha concedido nada. Cierra esta página y vuelve a empezar en la aplicación.",
		refusal.Malformed:   "La solicitud de la aplicación está incompleta.",
		refusal.Unknown:     "La aplicación no está registrada aquí o su registro ha caducado.",
		refusal.BadDocument: "Lo que la aplicación dice de sí misma no se puede leer o no está permitido.",
		refusal.BadRedirect: "La aplicación pidió la respuesta en una dirección que no es suya.",
		refusal.Failed:      "Este servidor no puede responder ahora. Inténtalo de nuevo en un momento.",
	},
}

var faultPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{{.Title}} - Chaperone</title></head>
<body><main><h1>{{.Title}}</h1><p>{{.What}}</p><p>{{.Back}}</p><p><code>{{.Code}}</code></p></main></body></html>
`))

// showFault answers a page that holds nothing of the request.
func showFault(w http.ResponseWriter, r *http.Request, status int, code refusal.Code) {
	lang := "en"
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Accept-Language")), "es") {
		lang = "es"
	}
	text := faults[lang]
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	faultPage.Execute(w, struct{ Lang, Title, What, Back, Code string }{lang, text["title"], text[code], text["back"], string(code)}) // a reader that has gone is no fault
}
