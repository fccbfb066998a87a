package pagesock

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// bearer is in whose session a cookie was sealed, and all of the evidence.
type bearer struct {
	session string // its public handle
	who     controlv1.Person
}

// of tells whether a cookie is this session's.
func (b bearer) of(s session.Session) bool {
	return b.session == s.ID && b.who.Browser.Equal(s.Browser) && b.who.Tenant == s.Tenant && b.who.Actor == s.Actor
}

// recent is the cookie of fresh evidence: a grant that waits for its page.
type recent struct {
	bearer
	arm     ref.Attended
	route   controlv1.ID
	untilMS int64
}

// phase is what an arm's cookie is still good for.
type phase string

const (
	// phaseOpen opens one socket.
	phaseOpen phase = "open"
	// phaseRevoke has opened it, and can only revoke.
	phaseRevoke phase = "revoke-only"
)

// armed is the cookie of an arm and the page that it was finalized for.
type armed struct {
	bearer
	arm     ref.Attended
	place   controlv1.Place
	untilMS int64
	phase   phase
}

// load is the cookie of one load of a page, after one sign-in.
type load struct {
	session  string
	login    ref.Login
	document ref.Document
	origin   controlv1.Origin
	route    controlv1.ID
}

// wire is what is sealed; each kind has its own members and no others.
type wire struct {
	Session  string      `json:"session"`
	Tenant   string      `json:"tenant,omitzero"`
	Actor    string      `json:"actor,omitzero"`
	Login    ref.Login   `json:"login,omitzero"`
	Browser  ref.Browser `json:"browser,omitzero"`
	Issuer   string      `json:"issuer,omitzero"`
	ACR      string      `json:"acr,omitzero"`
	AuthMS   int64       `json:"auth_ms,omitzero"`
	AccessMS int64       `json:"access_ms,omitzero"`
	Policy   string      `json:"policy,omitzero"`

	Arm        ref.Attended `json:"arm,omitzero"`
	UntilMS    int64        `json:"until_ms,omitzero"`
	Phase      phase        `json:"phase,omitzero"`
	Document   ref.Document `json:"document,omitzero"`
	Origin     string       `json:"origin,omitzero"`
	Route      string       `json:"route"`
	Generation int64        `json:"generation,omitzero"`
	Catalog    string       `json:"catalog,omitzero"`
	Scope      string       `json:"scope,omitzero"`
}

// encode writes a cookie's content. It can't fail: each part was checked when it
// was made.
func (w wire) encode() []byte {
	data, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		panic("pagesock: " + err.Error())
	}
	return data
}

// decode reads a cookie's content strictly: what encode writes, and nothing else.
func decode(data []byte) (w wire, err error) {
	if err = json.Unmarshal(data, &w, json.RejectUnknownMembers(true)); err != nil || w.Session == "" {
		return w, errContent
	}
	return w, nil
}

// errContent is a cookie of ours whose content isn't what it must be.
var errContent = fmt.Errorf("a sealed cookie doesn't decode: %w", refusal.Tampered)

func (b bearer) wire() wire {
	return wire{Session: b.session, Tenant: b.who.Tenant, Actor: b.who.Actor, Login: b.who.Login, Browser: b.who.Browser, Issuer: b.who.Issuer,
		ACR: b.who.ACR, AuthMS: b.who.AuthMS, AccessMS: b.who.CredentialUntilMS, Policy: b.who.PolicyVersion.String()}
}

func (w wire) bearer() (b bearer, err error) {
	policy, err := controlv1.ParseID(w.Policy)
	if err != nil || w.Browser.IsZero() || w.Login.IsZero() || w.Tenant == "" || w.Actor == "" || w.Issuer == "" || w.ACR == "" || w.AuthMS < 1 || w.AccessMS <= w.AuthMS {
		return b, errContent
	}
	return bearer{w.Session, controlv1.Person{Tenant: w.Tenant, Actor: w.Actor, Login: w.Login, Browser: w.Browser, Issuer: w.Issuer, ACR: w.ACR,
		AuthMS: w.AuthMS, CredentialUntilMS: w.AccessMS, PolicyVersion: policy}}, nil
}

func (c recent) encode() []byte {
	w := c.bearer.wire()
	w.Arm, w.Route, w.UntilMS = c.arm, c.route.String(), c.untilMS
	return w.encode()
}

func decodeRecent(data []byte) (c recent, err error) {
	w, err := decode(data)
	if err != nil {
		return c, err
	}
	if c.bearer, err = w.bearer(); err != nil || w.Arm.IsZero() || w.UntilMS < 1 || w.Phase != "" || !w.Document.IsZero() || w.Origin != "" || w.Generation != 0 || w.Catalog != "" || w.Scope != "" {
		return c, errContent
	}
	c.arm, c.untilMS = w.Arm, w.UntilMS
	if c.route, err = controlv1.ParseID(w.Route); err != nil {
		return c, errContent
	}
	return c, nil
}

func (c armed) encode() []byte {
	w := c.bearer.wire()
	w.Arm, w.UntilMS, w.Phase = c.arm, c.untilMS, c.phase
	w.Document, w.Origin, w.Route, w.Generation = c.place.Document, c.place.Origin.String(), c.place.Route.String(), c.place.Generation.Int()
	w.Catalog, w.Scope = c.place.Catalog.String(), c.place.Scope.String()
	return w.encode()
}

func decodeArmed(data []byte) (c armed, err error) {
	w, err := decode(data)
	if err != nil {
		return c, err
	}
	if c.bearer, err = w.bearer(); err != nil || w.Arm.IsZero() || w.UntilMS < 1 || w.Phase != phaseOpen && w.Phase != phaseRevoke || w.Document.IsZero() {
		return c, errContent
	}
	c.arm, c.untilMS, c.phase = w.Arm, w.UntilMS, w.Phase
	if c.place, err = w.place(); err != nil {
		return c, errContent
	}
	return c, nil
}

func (w wire) place() (p controlv1.Place, err error) {
	p.Document = w.Document
	if p.Origin, err = controlv1.ParseOrigin(w.Origin); err != nil {
		return p, err
	}
	if p.Route, err = controlv1.ParseID(w.Route); err != nil {
		return p, err
	}
	if p.Generation, err = controlv1.NewGeneration(w.Generation); err != nil {
		return p, err
	}
	if p.Catalog, err = controlv1.ParseDigest(w.Catalog); err != nil {
		return p, err
	}
	p.Scope, err = controlv1.ParseDigest(w.Scope)
	return p, err
}

func (c load) encode() []byte {
	return wire{Session: c.session, Login: c.login, Document: c.document, Origin: c.origin.String(), Route: c.route.String()}.encode()
}

func decodeLoad(data []byte) (c load, err error) {
	w, err := decode(data)
	if err != nil {
		return c, err
	}
	bare := wire{Session: w.Session, Login: w.Login, Document: w.Document, Origin: w.Origin, Route: w.Route}
	if w.Document.IsZero() || w.Login.IsZero() || w != bare {
		return c, errContent
	}
	c = load{session: w.Session, login: w.Login, document: w.Document}
	if c.origin, err = controlv1.ParseOrigin(w.Origin); err != nil {
		return c, errContent
	}
	if c.route, err = controlv1.ParseID(w.Route); err != nil {
		return c, errContent
	}
	return c, nil
}
