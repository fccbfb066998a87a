package rest

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/guard"
)

// surface answers the browser connection of the request's session; refusal.Unknown
// where the person hasn't enabled it.
func (a *api) surface(r *http.Request) (ledger.Connection, error) {
	if a.BrowserDenied != "" {
		return ledger.Connection{}, tool.Fail(tool.Disabled)
	}
	return a.Ledger.Selection(r.Context(), guard.Session(r).ID)
}

// browser is the caller behind the page's tools. The server's own selection and
// generation hold, and the operation judges them; a page says neither.
func (a *api) browser(r *http.Request) (operation.Caller, error) {
	if a.BrowserDenied != "" {
		return operation.Caller{}, tool.Fail(tool.Disabled)
	}
	s := guard.Session(r)
	p, err := s.Principal()
	return operation.Caller{Principal: p, Transport: operation.Browser, Session: s.ID}, err
}

// descriptor is one tool as a page registers it. Name, title, description and
// schemas are the catalog's own bytes.
type descriptor struct {
	Name        tool.Name       `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema jsontext.Value  `json:"input_schema"`
	Output      jsontext.Value  `json:"output_schema"` // for attended control: WebMCP itself knows none
	Effect      tool.Effect     `json:"effect"`
	Annotations map[string]bool `json:"annotations"`
}

func describe(t tool.Tool) descriptor {
	hints := map[string]bool{"untrustedContentHint": true}
	if t.Mutates() {
		hints["consequentialHint"] = true
	} else {
		hints["readOnlyHint"] = true
	}
	return descriptor{t.Name, t.Title, t.Description, t.Input, t.Output, t.Effect, hints}
}

// offers tells whether a selection names the function anywhere; the list of
// collections comes with any.
func offers(selection []tool.Selected, name tool.Name) bool {
	for _, s := range selection {
		if allowed, _ := tool.Allows(selection, s.Collection, name); allowed || name == tool.ListCollections {
			return true
		}
	}
	return false
}

// descriptors answers what the page may register now.
func (a *api) descriptors(w http.ResponseWriter, r *http.Request) {
	c, err := a.surface(r)
	if err != nil && !errors.Is(err, refusal.Unknown) {
		guard.RefuseError(w, err)
		return
	}
	all := tool.All()
	out := struct {
		Generation int64        `json:"generation"`
		Offered    int          `json:"offered"`
		Of         int          `json:"of"`
		Tools      []descriptor `json:"tools"`
	}{Generation: c.Generation, Of: len(all), Tools: []descriptor{}}
	for _, t := range all {
		if err == nil && offers(c.Selection, t.Name) {
			out.Tools = append(out.Tools, describe(t))
		}
	}
	out.Offered = len(out.Tools)
	guard.Answer(w, http.StatusOK, out)
}

type selectionView struct {
	Enabled    bool            `json:"enabled"`
	Generation int64           `json:"generation"`
	Selection  []tool.Selected `json:"selection"`
}

func selected(c ledger.Connection) selectionView {
	return selectionView{true, c.Generation, c.Selection}
}

func (a *api) selection(w http.ResponseWriter, r *http.Request) {
	c, err := a.surface(r)
	switch {
	case errors.Is(err, refusal.Unknown), errors.Is(err, tool.Disabled):
		guard.Answer(w, http.StatusOK, selectionView{Selection: []tool.Selected{}})
	case err != nil:
		guard.RefuseError(w, err)
	default:
		guard.Answer(w, http.StatusOK, selected(c))
	}
}

// selectThem enables the browser surface or changes what it may reach. Whatever
// widens it needs a fresh step-up; narrowing never does.
func (a *api) selectThem(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Selection  []tool.Selected `json:"selection"`
		Generation int64           `json:"generation"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	now, err := a.surface(r)
	if err != nil && !errors.Is(err, refusal.Unknown) {
		guard.RefuseError(w, err)
		return
	}
	s := guard.Session(r)
	if (err != nil || widens(now.Selection, in.Selection)) && !s.Fresh(time.Now()) {
		guard.Refuse(w, refusal.StepUpRequired)
		return
	}
	c, err := a.Ledger.Enable(r.Context(), s.ID, s.Actor, in.Selection, in.Generation)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, selected(c))
}

// widens tells whether wanted names a function that had doesn't.
func widens(had, wanted []tool.Selected) bool {
	for _, s := range wanted {
		for _, f := range s.Functions {
			if allowed, _ := tool.Allows(had, s.Collection, f); !allowed {
				return true
			}
		}
	}
	return false
}

// disable ends the browser surface of this session. The generation isn't asked
// for: whoever wants it off gets it off.
func (a *api) disable(w http.ResponseWriter, r *http.Request) {
	if err := a.Ledger.Disable(r.Context(), guard.Session(r).ID); err != nil && !errors.Is(err, refusal.Unknown) {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// asked is the body of prepare and execute.
type asked struct {
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Receipt   string         `json:"receipt_id"`
}

func (a *api) prepare(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tool      string         `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	caller, err := a.browser(r)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	review, err := a.Desk.Prepare(r.Context(), caller, in.Tool, in.Arguments)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Answer(w, http.StatusOK, review)
}

// confirm acknowledges a review. It is an act of this session's page, and no
// proof that a person looked.
func (a *api) confirm(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Receipt string `json:"receipt_id"`
		Digest  string `json:"digest"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	caller, err := a.browser(r)
	if err == nil {
		err = a.Desk.Confirm(r.Context(), caller, in.Receipt, in.Digest)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// decline drops a review that its person didn't want.
func (a *api) decline(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Receipt string `json:"receipt_id"`
	}
	if !guard.Read(w, r, &in) {
		return
	}
	caller, err := a.browser(r)
	if err == nil {
		err = a.Desk.Decline(r.Context(), caller, in.Receipt)
	}
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) execute(w http.ResponseWriter, r *http.Request) {
	var in asked
	if !guard.Read(w, r, &in) {
		return
	}
	caller, err := a.browser(r)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	answer, err := a.Desk.Execute(r.Context(), caller, in.Receipt, in.Tool, in.Arguments)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	guard.Raw(w, http.StatusOK, answer)
}

// calls answers the account's recent calls, over any transport.
func (a *api) calls(w http.ResponseWriter, r *http.Request) {
	all, err := a.Ledger.Calls(r.Context(), guard.Session(r).Actor, 50)
	if err != nil {
		guard.RefuseError(w, err)
		return
	}
	type row struct {
		AtMS       int64            `json:"at_ms"`
		Tool       tool.Name        `json:"tool"`
		Collection string           `json:"collection,omitzero"`
		Effect     tool.Effect      `json:"effect"`
		Code       refusal.Code     `json:"code,omitzero"`
		Transport  ledger.Transport `json:"transport"`
		Request    string           `json:"request_id,omitzero"`
		Receipt    string           `json:"receipt,omitzero"`
	}
	out := struct {
		Calls []row `json:"calls"`
	}{[]row{}}
	for _, c := range all {
		out.Calls = append(out.Calls, row{millis(c.At), c.Tool, c.Collection, c.Effect, c.Code, c.Transport, c.RequestID, c.Receipt})
	}
	guard.Answer(w, http.StatusOK, out)
}
