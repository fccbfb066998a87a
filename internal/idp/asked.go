package idp

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"chaperone/internal/credential"
)

// asked judges an authorization request before the library sees it: the library
// lets more pass than this provider takes, and writes what it refuses into the
// log, in the caller's own words. A fault that isn't the client's own goes back
// to it with `iss`; one that might be somebody else's goes nowhere.
func (p *Provider) asked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || !once(q) || q.Get("client_id") != ClientID || !slices.Contains(p.client.redirects, q.Get("redirect_uri")) {
			p.refusePage(w, r, http.StatusBadRequest)
			return
		}
		if fault := faultOf(q); fault != "" {
			back := url.Values{"error": {fault}, "iss": {p.issuer}}
			if state := q.Get("state"); state != "" {
				back.Set("state", state)
			}
			http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// once tells whether each parameter stands once (RFC 6749, section 3.1).
func once(q url.Values) bool {
	for _, values := range q {
		if len(values) != 1 {
			return false
		}
	}
	return true
}

// faultOf answers the error code of a request that isn't taken, "" for one that is.
func faultOf(q url.Values) string {
	is := func(name string, allowed ...string) bool { return slices.Contains(allowed, q.Get(name)) }
	switch {
	case q.Has("request"):
		return "request_not_supported"
	case q.Has("request_uri"):
		return "request_uri_not_supported"
	case !is("response_type", "code"):
		return "unsupported_response_type"
	case !is("response_mode", "", "query"), !is("code_challenge_method", "S256"), len(q.Get("code_challenge")) != 43,
		q.Get("state") == "", q.Get("nonce") == "", !is("max_age", "", "0"):
		return "invalid_request"
	case !is("scope", "openid", "openid profile", "profile openid"):
		return "invalid_scope"
	case is("prompt", "none"):
		return "login_required" // there is no standing sign-in here
	case !is("prompt", "", "login"):
		return "invalid_request"
	case !is("acr_values", "", credential.Passkeyed, credential.Recovered, credential.Passkeyed+" "+credential.Recovered):
		return "invalid_request"
	}
	return ""
}

// form judges what a client sends before the library does: in the body alone, each
// parameter once, and no assertion, which the one client never makes and whose
// claims the library would repeat in its answer.
func (p *Provider) form(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" || r.ParseForm() != nil || !once(r.PostForm) || r.PostForm.Has("client_assertion") {
			answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_request"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// exchanges lets only the one grant through to the library.
func (p *Provider) exchanges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostForm.Get("grant_type") != "authorization_code" {
			answer(w, http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ending lets a sign-out through whose hint is a token of ours, old or not, and
// which leads nowhere else: the library writes of any other into the log.
func (p *Provider) ending(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		good := err == nil && once(q) && slices.Contains([]string{"", ClientID}, q.Get("client_id")) &&
			slices.Contains([]string{"", p.client.home}, q.Get("post_logout_redirect_uri"))
		if hint := q.Get("id_token_hint"); good && hint != "" {
			ctx := op.ContextWithIssuer(r.Context(), p.issuer)
			_, err := op.VerifyIDTokenHint[*oidc.IDTokenClaims](ctx, hint, p.op.IDTokenHintVerifier(ctx))
			good = err == nil || errors.As(err, &op.IDTokenHintExpiredError{})
		}
		if !good {
			p.refusePage(w, r, http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
