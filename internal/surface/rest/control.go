package rest

import (
	"net/http"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/oauth"
	"chaperone/internal/surface/guard"
)

// control is POST /browser/control: the action in, the receipt out, in a form of
// its own (spec/attended-control.md, section 6).
type control struct{ of *guard.Control }

// controlRoute is the route of agents; the person's own are in kill.go and
// approvals.go.
func controlRoute(c *guard.Control) guard.Route {
	k := control{c}
	return guard.Route{
		Method: "POST", Path: "/browser/control", Who: guard.Bearer, Scope: oauth.ScopeControl, Mutates: true,
		Body: controlv1.MaxFrame, Refusal: k.refuse, Handler: k.serve,
	}
}

func (k control) serve(w http.ResponseWriter, r *http.Request) {
	asked, err := guard.Asked(r)
	if err != nil {
		k.refuse(w, err)
		return
	}
	answer, err := k.of.Do(r.Context(), guard.Grant(r), asked)
	if err != nil {
		k.refuse(w, err)
		return
	}
	guard.Raw(w, http.StatusOK, wrapped(`{"result":`, answer, `,"status":"success"}`))
}

func (k control) refuse(w http.ResponseWriter, err error) {
	r := k.of.Refuse(err)
	status := controlv1.RESTStatus(r.Code)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	guard.Raw(w, status, wrapped(`{"error":`, r.JSON(), `}`))
}

func wrapped(before string, text []byte, after string) []byte {
	return append(append([]byte(before), text...), after...)
}
