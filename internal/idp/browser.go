package idp

import (
	"context"
	"net/http"

	"chaperone/internal/credential"
)

// Cookie holds the browser's secret at this provider.
const Cookie = "__Host-chaperone-idp"

type browserKey struct{}

// browserOf answers the secret of the browser that a request came from, "" where
// it has none.
func browserOf(ctx context.Context) string {
	secret, _ := ctx.Value(browserKey{}).(string)
	return secret
}

// shown answers the secret that a request shows, "" where it isn't one of ours.
func shown(r *http.Request) string {
	all := r.CookiesNamed(Cookie)
	if len(all) != 1 || len(all[0].Value) != 64 {
		return ""
	}
	return all[0].Value
}

// bound gives a browser its secret where it has none, and tells next which it
// is. The name's prefix keeps other hosts and plain http from planting one.
func (p *Provider) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret := shown(r)
		if secret == "" {
			secret = credential.NewSecret()
		}
		http.SetCookie(w, &http.Cookie{
			Name: Cookie, Value: secret, Path: "/", MaxAge: int(2 * credential.RequestLife.Seconds()),
			Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), browserKey{}, secret)))
	})
}
