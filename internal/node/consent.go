package node

import (
	"context"

	"chaperone/internal/oauth"
	"chaperone/internal/surface/mcp"
	"chaperone/internal/surface/rest"
)

// consents carries a person's yes from the owner API, which knows no other
// surface, to the one place where it becomes a grant and its tokens.
type consents struct{ mcp.Consents }

func (c consents) Approve(ctx context.Context, request string, y rest.Yes) (string, error) {
	return c.Consents.Approve(ctx, request, mcp.Owner{Actor: y.Actor, Roles: y.Roles}, y.Selection, with(y.Scopes, y.Engagements), y.Days)
}

func (c consents) Token(ctx context.Context, s rest.Script) (token, connection string, err error) {
	return c.Issue(ctx, mcp.Owner{Actor: s.Actor, Roles: s.Roles},
		mcp.Script{Name: s.Name, Scopes: with(s.Scopes, s.Engagements), Selection: s.Selection, Life: s.Life})
}

// with adds the scopes that name engagements.
func with(scopes, engagements []string) []string {
	out := append([]string(nil), scopes...)
	for _, e := range engagements {
		out = append(out, oauth.Engagement(e))
	}
	return out
}
