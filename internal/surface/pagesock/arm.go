package pagesock

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// begin sends a person to prove themselves: POST …/attended-arm.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, of session.Session) {
	var in struct {
		Route string `json:"route_id"`
		Next  string `json:"next,omitzero"`
	}
	if !read(w, r, &in) {
		return
	}
	route, err := controlv1.ParseID(in.Route)
	if err != nil {
		s.fail(w, fmt.Errorf("route_id isn't valid: %w", refusal.BadDocument))
		return
	}
	until := time.Now().Add(session.FlowLife)
	to, flow, err := s.Provider.Arm(r.Context(), of, route.String(), in.Next)
	if err != nil {
		s.fail(w, err)
		return
	}
	http.SetCookie(w, flow)
	guard.Answer(w, http.StatusOK, struct {
		URL     string `json:"authorization_url"`
		Expires int64  `json:"expires_at_ms"`
	}{to, until.UnixMilli()})
}

// Armed seals the evidence of an arming step-up that was accepted; it is for
// [oidc.Config].
func (s *Server) Armed(w http.ResponseWriter, r *http.Request, of session.Session, route string) error {
	if s.Authority == nil {
		return fmt.Errorf("attended control is off: %w", refusal.PrerequisiteMissing)
	}
	id, err := controlv1.ParseID(route)
	if err != nil {
		return err
	}
	who := s.person(of)
	arm, err := s.Authority.Grant(r.Context(), s.trust(who, of))
	if err != nil {
		return err
	}
	c := recent{bearer{of.ID, who}, arm.Ref, id, arm.GrantUntilMS}
	http.SetCookie(w, cookie(recentKind, s.seals.seal(recentKind, c.encode()), seconds(c.untilMS)))
	return nil
}

// seconds answers how long a cookie is kept that ends then, at least one.
func seconds(untilMS int64) int64 {
	return max(1, (untilMS-time.Now().UnixMilli()+999)/1000)
}

// document mints the reference of this load of the page:
// POST /api/browser-control/document. The body's csrf, which the specification
// shows, is the header's once more; where it is there it must be right.
func (s *Server) document(w http.ResponseWriter, r *http.Request, of session.Session) {
	var in struct {
		CSRF  *string `json:"csrf"`
		Route string  `json:"route_id"`
	}
	if !read(w, r, &in) {
		return
	}
	if in.CSRF != nil && subtle.ConstantTimeCompare([]byte(*in.CSRF), []byte(session.CSRF(guard.Secret(r)))) != 1 {
		refuse(w, http.StatusForbidden, refusal.CSRFDenied)
		return
	}
	route, err := controlv1.ParseID(in.Route)
	if err != nil {
		s.fail(w, fmt.Errorf("route_id isn't valid: %w", refusal.BadDocument))
		return
	}
	c := load{of.ID, of.Login, ref.Mint[ref.DocumentKind](), s.at(r), route}
	http.SetCookie(w, cookie(documentKind, s.seals.seal(documentKind, c.encode()), int64(session.Absolute.Seconds())))
	other := s.elsewhere(r)
	if other == "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// Another site's page learns which of its tools only read, and where what changes
	// something is confirmed.
	guard.Answer(w, http.StatusOK, struct {
		Authority string   `json:"authority"`
		Reads     []string `json:"reads"`
	}{s.Origin, append([]string{}, s.Authority.Reads[other]...)})
}

// finalize binds the evidence to the page that was loaded after it:
// POST …/attended-arm/finalize.
func (s *Server) finalize(w http.ResponseWriter, r *http.Request, of session.Session) {
	var in offer
	if !read(w, r, &in) {
		return
	}
	grant, place, err := s.evidence(r, of, in)
	if err != nil {
		s.fail(w, err)
		return
	}
	arm, nonce, err := s.Authority.Finalize(r.Context(), s.trust(grant.who, of), grant.arm, place)
	if err != nil {
		s.fail(w, err)
		return
	}
	c := armed{grant.bearer, arm.Ref, place, arm.ExpiresMS, phaseOpen}
	http.SetCookie(w, s.armCookie(c))
	http.SetCookie(w, cookie(recentKind, "", 0))
	guard.Answer(w, http.StatusOK, struct {
		status
		Nonce string `json:"open_nonce"`
	}{c.status(), nonce.String()})
}

// armCookie keeps an arm for as long as it can be asked to end, which outlasts it.
func (s *Server) armCookie(c armed) *http.Cookie {
	return cookie(armKind, s.seals.seal(armKind, c.encode()), int64(time.Hour.Seconds()))
}

// evidence holds what a page offers to what its browser shows: the grant of this
// session, and a document of after it.
func (s *Server) evidence(r *http.Request, of session.Session, in offer) (grant recent, place controlv1.Place, err error) {
	if grant, err = s.recent(r, of); err != nil {
		return grant, place, err
	}
	page, err := s.load(r)
	if err != nil {
		return grant, place, err
	}
	if place, err = in.place(page); err != nil {
		return grant, place, err
	}
	switch {
	case grant.untilMS <= time.Now().UnixMilli():
		return grant, place, fmt.Errorf("the grant's time is over: %w", refusal.ArmExpired)
	case page.session != of.ID || !page.login.Equal(grant.who.Login):
		return grant, place, mismatch("the page was loaded before the grant")
	case page.origin != s.at(r) || page.route != place.Route || grant.route != place.Route:
		return grant, place, mismatch("the grant is for another page")
	}
	return grant, place, nil
}

// recent answers the grant that a browser shows: [refusal.NoArm] where it has none.
func (s *Server) recent(r *http.Request, of session.Session) (c recent, err error) {
	text, err := s.seals.sealed(r, recentKind)
	if err == nil {
		c, err = decodeRecent(text)
	}
	switch {
	case err != nil:
		return c, fmt.Errorf("no grant: %w", refusal.NoArm)
	case !c.of(of):
		return c, mismatch("the grant is another session's")
	}
	return c, nil
}

// load answers which load of a page a browser shows.
func (s *Server) load(r *http.Request) (c load, err error) {
	text, err := s.seals.sealed(r, documentKind)
	if err == nil {
		c, err = decodeLoad(text)
	}
	if err != nil {
		return c, mismatch("the page has no document")
	}
	return c, nil
}
