// Package identity is a verified principal: on whose behalf a request acts
// (tenant and actor), what that person may do (roles and scopes), and which
// agent, if any, acts for them (spec/attended-control.md, section 5).
//
// Contents: [Claims] is what somebody verified and [Principal] the value that
// only [New] makes from them. A Principal can't be changed and its zero value is
// nobody: it has no role and no scope.
//
// The package verifies no token and holds no credential: who calls New vouches
// for the claims.
//
// Floor: wire contract.
package identity

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"chaperone/internal/refusal"
)

// Limits of what a principal can hold.
const (
	MaxName = 256 // bytes of a tenant, actor or agent
	MaxList = 64  // roles, and scopes
	MaxWord = 64  // bytes of one role or scope
)

// Claims is what a verifier read from a credential that it has checked.
type Claims struct {
	Tenant, Actor string
	Roles, Scopes []string // no duplicates; a scope is an OAuth scope token
	Agent         string   // the acting agent (act.sub), "" where the person acts alone
}

// Principal is a verified identity.
type Principal struct{ c Claims }

// New makes a Principal. An empty or overlong name, a control character, a
// duplicate role or scope, or an agent that is the actor itself: an error with
// the code bad_document that names the claim and not its value.
func New(c Claims) (Principal, error) {
	c.Roles, c.Scopes = slices.Clone(c.Roles), slices.Clone(c.Scopes)
	slices.Sort(c.Roles)
	slices.Sort(c.Scopes)
	switch {
	case !name(c.Tenant):
		return refuse("tenant")
	case !name(c.Actor):
		return refuse("actor")
	case c.Agent != "" && (!name(c.Agent) || c.Agent == c.Actor):
		return refuse("agent")
	case !words(c.Roles, func(r rune) bool { return unicode.IsPrint(r) }):
		return refuse("roles")
	case !words(c.Scopes, func(r rune) bool { return '!' <= r && r <= '~' && r != '"' && r != '\\' }):
		return refuse("scopes") // RFC 6749, section 3.3
	}
	return Principal{c}, nil
}

func refuse(claim string) (Principal, error) {
	return Principal{}, fmt.Errorf("the claim %s isn't valid: %w", claim, refusal.BadDocument)
}

func name(s string) bool {
	return s != "" && len(s) <= MaxName && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// words checks a sorted list: few, short, distinct, each of allowed runes.
func words(list []string, allowed func(rune) bool) bool {
	for i, w := range list {
		bad := strings.ContainsFunc(w, func(r rune) bool { return !allowed(r) })
		if bad || w == "" || len(w) > MaxWord || !utf8.ValidString(w) || i > 0 && w == list[i-1] {
			return false
		}
	}
	return len(list) <= MaxList
}

// IsZero tells whether p is nobody.
func (p Principal) IsZero() bool { return p.c.Actor == "" }

// Tenant answers whose data it is.
func (p Principal) Tenant() string { return p.c.Tenant }

// Actor answers the person.
func (p Principal) Actor() string { return p.c.Actor }

// Agent answers the agent that acts for the person, "" for none.
func (p Principal) Agent() string { return p.c.Agent }

// Roles answers the roles, sorted; the caller may keep the slice.
func (p Principal) Roles() []string { return slices.Clone(p.c.Roles) }

// Scopes answers the scopes, sorted; the caller may keep the slice.
func (p Principal) Scopes() []string { return slices.Clone(p.c.Scopes) }

// HasScope tells whether the scope was granted.
func (p Principal) HasScope(scope string) bool { return has(p.c.Scopes, scope) }

// HasRoles tells whether p holds every one of roles. Nobody holds none.
func (p Principal) HasRoles(roles ...string) bool {
	for _, r := range roles {
		if !has(p.c.Roles, r) {
			return false
		}
	}
	return !p.IsZero()
}

func has(sorted []string, want string) bool {
	_, ok := slices.BinarySearch(sorted, want)
	return ok
}
