package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

func claims() identity.Claims {
	return identity.Claims{Tenant: "acme", Actor: "user-1", Roles: []string{"reader", "admin"}, Scopes: []string{"kg:read", "control:write"}, Agent: "agent-7"}
}

func TestNew(t *testing.T) {
	in := claims()
	p, err := identity.New(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Roles[0], in.Scopes[0] = "owner", "kg:admin" // the principal has its own
	p.Roles()[0] = "owner"
	got := identity.Claims{Tenant: p.Tenant(), Actor: p.Actor(), Roles: p.Roles(), Scopes: p.Scopes(), Agent: p.Agent()}
	want := identity.Claims{Tenant: "acme", Actor: "user-1", Roles: []string{"admin", "reader"}, Scopes: []string{"control:write", "kg:read"}, Agent: "agent-7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !p.HasScope("kg:read") || p.HasScope("kg") || p.HasScope("KG:READ") || p.HasScope("") {
		t.Error("scopes are matched exactly")
	}
	if !p.HasRoles() || !p.HasRoles("admin", "reader") || p.HasRoles("admin", "owner") {
		t.Error("every role must be held")
	}
}

func TestNobody(t *testing.T) {
	var p identity.Principal
	if !p.IsZero() || p.HasRoles() || p.HasScope("") || p.HasScope("kg:read") {
		t.Error("the zero value may do something")
	}
}

func TestNewRefuses(t *testing.T) {
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("r", i))
		}
		return out
	}
	for name, c := range map[string]struct {
		claim  string
		change func(*identity.Claims)
	}{
		"no tenant":           {"tenant", func(c *identity.Claims) { c.Tenant = "" }},
		"no actor":            {"actor", func(c *identity.Claims) { c.Actor = "" }},
		"a blank actor":       {"actor", func(c *identity.Claims) { c.Actor = " " }},
		"a space around":      {"actor", func(c *identity.Claims) { c.Actor = "user-1 " }},
		"a NUL":               {"actor", func(c *identity.Claims) { c.Actor = "user\x00" }},
		"a newline":           {"tenant", func(c *identity.Claims) { c.Tenant = "a\nb" }},
		"a bidi control":      {"actor", func(c *identity.Claims) { c.Actor = "user\u202e1" }},
		"a zero-width space":  {"actor", func(c *identity.Claims) { c.Actor = "user\u200b1" }},
		"invalid UTF-8":       {"actor", func(c *identity.Claims) { c.Actor = "user\xff" }},
		"a long actor":        {"actor", func(c *identity.Claims) { c.Actor = strings.Repeat("a", 257) }},
		"the actor as agent":  {"agent", func(c *identity.Claims) { c.Agent = "user-1" }},
		"a blank agent":       {"agent", func(c *identity.Claims) { c.Agent = "\t" }},
		"a role twice":        {"roles", func(c *identity.Claims) { c.Roles = []string{"a", "b", "a"} }},
		"an empty role":       {"roles", func(c *identity.Claims) { c.Roles = []string{""} }},
		"a long role":         {"roles", func(c *identity.Claims) { c.Roles = []string{strings.Repeat("a", 65)} }},
		"many roles":          {"roles", func(c *identity.Claims) { c.Roles = many(65) }},
		"a scope with spaces": {"scopes", func(c *identity.Claims) { c.Scopes = []string{"kg:read kg:admin"} }},
		"a scope twice":       {"scopes", func(c *identity.Claims) { c.Scopes = []string{"a", "a"} }},
		"a scope with quotes": {"scopes", func(c *identity.Claims) { c.Scopes = []string{`a"`} }},
	} {
		in := claims()
		c.change(&in)
		p, err := identity.New(in)
		if refusal.Of(err) != refusal.BadDocument || !p.IsZero() || !strings.Contains(err.Error(), c.claim) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
		if err != nil && strings.Contains(err.Error(), "user") {
			t.Errorf("%s: the error repeats a claim: %v", name, err)
		}
	}
}

func FuzzNew(f *testing.F) {
	f.Add("acme", "user-1", "admin", "kg:read", "agent")
	f.Add("", "a\u202e", "\xff", `"`, " ")
	f.Fuzz(func(t *testing.T, tenant, actor, role, scope, agent string) {
		p, err := identity.New(identity.Claims{Tenant: tenant, Actor: actor, Roles: []string{role}, Scopes: []string{scope}, Agent: agent})
		if err != nil {
			if refusal.Of(err) == "" || !p.IsZero() {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		if p.Actor() == p.Agent() || strings.ContainsAny(scope, " \t\n\"\\") || !p.HasRoles(role) || !p.HasScope(scope) {
			t.Fatalf("%q %q %q %q %q made %v", tenant, actor, role, scope, agent, p)
		}
	})
}
