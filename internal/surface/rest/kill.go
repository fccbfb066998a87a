package rest

import (
	"context"
	"net/http"
	"slices"

	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/credential"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// operator is the role that may stop attended control for every tenant. Nobody of
// the built-in provider has it: there, whoever is at the machine is the operator.
const operator = "operator"

// killRoutes are the kill switch's: the signed-in person's alone. To stop asks for
// nothing more, to lift for a fresh step-up (spec/attended-control.md, section 7).
func (a *api) killRoutes() []guard.Route {
	return []guard.Route{
		{Method: "POST", Path: "/api/kill", Who: guard.Owner, Mutates: true, Handler: a.kill},
		{Method: "GET", Path: "/api/kill", Who: guard.Owner, Handler: a.kills},
		{Method: "DELETE", Path: "/api/kill/{id}", Who: guard.Owner, Mutates: true, Fresh: true, Handler: a.lift},
	}
}

// switcher is who asks.
type switcher struct {
	me    ref.Principal
	roles []string
}

func (k switcher) is(role string) bool { return slices.Contains(k.roles, role) }

func (a *api) switcher(s session.Session) (switcher, error) {
	if a.Attended == nil {
		return switcher{}, refusal.PrerequisiteMissing
	}
	p, err := s.Principal()
	return switcher{a.Attended.Principal(p), s.Roles}, err
}

// killView is a kill switch as people see it.
type killView struct {
	ID       string             `json:"kill_id"`
	Scope    attended.KillScope `json:"scope"`
	Ref      string             `json:"ref,omitzero"`
	SetMS    int64              `json:"set_ms"`
	Mine     bool               `json:"mine"`
	MayLift  bool               `json:"may_lift"`
	InFlight []string           `json:"in_flight"`
	Unknown  []string           `json:"unknown"`
}

func (k switcher) view(s attended.Kill) killView {
	return killView{s.ID.String(), s.Scope, s.Ref, s.SetMS, s.By == k.me, k.mayLift(s), texts(s.InFlight), texts(s.Unknown)}
}

func texts(ids []controlv1.ID) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}

// kill stops what the body names. It is answered when that is durable.
func (a *api) kill(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Scope attended.KillScope `json:"scope"`
		Ref   string             `json:"ref"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	k, err := a.switcher(guard.Session(r))
	if err == nil && in.Scope == attended.KillPrincipal && in.Ref == "" {
		in.Ref = k.me.String()
	}
	if err == nil {
		err = a.mayKill(r.Context(), k, in.Scope, in.Ref)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	// The stop goes on where the caller leaves meanwhile.
	set, err := a.Attended.Book.Kill(context.WithoutCancel(r.Context()), in.Scope, in.Ref, k.me)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, k.view(a.shown(r.Context(), k, set)))
}

// mayKill tells who may stop what: all of it an operator, a tenant its admins,
// people themselves, and a call, lease or arm whose it is.
func (a *api) mayKill(ctx context.Context, k switcher, scope attended.KillScope, target string) error {
	switch scope {
	case attended.KillAll:
		return permit(k.is(operator))
	case attended.KillTenant:
		return permit(k.is(credential.RoleAdmin))
	case attended.KillPrincipal:
		return permit(target == k.me.String() || k.is(credential.RoleAdmin))
	case attended.KillCall, attended.KillLease, attended.KillArm:
		own, err := a.Attended.Book.Owns(ctx, k.me, scope, target)
		if err == nil && !own {
			err = refusal.Unknown // another's is told like one that isn't there
		}
		return err
	}
	return refusal.InvalidRequest
}

func permit(may bool) error {
	if !may {
		return refusal.Forbidden
	}
	return nil
}

// mayLift tells who may lift it again: who set it, where they may set such a one
// still, and the admins; an admin's over a person isn't that person's to lift.
func (k switcher) mayLift(s attended.Kill) bool {
	switch s.Scope {
	case attended.KillAll:
		return k.is(operator)
	case attended.KillTenant:
		return k.is(credential.RoleAdmin)
	}
	return k.is(credential.RoleAdmin) || s.By.Equal(k.me)
}

// sees tells whose switch a person is shown: those over all or the tenant, and those
// over what is theirs.
func (a *api) sees(ctx context.Context, k switcher, s attended.Kill) (bool, error) {
	if s.Scope == attended.KillAll || s.Scope == attended.KillTenant || k.is(credential.RoleAdmin) {
		return true, nil
	}
	return a.Attended.Book.Owns(ctx, k.me, s.Scope, s.Ref)
}

// shown leaves of a switch's calls those that the person may know of.
func (a *api) shown(ctx context.Context, k switcher, s attended.Kill) attended.Kill {
	if k.is(credential.RoleAdmin) {
		return s
	}
	own := func(ids []controlv1.ID) []controlv1.ID {
		return slices.DeleteFunc(slices.Clone(ids), func(id controlv1.ID) bool {
			is, err := a.Attended.Book.Owns(ctx, k.me, attended.KillCall, id.String())
			return err != nil || !is
		})
	}
	s.InFlight, s.Unknown = own(s.InFlight), own(s.Unknown)
	return s
}

// kills answers which switches are on, and which of the person's own calls are in
// flight or unknown, whatever is on.
func (a *api) kills(w http.ResponseWriter, r *http.Request) {
	out := struct {
		Kills    []killView `json:"kills"`
		InFlight []string   `json:"in_flight"`
		Unknown  []string   `json:"unknown"`
	}{[]killView{}, []string{}, []string{}}
	if a.Attended == nil {
		guard.Answer(w, http.StatusOK, out)
		return
	}
	k, err := a.switcher(guard.Session(r))
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	all, err := a.Attended.Book.Kills(r.Context())
	for _, s := range all {
		sees, e := a.sees(r.Context(), k, s)
		if e != nil {
			err = e
			break
		}
		if sees {
			out.Kills = append(out.Kills, k.view(a.shown(r.Context(), k, s)))
		}
	}
	var inFlight, unknown []controlv1.ID
	if err == nil {
		inFlight, unknown, err = a.Attended.Book.Unsettled(r.Context(), k.me)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	out.InFlight, out.Unknown = texts(inFlight), texts(unknown)
	guard.Answer(w, http.StatusOK, out)
}

// lift turns a switch off. One that the person doesn't see isn't there.
func (a *api) lift(w http.ResponseWriter, r *http.Request) {
	k, err := a.switcher(guard.Session(r))
	if err == nil {
		err = a.liftIt(r.Context(), k, r.PathValue("id"))
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) liftIt(ctx context.Context, k switcher, id string) error {
	all, err := a.Attended.Book.Kills(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(s attended.Kill) bool { return s.ID.String() == id })
	if at < 0 {
		return refusal.Unknown
	}
	switch sees, err := a.sees(ctx, k, all[at]); {
	case err != nil:
		return err
	case !sees:
		return refusal.Unknown
	case !k.mayLift(all[at]):
		return refusal.Forbidden
	}
	return a.Attended.Book.Lift(ctx, all[at].ID, k.me)
}
