// Package runsock speaks owned-browser-v1 for one run, over a Unix socket in the
// run's registration or over loopback (spec/owned-browser.md, section 2).
//
// It contains the two ways to listen, and a [Server] that turns HTTP requests
// into the host's verbs and its refusals into statuses. The order in which a
// request is refused is the spec's: whose connection it is, Host and Origin,
// 404 and 405, 415, 401, and only then the body: 413, 400, 426, 403, 409.
//
// It has no state of its own. It decides nothing that the host or the protocol's
// decoder could decide, follows and sends no redirect, answers no preflight, and
// logs neither headers nor bodies. A client that hangs up stops its action.
//
// Floor: surface.
package runsock

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"chaperone/internal/owned/host"
	"chaperone/internal/owned/ownedv1"
)

// Limits of what a client may take: a slow or greedy one ends, not the run.
const (
	maxConns    = 256
	maxHeader   = 16 << 10
	headerTime  = 5 * time.Second
	bodyTime    = 20 * time.Second // 8 MiB at 400 KB/s
	answerTime  = 20 * time.Second // after the action has ended
	idleTime    = 2 * time.Minute
	drainTime   = 2 * time.Second // also for a body that nobody wants
	actionTime  = ownedv1.MaxDeadlineMS * time.Millisecond
	requestTime = bodyTime + actionTime + answerTime
)

// Server answers the clients of one run.
type Server struct {
	host      *host.Host
	authority string // what the Host header must be
	http      *http.Server
}

// New makes a server for h. authority is that of the descriptor's endpoint.
func New(h *host.Host, authority string) *Server {
	s := &Server{host: h, authority: authority}
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, WriteTimeout: requestTime, IdleTimeout: idleTime,
		// net/http would write request lines and addresses to the process's log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	// An OPTIONS * isn't for us either.
	s.http.DisableGeneralOptionsHandler = true
	return s
}

// Serve answers on l until Close; its error is nil then.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(netutil.LimitListener(l, maxConns))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close stops listening, gives answers that are being written a moment, and then
// cuts every connection. The host should be over by now, so that no action runs.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := s.judge(w, r)
	status := http.StatusOK
	var bad *ownedv1.Bad
	if errors.As(err, &bad) {
		status, answer = bad.Status, bad.Body()
		err = hangUp(w, status)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away or sent no body: nobody to answer
	}
	header := w.Header()
	header.Set("Content-Type", ownedv1.ContentType)
	header.Set("Content-Length", strconv.Itoa(len(answer))) // never chunked: a cut answer shows
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(answer); err != nil {
		panic(http.ErrAbortHandler) // the client is gone; what was done is in the journal
	}
}

// hangUp ends the connection of who is refused before the body is read. Else
// net/http would wait for that body without end, before it answers and after,
// and a few hundred who never send theirs would keep everybody out.
func hangUp(w http.ResponseWriter, status int) error {
	switch status {
	case http.StatusBadRequest, http.StatusUpgradeRequired, http.StatusConflict, http.StatusGatewayTimeout:
		return nil // judged by the body
	}
	w.Header().Set("Connection", "close")
	return http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
}

// judge walks the refusals in the spec's order and then does the verb.
func (s *Server) judge(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	verb, known := verbOf(r.RequestURI)
	if err := s.sameOrigin(verb, r); err != nil {
		return nil, err
	}
	if !known {
		return nil, verb.Refuse(http.StatusNotFound, "", "no such path")
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, verb.Refuse(http.StatusMethodNotAllowed, "", "only POST")
	}
	if !only(r.Header["Content-Type"], ownedv1.ContentType) {
		return nil, verb.Refuse(http.StatusUnsupportedMediaType, "", "Content-Type must be exactly application/json")
	}
	token, err := bearer(verb, r)
	if err == nil {
		err = s.host.Admit(verb, token)
	}
	if err != nil {
		return nil, err
	}
	body, err := read(verb, w, r)
	if err != nil {
		return nil, err
	}
	return s.do(r.Context(), verb, token, body)
}

// do decodes the message and hands it to the host.
func (s *Server) do(ctx context.Context, verb ownedv1.Verb, token string, body []byte) ([]byte, error) {
	switch verb {
	case ownedv1.Handshake:
		req, err := ownedv1.DecodeHandshakeRequest(body)
		if err != nil {
			return nil, err
		}
		res, err := s.host.Handshake(ctx, token, req)
		return res.Encode(), err
	case ownedv1.Cancel:
		req, err := ownedv1.DecodeCancelRequest(body)
		if err != nil {
			return nil, err
		}
		res, err := s.host.Cancel(ctx, req)
		return res.Encode(), err
	}
	req, err := ownedv1.DecodeActionRequest(body, time.Now())
	if err != nil {
		return nil, err
	}
	res, err := s.host.Action(ctx, req)
	if err != nil {
		return nil, err
	}
	return res.Encode(), nil
}

// sameOrigin refuses what a browser's page could send: a rebound name brings
// another Host, a cross-site request an Origin, and every request of a page a
// Sec-Fetch-Site.
func (s *Server) sameOrigin(verb ownedv1.Verb, r *http.Request) error {
	site := r.Header["Sec-Fetch-Site"]
	switch {
	case r.Host != s.authority:
		return verb.Refuse(http.StatusForbidden, "", "the Host header isn't this run's authority")
	case r.Header["Origin"] != nil:
		return verb.Refuse(http.StatusForbidden, "", "no page may speak to a host")
	case site != nil && !only(site, "none"):
		return verb.Refuse(http.StatusForbidden, "", "no page may speak to a host")
	}
	return nil
}

// verbOf answers the verb of a request target, which has one spelling: no query,
// no absolute form, nothing to be cleaned.
func verbOf(target string) (ownedv1.Verb, bool) {
	for _, v := range []ownedv1.Verb{ownedv1.Handshake, ownedv1.DoAction, ownedv1.Cancel} {
		if target == v.Path() {
			return v, true
		}
	}
	return ownedv1.DoAction, false
}

// only tells whether a header was sent once, with exactly this value.
func only(values []string, want string) bool {
	return len(values) == 1 && values[0] == want
}

// bearer answers the request's one credential.
func bearer(verb ownedv1.Verb, r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	if len(values) == 1 {
		if token, ok := strings.CutPrefix(values[0], "Bearer "); ok {
			return token, nil
		}
	}
	return "", verb.Refuse(http.StatusUnauthorized, "", "one Authorization: Bearer header is needed")
}

// read reads the body within its bounds of size and time.
func read(verb ownedv1.Verb, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := verb.Refuse(http.StatusRequestEntityTooLarge, "", "the message is over 8 MiB")
	if r.ContentLength > ownedv1.MaxMessage {
		return nil, tooLarge
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ownedv1.MaxMessage))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, err
	}
	// The deadline would else end the connection, and with it the action.
	return body, control.SetReadDeadline(time.Time{})
}
