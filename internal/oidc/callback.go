package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// SessionCookie is the session's. Chromium takes it on http://localhost too.
const SessionCookie = "__Host-chaperone"

// response is the provider's answer to an authorization request.
type response struct{ code, state, iss, failure string }

// readResponse reads the callback's query: each parameter at most once.
func readResponse(r *http.Request) (response, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodGet || len(r.URL.RawQuery) > maxToken {
		return response{}, fmt.Errorf("the answer doesn't parse: %w", refusal.BadState)
	}
	for _, name := range []string{"code", "state", "iss", "error"} {
		if len(q[name]) > 1 {
			return response{}, fmt.Errorf("the answer says something twice: %w", refusal.BadState)
		}
	}
	return response{q.Get("code"), q.Get("state"), q.Get("iss"), q.Get("error")}, nil
}

// Callback is GET /auth/callback: the way back from the provider. What it accepts
// ends in a page that puts the session's key where this origin's scripts find it
// and goes on; whatever fails ends in a page that says only that it didn't work.
func (p *Party) Callback(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	flow, s, done, err := p.comeBack(r)
	if err == nil {
		http.SetCookie(w, &http.Cookie{
			Name: SessionCookie, Value: done.Cookie, Path: "/", MaxAge: int(session.Absolute.Seconds()),
			Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
		err = p.armed(w, r, flow, s)
	}
	if err != nil {
		p.refuse(w, r, errors.Join(err, p.tell(r.Context(), flow, err)))
		return
	}
	p.accepted(w, r, done.Key, flow.Next)
}

// armed hands an arming step-up to whoever arms. The session has its new cookie by
// then, and keeps it where the arming is refused: the old one is dead.
func (p *Party) armed(w http.ResponseWriter, r *http.Request, flow session.Flow, s session.Session) error {
	switch {
	case flow.Purpose != session.Arm:
		return nil
	case p.Armed == nil:
		return fmt.Errorf("nobody arms pages here: %w", refusal.Failed)
	}
	return p.Armed(w, r, s, flow.Route)
}

// tell puts a refusal into the audit, but for those that anybody can bring about
// without the provider's help: they would let a stranger fill it.
func (p *Party) tell(ctx context.Context, flow session.Flow, err error) error {
	code := refusal.Of(err)
	if flow.Purpose == "" || code == "" || flow.Purpose == session.SignIn && code == refusal.ProviderError {
		return nil
	}
	return p.book.Refused(ctx, flow, code)
}

// comeBack is the whole of it, in an order that matters: whose browser it is,
// then who answers, then the flow is spent, then the token is judged.
func (p *Party) comeBack(r *http.Request) (flow session.Flow, s session.Session, done session.Secrets, err error) {
	ctx := r.Context()
	got, err := readResponse(r)
	if err != nil {
		return flow, s, done, err
	}
	if !bound(cookieOf(r, FlowCookie), got.state) {
		return flow, s, done, fmt.Errorf("this sign-in was begun by another browser: %w", refusal.BadState)
	}
	doc, err := p.provider(ctx)
	if err != nil {
		return flow, s, done, err
	}
	if got.iss != p.Issuer && (got.iss != "" || doc.SendsIss) {
		return flow, s, done, fmt.Errorf("another provider answered: %w", refusal.BadIssuer)
	}
	if flow, err = p.book.ClaimFlow(ctx, got.state); err != nil {
		return flow, s, done, err
	}
	if got.failure != "" || got.code == "" {
		return flow, s, done, fmt.Errorf("the provider didn't sign the person in: %w", refusal.ProviderError)
	}
	id, facts, err := p.redeem(ctx, doc, got.code, flow, r)
	if err != nil {
		return flow, s, done, err
	}
	if flow.StepsUp() {
		s, done, err = p.stepUp(ctx, cookieOf(r, SessionCookie), flow, facts)
		return flow, s, done, err
	}
	facts.Replaces = cookieOf(r, SessionCookie)
	s, done, err = p.book.Begin(ctx, facts)
	if err == nil {
		p.log.Info("signed in", "actor", facts.Actor, "acr", known(p, id.acr))
	}
	return flow, s, done, err
}

// known answers an acr only where the configuration names it: others are the
// provider's words.
func known(p *Party, acr string) string {
	for _, a := range p.ACRValues {
		if a == acr {
			return a
		}
	}
	return "other"
}

// stepUp gives the facts to the session that the step-up was begun for, if it is
// still the browser's own.
func (p *Party) stepUp(ctx context.Context, cookie string, flow session.Flow, facts session.Facts) (session.Session, session.Secrets, error) {
	s, err := p.book.Find(ctx, cookie)
	if err != nil {
		return s, session.Secrets{}, err
	}
	if s.ID != flow.Session || s.Origin != facts.Origin {
		return s, session.Secrets{}, fmt.Errorf("this step-up was begun for another session: %w", refusal.SessionExpired)
	}
	s, renewed, err := p.book.StepUp(ctx, cookie, facts)
	return s, session.Secrets{Cookie: renewed}, err // the key stays as it is
}

// tokens is the answer of the token endpoint.
type tokens struct {
	Access    string         `json:"access_token"`
	Type      string         `json:"token_type"`
	ID        string         `json:"id_token"`
	ExpiresIn jsontext.Value `json:"expires_in"`
}

// life answers how long the access token is said to be good, at most as long as
// a session; zero where that isn't told. Some providers tell it as text.
func (t tokens) life() time.Duration {
	n, err := strconv.ParseInt(strings.Trim(string(t.ExpiresIn), `"`), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(session.Absolute/time.Second))) * time.Second
}

// redeem exchanges a code and judges what comes of it.
func (p *Party) redeem(ctx context.Context, doc *document, code string, f session.Flow, r *http.Request) (identity, session.Facts, error) {
	var id identity
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.redirect(p.embedding(r))}, "code_verifier": {f.Verifier}}
	auth := p.authenticate(doc, form)
	data, err := p.fetch(ctx, http.MethodPost, doc.Token, form, auth)
	if err != nil {
		return id, session.Facts{}, err
	}
	var t tokens
	if err := json.Unmarshal(data, &t); err != nil || t.ID == "" || t.Access == "" {
		return id, session.Facts{}, fmt.Errorf("the provider's tokens don't decode: %w", refusal.ProviderError)
	}
	if id, err = p.verify(ctx, doc, t.ID, t.Access, f); err != nil {
		return id, session.Facts{}, err
	}
	facts := p.facts(id, r.UserAgent())
	facts.Origin = p.embedding(r)
	facts.Tokens = session.Tokens{ID: t.ID, Access: t.Access}
	if life := t.life(); life > 0 {
		facts.AccessUntil = time.Now().Add(life)
	}
	if p.Introspection {
		state, err := p.Introspect(ctx, t.Access, id.subject)
		if err != nil {
			return id, session.Facts{}, err
		}
		facts.AccessUntil = state.Until
	}
	return id, facts, nil
}
