package rest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/identity"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// fleetRoutes are those of owned browsers: the person's, and /v1/owned/runs.
func (a *api) fleetRoutes() []guard.Route {
	const scope = "owned"
	return []guard.Route{
		{Method: "POST", Path: "/api/agents", Who: guard.Owner, Mutates: true, Handler: a.openAgent},
		{Method: "GET", Path: "/api/agents/{run}", Who: guard.Owner, Handler: a.agent},
		{Method: "DELETE", Path: "/api/agents/{run}", Who: guard.Owner, Mutates: true, Handler: a.endAgent},
		{Method: "POST", Path: "/api/agents/{run}/pause", Who: guard.Owner, Mutates: true, Handler: a.pauseAgent},
		{Method: "POST", Path: "/api/agents/{run}/resume", Who: guard.Owner, Mutates: true, Handler: a.resumeAgent},
		{Method: "GET", Path: "/api/agents/{run}/live", Who: guard.Owner, Handler: a.live},

		{Method: "POST", Path: "/v1/owned/runs", Who: guard.Bearer, Scope: scope, Mutates: true, Handler: a.openRun},
		{Method: "GET", Path: "/v1/owned/runs", Who: guard.Bearer, Scope: scope, Handler: a.runs},
		{Method: "GET", Path: "/v1/owned/runs/{run}", Who: guard.Bearer, Scope: scope, Handler: a.run},
		{Method: "DELETE", Path: "/v1/owned/runs/{run}", Who: guard.Bearer, Scope: scope, Mutates: true, Handler: a.endRun},
		{Method: "GET", Path: "/v1/owned/runs/{run}/live", Who: guard.Bearer, Scope: scope, Handler: a.live},
	}
}

// party is who asks: the person, or the connection that acts for them.
func party(r *http.Request) (identity.Principal, string, error) {
	if grant := guard.Grant(r); !grant.Principal.IsZero() {
		return grant.Principal, grant.Connection, nil
	}
	p, err := guard.Session(r).Principal()
	return p, "", err
}

// runView is one browser as a list shows it.
type runView struct {
	RunID      string      `json:"run_id"`
	Engagement string      `json:"engagement"`
	State      fleet.State `json:"state"`
	Connection string      `json:"connection_id,omitzero"`
	Scope      string      `json:"scope_digest"`
	StartedMS  int64       `json:"started_ms"`
}

func view(b *fleet.Browser) runView {
	return runView{b.RunID(), b.Engagement(), b.State(), b.Connection(), b.ScopeDigest(), b.Started().UnixMilli()}
}

// agents answers what the operator offers and what is running for the person.
func (a *api) agents(w http.ResponseWriter, r *http.Request) {
	type engagement struct {
		Name   string       `json:"name"`
		Digest string       `json:"digest,omitzero"`
		Fault  refusal.Code `json:"fault,omitzero"`
	}
	out := struct {
		Available   bool         `json:"available"`
		Engagements []engagement `json:"engagements"`
		Runs        []runView    `json:"runs"`
	}{a.Fleet != nil, []engagement{}, []runView{}}
	if a.Fleet != nil {
		p, connection, err := party(r)
		if err != nil {
			guard.RefuseError(w, err)
			return
		}
		all, err := a.Fleet.Engagements()
		if err != nil {
			guard.RefuseError(w, err)
			return
		}
		for _, e := range all {
			out.Engagements = append(out.Engagements, engagement(e))
		}
		for _, b := range a.Fleet.List(p, connection) {
			out.Runs = append(out.Runs, view(b))
		}
	}
	guard.Answer(w, http.StatusOK, out)
}

// openAgent opens a browser at the person's own wish.
func (a *api) openAgent(w http.ResponseWriter, r *http.Request) { a.start(w, r, "") }

// openRun opens one for a trusted caller, for an engagement that its grant names.
// A scope in the request is an unknown member, and so a 400.
func (a *api) openRun(w http.ResponseWriter, r *http.Request) {
	a.start(w, r, guard.Grant(r).Connection)
}

func (a *api) start(w http.ResponseWriter, r *http.Request, connection string) {
	var in struct {
		Engagement string `json:"engagement"`
		RunID      string `json:"run_id"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	p, _, err := party(r)
	if err == nil && connection != "" {
		err = mayEngage(r, in.Engagement)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	b, err := a.Fleet.Open(r.Context(), fleet.Opening{
		Engagement: in.Engagement, Principal: p, Connection: connection, RunID: in.RunID, Surface: "rest",
	})
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusCreated, view(b))
}

// mayEngage asks the token for that engagement; what it doesn't name isn't there.
func mayEngage(r *http.Request, engagement string) error {
	if !guard.Grant(r).Principal.HasScope(oauth.Engagement(engagement)) {
		return refusal.Unknown
	}
	return nil
}

func (a *api) runs(w http.ResponseWriter, r *http.Request) {
	p, connection, err := party(r)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	out := struct {
		Runs []runView `json:"runs"`
	}{[]runView{}}
	for _, b := range a.Fleet.List(p, connection) {
		out.Runs = append(out.Runs, view(b))
	}
	guard.Answer(w, http.StatusOK, out)
}

// the answers the browser that a path names to those who may reach it.
func (a *api) the(w http.ResponseWriter, r *http.Request) (*fleet.Browser, bool) {
	p, connection, err := party(r)
	if err != nil {
		guard.RefuseError(w, err)
		return nil, false
	}
	b, err := a.Fleet.Run(p, connection, r.PathValue("run"))
	if err != nil {
		guard.RefuseError(w, err)
		return nil, false
	}
	return b, true
}

func (a *api) run(w http.ResponseWriter, r *http.Request) {
	if b, ok := a.the(w, r); ok {
		guard.Answer(w, http.StatusOK, view(b))
	}
}

// agent answers one run with what was done in it and what its scope decided.
func (a *api) agent(w http.ResponseWriter, r *http.Request) {
	b, ok := a.the(w, r)
	if !ok {
		return
	}
	account, err := a.Runs.Account(r.Context(), b.RunID())
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	decisions, err := a.Runs.Decisions(r.Context(), b.RunID())
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, struct {
		runView
		Actions   []deed     `json:"actions"`
		Decisions []decision `json:"decisions"`
	}{view(b), deeds(account.Actions), decided(decisions)})
}

// deed is one action: its name and outcome, nothing of its params.
type deed struct {
	Sequence int64       `json:"sequence"`
	Action   string      `json:"action"`
	Outcome  run.Outcome `json:"outcome"`
	BegunMS  int64       `json:"begun_ms"`
}

// maxDeeds bounds what a page is shown; the ledger has them all.
const maxDeeds = 200

func deeds(all []run.Deed) []deed {
	if len(all) > maxDeeds {
		all = all[len(all)-maxDeeds:]
	}
	out := make([]deed, 0, len(all))
	for _, d := range all {
		out = append(out, deed{d.Sequence, d.Name, d.Outcome, d.Begun.UnixMilli()})
	}
	return out
}

// decision is what the scope said of one host, with how often.
type decision struct {
	Host    string       `json:"host"`
	Port    int          `json:"port"`
	Scheme  string       `json:"scheme"`
	Allowed bool         `json:"allowed"`
	Code    refusal.Code `json:"code"`
	Rule    string       `json:"rule"`
	Count   int64        `json:"count"`
}

func (a *api) endAgent(w http.ResponseWriter, r *http.Request) { a.endRun(w, r) }

// endRun ends a browser and answers when nothing of it is left.
func (a *api) endRun(w http.ResponseWriter, r *http.Request) {
	b, ok := a.the(w, r)
	if !ok {
		return
	}
	// The end goes on where the caller leaves meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 20*time.Second)
	defer cancel()
	if err := b.End(ctx, refusal.Ended); err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) pauseAgent(w http.ResponseWriter, r *http.Request) {
	a.steer(w, r, (*fleet.Browser).Pause)
}

func (a *api) resumeAgent(w http.ResponseWriter, r *http.Request) {
	a.steer(w, r, (*fleet.Browser).Resume)
}

func (a *api) steer(w http.ResponseWriter, r *http.Request, verb func(*fleet.Browser) error) {
	b, ok := a.the(w, r)
	if !ok {
		return
	}
	if err := verb(b); err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, view(b))
}

// glimpseEvery is how often a watcher gets a picture.
const glimpseEvery = 500 * time.Millisecond

// live streams what the browser shows, as server-sent events, until it ends, the
// watcher leaves, or their authority is gone: the credential is looked up again
// with every picture.
func (a *api) live(w http.ResponseWriter, r *http.Request) {
	b, ok := a.the(w, r)
	if !ok {
		return
	}
	leave, err := b.Watch()
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	defer leave()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	tick := time.NewTicker(glimpseEvery)
	defer tick.Stop()
	for {
		if a.still(r) != nil {
			return
		}
		if err := frame(r.Context(), w, b); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-b.Done():
			fmt.Fprint(w, "event: over\ndata: {}\n\n")
			return
		case <-a.Ending:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// still tells whether the caller's authority stands.
func (a *api) still(r *http.Request) error {
	if grant := guard.Grant(r); !grant.Principal.IsZero() {
		_, err := a.Tokens.Find(r.Context(), guard.Token(r))
		return err
	}
	return a.Sessions.Stands(r.Context(), guard.Secret(r))
}

// frame writes one picture; a page that has none to show now is told as such.
func frame(ctx context.Context, w http.ResponseWriter, b *fleet.Browser) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	g, err := b.Glimpse(ctx)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		_, err = fmt.Fprint(w, "event: blank\ndata: {}\n\n")
		return err
	}
	data, err := json.Marshal(struct {
		JPEG  string      `json:"jpeg"`
		URL   string      `json:"url"`
		State fleet.State `json:"state"`
		W     int         `json:"w"`
		H     int         `json:"h"`
	}{base64.StdEncoding.EncodeToString(g.JPEG), g.URL, b.State(), browser.ViewportWidth, browser.ViewportHeight})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "event: frame\ndata: %s\n\n", data)
	return err
}
func decided(all []run.Decision) []decision {
	out := make([]decision, 0, len(all))
	for _, d := range all {
		out = append(out, decision{d.Host, d.Port, d.Scheme, d.Code == refusal.Allowed, d.Code, d.Rule, d.Count})
	}
	return out
}
