package guard

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

type bearerKey struct{}

// Grant answers what the token of a request to a [Bearer] route grants.
func Grant(r *http.Request) oauth.Grant {
	g, _ := r.Context().Value(bearerKey{}).(oauth.Grant)
	return g
}

// bearer finds the grant behind the one Authorization header.
func (g *guard) bearer(r *http.Request, route Route) (context.Context, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return nil, errNoToken
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t") {
		return nil, errNoToken
	}
	grant, err := g.Tokens.Find(r.Context(), token)
	if err != nil {
		if refusal.Of(err) == "" {
			return nil, err // the database's fault isn't the caller's
		}
		return nil, errBadToken
	}
	if route.Scope != "" && !grant.Principal.HasScope(route.Scope) {
		return nil, errScope
	}
	return context.WithValue(r.Context(), bearerKey{}, grant), nil
}

var (
	errNoToken  = errors.New("no token")
	errBadToken = errors.New("a token that isn't valid")
	errScope    = errors.New("a scope is missing")
)

// challenge writes a refusal, with RFC 6750's header where a token was asked for.
func (g *guard) challenge(w http.ResponseWriter, route Route, err error) {
	const metadata = "/.well-known/oauth-protected-resource"
	head := `Bearer resource_metadata="` + g.Origin + metadata + `"`
	status, code := http.StatusUnauthorized, refusal.SessionExpired
	switch {
	case errors.Is(err, errNoToken):
	case errors.Is(err, errBadToken):
		head += `, error="invalid_token"`
	case errors.Is(err, errScope):
		head += `, error="insufficient_scope", scope="` + route.Scope + `"`
		status, code = http.StatusForbidden, tool.GrantRevoked
	default:
		route.refuse(w, err)
		return
	}
	w.Header().Set("WWW-Authenticate", head)
	if route.Refusal != nil {
		code = refusal.Unauthenticated
		if status == http.StatusForbidden {
			code = refusal.Forbidden
		}
		route.refuse(w, code)
		return
	}
	refuse(w, status, code, nil)
}

// Token answers the token of a request to a Bearer route.
func Token(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token
}
