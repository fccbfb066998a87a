package pagesock

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// open is GET /ws/browser-control. What must not even know whether there is an arm
// is refused by plain HTTP; everybody else is accepted, and told by the close.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.Authority == nil:
		refuse(w, http.StatusServiceUnavailable, refusal.PrerequisiteMissing)
		return
	case len(r.Header.Values("Authorization")) > 0:
		refuse(w, http.StatusForbidden, refusal.Forbidden)
		return
	case !s.own(r):
		refuse(w, http.StatusForbidden, refusal.OriginDenied)
		return
	}
	if !s.enter() {
		refuse(w, http.StatusServiceUnavailable, refusal.ChannelUnavailable)
		return
	}
	defer s.sockets.Done()
	of, arm, err := s.shown(r)
	spent := arm
	spent.phase = phaseRevoke
	up := &upgrade{ResponseWriter: w}
	if err == nil {
		up.cookie = s.armCookie(spent)
	}
	ws, bad := websocket.Accept(up, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if bad != nil {
		return // no handshake, and it was answered so
	}
	conn := newConn(ws, up.conn)
	defer conn.end()
	switch code := refusal.Of(err); {
	case err == nil:
		// Only the authority ends it: the request's context ends with the server's drain,
		// and would leave the page without a reason.
		s.Authority.Channel(context.WithoutCancel(r.Context()), s.trust(arm.who, of), arm.arm, arm.place, conn)
	case slices.Contains(controlv1.TrustReasons, code):
		conn.Close(controlv1.CloseTrust, code)
	default:
		s.Log.Error("a page's socket can't be judged", "code", string(code))
		conn.Close(controlv1.CloseFault, refusal.Failed)
	}
}

// shown answers the session and the arm that a socket comes with.
func (s *Server) shown(r *http.Request) (of session.Session, arm armed, err error) {
	cookies := r.CookiesNamed(guard.Cookie)
	if len(cookies) != 1 {
		return of, arm, fmt.Errorf("nobody is signed in: %w", refusal.NoSession)
	}
	of, err = s.Sessions.Find(r.Context(), cookies[0].Value)
	switch {
	case refusal.Of(err) == refusal.SessionExpired:
		return of, arm, fmt.Errorf("nobody is signed in: %w", refusal.NoSession)
	case err != nil:
		return of, arm, err
	}
	if of.Origin != s.elsewhere(r) {
		return of, arm, fmt.Errorf("nobody is signed in here: %w", refusal.NoSession)
	}
	if arm, err = s.armed(r, of); err != nil {
		return of, arm, err
	}
	switch {
	case arm.phase != phaseOpen:
		err = fmt.Errorf("the arm has opened its socket: %w", refusal.ArmReplayed)
	case arm.untilMS <= time.Now().UnixMilli():
		err = fmt.Errorf("the arm's time is over: %w", refusal.ArmExpired)
	case arm.place.Origin != s.at(r):
		err = mismatch("the arm is another origin's")
	}
	return of, arm, err
}

// upgrade sets a cookie on the answer that opens the socket and on no other, and
// keeps the connection, whose deadlines are the socket's.
type upgrade struct {
	http.ResponseWriter
	cookie *http.Cookie
	conn   net.Conn
}

// WriteHeader is where the socket opens.
func (u *upgrade) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols && u.cookie != nil {
		http.SetCookie(u.ResponseWriter, u.cookie)
	}
	u.ResponseWriter.WriteHeader(status)
}

// Hijack takes the connection from below whatever stands before it.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	u.conn = c
	return c, rw, err
}
