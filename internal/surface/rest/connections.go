package rest

import (
	"context"
	"net/http"
	"time"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// connectionView is one app connection as its owner sees it.
type connectionView struct {
	ID         string                 `json:"connection_id"`
	Transport  ledger.Transport       `json:"transport"`
	Provenance string                 `json:"provenance"`
	State      ledger.ConnectionState `json:"state"`
	Client     *clientView            `json:"client,omitzero"`
	Selection  []tool.Selected        `json:"selection"`
	Scopes     []string               `json:"scopes"`
	Generation int64                  `json:"generation"`
	Current    bool                   `json:"current"` // the browser surface of this very session
	Created    int64                  `json:"created_ms"`
	Expires    int64                  `json:"expires_ms"`
	Revoked    int64                  `json:"revoked_ms,omitzero"`
	Used       int64                  `json:"used_ms,omitzero"`
}

// clientView names an app. Its name is the app's own text.
type clientView struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Host     string `json:"redirect_host,omitzero"`
	Verified bool   `json:"verified"` // a document at its id's own address vouches for it
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (a *api) connections(w http.ResponseWriter, r *http.Request) {
	s := guard.Session(r)
	all, err := a.Ledger.Connections(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	families, err := a.Tokens.Families(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	out := struct {
		Connections []connectionView `json:"connections"`
	}{[]connectionView{}}
	seen := map[string]bool{}
	for _, c := range all {
		seen[c.ID] = true
		out.Connections = append(out.Connections, connected(c, families, s.ID))
	}
	for _, f := range families {
		if !seen[f.Connection] { // one without collections: the ledger has nothing of it
			out.Connections = append(out.Connections, apart(f))
		}
	}
	guard.Answer(w, http.StatusOK, out)
}

// connected is a grant of the ledger with what its tokens may do besides.
func connected(c ledger.Connection, families []oauth.Family, session string) connectionView {
	v := connectionView{ID: c.ID, Transport: c.Transport, Provenance: c.Provenance, State: c.State, Selection: c.Selection,
		Scopes: []string{}, Generation: c.Generation, Current: c.Session != "" && c.Session == session,
		Created: millis(c.Created), Expires: millis(c.Expires), Revoked: millis(c.Revoked), Used: millis(c.Used)}
	if v.Selection == nil {
		v.Selection = []tool.Selected{}
	}
	if c.Client != "" {
		v.Client = &clientView{ID: c.Client, Name: c.ClientName}
	}
	for _, f := range families {
		if f.Connection == c.ID {
			v.Scopes = f.Scopes
		}
	}
	return v
}

// apart is a connection that reaches no collection.
func apart(f oauth.Family) connectionView {
	v := connectionView{ID: f.Connection, Transport: ledger.Bearer, Provenance: ledger.FromConsent, State: ledger.Live,
		Client: &clientView{ID: f.Client, Name: f.Name}, Selection: []tool.Selected{}, Scopes: f.Scopes,
		Created: millis(f.Created), Expires: millis(f.Ends)}
	if f.State != oauth.Live {
		v.State = ledger.Revoked
	}
	return v
}

// revoke takes a connection back: its grant first, so that nothing is dispatched
// any more, then its tokens and the browsers that it opened.
func (a *api) revoke(w http.ResponseWriter, r *http.Request) {
	if err := a.take(r.Context(), guard.Session(r).Actor, r.PathValue("id")); err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) take(ctx context.Context, actor, id string) error {
	if err := a.Consents.Revoke(ctx, actor, id); err != nil {
		return err
	}
	if a.Fleet == nil {
		return nil
	}
	return a.Fleet.EndConnection(ctx, id)
}

// consent tells what an app asks for, and what the person could give.
func (a *api) consent(w http.ResponseWriter, r *http.Request) {
	p, err := a.Tokens.Request(r.Context(), r.PathValue("id"))
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	rows, err := a.choices(r)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	out := struct {
		Client      clientView   `json:"client"`
		Scopes      []string     `json:"scopes"`
		Engagements []string     `json:"engagements"`
		Collections []choiceView `json:"collections"`
		Expires     int64        `json:"expires_ms"`
	}{
		clientView{p.Client.ID, p.Client.Name, oauth.RedirectHost(p.Redirect), p.Client.Document}, p.Scopes, []string{}, rows, p.Expires.UnixMilli(),
	}
	if a.Fleet != nil {
		all, err := a.Fleet.Engagements()
		if err != nil {
			guard.RefuseError(w, err)
			return
		}
		for _, e := range all {
			if e.Fault == "" {
				out.Engagements = append(out.Engagements, e.Name)
			}
		}
	}
	guard.Answer(w, http.StatusOK, out)
}

// choiceView is one collection that a person can put into a selection.
type choiceView struct {
	Collection string      `json:"collection"`
	Title      string      `json:"title"`
	Source     ledger.Kind `json:"source"`
	Functions  []tool.Name `json:"functions"`
}

func (a *api) choices(r *http.Request) ([]choiceView, error) {
	actor := guard.Session(r).Actor
	if err := a.Ledger.EnsureAccount(r.Context(), actor); err != nil {
		return nil, err
	}
	all, err := a.Ledger.Collections(r.Context(), actor)
	if err != nil {
		return nil, err
	}
	out := []choiceView{}
	for _, c := range all {
		if c.State == ledger.Connected {
			out = append(out, choiceView{c.Collection, c.Title, c.Kind, c.Kind.Offers()})
		}
	}
	return out, nil
}

// approve is the person's yes: exact collections and functions, exact scopes,
// exact engagements.
func (a *api) approve(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Selection   []tool.Selected `json:"selection"`
		Scopes      []string        `json:"scopes"`
		Engagements []string        `json:"engagements"`
		Days        int             `json:"days"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	next, err := a.Consents.Approve(r.Context(), r.PathValue("id"), Yes{
		Actor: guard.Session(r).Actor, Roles: guard.Session(r).Roles,
		Selection: in.Selection, Scopes: in.Scopes, Engagements: in.Engagements, Days: in.Days,
	})
	a.redirect(w, next, err)
}

func (a *api) deny(w http.ResponseWriter, r *http.Request) {
	next, err := a.Tokens.Deny(r.Context(), r.PathValue("id"), guard.Session(r).Actor)
	a.redirect(w, next, err)
}

func (a *api) redirect(w http.ResponseWriter, next string, err error) {
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, struct {
		Redirect string `json:"redirect"`
	}{next})
}

// tokenView is one script's token; the secret itself is shown once, at creation.
type tokenView struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Connection string   `json:"connection_id"`
	Scopes     []string `json:"scopes"`
	Ends       int64    `json:"ends_ms"`
}

func (a *api) tokens(w http.ResponseWriter, r *http.Request) {
	families, err := a.Tokens.Families(r.Context(), guard.Session(r).Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	out := struct {
		Tokens []tokenView `json:"tokens"`
	}{[]tokenView{}}
	for _, f := range families {
		if f.Script && f.State == oauth.Live {
			out.Tokens = append(out.Tokens, tokenView{f.ID, f.Name, f.Connection, f.Scopes, f.Ends.UnixMilli()})
		}
	}
	guard.Answer(w, http.StatusOK, out)
}

// maxSeconds is more than any token may live, and few enough to count in.
const maxSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

// createToken makes a script's token with a connection of its own.
func (a *api) createToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name        string          `json:"name"`
		Scopes      []string        `json:"scopes"`
		Engagements []string        `json:"engagements"`
		Selection   []tool.Selected `json:"selection"`
		ExpiresIn   int64           `json:"expires_in_s"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	// A product that overflows would be another length of time.
	in.ExpiresIn = min(max(in.ExpiresIn, 0), maxSeconds)
	s := guard.Session(r)
	token, connection, err := a.Consents.Token(r.Context(), Script{
		Actor: s.Actor, Roles: s.Roles, Name: in.Name, Scopes: in.Scopes, Engagements: in.Engagements,
		Selection: in.Selection, Life: time.Duration(in.ExpiresIn) * time.Second,
	})
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusCreated, struct {
		Token      string `json:"token"`
		Connection string `json:"connection_id"`
	}{token, connection})
}

func (a *api) revokeToken(w http.ResponseWriter, r *http.Request) {
	actor := guard.Session(r).Actor
	families, err := a.Tokens.Families(r.Context(), actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	for _, f := range families {
		if f.ID != r.PathValue("id") || !f.Script {
			continue
		}
		if err := a.take(r.Context(), actor, f.Connection); err != nil {
			guard.RefuseError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	guard.Refuse(w, refusal.Unknown)
}
