package rest

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/credential"
	"chaperone/internal/surface/guard"
)

// who is whose passkey is added.
func who(r *http.Request) credential.Who {
	s := guard.Session(r)
	return credential.Who{ID: s.Actor, Name: s.Name}
}

// passkeys answers the person's own, and how many recovery codes are left where
// there are any.
func (a *api) passkeys(w http.ResponseWriter, r *http.Request) {
	person := guard.Session(r).Actor
	all, err := a.Credentials.Passkeys(r.Context(), person)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	type row struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Created int64  `json:"created_ms"`
		Used    int64  `json:"used_ms,omitzero"`
		Synced  bool   `json:"synced"`
	}
	out := struct {
		Passkeys []row `json:"passkeys"`
		Left     *int  `json:"codes_left,omitzero"`
	}{Passkeys: []row{}}
	if a.BuiltIn {
		left, err := a.Credentials.CodesLeft(r.Context(), person)
		if err != nil {
			guard.RefuseError(w, err)
			return
		}
		out.Left = &left
	}
	for _, p := range all {
		out.Passkeys = append(out.Passkeys, row{p.ID, p.Name, millis(p.Created), millis(p.Used), p.Synced})
	}
	guard.Answer(w, http.StatusOK, out)
}

// beginPasskey answers the options of navigator.credentials.create.
func (a *api) beginPasskey(w http.ResponseWriter, r *http.Request) {
	options, err := a.Credentials.BeginPasskey(r.Context(), who(r))
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, struct {
		Options jsontext.Value `json:"options"`
	}{options})
}

func (a *api) finishPasskey(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name     string         `json:"name"`
		Response jsontext.Value `json:"response"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	p, err := a.Credentials.FinishPasskey(r.Context(), who(r), in.Name, in.Response)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusCreated, struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}{p.ID, p.Name})
}

func (a *api) removePasskey(w http.ResponseWriter, r *http.Request) {
	if err := a.Credentials.RemovePasskey(r.Context(), guard.Session(r).Actor, r.PathValue("id")); err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// recoveryCodes replaces the person's codes and shows the new ones, once.
func (a *api) recoveryCodes(w http.ResponseWriter, r *http.Request) {
	codes, err := a.Credentials.RecoveryCodes(r.Context(), guard.Session(r).Actor)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, struct {
		Codes []string `json:"codes"`
	}{codes})
}
