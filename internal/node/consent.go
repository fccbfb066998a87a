package node

import (
	"context"
	"slices"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/mcp"
	"chaperone/internal/surface/rest"
)

// consents carries a person's yes from the owner API, which knows no other
// surface, to the one place where it becomes a grant and its tokens.
type consents struct {
	mcp.Consents
	fleet   *fleet.Fleet    // nil: no browsers, so no engagement can be named
	control *live.Authority // nil: attended control isn't served
}

func (c consents) Approve(ctx context.Context, request string, y rest.Yes) (string, error) {
	scopes, err := c.with(y.Scopes, y.Engagements)
	if err != nil {
		return "", err
	}
	return c.Consents.Approve(ctx, request, mcp.Owner{Actor: y.Actor, Roles: y.Roles}, y.Selection, scopes, y.Days)
}

// Revoke takes a connection back, and then every lease of its agent: what waits for
// the person under one is over with it.
func (c consents) Revoke(ctx context.Context, actor, connection string) error {
	families, err := c.Tokens.Families(ctx, actor)
	if err != nil {
		return err
	}
	if err := c.Consents.Revoke(ctx, actor, connection); err != nil || c.control == nil {
		return err
	}
	person := controlv1.Person{Tenant: Tenant, Actor: actor}.Principal(c.control.Key)
	for _, f := range families {
		if f.Connection != connection {
			continue
		}
		if err := c.control.Book.EndCaller(ctx, person, controlv1.MaskAgent(c.control.Key, f.Client), refusal.Revoked); err != nil {
			return err
		}
	}
	return nil
}

func (c consents) Token(ctx context.Context, s rest.Script) (token, connection string, err error) {
	scopes, err := c.with(s.Scopes, s.Engagements)
	if err != nil {
		return "", "", err
	}
	return c.Issue(ctx, mcp.Owner{Actor: s.Actor, Roles: s.Roles},
		mcp.Script{Name: s.Name, Scopes: scopes, Selection: s.Selection, Life: s.Life})
}

// with answers the scopes by their one name, and adds those that name engagements:
// those that the operator offers now, and at least one where owned browsers are
// given at all. What isn't served here isn't given.
func (c consents) with(scopes, engagements []string) ([]string, error) {
	if len(oauth.Engagements(scopes)) > 0 { // they are named apart, and looked up
		return nil, tool.Fail(tool.InvalidInput, "path", "/scopes", "rule", "enum")
	}
	if slices.Contains(scopes, oauth.ScopeOwned) != (len(engagements) > 0) {
		return nil, tool.Fail(tool.InvalidInput, "path", "/engagements", "rule", "required")
	}
	var out []string
	for _, s := range scopes {
		s = oauth.Named(s)
		if slices.Contains(out, s) || s == oauth.ScopeControl && c.control == nil {
			return nil, tool.Fail(tool.InvalidInput, "path", "/scopes", "rule", "enum")
		}
		out = append(out, s)
	}
	for _, e := range engagements {
		if err := c.offered(e); err != nil {
			return nil, err
		}
		out = append(out, oauth.Engagement(e))
	}
	return out, nil
}

func (c consents) offered(name string) error {
	unknown := tool.Fail(tool.InvalidInput, "path", "/engagements", "rule", "enum")
	if c.fleet == nil {
		return unknown
	}
	all, err := c.fleet.Engagements()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(e fleet.Engagement) bool { return e.Name == name && e.Fault == "" }) {
		return unknown
	}
	return nil
}
