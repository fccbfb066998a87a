package idp

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/credential"
	"chaperone/internal/refusal"
)

// api is what the pages' script calls: JSON in, JSON out, from this origin alone.
func (p *Provider) api(mux *http.ServeMux) {
	mux.Handle("POST /idp/api/enrol/open", p.call(p.enrolOpen))
	mux.Handle("POST /idp/api/enrol/begin", p.call(p.enrolBegin))
	mux.Handle("POST /idp/api/enrol/finish", p.call(p.enrolFinish))
	mux.Handle("POST /idp/api/login/begin", p.call(p.loginBegin))
	mux.Handle("POST /idp/api/login/finish", p.call(p.loginFinish))
	mux.Handle("POST /idp/api/login/recover", p.call(p.loginRecover))
}

// message is everything that a call may send; each takes what it needs.
type message struct {
	Secret   string         `json:"secret"`   // of an enrolment link
	Name     string         `json:"name"`     // of a person
	Request  string         `json:"request"`  // authRequestID
	Code     string         `json:"code"`     // a recovery code
	Response jsontext.Value `json:"response"` // of the authenticator
}

// call reads a message from this origin and writes what f answers.
func (p *Provider) call(f func(*http.Request, message) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origins := r.Header.Values("Origin"); len(origins) != 1 || origins[0] != p.origin {
			refuse(w, refusal.OriginDenied)
			return
		}
		var m message
		data, err := io.ReadAll(r.Body) // bounded by ServeHTTP
		if err != nil || r.Header.Get("Content-Type") != "application/json" ||
			json.Unmarshal(data, &m, json.RejectUnknownMembers(true)) != nil {
			refuse(w, refusal.BadDocument)
			return
		}
		out, err := f(r, m)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, http.StatusOK, out)
	})
}

// statuses of the codes that a call refuses with; all else is the server's own
// trouble.
var statuses = map[refusal.Code]int{
	refusal.OriginDenied: http.StatusForbidden, refusal.BadDocument: http.StatusUnprocessableEntity,
	refusal.BadCredential: http.StatusForbidden, refusal.Disabled: http.StatusForbidden, refusal.BadACR: http.StatusForbidden,
	refusal.BadState: http.StatusConflict, refusal.Replayed: http.StatusConflict, refusal.Expired: http.StatusGone,
}

// refuse writes a code and nothing else.
func refuse(w http.ResponseWriter, err error) {
	code := refusal.Of(err)
	status, known := statuses[code]
	if !known || errors.Is(err, refusal.Tampered) {
		code, status = refusal.Failed, http.StatusInternalServerError
	}
	answer(w, status, map[string]any{"isError": true, "code": string(code)})
}

func (p *Provider) enrolOpen(r *http.Request, m message) (any, error) {
	name, err := p.people.Invited(r.Context(), m.Secret)
	return map[string]string{"name": name}, err
}

func (p *Provider) enrolBegin(r *http.Request, m message) (any, error) {
	options, err := p.people.BeginEnrol(r.Context(), m.Secret, m.Name)
	return map[string]any{"options": jsontext.Value(options)}, err
}

func (p *Provider) enrolFinish(r *http.Request, m message) (any, error) {
	person, codes, err := p.people.FinishEnrol(r.Context(), m.Secret, m.Name, m.Response)
	return map[string]any{"name": person.Name, "codes": codes}, err
}

func (p *Provider) loginBegin(r *http.Request, m message) (any, error) {
	options, err := p.people.BeginLogin(r.Context(), m.Request, shown(r))
	return map[string]any{"options": jsontext.Value(options)}, err
}

func (p *Provider) loginFinish(r *http.Request, m message) (any, error) {
	return p.goOn(m), p.people.FinishLogin(r.Context(), m.Request, shown(r), m.Response)
}

func (p *Provider) loginRecover(r *http.Request, m message) (any, error) {
	return p.goOn(m), p.people.Recover(r.Context(), m.Request, shown(r), m.Code)
}

// goOn tells where an answered request goes on: to its code.
func (p *Provider) goOn(m message) any {
	return map[string]string{"redirect": "/idp/authorize/callback?id=" + url.QueryEscape(m.Request)}
}

// recoverable tells whether a request takes a recovery code at all.
func recoverable(p credential.Pending) bool {
	if len(p.ACR) == 0 {
		return true
	}
	for _, acr := range p.ACR {
		if acr == credential.Recovered {
			return true
		}
	}
	return false
}
