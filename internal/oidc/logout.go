package oidc

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Logout answers where the provider ends its own session for this one (OpenID
// Connect RP-Initiated Logout), "" where it has no such place. It ends nothing
// here: that is the caller's, and doesn't wait for the provider.
func (p *Party) Logout(ctx context.Context, s session.Session) (string, error) {
	doc, err := p.provider(ctx)
	if err != nil || doc.EndSession == "" {
		return "", err
	}
	u, err := url.Parse(doc.EndSession)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("client_id", p.ClientID)
	q.Set("post_logout_redirect_uri", p.Origin+"/")
	if hint := s.Tokens().ID; hint != "" {
		q.Set("id_token_hint", hint)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// logoutEvent is the one member of a logout token's events.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// fresh is how old a logout token may be.
const fresh = 5 * time.Minute

// BackChannel is POST /auth/backchannel-logout (OpenID Connect Back-Channel
// Logout 1.0): 200 once the sessions are ended, 400 for a token that isn't
// accepted, 500 where ending them failed.
func (p *Party) BackChannel(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	t, err := p.logoutToken(r)
	var ended int
	if err == nil {
		ended, err = p.book.Logout(r.Context(), t)
	}
	switch code := refusal.Of(err); {
	case err == nil:
		p.log.Info("the provider logged out", "ended", ended)
		w.WriteHeader(http.StatusOK)
	case code == refusal.BadToken, code == refusal.BadIssuer, code == refusal.Replayed, code == refusal.BadDocument:
		p.log.Warn("a logout token was refused", "code", code)
		failure(w, http.StatusBadRequest, "invalid_request")
	default:
		p.log.Error("a logout failed", "code", code)
		failure(w, http.StatusInternalServerError, "server_error")
	}
}

func failure(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":"`+word+`"}`) // the other side hung up
}

// logoutToken reads the one token of a request, and judges it.
func (p *Party) logoutToken(r *http.Request) (session.LogoutToken, error) {
	var none session.LogoutToken
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Method != http.MethodPost || r.URL.RawQuery != "" {
		return none, wrong("logout_token", refusal.BadDocument)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err != nil || len(body) > maxAnswer {
		return none, wrong("logout_token", refusal.BadDocument)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || len(form["logout_token"]) != 1 {
		return none, wrong("logout_token", refusal.BadDocument)
	}
	return p.verifyLogout(r.Context(), form.Get("logout_token"))
}

// verifyLogout judges a logout token: signature as for an ID token, then the
// shape of Back-Channel Logout 1.0, section 2.6, strictly.
func (p *Party) verifyLogout(ctx context.Context, raw string) (session.LogoutToken, error) {
	var none session.LogoutToken
	doc, err := p.provider(ctx)
	if err != nil {
		return none, err
	}
	h, err := readHeader(raw, doc.Algorithms)
	if err != nil {
		return none, err
	}
	if h.Type != "" && h.Type != "JWT" && h.Type != "logout+jwt" {
		return none, wrong("typ", refusal.BadToken)
	}
	payload, err := p.keys.VerifySignature(ctx, raw)
	if err != nil {
		return none, err
	}
	verifier := oidc.NewVerifier(p.Issuer, p.keys, &oidc.Config{ClientID: p.ClientID, SupportedSigningAlgs: doc.Algorithms})
	t, err := ReadLogout(payload, time.Now())
	if err != nil {
		return none, err
	}
	if _, err := verifier.VerifyLogout(ctx, raw); err != nil {
		return none, coded(err)
	}
	c, err := readClaims(payload)
	if err == nil {
		err = p.meantForUs(c)
	}
	if err != nil {
		return none, err
	}
	if t.Issuer != p.Issuer {
		return none, wrong("iss", refusal.BadIssuer)
	}
	return t, nil
}

// ReadLogout judges the claims of a logout token whose signature, issuer and
// audience others judge: events is an object with the one member of logout, and
// that an empty object; there is no nonce; iat is at most five minutes old, exp
// ahead; jti and at least one of sub and sid are there. [refusal.BadToken].
func ReadLogout(payload []byte, now time.Time) (session.LogoutToken, error) {
	var none, t session.LogoutToken
	c, err := readClaims(payload)
	if err != nil {
		return none, err
	}
	if _, has := c["nonce"]; has {
		return none, wrong("nonce", refusal.BadToken) // an ID token, played as another
	}
	if err := isLogout(c["events"]); err != nil {
		return none, err
	}
	if t.Issuer, err = c.must("iss"); err != nil {
		return none, err
	}
	if t.JTI, err = c.must("jti"); err != nil {
		return none, err
	}
	var subErr, sidErr error
	t.Subject, subErr = c.text("sub")
	t.SID, sidErr = c.text("sid")
	if err := errors.Join(subErr, sidErr); err != nil {
		return none, err
	}
	if t.Subject == "" && t.SID == "" {
		return none, wrong("sub and sid", refusal.BadToken)
	}
	var ok bool
	if t.IssuedAt, ok, err = c.seconds("iat", refusal.BadToken); err != nil || !ok || t.IssuedAt.After(now.Add(skew)) || t.IssuedAt.Before(now.Add(-fresh)) {
		return none, wrong("iat", refusal.BadToken)
	}
	if until, ok, err := c.seconds("exp", refusal.BadToken); err != nil || !ok || !now.Before(until) {
		return none, wrong("exp", refusal.BadToken)
	}
	return t, nil
}

// isLogout judges the events claim.
func isLogout(raw jsontext.Value) error {
	var events, inner map[string]jsontext.Value
	if raw.Kind() != '{' || json.Unmarshal(raw, &events) != nil || len(events) != 1 {
		return wrong("events", refusal.BadToken)
	}
	event := events[logoutEvent]
	if event.Kind() != '{' || json.Unmarshal(event, &inner) != nil || len(inner) != 0 {
		return wrong("events", refusal.BadToken)
	}
	return nil
}
