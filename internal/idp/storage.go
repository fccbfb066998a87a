package idp

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"chaperone/internal/credential"
	"chaperone/internal/refusal"
)

// storage is what op asks of its storage, over the book. What this provider
// doesn't offer is refused.
type storage struct{ *Provider }

var errNotOffered = errors.New("not offered")

// request is a pending request as op wants one.
type request struct{ credential.Pending }

func (r request) GetID() string                      { return r.ID }
func (r request) GetACR() string                     { return r.Level }
func (r request) GetAudience() []string              { return []string{r.Client} }
func (r request) GetAuthTime() time.Time             { return r.AuthTime }
func (r request) GetClientID() string                { return r.Client }
func (r request) GetNonce() string                   { return r.Nonce }
func (r request) GetRedirectURI() string             { return r.Redirect }
func (r request) GetResponseType() oidc.ResponseType { return oidc.ResponseTypeCode }
func (r request) GetResponseMode() oidc.ResponseMode { return oidc.ResponseModeQuery }
func (r request) GetScopes() []string                { return r.Scopes }
func (r request) GetState() string                   { return r.State }
func (r request) GetSubject() string                 { return r.Person }
func (r request) Done() bool                         { return r.Step == credential.Answered }
func (r request) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.Challenge, Method: oidc.CodeChallengeMethodS256}
}

// GetAMR tells the methods of RFC 8176 that reached the level.
func (r request) GetAMR() []string {
	if r.Level == credential.Passkeyed {
		return []string{"pop", "user", "mfa"}
	}
	return []string{"otp"}
}

// CreateAuthRequest keeps a request, which asked has judged.
func (s *storage) CreateAuthRequest(ctx context.Context, r *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	kept := credential.Request{
		Client: r.ClientID, Redirect: r.RedirectURI, Scopes: r.Scopes, State: r.State, Nonce: r.Nonce,
		Challenge: r.CodeChallenge, ACR: r.ACRValues,
	}
	id, err := s.people.BeginRequest(ctx, browserOf(ctx), kept)
	if err != nil {
		return nil, err
	}
	return request{credential.Pending{Request: kept, ID: id, Step: credential.Waiting}}, nil
}

// AuthRequestByID answers a request to its own browser alone.
func (s *storage) AuthRequestByID(ctx context.Context, id string) (op.AuthRequest, error) {
	p, err := s.people.Request(ctx, id, browserOf(ctx))
	if err != nil {
		return nil, err
	}
	return request{p}, nil
}

// SaveAuthCode hands out a request's one code, to its own browser.
func (s *storage) SaveAuthCode(ctx context.Context, id, code string) error {
	return s.people.GiveCode(ctx, id, browserOf(ctx), code)
}

// AuthRequestByCode spends a code. op asks for it once an exchange, before it
// looks at client or verifier: a wrong one of these spends the code too.
func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	p, err := s.people.ClaimCode(ctx, code)
	if err != nil {
		return nil, err
	}
	return request{p}, nil
}

// DeleteAuthRequest leaves the row: a replay of its code must be known as one.
func (s *storage) DeleteAuthRequest(context.Context, string) error { return nil }

func (s *storage) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	of, ok := r.(request)
	if !ok {
		return "", time.Time{}, errNotOffered
	}
	return s.people.IssueToken(ctx, of.Pending, of.Scopes)
}

func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errNotOffered
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, op.ErrInvalidRefreshToken
}

func (s *storage) TerminateSession(context.Context, string, string) error { return errNotOffered }

// TerminateSessionFromRequest revokes what the sign-in of the hint was given.
// Without a hint there is nothing to end: this provider keeps nobody signed in.
func (s *storage) TerminateSessionFromRequest(ctx context.Context, r *op.EndSessionRequest) (string, error) {
	if hint := r.IDTokenHintClaims; hint != nil {
		sid := hint.SessionID
		if told, ok := hint.Claims["sid"].(string); sid == "" && ok {
			sid = told
		}
		if err := s.people.EndRequest(ctx, sid); err != nil {
			return "", err
		}
	}
	return r.RedirectURI, nil
}

func (s *storage) RevokeToken(ctx context.Context, token, _, _ string) *oidc.Error {
	if err := s.people.RevokeToken(ctx, token); err != nil {
		return oidc.ErrServerError()
	}
	return nil
}

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

// signing is a key as op wants one, private or public.
type signing struct {
	id  string
	key any
}

func (k signing) ID() string                                  { return k.id }
func (k signing) Key() any                                    { return k.key }
func (k signing) Use() string                                 { return "sig" }
func (k signing) Algorithm() jose.SignatureAlgorithm          { return jose.ES256 }
func (k signing) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }

func (s *storage) SigningKey(ctx context.Context) (op.SigningKey, error) {
	all, err := s.people.SigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	return signing{all[0].ID, all[0].Private}, nil
}

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.ES256}, nil
}

func (s *storage) KeySet(ctx context.Context) ([]op.Key, error) {
	all, err := s.people.SigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]op.Key, len(all))
	for i, k := range all {
		keys[i] = signing{k.ID, &k.Private.PublicKey}
	}
	return keys, nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != ClientID {
		return nil, refusal.Unknown
	}
	return s.client, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != ClientID || subtle.ConstantTimeCompare([]byte(secret), []byte(s.ClientSecret())) != 1 {
		return refusal.BadCredential
	}
	return nil
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

// SetUserinfoFromRequest fills an ID token. op takes even the subject from here.
func (s *storage) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	of, ok := r.(request)
	if !ok {
		return errNotOffered
	}
	info.AppendClaims("sid", of.ID)
	return s.tell(ctx, info, of.Person)
}

// tell fills in who a person is.
func (s *storage) tell(ctx context.Context, info *oidc.UserInfo, person string) error {
	p, err := s.people.Person(ctx, person)
	if err != nil {
		return err
	}
	info.Subject, info.Name = p.ID, p.Name
	info.AppendClaims("roles", append([]string{}, p.Roles...))
	return nil
}

func (s *storage) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, _, _ string) error {
	t, err := s.people.Token(ctx, token)
	if err != nil {
		return err
	}
	return s.tell(ctx, info, t.Person)
}

// SetIntrospectionFromToken tells what a good token stands for (RFC 7662); an
// error makes op answer active:false.
func (s *storage) SetIntrospectionFromToken(ctx context.Context, info *oidc.IntrospectionResponse, token, _, _ string) error {
	t, err := s.people.Token(ctx, token)
	if err != nil {
		return err
	}
	info.Subject, info.ClientID, info.Issuer, info.TokenType = t.Person, t.Client, s.issuer, oidc.BearerToken
	info.Scope, info.Audience = t.Scopes, oidc.Audience{t.Client}
	info.Expiration, info.IssuedAt, info.AuthTime = oidc.FromTime(t.Until), oidc.FromTime(t.Issued), oidc.FromTime(t.AuthTime)
	info.Claims = map[string]any{"acr": t.ACR, "sid": t.Request}
	return nil
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotOffered
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotOffered
}

// Health tells whether the people can be read.
func (s *storage) Health(ctx context.Context) error {
	_, err := s.people.HasPeople(ctx)
	return err
}
