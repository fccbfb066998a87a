package rest

import (
	"net/http"

	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/oauth"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// maxCalls is how many calls the page is shown; the log has them all.
const maxCalls = 100

// agentView is who acted: an app of this person's by its name, and one that isn't
// known any more by its reference alone. Nothing is the person's own session.
type agentView struct {
	Ref  string `json:"agent_ref"`
	Name string `json:"name,omitzero"` // the app's own text
}

// armedView is a live document.
type armedView struct {
	Document   string      `json:"document_ref"`
	Arm        string      `json:"arm_ref"`
	ArmExpires int64       `json:"arm_expires_ms"`
	Generation int64       `json:"registration_generation"`
	Catalog    string      `json:"catalog_digest"`
	Tools      []armedTool `json:"tools"`
}

type armedTool struct {
	ID      string          `json:"tool_id"`
	Class   controlv1.Class `json:"mutation_class"`
	Schemas string          `json:"schema_digest"`
}

type leaseView struct {
	ID       string     `json:"lease_id"`
	Document string     `json:"document_ref"`
	Tools    []string   `json:"tool_ids"`
	Agent    *agentView `json:"agent,omitzero"`
	Issued   int64      `json:"issued_ms"`
	Expires  int64      `json:"expires_at_ms"`
}

type callView struct {
	ID        string              `json:"call_id"`
	Lease     string              `json:"lease_id"`
	Document  string              `json:"document_ref"`
	Tool      string              `json:"tool_id"`
	Class     controlv1.Class     `json:"mutation_class"`
	Agent     *agentView          `json:"agent,omitzero"`
	State     attended.CallState  `json:"state"`
	Effect    controlv1.Effect    `json:"effect"`
	Code      refusal.Code        `json:"error_code,omitzero"`
	Level     controlv1.Level     `json:"confirmation_level,omitzero"`
	Confirmed bool                `json:"confirmed"`
	Trace     string              `json:"run_trace_id"`
	Telemetry controlv1.Telemetry `json:"telemetry"`
	Admitted  int64               `json:"admitted_ms"`
	Claimed   int64               `json:"claimed_ms,omitzero"`
	Settled   int64               `json:"settled_ms,omitzero"`
	Deadline  int64               `json:"deadline_ms"`
}

// attentionView is how the person was asked. What is asked too often is clicked
// away, and a person can see here whether that is so.
type attentionView struct {
	Asked     int64 `json:"asked"`  // in the window
	Budget    int64 `json:"budget"` // that many at most
	Window    int64 `json:"window_ms"`
	Confirmed int   `json:"confirmed"` // of the calls that are shown
	Denied    int   `json:"denied"`
	Lapsed    int   `json:"lapsed"`
	Dwell     int64 `json:"dwell_ms"` // the middle of how long an answer took
}

// attendedControl answers everything of attended control that is the person's own.
func (a *api) attendedControl(w http.ResponseWriter, r *http.Request) {
	out := struct {
		Available bool          `json:"available"`
		Documents []armedView   `json:"documents"`
		Leases    []leaseView   `json:"leases"`
		Calls     []callView    `json:"calls"`
		Attention attentionView `json:"attention"`
	}{a.Attended != nil, []armedView{}, []leaseView{}, []callView{}, attentionView{Budget: attended.BudgetPrompt, Window: attended.BudgetTime.Milliseconds()}}
	if a.Attended == nil {
		guard.Answer(w, http.StatusOK, out)
		return
	}
	s := guard.Session(r)
	p, err := s.Principal()
	var own attended.Own
	if err == nil {
		own, err = a.Attended.Book.Own(r.Context(), a.Attended.Principal(p), maxCalls)
	}
	var families []oauth.Family
	if err == nil {
		families, err = a.Tokens.Families(r.Context(), s.Actor)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	who := a.agentNames(families)
	for _, d := range own.Documents {
		out.Documents = append(out.Documents, armed(d))
	}
	for _, l := range own.Leases {
		out.Leases = append(out.Leases, leaseView{l.Lease.Lease.String(), l.Document.String(), texts(l.Tools), who(l.Agent), l.IssuedMS, l.ExpiresMS})
	}
	for _, c := range own.Calls {
		out.Calls = append(out.Calls, called(c, who(c.Agent)))
	}
	at := own.Attention
	out.Attention.Asked, out.Attention.Confirmed, out.Attention.Denied, out.Attention.Lapsed, out.Attention.Dwell = at.Asked, at.Confirmed, at.Denied, at.Lapsed, at.DwellMS
	guard.Answer(w, http.StatusOK, out)
}

// agentNames answers how agents are called, by their references.
func (a *api) agentNames(families []oauth.Family) func(controlv1.Mask) *agentView {
	names := map[controlv1.Mask]string{}
	for _, f := range families {
		names[controlv1.MaskAgent(a.Attended.Key, f.Client)] = f.Name
	}
	return func(m controlv1.Mask) *agentView {
		if m == (controlv1.Mask{}) {
			return nil
		}
		return &agentView{m.String(), names[m]}
	}
}

func armed(d attended.Document) armedView {
	v := armedView{d.Document.String(), d.Arm.String(), d.ArmExpiresMS, d.Generation.Int(), d.Catalog.String(), []armedTool{}}
	for _, t := range d.Tools {
		v.Tools = append(v.Tools, armedTool{t.ID.String(), t.Class, t.Schemas.String()})
	}
	return v
}

func called(c attended.Told, who *agentView) callView {
	v := callView{ID: c.ID.String(), Lease: c.Lease.String(), Document: c.Document.String(), Tool: c.Tool.String(), Class: c.Class, Agent: who,
		State: c.State, Effect: c.Effect, Level: c.Level, Confirmed: c.Class.Mutates() && c.ClaimedMS > 0, Trace: c.RunTrace.String(), Telemetry: c.Telemetry,
		Admitted: c.AdmittedMS, Claimed: c.ClaimedMS, Settled: c.SettledMS, Deadline: c.DeadlineMS}
	v.Code = c.Receipt().Code
	return v
}
