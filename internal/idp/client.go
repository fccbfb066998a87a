package idp

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client is the one client, the server itself.
type client struct {
	redirects []string // where it may be answered
	home      string
}

func (c client) GetID() string                      { return ClientID }
func (c client) RedirectURIs() []string             { return c.redirects }
func (c client) PostLogoutRedirectURIs() []string   { return []string{c.home} }
func (client) ApplicationType() op.ApplicationType  { return op.ApplicationTypeWeb }
func (client) AuthMethod() oidc.AuthMethod          { return oidc.AuthMethodBasic }
func (client) ResponseTypes() []oidc.ResponseType   { return []oidc.ResponseType{oidc.ResponseTypeCode} }
func (client) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeCode} }
func (client) LoginURL(id string) string            { return "/idp/login?authRequestID=" + id }
func (client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (client) IDTokenLifetime() time.Duration       { return 5 * time.Minute }
func (client) DevMode() bool                        { return false }
func (client) IsScopeAllowed(string) bool           { return false }
func (client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (client) ClockSkew() time.Duration             { return 0 } // it would make auth_time older than it is
func (client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
func (client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
