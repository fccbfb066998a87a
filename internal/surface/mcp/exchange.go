package mcp

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
)

// maxForm is the largest form of the token and revocation endpoints, in bytes.
const maxForm = 16 << 10

// problem is an error in OAuth's words (RFC 6749, section 5.2).
type problem struct {
	status int
	word   string
}

// Error answers OAuth's word.
func (p problem) Error() string { return p.word }

var (
	badRequest = problem{http.StatusBadRequest, "invalid_request"}
	badClient  = problem{http.StatusUnauthorized, "invalid_client"}
	badGrant   = problem{http.StatusBadRequest, "invalid_grant"}
)

// form reads a form strictly: in the body alone, no parameter twice, and no
// client authentication, which public clients have none of.
func form(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.URL.RawQuery != "" {
		return nil, badRequest
	}
	if len(r.Header.Values("Authorization")) > 0 {
		return nil, badClient
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if err != nil || len(body) > maxForm {
		return nil, badRequest
	}
	return parseForm(string(body))
}

// parseForm decodes a form whose parameters stand once each.
func parseForm(body string) (url.Values, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, badRequest
	}
	for name, all := range values {
		if len(all) > 1 || strings.Contains(name, "\x00") {
			return nil, badRequest
		}
	}
	if values.Get("client_secret") != "" {
		return nil, badClient
	}
	if values.Get("client_id") == "" {
		return nil, badRequest
	}
	return values, nil
}

// Token trades a code or a refresh token.
func (a *Authorization) Token(w http.ResponseWriter, r *http.Request) {
	private(w)
	if !a.trading.Allow(a.Peer(r)) {
		tooMany(w)
		return
	}
	values, err := form(r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	tokens, err := a.trade(r, values)
	if err != nil {
		a.refuse(w, err)
		return
	}
	data, err := json.Marshal(struct {
		Access  string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int64  `json:"expires_in"`
		Refresh string `json:"refresh_token"`
		Scope   string `json:"scope"`
	}{tokens.Access, "Bearer", max(int64(time.Until(tokens.Expires)/time.Second), 0), tokens.Refresh, strings.Join(tokens.Scopes, " ")})
	if err != nil {
		a.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, data)
}

func (a *Authorization) trade(r *http.Request, v url.Values) (oauth.Tokens, error) {
	switch v.Get("grant_type") {
	case "authorization_code":
		if v.Get("code") == "" || v.Get("redirect_uri") == "" || v.Get("code_verifier") == "" {
			return oauth.Tokens{}, badRequest
		}
		return a.Tokens.Redeem(r.Context(), oauth.Redemption{Code: v.Get("code"), Client: v.Get("client_id"),
			Redirect: v.Get("redirect_uri"), Verifier: v.Get("code_verifier"), Resource: v.Get("resource")})
	case "refresh_token":
		if v.Get("refresh_token") == "" {
			return oauth.Tokens{}, badRequest
		}
		renewal := oauth.Renewal{Token: v.Get("refresh_token"), Client: v.Get("client_id"), Resource: v.Get("resource")}
		if v.Has("scope") {
			scopes, err := oauth.ParseGranted(v.Get("scope"))
			if err != nil || len(scopes) == 0 {
				return oauth.Tokens{}, problem{http.StatusBadRequest, "invalid_scope"}
			}
			renewal.Scopes = scopes
		}
		return a.Tokens.Refresh(r.Context(), renewal)
	case "":
		return oauth.Tokens{}, badRequest
	}
	return oauth.Tokens{}, problem{http.StatusBadRequest, "unsupported_grant_type"}
}

// RevokeToken ends what a client was given, and the account's connection with it.
// A token that isn't known is revoked already (RFC 7009, section 2.2).
func (a *Authorization) RevokeToken(w http.ResponseWriter, r *http.Request) {
	private(w)
	if !a.ending.Allow(a.Peer(r)) {
		tooMany(w)
		return
	}
	values, err := form(r)
	if err == nil && values.Get("token") == "" {
		err = badRequest
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	ended, err := a.Tokens.Revoke(r.Context(), values.Get("client_id"), values.Get("token"))
	if err == nil && ended != nil {
		err = a.abandon(r.Context(), ended.Actor, ended.Connection)
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// Register adds a client by RFC 7591. What it asks for beyond redirect URIs and a
// name is answered with what it gets.
func (a *Authorization) Register(w http.ResponseWriter, r *http.Request) {
	private(w)
	if !a.enrolling.Allow(a.Peer(r)) {
		tooMany(w)
		return
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, readErr := io.ReadAll(io.LimitReader(r.Body, oauth.MaxMetadata+1))
	if err != nil || kind != "application/json" || readErr != nil {
		a.refuse(w, problem{http.StatusBadRequest, "invalid_client_metadata"})
		return
	}
	client, err := a.Tokens.Register(r.Context(), body)
	switch refusal.Of(err) {
	case refusal.BadRedirect:
		err = problem{http.StatusBadRequest, "invalid_redirect_uri"}
	case refusal.BadDocument:
		err = problem{http.StatusBadRequest, "invalid_client_metadata"}
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	data, err := json.Marshal(struct {
		ID        string   `json:"client_id"`
		Issued    int64    `json:"client_id_issued_at"`
		Name      string   `json:"client_name,omitzero"`
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
		Responses []string `json:"response_types"`
		Method    string   `json:"token_endpoint_auth_method"`
	}{client.ID, client.Created.Unix(), client.Name, client.Redirects, []string{"authorization_code", "refresh_token"}, []string{"code"}, "none"})
	if err != nil {
		a.refuse(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, data)
}

// private keeps an answer out of every cache (RFC 6749, section 5.1).
func private(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// refuse answers an error in OAuth's words. Why a code or token isn't good is
// told to nobody: whoever holds it learns nothing by trying.
func (a *Authorization) refuse(w http.ResponseWriter, err error) {
	var p problem
	if !errors.As(err, &p) {
		switch code := refusal.Of(err); code {
		case refusal.Unknown, refusal.Expired, refusal.Replayed, refusal.Conflict:
			p = badGrant
		case refusal.BadResource:
			p = problem{http.StatusBadRequest, "invalid_target"}
		case refusal.BadDocument:
			p = problem{http.StatusBadRequest, "invalid_scope"}
		default:
			a.Log.Error("giving a token", "code", string(code))
			p = problem{http.StatusServiceUnavailable, "temporarily_unavailable"}
		}
	}
	writeJSON(w, p.status, []byte(`{"error":"`+p.word+`"}`))
}
