// Package guard stands before every HTTP surface: it decides by one table whether
// a request may reach its handler at all (spec/portal-tools.md, sections 3 and 4;
// spec/product.md, "One server").
//
// It contains
//
//	guard.go    Route, New: the table, and the order in which a request is judged
//	origin.go   Host, Origin and where a request says it comes from
//	owner.go    the signed-in person: cookie, session key, CSRF token, step-up
//	bearer.go   an agent's token, and the challenges of RFC 6750
//	limit.go    how often one caller may ask
//	patience.go how long one caller may take to send a body and to read an answer
//	answer.go   bodies read strictly, answers and refusals written alike
//	control.go  attended control as bearers ask for it, whichever way they come
//
// A path that isn't in the table doesn't exist, for anybody. A route says who may
// call it: nobody in particular, the owner (cookie and session key, together), or
// a bearer; one kind of credential is never taken for another, so a bearer token
// on an owner's route is ignored and a cookie on a bearer's route is too.
//
// The order: Host, route, rate, where it comes from (exact Origin of what
// changes something), credential, CSRF token, step-up; only then is the body
// read. Each refusal has one code and one status, and carries nothing of the
// request.
//
// It keeps no session and issues no token: it asks the authorities at each
// request, so what was revoked is refused at once.
//
// Floor: surface.
package guard

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// Credential is what a route asks for.
type Credential string

const (
	Nobody Credential = "nobody" // anybody may call it
	Owner  Credential = "owner"  // the signed-in person's own page
	Bearer Credential = "bearer" // an agent with a token
	Itself Credential = "itself" // its handler judges whoever calls
)

// Route is one line of the table.
type Route struct {
	Method, Path string // as in http.ServeMux: "GET", "/api/sessions/{id}"
	Who          Credential
	Mutates      bool  // changes something: exact Origin, and of an owner the CSRF token
	Fresh        bool  // the owner's step-up must be younger than five minutes
	Body         int64 // bytes at most; 0 is 64 KiB
	Scope        string
	// Refusal writes what stops a request before its handler, where the route has a
	// form of its own for that; err has the code. nil is the form of all others.
	Refusal func(w http.ResponseWriter, err error)
	Handler http.HandlerFunc
}

// refuse writes a refusal in the route's form.
func (route Route) refuse(w http.ResponseWriter, err error) {
	if route.Refusal == nil {
		RefuseError(w, err)
		return
	}
	protect(w)
	route.Refusal(w, err)
}

// Sessions finds the session of a cookie and judges its second secret.
type Sessions interface {
	Find(ctx context.Context, cookie string) (session.Session, error)
	CheckKey(ctx context.Context, s session.Session, key string) error
}

// Tokens finds what a bearer token grants.
type Tokens interface {
	Find(ctx context.Context, bearer string) (oauth.Grant, error)
}

// Config is what a guard knows. All but Proxies and Plain is required.
type Config struct {
	Origin string // the one public origin, e.g. http://localhost:7080
	// Embedding are origins of other sites that route some paths of this server
	// through their own, for their pages to be armed. They are trusted with what
	// happens there, and reach nothing else.
	Embedding []string
	Proxies   []netip.Prefix // peers whose X-Forwarded-For counts; none otherwise
	Sessions  Sessions
	Tokens    Tokens
	Plain     http.Handler // what isn't the table's: pages and assets
}

// guard is a mux with the table behind it.
type guard struct {
	Config
	host  string
	table *http.ServeMux
	rate  map[Credential]*Limiter
}

// New makes the handler of a server. A pattern twice in the table is our own fault
// and panics.
func New(c Config, routes ...Route) http.Handler {
	g := &guard{Config: c, host: hostOf(c.Origin), table: http.NewServeMux(), rate: map[Credential]*Limiter{}}
	for who, r := range rates {
		g.rate[who] = NewLimiter(r.perSecond, r.burst)
	}
	for _, r := range routes {
		if _, known := rates[r.Who]; !known {
			panic("guard: " + r.Path + " asks for a credential that doesn't exist")
		}
		g.table.Handle(r.Method+" "+r.Path, g.judge(r))
	}
	return g
}

// ServeHTTP is the first thing that every request meets.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w) // also what the mux and net/http answer for themselves; a page says more
	if strings.HasPrefix(g.Origin, "https:") {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	if len(r.TransferEncoding) > 0 {
		// Whether a Content-Length stood beside it can't be seen any more, and what
		// comes behind would be another request to a proxy that went by that one
		// (RFC 9112, section 6.1).
		w.Header().Set("Connection", "close")
	}
	w, r, end := patiently(w, r)
	defer end()
	if !g.hostAllowed(w, r) {
		return
	}
	if !readable(r.URL) {
		Refuse(w, refusal.Malformed)
		return
	}
	handler, pattern := g.table.Handler(r)
	switch {
	case private(r.URL.Path) && path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/"):
		Refuse(w, refusal.NotFound) // the mux would send the caller on
	case pattern != "":
		g.table.ServeHTTP(w, r)
	case private(r.URL.Path):
		g.absent(w, r, handler)
	case g.Plain != nil:
		g.Plain.ServeHTTP(w, r)
	default:
		Refuse(w, refusal.NotFound)
	}
}

// readable tells whether a URL is a path that everybody reads alike.
func readable(u *url.URL) bool {
	encoded := u.EscapedPath()
	return strings.HasPrefix(u.Path, "/") && u.Opaque == "" && plain(u.Path) && !strings.Contains(u.Path, "\\") &&
		!strings.Contains(encoded, "%2f") && !strings.Contains(encoded, "%2F") && (!private(u.Path) || parsed(u.RawQuery))
}

// plain tells whether a path holds text: whole UTF-8 without NUL, which is what
// every database can look up.
func plain(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// parsed tells whether all of a query can be read, as plain text: half of one would
// be another request.
func parsed(raw string) bool {
	query, err := url.ParseQuery(raw)
	for name, values := range query {
		if !plain(name) || slices.ContainsFunc(values, func(v string) bool { return !plain(v) }) {
			return false
		}
	}
	return err == nil
}

// private tells the paths that are the table's alone; a page is never served there.
func private(name string) bool {
	for _, p := range []string{"/api", "/auth", "/oauth", "/mcp", "/v1", "/.well-known", "/ws", "/browser/control", "/idp"} {
		if name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

// absent answers for a path without a route, or with another method's.
func (g *guard) absent(w http.ResponseWriter, r *http.Request, missing http.Handler) {
	probe := &statusOnly{header: http.Header{}}
	missing.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		refuse(w, http.StatusMethodNotAllowed, refusal.NotFound, nil)
		return
	}
	Refuse(w, refusal.NotFound)
}

// statusOnly takes the mux's own answer for its status.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// maxBody is a route's body where it says nothing.
const maxBody = 64 << 10

// judge is the order of a route's checks.
func (g *guard) judge(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.rate[route.Who].Allow(g.peer(r)) {
			w.Header().Set("Retry-After", "1")
			route.refuse(w, tool.RateLimited)
			return
		}
		if err := g.source(r, route); err != nil {
			route.refuse(w, err)
			return
		}
		ctx, err := g.credential(r, route)
		if err != nil {
			g.challenge(w, route, err)
			return
		}
		most := route.Body
		if most == 0 {
			most = maxBody
		}
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, most)
		route.Handler(w, r)
	})
}

func (g *guard) credential(r *http.Request, route Route) (context.Context, error) {
	switch route.Who {
	case Owner:
		return g.owner(r, route)
	case Bearer:
		return g.bearer(r, route)
	case Nobody, Itself:
		return r.Context(), nil
	}
	return nil, refusal.NotFound // a kind that isn't known opens nothing
}
