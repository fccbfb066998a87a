package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Clocks of different machines may differ by skew; a step-up's proof is good for
// proof.
const (
	skew  = 30 * time.Second
	proof = 300 * time.Second
)

// identity is what an accepted ID token says.
type identity struct {
	issuer, subject, sid string
	name, acr            string
	authTime, issued     time.Time // authTime is zero where it is absent
	roles                []string
}

// verify judges an ID token of a flow: signature, issuer, audience, azp, expiry,
// issue, nonce, at_hash, subject, and what the configuration asks for.
func (p *Party) verify(ctx context.Context, doc *document, raw, access string, f session.Flow) (identity, error) {
	var id identity
	h, err := readHeader(raw, doc.Algorithms)
	if err != nil {
		return id, err
	}
	if h.Type != "" && h.Type != "JWT" {
		return id, wrong("typ", refusal.BadToken) // a logout or access token of the same signer
	}
	verifier := oidc.NewVerifier(p.Issuer, p.keys, &oidc.Config{ClientID: p.ClientID, SupportedSigningAlgs: doc.Algorithms})
	payload, err := p.keys.VerifySignature(ctx, raw)
	if err != nil {
		return id, err
	}
	c, err := readClaims(payload)
	if err != nil {
		return id, err
	}
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return id, coded(err)
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(access); err != nil {
			return id, wrong("at_hash", refusal.BadToken)
		}
	}
	if err := p.meantForUs(c); err != nil {
		return id, err
	}
	if nonce, err := c.must("nonce"); err != nil || subtle.ConstantTimeCompare([]byte(nonce), []byte(f.Nonce)) != 1 {
		return id, wrong("nonce", refusal.BadToken)
	}
	if id, err = p.read(c); err != nil {
		return id, err
	}
	return id, p.accepts(id, c, f)
}

// coded gives an error of the verifier our code, and leaves its text, which
// repeats claims, behind.
func coded(err error) error {
	if code := refusal.Of(err); code != "" {
		return err
	}
	var late *oidc.TokenExpiredError
	if errors.As(err, &late) {
		return wrong("exp", refusal.BadToken)
	}
	return wrong("iss, aud or exp", refusal.BadToken)
}

// meantForUs checks aud and azp. go-oidc is content with an audience that names
// us beside others; then, and wherever azp stands, azp must be us.
func (p *Party) meantForUs(c claims) error {
	aud, err := c.audience()
	if err != nil {
		return err
	}
	azp, err := c.text("azp")
	switch {
	case err != nil:
		return err
	case !slices.Contains(aud, p.ClientID):
		return wrong("aud", refusal.BadToken)
	case azp != "" && azp != p.ClientID, azp == "" && len(aud) > 1:
		return wrong("azp", refusal.BadToken)
	}
	return nil
}

// read takes what is used of the claims.
func (p *Party) read(c claims) (id identity, err error) {
	if id.issuer, err = c.must("iss"); err != nil {
		return id, err
	}
	if id.issuer != p.Issuer {
		return id, wrong("iss", refusal.BadIssuer)
	}
	if id.subject, err = c.must("sub"); err != nil {
		return id, err
	}
	if id.sid, err = c.text("sid"); err != nil {
		return id, err
	}
	if id.acr, err = c.text("acr"); err != nil {
		return id, wrong("acr", refusal.BadACR)
	}
	if id.authTime, _, err = c.seconds("auth_time", refusal.BadAuthTime); err != nil {
		return id, err
	}
	var ok bool
	if id.issued, ok, err = c.seconds("iat", refusal.BadToken); err != nil || !ok {
		return id, wrong("iat", refusal.BadToken)
	}
	if _, ok, err = c.seconds("exp", refusal.BadToken); err != nil || !ok {
		return id, wrong("exp", refusal.BadToken)
	}
	if id.roles, err = p.rolesOf(c); err != nil {
		return id, err
	}
	id.name = c.name()
	return id, nil
}

// rolesOf answers the roles that the configured claim names; the built-in
// provider has one of its own.
func (p *Party) rolesOf(c claims) ([]string, error) {
	path := p.RolesClaim
	if path == "" && p.BuiltIn() {
		path = "roles"
	}
	if path == "" {
		return nil, nil
	}
	return c.list(path)
}

// accepts judges what the claims say: that the token is new, of our tenant, and,
// for a step-up, that the person proved themselves just now and strongly enough.
func (p *Party) accepts(id identity, c claims, f session.Flow) error {
	now := time.Now()
	if id.issued.After(now.Add(skew)) || id.issued.Before(f.Begun.Add(-skew)) {
		return wrong("iat", refusal.BadToken)
	}
	if !id.authTime.IsZero() && id.authTime.After(now.Add(skew)) {
		return wrong("auth_time", refusal.BadAuthTime)
	}
	if p.TenantClaim != "" {
		if tenant, err := c.must(p.TenantClaim); err != nil || tenant != p.book.Tenant() {
			return wrong("tenant", refusal.BadToken)
		}
	}
	if !f.StepsUp() {
		return nil
	}
	return p.proves(id, f, now)
}

// proves judges a step-up (section 4): acr in the demanded set and still in the
// configured one, auth_time after the flow began and at most five minutes old.
func (p *Party) proves(id identity, f session.Flow, now time.Time) error {
	if id.acr == "" || !slices.Contains(f.ACR, id.acr) || !slices.Contains(p.ACRValues, id.acr) {
		return wrong("acr", refusal.BadACR)
	}
	if id.authTime.IsZero() || id.authTime.Before(f.Begun.Add(-skew)) || id.authTime.Before(now.Add(-proof)) {
		return wrong("auth_time", refusal.BadAuthTime)
	}
	return nil
}

// actor answers who a person is in our own records: the built-in provider's own
// id, or a name derived from issuer and subject, which can hold anything.
func (p *Party) actor(id identity) string {
	if p.BuiltIn() {
		return id.subject
	}
	sum := sha256.Sum256([]byte("chaperone actor v1\x00" + id.issuer + "\x00" + id.subject))
	return "user-" + hex.EncodeToString(sum[:16])
}

// facts makes the session's facts of an accepted token.
func (p *Party) facts(id identity, agent string) session.Facts {
	f := session.Facts{
		Actor: p.actor(id), Name: id.name, Issuer: id.issuer, Subject: id.subject, SID: id.sid, ACR: id.acr,
		Issued: id.issued, Roles: id.roles, Agent: agent, Recovery: p.BuiltIn() && id.acr == recovered,
	}
	// Only a level that a step-up accepts makes a session fresh.
	if slices.Contains(p.ACRValues, id.acr) && !f.Recovery {
		f.AuthTime = id.authTime
	}
	return f
}

// recovered is the built-in provider's level of a recovery code
// (credential.Recovered; this package doesn't know that one).
const recovered = "urn:chaperone:recovery"
