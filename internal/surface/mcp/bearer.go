package mcp

import (
	"context"
	"net/http"
	"strings"
	"time"

	"chaperone/internal/oauth"
	catalog "chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Paths of the metadata that a challenge points at.
const (
	resourcePath = "/.well-known/oauth-protected-resource"
	serverPath   = "/.well-known/oauth-authorization-server"
	resourceTail = "/mcp" // of the resource, and the metadata path's suffix (RFC 9728, section 3.1)
)

// bearer answers the token of the request's one Authorization header, by its form
// alone. Where there is none it has answered.
func (h *HTTP) bearer(w http.ResponseWriter, r *http.Request) (string, bool) {
	switch headers := r.Header.Values("Authorization"); len(headers) {
	case 0:
		h.challenge(w, http.StatusUnauthorized, "", oauth.ScopeCollections)
	case 1:
		scheme, token, _ := strings.Cut(headers[0], " ")
		switch {
		case !strings.EqualFold(scheme, "Bearer"):
			h.challenge(w, http.StatusUnauthorized, "", oauth.ScopeCollections)
		case !oauth.WellFormed(token):
			h.challenge(w, http.StatusUnauthorized, "invalid_token", "")
		default:
			return token, true
		}
	default: // which one counts is not for us to choose
		h.challenge(w, http.StatusBadRequest, "invalid_request", "")
	}
	return "", false
}

// find looks the token up; where it grants nothing it has answered.
func (h *HTTP) find(w http.ResponseWriter, r *http.Request, token string) (oauth.Grant, bool) {
	g, err := h.cfg.Tokens.Find(r.Context(), token)
	switch code := refusal.Of(err); {
	case err == nil:
		return g, true
	case code == refusal.Unknown, code == refusal.Expired:
		h.challenge(w, http.StatusUnauthorized, "invalid_token", "")
	default:
		h.cfg.Log.Error("looking up a bearer token", "code", string(code))
		refuseHTTP(w, http.StatusServiceUnavailable, refusal.Failed)
	}
	return oauth.Grant{}, false
}

// challenge refuses as RFC 6750 says (section 3), with the metadata by which a
// client finds how to get a token (RFC 9728, section 5.1). No problem is told of a
// request that showed no token.
func (h *HTTP) challenge(w http.ResponseWriter, status int, problem, scope string) {
	head := `Bearer resource_metadata="` + h.cfg.Origin + resourcePath + resourceTail + `"`
	if problem != "" {
		head += `, error="` + problem + `"`
	}
	if scope != "" {
		head += `, scope="` + scope + `"`
	}
	w.Header().Set("WWW-Authenticate", head)
	if problem == "" {
		problem = "invalid_token"
	}
	writeJSON(w, status, []byte(`{"error":"`+problem+`"}`))
}

// lookAgain is how often an open stream's grant is looked at.
const lookAgain = 2 * time.Second

// watch ends a stream with what it was opened by: at the token's expiry, and
// within two seconds of a revocation.
func (h *HTTP) watch(ctx context.Context, g oauth.Grant) (context.Context, func()) {
	ctx, cancel := context.WithDeadline(ctx, g.Expires)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(lookAgain)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-h.cfg.Ending:
				cancel()
				return
			case <-ctx.Done():
				return
			}
			if stands, err := h.stands(ctx, g); err == nil && !stands {
				cancel()
				return
			}
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// standing is a Tokens that tells of a family too; *oauth.Book is one.
type standing interface {
	Stands(ctx context.Context, family string) (bool, error)
}

func (h *HTTP) stands(ctx context.Context, g oauth.Grant) (bool, error) {
	s, ok := h.cfg.Tokens.(standing)
	if !ok {
		return true, nil
	}
	return s.Stands(ctx, g.Family)
}

// refuseHTTP answers a refusal that isn't a message of the protocol.
func refuseHTTP(w http.ResponseWriter, status int, code refusal.Code) {
	writeJSON(w, status, catalog.Fail(code).JSON())
}

// tooMany asks to wait.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusTooManyRequests, catalog.Fail(catalog.RateLimited, "retry_after_ms", int64(1000)).JSON())
}

func writeJSON(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data) // a caller that has gone is no fault of ours
}
