package node

import (
	"context"
	"log/slog"
	"net/http"

	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
	"chaperone/internal/surface/mcp"
	"chaperone/internal/surface/rest"
	"chaperone/internal/surface/site"
)

// openSurfaces makes the one handler: the table of routes, and the pages beside it.
func (n *Node) openSurfaces(ctx context.Context) error {
	yes := consents{mcp.Consents{Tokens: n.tokens, Ledger: n.ledger}, n.fleet, n.control}
	offers, scopes := []mcp.Offer{mcp.NewAccount(n.desk, n.ledger)}, []string{oauth.ScopeCollections}
	if n.fleet != nil {
		offers, scopes = append(offers, mcp.NewOwned(n.fleet)), append(scopes, oauth.ScopeOwned)
	}
	if n.control != nil {
		offers, scopes = append(offers, mcp.NewControl(n.acting())), append(scopes, oauth.ScopeControl)
	}
	authorization, err := mcp.NewAuthorization(mcp.AuthorizationConfig{
		Consents: yes.Consents, Origin: n.config.PublicOrigin, Scopes: scopes, Log: slog.Default(),
		Peer: func(r *http.Request) string { return guard.Peer(n.proxies(), r) },
	})
	if err != nil {
		return err
	}
	pages, err := site.New(site.Config{Origin: n.config.PublicOrigin})
	if err != nil {
		return err
	}
	served := mcp.NewHTTP(mcp.HTTPConfig{
		Tokens: n.tokens, Origin: n.config.PublicOrigin, Version: n.version,
		Offers: offers, Log: slog.Default(), Ending: n.ending,
	})
	n.later(func(context.Context) error { return served.Close() })
	routes := rest.Routes(rest.Config{
		Issuer: n.party.Issuer, Sessions: n.sessions, Provider: n.party, Credentials: n.credentials, BuiltIn: n.provider != nil,
		Desk: n.desk, Ledger: n.ledger, Tokens: n.tokens, Consents: yes, Fleet: n.fleet, Runs: n.runs,
		Log: n.log, Control: n.acting(), Attended: n.control, BrowserDenied: n.browserDenied(), Ending: n.ending,
	})
	routes = append(routes, authorization.Routes()...)
	routes = append(routes, n.pages.Routes()...)
	routes = append(routes, n.ownRoutes(served, pages)...)
	n.routes = routes
	n.handler = guard.New(guard.Config{
		Origin: n.config.PublicOrigin, Embedding: n.config.Origins, Proxies: n.proxies(), Sessions: n.sessions, Tokens: n.tokens, Plain: pages,
	}, routes...)
	n.sessions.OnEnd(n.ended.put)
	n.health.off, n.health.writes, n.health.nodes = n.off, n.writes, n.bus.Err
	return nil
}

// ownRoutes are those that judge their callers for themselves: sign-in with
// its page's script, the provider, MCP, and what a load balancer asks.
func (n *Node) ownRoutes(served, pages http.Handler) []guard.Route {
	routes := []guard.Route{
		{Method: "GET", Path: "/auth/login", Who: guard.Nobody, Handler: n.party.SignIn},
		{Method: "GET", Path: "/auth/callback.js", Who: guard.Nobody, Handler: pages.ServeHTTP},
		{Method: "GET", Path: "/auth/callback", Who: guard.Nobody, Handler: n.party.Callback},
		{Method: "POST", Path: "/auth/backchannel-logout", Who: guard.Nobody, Handler: n.party.BackChannel},
		{Method: "GET", Path: "/healthz", Who: guard.Itself, Handler: n.health.live},
		{Method: "GET", Path: "/readyz", Who: guard.Itself, Handler: n.health.serving},
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		routes = append(routes, guard.Route{Method: method, Path: "/mcp", Who: guard.Itself, Body: 4<<20 + 1, Handler: served.ServeHTTP})
	}
	if n.provider != nil {
		for _, method := range []string{"GET", "POST"} {
			routes = append(routes, guard.Route{Method: method, Path: "/idp/", Who: guard.Nobody, Handler: n.provider.ServeHTTP})
		}
	}
	return routes
}

// browserDenied says why pages may offer no tools here, "" where they may: on an
// origin that anybody reaches, somebody has to have reviewed that first.
func (n *Node) browserDenied() string {
	if n.config.Public() && n.config.Reviewed.By == "" {
		return string(refusal.NotReviewed)
	}
	return ""
}
