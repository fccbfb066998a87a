package guard

import (
	"context"
	"crypto/subtle"
	"net/http"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Cookie names the session's cookie: host-only, secure, not readable by scripts.
const Cookie = "__Host-chaperone"

// Headers of the owner's page.
const (
	KeyHeader  = "X-Session-Key" // the second secret, since cookies ignore ports
	CSRFHeader = "X-CSRF-Token"
)

type ownerKey struct{}

// Session answers the owner's session of a request to an [Owner] route.
func Session(r *http.Request) session.Session {
	s, _ := r.Context().Value(ownerKey{}).(session.Session)
	return s
}

// Secret answers the cookie's value of a request to an Owner route.
func Secret(r *http.Request) string {
	return sole(r)
}

// sole answers the one session cookie; two are none, since nobody can tell which
// of them the browser meant.
func sole(r *http.Request) string {
	found := r.CookiesNamed(Cookie)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// owner finds the session behind a request and holds it to the route's demands.
func (g *guard) owner(r *http.Request, route Route) (context.Context, error) {
	cookie := sole(r)
	if cookie == "" {
		return nil, refusal.SessionExpired
	}
	s, err := g.Sessions.Find(r.Context(), cookie)
	if err != nil {
		return nil, err
	}
	if s.Origin != g.embedding(r) {
		return nil, refusal.SessionExpired // begun on another site's origin, which knows its cookies
	}
	if keys := r.Header.Values(KeyHeader); len(keys) != 1 || g.Sessions.CheckKey(r.Context(), s, keys[0]) != nil {
		return nil, refusal.SessionExpired
	}
	if route.Mutates {
		want := session.CSRF(cookie)
		if got := r.Header.Values(CSRFHeader); len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) != 1 {
			return nil, refusal.CSRFDenied
		}
	}
	if route.Fresh && !s.Fresh(time.Now()) {
		return nil, refusal.StepUpRequired
	}
	return context.WithValue(r.Context(), ownerKey{}, s), nil
}
