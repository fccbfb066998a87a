// Package rest is the owner API: what the signed-in person's own page calls
// (spec/portal-tools.md, sections 3 and 4), and /v1/owned/runs for trusted callers
// with a bearer token (spec/product.md, "One server").
//
// It contains
//
//	rest.go         Config and Routes, the table that package guard keeps
//	session.go      who is signed in, step-up, sign-out, the list of sessions
//	collections.go  the person's own collections and items
//	automation.go   descriptors, selection, prepare, confirm, execute
//	connections.go  app connections, consents and script tokens
//	passkeys.go     passkeys, and the built-in provider's recovery codes
//	agents.go       owned browsers: open, watch, pause, end
//	confirmations.go  what waits for the person's word, on this origin
//	audit.go        the person's view of the log
//	control.go      attended control, for agents
//	approvals.go    attended control, as its person sees it
//	kill.go         the kill switch
//
// It translates and decides nothing: who may call is guard's, what may be done is
// the authorities' and the operation's. An answer is made of their values only.
//
// Floor: surface.
package rest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"chaperone/internal/attended/live"
	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/owned/run"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/tool"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// Provider is the relying party's side of signing in.
type Provider interface {
	StepUp(ctx context.Context, s session.Session, next string) (authorizationURL string, flow *http.Cookie, err error)
	Logout(ctx context.Context, s session.Session) (endSessionURL string, err error)
}

// Yes is a person's approval of what an app asked.
type Yes struct {
	Actor       string
	Roles       []string
	Selection   []tool.Selected
	Scopes      []string
	Engagements []string
	Days        int
}

// Script is a token for a person's own script.
type Script struct {
	Actor       string
	Roles       []string
	Name        string
	Selection   []tool.Selected
	Scopes      []string
	Engagements []string
	Life        time.Duration
}

// Consents turn a person's word into a connection with tokens of its own.
type Consents interface {
	Approve(ctx context.Context, request string, y Yes) (redirect string, err error)
	Token(ctx context.Context, s Script) (token, connection string, err error)
	Revoke(ctx context.Context, actor, connection string) error
}

// Config is what the owner API speaks for. All is required but Fleet, which is nil
// where no browser can be contained, and Attended.
type Config struct {
	Issuer        string
	Sessions      *session.Book
	Provider      Provider
	Credentials   *credential.Book
	BuiltIn       bool // Credentials sign people in; otherwise they only confirm with theirs
	Desk          *operation.Desk
	Ledger        *ledger.Book
	Tokens        *oauth.Book
	Consents      Consents
	Fleet         *fleet.Fleet
	Runs          *run.Book
	Log           *audit.Log
	Ending        <-chan struct{} // closed when streams are to end; nil: never
	Control       *guard.Control  // attended control, as agents ask for it
	Attended      *live.Authority // and as people see it; nil where it isn't constructed
	BrowserDenied string          // why the browser surface is off, "" where it may be used
}

// api answers the routes.
type api struct{ Config }

// Routes is the table of the owner API.
func Routes(c Config) []guard.Route {
	a := &api{c}
	routes := []guard.Route{
		{Method: "GET", Path: "/api/session", Who: guard.Owner, Handler: a.session},
		{Method: "POST", Path: "/api/step-up", Who: guard.Owner, Mutates: true, Handler: a.stepUp},
		{Method: "POST", Path: "/auth/logout", Who: guard.Owner, Mutates: true, Handler: a.logout},
		{Method: "GET", Path: "/api/sessions", Who: guard.Owner, Handler: a.sessions},
		{Method: "DELETE", Path: "/api/sessions/{id}", Who: guard.Owner, Mutates: true, Handler: a.endSession},
		{Method: "POST", Path: "/api/sessions/end-others", Who: guard.Owner, Mutates: true, Handler: a.endOthers},

		{Method: "GET", Path: "/api/collections", Who: guard.Owner, Handler: a.collections},
		{Method: "POST", Path: "/api/collections", Who: guard.Owner, Mutates: true, Handler: a.createCollection},
		{Method: "DELETE", Path: "/api/collections/{collection}", Who: guard.Owner, Mutates: true, Handler: a.dropCollection},
		{Method: "GET", Path: "/api/collections/{collection}/items", Who: guard.Owner, Handler: a.items},
		{Method: "GET", Path: "/api/collections/{collection}/item", Who: guard.Owner, Handler: a.item},
		{Method: "PUT", Path: "/api/collections/{collection}/item", Who: guard.Owner, Mutates: true, Body: maxArguments, Handler: a.writeItem},
		{Method: "DELETE", Path: "/api/collections/{collection}/item", Who: guard.Owner, Mutates: true, Handler: a.deleteItem},
		{Method: "GET", Path: "/api/usage", Who: guard.Owner, Handler: a.usage},

		{Method: "GET", Path: "/api/automation/descriptors", Who: guard.Owner, Handler: a.descriptors},
		{Method: "GET", Path: "/api/automation/selection", Who: guard.Owner, Handler: a.selection},
		{Method: "PUT", Path: "/api/automation/selection", Who: guard.Owner, Mutates: true, Handler: a.selectThem},
		{Method: "DELETE", Path: "/api/automation/selection", Who: guard.Owner, Mutates: true, Handler: a.disable},
		{Method: "POST", Path: "/api/automation/prepare", Who: guard.Owner, Mutates: true, Body: maxArguments, Handler: a.prepare},
		{Method: "POST", Path: "/api/automation/confirm", Who: guard.Owner, Mutates: true, Handler: a.confirm},
		{Method: "POST", Path: "/api/automation/decline", Who: guard.Owner, Mutates: true, Handler: a.decline},
		{Method: "POST", Path: "/api/automation/execute", Who: guard.Owner, Mutates: true, Body: maxArguments, Handler: a.execute},
		{Method: "GET", Path: "/api/automation/calls", Who: guard.Owner, Handler: a.calls},

		{Method: "GET", Path: "/api/connections", Who: guard.Owner, Handler: a.connections},
		{Method: "DELETE", Path: "/api/connections/{id}", Who: guard.Owner, Mutates: true, Handler: a.revoke},
		{Method: "GET", Path: "/api/oauth/requests/{id}", Who: guard.Owner, Handler: a.consent},
		{Method: "POST", Path: "/api/oauth/requests/{id}/approve", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.approve},
		{Method: "POST", Path: "/api/oauth/requests/{id}/deny", Who: guard.Owner, Mutates: true, Handler: a.deny},
		{Method: "GET", Path: "/api/tokens", Who: guard.Owner, Handler: a.tokens},
		{Method: "POST", Path: "/api/tokens", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.createToken},
		{Method: "DELETE", Path: "/api/tokens/{id}", Who: guard.Owner, Mutates: true, Handler: a.revokeToken},

		{Method: "GET", Path: "/api/passkeys", Who: guard.Owner, Handler: a.passkeys},
		{Method: "POST", Path: "/api/passkeys/begin", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.beginPasskey},
		{Method: "POST", Path: "/api/passkeys/finish", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.finishPasskey},
		{Method: "DELETE", Path: "/api/passkeys/{id}", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.removePasskey},

		{Method: "GET", Path: "/api/audit", Who: guard.Owner, Handler: a.audit},
		{Method: "GET", Path: "/api/agents", Who: guard.Owner, Handler: a.agents},
		{Method: "GET", Path: "/api/control", Who: guard.Owner, Handler: a.attendedControl},
	}
	if c.BuiltIn {
		routes = append(routes, guard.Route{Method: "POST", Path: "/api/recovery-codes", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.recoveryCodes})
	}
	if c.Fleet != nil {
		routes = append(routes, a.fleetRoutes()...)
	}
	return slices.Concat(routes, []guard.Route{controlRoute(c.Control)}, a.killRoutes(), a.confirmationRoutes())
}

// maxArguments bounds a body that carries a tool's arguments: 1 MiB of content in
// base64, and what stands around it.
const maxArguments = 2 << 20

// owner is the caller of the person's own page.
func owner(r *http.Request) (operation.Caller, error) {
	s := guard.Session(r)
	p, err := s.Principal()
	if err != nil {
		return operation.Caller{}, err
	}
	return operation.Caller{Principal: p, Transport: operation.Owner, Session: s.ID}, nil
}
