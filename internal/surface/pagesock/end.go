package pagesock

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// status is what a page is told of what is armed.
type status struct {
	Status     string `json:"status"`
	Expires    int64  `json:"expires_at_ms,omitzero"`
	Route      string `json:"route_id,omitzero"`
	Generation int64  `json:"registration_generation,omitzero"`
	Catalog    string `json:"catalog_digest,omitzero"`
	Scope      string `json:"tool_scope_digest,omitzero"`
}

func (c armed) status() status {
	return status{"armed", c.untilMS, c.place.Route.String(), c.place.Generation.Int(), c.place.Catalog.String(), c.place.Scope.String()}
}

// tell answers what is armed in this browser: GET …/attended-arm. The cookies say
// which arm, and the ledger whether it stands. A grant comes first: whoever has one
// is about to arm anew.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, of session.Session) {
	grant, err := s.recent(r, of)
	if err == nil {
		stands, err := s.stands(r, grant.arm, grant.untilMS, ledger.ArmGranted)
		if err != nil {
			s.fail(w, err)
			return
		}
		if stands {
			guard.Answer(w, http.StatusOK, status{Status: "recent-auth", Expires: grant.untilMS, Route: grant.route.String()})
			return
		}
	}
	arm, err := s.armed(r, of)
	if err == nil {
		stands, err := s.stands(r, arm.arm, arm.untilMS, ledger.ArmActive, ledger.ArmConsumed)
		if err != nil {
			s.fail(w, err)
			return
		}
		if stands {
			guard.Answer(w, http.StatusOK, arm.status())
			return
		}
	}
	guard.Answer(w, http.StatusOK, status{Status: "none"})
}

// stands tells whether an arm is in one of these states and not over by the clock.
func (s *Server) stands(r *http.Request, id ref.Attended, untilMS int64, in ...ledger.ArmState) (bool, error) {
	if untilMS <= time.Now().UnixMilli() {
		return false, nil
	}
	arm, err := s.Authority.Book.Find(r.Context(), id)
	if errors.Is(err, refusal.NoArm) {
		return false, nil
	}
	for _, state := range in {
		if err == nil && arm.State == state {
			return true, nil
		}
	}
	return false, err
}

// armed answers the arm that a browser shows: [refusal.NoArm] where it has none.
func (s *Server) armed(r *http.Request, of session.Session) (c armed, err error) {
	text, err := s.seals.sealed(r, armKind)
	if err == nil {
		c, err = decodeArmed(text)
	}
	switch {
	case errors.Is(err, errNothing):
		return c, fmt.Errorf("no arm: %w", refusal.NoArm)
	case err != nil:
		return c, mismatch("the arm isn't this server's")
	case !c.of(of):
		return c, mismatch("the arm is another session's")
	}
	return c, nil
}

// revoke ends what is armed in this browser: DELETE …/attended-arm. It asks the
// session and the ledger alone, so it works while the provider is away, and after
// the arm's time. Whatever fails keeps its cookie, so that it can be tried again.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request, of session.Session) {
	var over []kind
	var errs []error
	end := func(k kind, err error, c bearer, id ref.Attended, place controlv1.Place) {
		if err == nil {
			err = s.Authority.Revoke(r.Context(), c.who, id, place, refusal.Revoked)
			over = append(over, k)
		}
		if err != nil && !errors.Is(err, refusal.NoArm) { // nothing there is nothing to end
			over, errs = over[:max(0, len(over)-1)], append(errs, err)
		}
	}
	grant, err := s.recent(r, of)
	end(recentKind, err, grant.bearer, grant.arm, controlv1.Place{})
	arm, err := s.armed(r, of)
	end(armKind, err, arm.bearer, arm.arm, arm.place)
	for _, k := range over {
		http.SetCookie(w, cookie(k, "", 0))
	}
	if err := errors.Join(errs...); err != nil {
		s.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
