package controlv1

import (
	"net/netip"
	"net/url"
	"strings"

	"chaperone/internal/ref"
)

// Mask is a fact in private form: "hmac:" and the 64 hex digits of a keyed HMAC,
// which tells nothing without the key. The zero Mask is none.
type Mask struct{ text string }

// ParseMask reads one.
func ParseMask(s string) (Mask, error) {
	rest, ok := strings.CutPrefix(s, "hmac:")
	if !ok || !isHex(rest, 64) {
		return Mask{}, invalid("", "isn't a fact in private form")
	}
	return Mask{s}, nil
}

// String answers the mask as it is stored.
func (m Mask) String() string { return m.text }

// mask hides one fact of a binding under its name, so that no two fields' masks
// are ever alike.
func mask(key ref.Key, field, fact string) Mask {
	r := ref.Derive[ref.PrincipalKind](key, Protocol+" binding", field, fact)
	return Mask{"hmac:" + strings.TrimPrefix(r.String(), "principal_")}
}

// MaskAgent hides the name of an acting agent; "" is the zero Mask.
func MaskAgent(key ref.Key, agent string) Mask {
	if agent == "" {
		return Mask{}
	}
	return mask(key, "agent", agent)
}

// Origin is a web origin in its one spelling: https, or http on localhost,
// 127.0.0.1 or [::1]; no userinfo, path, query or fragment.
type Origin struct{ text string }

// ParseOrigin reads one as a browser serialises it; "null" isn't one.
func ParseOrigin(s string) (Origin, error) {
	bad := func() (Origin, error) { return Origin{}, invalid("", "isn't a secure origin") }
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || s != u.Scheme+"://"+u.Host || strings.ToLower(s) != s || len(s) > 512 {
		return bad()
	}
	host := u.Hostname()
	switch u.Scheme {
	case "https":
	case "http":
		if host != "localhost" && host != "127.0.0.1" && host != "::1" {
			return bad()
		}
	default:
		return bad()
	}
	if p := u.Port(); strings.HasSuffix(u.Host, ":") || p == "80" && u.Scheme == "http" || p == "443" && u.Scheme == "https" || len(p) > 5 || strings.HasPrefix(p, "0") {
		return bad() // a default port is never spelled out
	}
	if strings.HasPrefix(u.Host, "[") {
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || a.String() != host || a.Zone() != "" {
			return bad()
		}
	} else if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return bad()
	}
	return Origin{s}, nil
}

// String answers the origin.
func (o Origin) String() string { return o.text }

// Person is who armed and by which evidence, as it was verified. It is kept in
// memory alone.
type Person struct {
	Tenant, Actor     string
	Login             ref.Login
	Browser           ref.Browser
	Issuer, ACR       string
	AuthMS            int64 // when the person proved themselves
	CredentialUntilMS int64 // when the provider's access token ends
	PolicyVersion     ID
}

// Principal answers the person's reference.
func (p Person) Principal(key ref.Key) ref.Principal {
	return ref.Derive[ref.PrincipalKind](key, p.Tenant, p.Actor)
}

// Private answers the evidence in private form.
func (p Person) Private(key ref.Key) (Evidence, error) {
	if p.Tenant == "" || p.Actor == "" || p.Issuer == "" || p.ACR == "" {
		return Evidence{}, invalid("", "the evidence lacks a part")
	}
	e := Evidence{
		Tenant: mask(key, "tenant", p.Tenant), Actor: mask(key, "actor", p.Actor), Login: p.Login, Principal: p.Principal(key), Browser: p.Browser,
		Issuer: mask(key, "issuer", p.Issuer), ACR: mask(key, "acr", p.ACR), AuthMS: p.AuthMS, CredentialUntilMS: p.CredentialUntilMS,
		PolicyVersion: p.PolicyVersion,
	}
	return e, e.Check()
}

// Evidence is who armed, in private form.
type Evidence struct {
	Tenant, Actor, Issuer, ACR Mask
	Login                      ref.Login
	Principal                  ref.Principal
	Browser                    ref.Browser
	AuthMS, CredentialUntilMS  int64
	PolicyVersion              ID
}

// Check refuses evidence that lacks a part.
func (e Evidence) Check() error {
	if e.Tenant.text == "" || e.Actor.text == "" || e.Issuer.text == "" || e.ACR.text == "" || e.Login.IsZero() || e.Principal.IsZero() ||
		e.Browser.IsZero() || e.AuthMS < 1 || e.AuthMS > MaxInt || e.CredentialUntilMS <= e.AuthMS || e.CredentialUntilMS > MaxInt || e.PolicyVersion.IsZero() {
		return invalid("", "the evidence lacks a part")
	}
	return nil
}

// Place is the page as it was loaded: where it is and what it offers. It is kept
// in memory alone.
type Place struct {
	Origin         Origin
	Document       ref.Document
	Route          ID
	Generation     Generation
	Catalog, Scope Digest
}

// Private answers the page in private form.
func (p Place) Private(key ref.Key) (Page, error) {
	if p.Origin.text == "" || p.Route.IsZero() {
		return Page{}, invalid("", "the page lacks a part")
	}
	q := Page{Origin: mask(key, "origin", p.Origin.text), Route: mask(key, "route", p.Route.text),
		Document: p.Document, Generation: p.Generation, Catalog: p.Catalog, Scope: p.Scope}
	return q, q.Check()
}

// Page is the page in private form.
type Page struct {
	Origin, Route  Mask
	Document       ref.Document
	Generation     Generation
	Catalog, Scope Digest
}

// Check refuses a page that lacks a part.
func (p Page) Check() error {
	if p.Origin.text == "" || p.Route.text == "" || p.Document.IsZero() || p.Generation.IsZero() || p.Catalog.IsZero() || p.Scope.IsZero() {
		return invalid("", "the page lacks a part")
	}
	return nil
}

// Binding is a channel's exact binding in private form. Every later record
// repeats it or its digest, and any difference is a refusal.
type Binding struct {
	Evidence
	Page
	Arm                 ref.Attended
	IssuedMS, ExpiresMS int64
}

// Digest names the binding.
func (b Binding) Digest() (Digest, error) {
	if err := b.Evidence.Check(); err != nil {
		return Digest{}, err
	}
	if err := b.Page.Check(); err != nil {
		return Digest{}, err
	}
	if b.Arm.IsZero() || b.IssuedMS < b.AuthMS || b.ExpiresMS <= b.IssuedMS || b.ExpiresMS > b.IssuedMS+ArmMS || b.ExpiresMS > b.CredentialUntilMS {
		return Digest{}, invalid("", "the arm outlives its authority")
	}
	return digest(map[string]any{
		"tenant": b.Tenant.text, "actor": b.Actor.text, "login_ref": b.Login.String(), "principal_ref": b.Principal.String(),
		"browser_session_ref": b.Browser.String(), "origin": b.Origin.text, "document_ref": b.Document.String(), "route": b.Route.text,
		"registration_generation": b.Generation.n, "arm_ref": b.Arm.String(), "arm_issued_at_ms": b.IssuedMS, "arm_expires_at_ms": b.ExpiresMS,
		"access_token_expires_at_ms": b.CredentialUntilMS, "catalog_digest": b.Catalog.text, "tool_scope_digest": b.Scope.text,
		"auth_time_ms": b.AuthMS, "acr": b.ACR.text, "issuer": b.Issuer.text, "policy_version": b.PolicyVersion.text,
	})
}
