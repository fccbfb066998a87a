package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// FlowCookie binds a flow to the browser that began it.
const FlowCookie = "__Host-chaperone-flow"

// mac is what a state carries beside its random half.
func mac(secret, random string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("chaperone flow v1 " + random))
	return hex.EncodeToString(m.Sum(nil))
}

// bind answers a new state for the browser that holds secret.
func bind(secret string) string {
	random := session.NewSecret()
	return random + mac(secret, random)
}

// bound tells whether a state was made for the browser that holds secret.
func bound(secret, state string) bool {
	if len(secret) != 64 || len(state) != 128 {
		return false
	}
	return hmac.Equal([]byte(mac(secret, state[:64])), []byte(state[64:]))
}

// cookieOf answers a request's one cookie of that name, "" where there is none
// or more than one.
func cookieOf(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 || len(all[0].Value) != 64 || strings.Trim(all[0].Value, "0123456789abcdef") != "" {
		return ""
	}
	return all[0].Value
}

// flowCookie makes the browser's cookie; an empty secret removes it.
func flowCookie(secret string) *http.Cookie {
	c := &http.Cookie{
		Name: FlowCookie, Value: secret, Path: "/", MaxAge: int(session.FlowLife.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}

// begin keeps a flow and answers the provider's URL for it.
func (p *Party) begin(ctx context.Context, origin, secret string, f session.Flow, ask url.Values) (string, error) {
	doc, err := p.provider(ctx)
	if err != nil {
		return "", err
	}
	f.State, f.Nonce, f.Verifier = bind(secret), session.NewSecret(), session.NewSecret()
	if err := p.book.BeginFlow(ctx, f); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(f.Verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {p.ClientID}, "redirect_uri": {p.redirect(origin)}, "scope": {"openid profile"},
		"state": {f.State}, "nonce": {f.Nonce},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for name, values := range ask {
		q[name] = values
	}
	u, err := url.Parse(doc.Authorization)
	if err != nil {
		return "", fmt.Errorf("the provider's address isn't one: %w", refusal.ProviderError)
	}
	for name, values := range u.Query() {
		if _, ours := q[name]; !ours {
			q[name] = values
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// SignIn is GET /auth/login?next=/path: it sends the browser to the provider.
func (p *Party) SignIn(w http.ResponseWriter, r *http.Request) {
	next := "/"
	if asked := r.URL.Query()["next"]; len(asked) > 0 {
		if len(asked) > 1 {
			p.refuse(w, r, fmt.Errorf("next stands twice: %w", refusal.BadDocument))
			return
		}
		path, err := session.Next(asked[0])
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		next = path
	}
	// A browser that has other sign-ins on the way keeps its secret, so that each
	// of its tabs can finish.
	secret := cookieOf(r, FlowCookie)
	if secret == "" {
		secret = session.NewSecret()
	}
	to, err := p.begin(r.Context(), p.embedding(r), secret, session.Flow{Purpose: session.SignIn, Next: next}, nil)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	http.SetCookie(w, flowCookie(secret))
	noStore(w)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// StepUp begins a step-up of a session and answers where the page must go, with
// a full load, and the cookie that binds it to this browser.
func (p *Party) StepUp(ctx context.Context, s session.Session, next string) (string, *http.Cookie, error) {
	return p.afresh(ctx, s.Origin, session.Flow{Purpose: session.StepUp, Session: s.ID, Next: next})
}

// Arm begins the step-up that arms a page of a route (section 4), as StepUp does.
func (p *Party) Arm(ctx context.Context, s session.Session, route, next string) (string, *http.Cookie, error) {
	return p.afresh(ctx, s.Origin, session.Flow{Purpose: session.Arm, Session: s.ID, Route: route, Next: next})
}

// afresh asks for the person anew, whatever they have just proved.
func (p *Party) afresh(ctx context.Context, origin string, f session.Flow) (string, *http.Cookie, error) {
	if f.Next == "" {
		f.Next = "/"
	}
	if _, err := session.Next(f.Next); err != nil {
		return "", nil, err
	}
	f.ACR = p.ACRValues
	secret := session.NewSecret()
	to, err := p.begin(ctx, origin, secret, f, url.Values{
		"prompt": {"login"}, "max_age": {"0"}, "acr_values": {strings.Join(p.ACRValues, " ")},
	})
	if err != nil {
		return "", nil, err
	}
	return to, flowCookie(secret), nil
}
