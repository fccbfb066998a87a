package oidc

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"chaperone/internal/refusal"
)

// Standing is what introspection says of an access token that is good.
type Standing struct{ Until time.Time }

// Introspect asks the provider whether an access token is good, for that subject
// (RFC 7662). Only an exact yes counts: active is true and nothing else, and
// sub, issuer, client and expiry, each where it is told, are what they must be;
// sub and expiry must be told. [refusal.Inactive] otherwise,
// [refusal.ProviderError] where the provider gave no usable answer.
func (p *Party) Introspect(ctx context.Context, access, subject string) (Standing, error) {
	doc, err := p.provider(ctx)
	if err != nil {
		return Standing{}, err
	}
	if doc.Introspection == "" {
		return Standing{}, fmt.Errorf("the provider has no introspection: %w", refusal.ProviderError)
	}
	form := url.Values{"token": {access}, "token_type_hint": {"access_token"}}
	auth := p.authenticate(doc, form)
	data, err := p.fetch(ctx, http.MethodPost, doc.Introspection, form, auth)
	if err != nil {
		return Standing{}, err
	}
	c, err := readClaims(data)
	if err != nil {
		return Standing{}, fmt.Errorf("the provider's introspection doesn't decode: %w", refusal.ProviderError)
	}
	return p.standing(c, subject)
}

func (p *Party) standing(c claims, subject string) (Standing, error) {
	no := func(claim string) (Standing, error) { return Standing{}, wrong(claim, refusal.Inactive) }
	if string(c["active"]) != "true" {
		return no("active")
	}
	if sub, err := c.must("sub"); err != nil || sub != subject {
		return no("sub")
	}
	if iss, err := c.text("iss"); err != nil || iss != "" && iss != p.Issuer {
		return no("iss")
	}
	if client, err := c.text("client_id"); err != nil || client != "" && client != p.ClientID {
		return no("client_id")
	}
	if azp, err := c.text("azp"); err != nil || azp != "" && azp != p.ClientID {
		return no("azp")
	}
	if _, told := c["client_id"]; !told {
		if aud, err := c.audience(); err != nil || !slices.Contains(aud, p.ClientID) {
			return no("client_id")
		}
	}
	until, ok, err := c.seconds("exp", refusal.Inactive)
	if err != nil || !ok || !time.Now().Before(until) {
		return no("exp")
	}
	return Standing{until}, nil
}
