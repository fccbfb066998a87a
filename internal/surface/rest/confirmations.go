package rest

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// confirmationRoutes are where a person confirms on the authority's own origin: what
// a page that isn't ours was asked is confirmed nowhere else (spec/attended-control.md,
// section 4).
func (a *api) confirmationRoutes() []guard.Route {
	return []guard.Route{
		{Method: "GET", Path: "/api/confirmations", Who: guard.Owner, Handler: a.confirmations},
		{Method: "POST", Path: "/api/confirmations/{call}", Who: guard.Owner, Mutates: true, Handler: a.decide},
		{Method: "DELETE", Path: "/api/confirmations/{call}", Who: guard.Owner, Mutates: true, Handler: a.decide},
	}
}

// promptView is a confirmation as the person is to see it: the authority's own facts,
// and all arguments.
type promptView struct {
	Call         string          `json:"call_id"`
	Lease        string          `json:"lease_id"`
	Request      string          `json:"request_id"`
	Tool         string          `json:"tool_id"`
	Class        controlv1.Class `json:"mutation_class"`
	Agent        *agentView      `json:"agent,omitzero"`
	Origin       string          `json:"origin"`
	Route        string          `json:"route_id"`
	Schemas      string          `json:"schema_digest"`
	Binding      string          `json:"binding_digest"`
	Policy       string          `json:"policy_reference"`
	Arguments    jsontext.Value  `json:"arguments"`
	Confirmation string          `json:"confirmation_digest"`
	Level        controlv1.Level `json:"level"`
	Expires      int64           `json:"expires_at_ms"`
	PublicKey    *publicKeyView  `json:"public_key,omitzero"`
}

type publicKeyView struct {
	Challenge string   `json:"challenge"`
	RPID      string   `json:"rp_id"`
	Keys      []string `json:"allow_credentials"`
	Verify    string   `json:"user_verification"`
}

// confirmations answers what waits for this person, whatever node asks it.
func (a *api) confirmations(w http.ResponseWriter, r *http.Request) {
	out := struct {
		Confirmations []promptView `json:"confirmations"`
	}{[]promptView{}}
	if a.Attended == nil {
		guard.Answer(w, http.StatusOK, out)
		return
	}
	s := guard.Session(r)
	p, err := s.Principal()
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	families, err := a.Tokens.Families(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	who := a.agentNames(families)
	for _, q := range a.Attended.Prompts(r.Context(), p) {
		v := promptView{Call: q.Call.String(), Lease: q.Lease.String(), Request: q.Request.String(), Tool: q.Tool.String(), Class: q.Class,
			Origin: q.Origin.String(), Route: q.Route.String(), Schemas: q.Schemas.String(), Binding: q.Binding.String(), Policy: q.Policy.String(),
			Arguments: q.Arguments.Bytes(), Confirmation: q.Confirmation.String(), Level: controlv1.VisibleClick, Expires: q.ExpiresMS}
		if q.Agent != "" {
			v.Agent = who(controlv1.MaskAgent(a.Attended.Key, q.Agent))
		}
		if k, ok := q.Level.(controlv1.AskPasskey); ok {
			v.Level, v.PublicKey = controlv1.Passkey, &publicKeyView{k.Challenge.String(), k.RPID.String(), nil, "required"}
			for _, id := range k.Keys {
				v.PublicKey.Keys = append(v.PublicKey.Keys, id.String())
			}
		}
		out.Confirmations = append(out.Confirmations, v)
	}
	guard.Answer(w, http.StatusOK, out)
}

// decide takes the person's word: POST confirms the exact request, DELETE denies it.
func (a *api) decide(w http.ResponseWriter, r *http.Request) {
	if a.Attended == nil {
		guard.Refuse(w, refusal.PrerequisiteMissing)
		return
	}
	id, err := controlv1.ParseID(r.PathValue("call"))
	if err != nil {
		guard.Refuse(w, refusal.UnknownCall)
		return
	}
	var k *controlv1.Confirm
	if r.Method == http.MethodPost {
		var in struct {
			Confirmation string         `json:"confirmation_digest"`
			Assertion    jsontext.Value `json:"assertion,omitzero"`
		}
		if !guard.Read(w, r, &in) {
			return
		}
		k = &controlv1.Confirm{Call: id}
		if k.Confirmation, err = controlv1.ParseDigest(in.Confirmation); err == nil && in.Assertion != nil {
			k.Assertion, err = controlv1.ParseValue(in.Assertion, controlv1.MaxAssertion)
		}
		if err != nil {
			guard.RefuseError(w, err)
			return
		}
	}
	p, err := guard.Session(r).Principal()
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	c, err := a.Attended.Decide(r.Context(), p, id, k)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, struct {
		State string `json:"state"`
	}{string(c.State)})
}
