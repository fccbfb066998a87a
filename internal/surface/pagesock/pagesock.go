// Package pagesock is the page's side of attended control: a signed-in person arms
// the page they look at, and its socket opens (spec/attended-control.md, sections 3
// and 4).
//
// It contains
//
//	pagesock.go Config, New, Routes; how refusals are answered
//	trust.go    who a session is to the authority, and whether it still stands
//	arm.go      the way to an arm: the step-up, Armed, the page's document, finalize
//	end.go      what is armed, and the way back
//	body.go     finalize's body
//	seal.go     cookies that open to this home alone, each as its own kind
//	cookie.go   what the three cookies hold
//	socket.go   the socket: what is refused before the upgrade, and after it
//	conn.go     one WebSocket as the authority sees it
//
// A person arms in three steps. They prove themselves anew at the provider; the
// callback seals that evidence into a cookie of at most 60 s (recent). The page,
// loaded again, gets a document of its own (document), which is bound to that very
// sign-in: one from before the redirect opens nothing. Finalize binds the evidence
// to the document, route, generation and tools of the page, and seals the whole
// into a third cookie (arm), which opens one socket: the answer that opens it turns
// the cookie into one that can only revoke.
//
// The cookies hold facts, so that the exact evidence can be told again at each step
// on any node, and no secret: they are sealed by AES-GCM under keys derived from
// the home's control key, one a kind. Whether an arm is good for anything is the
// ledger's alone; a cookie that was copied, kept or shown twice meets that.
// A cookie counts only in the session that it was sealed for.
//
// Whether a sign-in still stands is asked of the session by its public handle, and
// of the provider by its access token. That function is all that the authority
// gets; token and cookie stay here.
//
// Where nothing can be asked, nobody arms: control isn't constructed then, and
// everything here answers 503.
//
// Before the upgrade a socket is refused by plain HTTP where another site, or a
// bearer, asks; whoever may ask is accepted and told by the close what is missing.
//
// It decides nothing of an arm, and keeps nothing between two requests. Each socket
// has the goroutine of its request and one that reads; Close waits for all of them.
//
// Floor: surface.
package pagesock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/oidc"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// Config is what the page's server stands on. Log may be nil.
type Config struct {
	Origin string // this server's own
	// Embedding are other sites' origins whose pages may be armed: they route our paths
	// through their own.
	Embedding []string
	Key       []byte // the home's control key, at least 32 bytes
	Sessions  *session.Book
	Provider  *oidc.Party
	// Stands asks a provider that is this server's own whether an access token is good,
	// without a network between; nil asks Provider by introspection.
	Stands    func(ctx context.Context, access, subject string) error
	Authority *live.Authority // nil: control isn't constructed
	Log       *slog.Logger
}

// Server answers the routes.
type Server struct {
	Config
	origins map[string]controlv1.Origin // by Host: ours and the embedding ones
	seals   sealer

	mu      sync.Mutex // guards ended
	ended   bool
	sockets sync.WaitGroup // added to under mu, while it hasn't ended
}

// New makes one.
func New(c Config) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Config: c, origins: map[string]controlv1.Origin{}}
	for _, text := range append([]string{c.Origin}, c.Embedding...) {
		origin, err := controlv1.ParseOrigin(text)
		if err != nil {
			return nil, err
		}
		_, host, _ := strings.Cut(text, "://")
		s.origins[host] = origin
	}
	var err error
	s.seals, err = newSealer(c.Key)
	return s, err
}

// Close takes no more sockets, and waits for those there are: the authority ends
// them, and must be told to first.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.sockets.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pages' sockets didn't end in time: %w", ctx.Err())
	}
}

// enter counts a socket in, unless the server ends.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.sockets.Add(1)
	}
	return !s.ended
}

// arming is where a page is armed; socket is where its channel opens.
const (
	arming = "/api/browser-control/attended-arm"
	socket = "/ws/browser-control"
)

// Routes is the table of the page's side.
func (s *Server) Routes() []guard.Route {
	return []guard.Route{
		{Method: "GET", Path: arming, Who: guard.Owner, Handler: s.owner(s.tell)},
		{Method: "POST", Path: arming, Who: guard.Owner, Mutates: true, Handler: s.owner(s.begin)},
		{Method: "POST", Path: arming + "/finalize", Who: guard.Owner, Mutates: true, Handler: s.owner(s.finalize)},
		{Method: "DELETE", Path: arming, Who: guard.Owner, Mutates: true, Handler: s.owner(s.revoke)},
		{Method: "POST", Path: "/api/browser-control/document", Who: guard.Owner, Mutates: true, Handler: s.owner(s.document)},
		{Method: "GET", Path: socket, Who: guard.Itself, Handler: s.open},
	}
}

// owner stands before the owner's routes: a bearer is no part of arming, also not
// beside a cookie.
func (s *Server) owner(f func(http.ResponseWriter, *http.Request, session.Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.Header.Values("Authorization")) > 0:
			refuse(w, http.StatusForbidden, refusal.Forbidden)
		case s.Authority == nil:
			refuse(w, http.StatusServiceUnavailable, refusal.PrerequisiteMissing)
		default:
			f(w, r, guard.Session(r))
		}
	}
}

// refuse writes one refusal, which carries nothing of the request.
func refuse(w http.ResponseWriter, status int, code refusal.Code) {
	guard.Raw(w, status, (&tool.Error{Code: code}).JSON())
}

// verdicts are the codes by which an arm is refused; anything else is an outage.
var verdicts = append(slices.Clone(controlv1.TrustReasons), refusal.Replaced, refusal.Forbidden, refusal.Ended, refusal.Disabled, refusal.LoggedOut)

// fail answers what the authority said: 403 where it said no, 503 where it couldn't
// tell, 400 where it couldn't read.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := refusal.Of(err)
	switch {
	case errors.Is(err, errNoAnswer):
		refuse(w, http.StatusServiceUnavailable, refusal.ProviderError)
	case slices.Contains(verdicts, code):
		refuse(w, http.StatusForbidden, code)
	case code == refusal.BadDocument || code == refusal.InvalidRequest:
		refuse(w, http.StatusBadRequest, code)
	default:
		s.Log.Error("attended control can't answer", "code", string(code))
		if code == "" {
			code = refusal.ChannelUnavailable
		}
		refuse(w, http.StatusServiceUnavailable, code)
	}
}

// read decodes a body strictly; where it can't, it has answered.
func read(w http.ResponseWriter, r *http.Request, into any) bool { return guard.Read(w, r, into) }

// at answers the origin that a request came to, the zero Origin for one that isn't
// served.
func (s *Server) at(r *http.Request) controlv1.Origin { return s.origins[strings.ToLower(r.Host)] }

// elsewhere answers the other site's origin that a request came to, "" for ours.
func (s *Server) elsewhere(r *http.Request) string {
	if at := s.at(r).String(); at != s.Origin {
		return at
	}
	return ""
}

// own tells whether a request comes from a page of where it came to: exactly one
// Origin, which is that one. Being on the list isn't enough.
func (s *Server) own(r *http.Request) bool {
	origins, at := r.Header.Values("Origin"), s.at(r).String()
	return at != "" && len(origins) == 1 && origins[0] == at
}

// mismatch is the one answer to evidence that isn't this page's.
func mismatch(what string) error { return fmt.Errorf("%s: %w", what, refusal.ArmMismatch) }

var errNothing = errors.New("no such cookie")
