package rest

import (
	"net/http"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/guard"
)

// session tells the page who is signed in and what it needs for mutations.
func (a *api) session(w http.ResponseWriter, r *http.Request) {
	s := guard.Session(r)
	type provider struct {
		BuiltIn bool   `json:"built_in"`
		Issuer  string `json:"issuer"`
	}
	type surface struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason,omitzero"`
	}
	out := struct {
		Person struct {
			Name string `json:"name"`
		} `json:"person"`
		CSRF        string   `json:"csrf"`
		Session     string   `json:"session"`
		Generation  int64    `json:"session_generation"`
		ACR         string   `json:"acr"`
		FreshUntil  *int64   `json:"fresh_until_ms"`
		IdleEnds    int64    `json:"idle_ends_ms"`
		Ends        int64    `json:"ends_ms"`
		Recovery    bool     `json:"recovery"`
		Provider    provider `json:"provider"`
		Surface     surface  `json:"browser_surface"`
		Agents      bool     `json:"agents"`
		HasPasskeys bool     `json:"passkeys"`
	}{
		CSRF: session.CSRF(guard.Secret(r)), Session: s.ID, Generation: s.Generation, ACR: s.ACR,
		IdleEnds: s.IdleEnd.UnixMilli(), Ends: s.End.UnixMilli(), Recovery: s.Recovery,
		Provider: provider{a.BuiltIn, a.Issuer},
		Surface:  surface{a.BrowserDenied == "", a.BrowserDenied},
		Agents:   a.Fleet != nil, HasPasskeys: true,
	}
	out.Person.Name = s.Name
	if s.Fresh(time.Now()) {
		until := s.FreshUntil().UnixMilli()
		out.FreshUntil = &until
	}
	guard.Answer(w, http.StatusOK, out)
}

// stepUp begins a step-up at the provider; the page goes there with a full load.
func (a *api) stepUp(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Next string `json:"next"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	url, flow, err := a.Provider.StepUp(r.Context(), guard.Session(r), in.Next)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	http.SetCookie(w, flow)
	guard.Answer(w, http.StatusOK, struct {
		URL string `json:"authorization_url"`
	}{url})
}

// logout ends the session here and tells where the provider ends its own.
func (a *api) logout(w http.ResponseWriter, r *http.Request) {
	s := guard.Session(r)
	url, err := a.Provider.Logout(r.Context(), s)
	if ended := a.end(r, s.ID); ended != nil {
		guard.RefuseError(w, ended)
		return
	}
	if err != nil || url == "" {
		url = "/" // the session here is gone, whatever the provider says
	}
	http.SetCookie(w, &http.Cookie{Name: guard.Cookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	// The back/forward cache would bring the old page's tools and data back.
	w.Header().Set("Clear-Site-Data", `"cache"`)
	guard.Answer(w, http.StatusOK, struct {
		Redirect string `json:"redirect"`
	}{url})
}

// end ends a session, and with it what its browser surface was allowed.
func (a *api) end(r *http.Request, id string) error {
	if err := a.Ledger.EndSession(r.Context(), id); err != nil {
		return err
	}
	return a.Sessions.End(r.Context(), id, refusal.Ended)
}

func (a *api) sessions(w http.ResponseWriter, r *http.Request) {
	s := guard.Session(r)
	all, err := a.Sessions.List(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	type row struct {
		Session string `json:"session"`
		Current bool   `json:"current"`
		Created int64  `json:"created_ms"`
		Used    int64  `json:"used_ms"`
		Ends    int64  `json:"ends_ms"`
		Agent   string `json:"agent"`
		ACR     string `json:"acr"`
	}
	out := struct {
		Sessions []row `json:"sessions"`
	}{[]row{}}
	for _, o := range all {
		out.Sessions = append(out.Sessions, row{o.ID, o.ID == s.ID, o.Created.UnixMilli(), o.Used.UnixMilli(), o.End.UnixMilli(), o.Agent, o.ACR})
	}
	guard.Answer(w, http.StatusOK, out)
}

// endSession ends one of the person's own sessions; anybody else's is unknown.
func (a *api) endSession(w http.ResponseWriter, r *http.Request) {
	s, id := guard.Session(r), r.PathValue("id")
	all, err := a.Sessions.List(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	for _, o := range all {
		if o.ID != id {
			continue
		}
		if err := a.end(r, id); err != nil {
			guard.RefuseError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	guard.Refuse(w, refusal.Unknown)
}

func (a *api) endOthers(w http.ResponseWriter, r *http.Request) {
	s := guard.Session(r)
	all, err := a.Sessions.List(r.Context(), s.Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	ended := 0
	for _, o := range all {
		if o.ID == s.ID {
			continue
		}
		if err := a.end(r, o.ID); err != nil {
			guard.RefuseError(w, err)
			return
		}
		ended++
	}
	guard.Answer(w, http.StatusOK, struct {
		Ended int `json:"ended"`
	}{ended})
}
