package guard

import (
	"errors"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// statuses are the codes that aren't the five tools' own.
var statuses = map[refusal.Code]int{
	refusal.Malformed:         http.StatusBadRequest,
	refusal.BadDocument:       http.StatusBadRequest,
	refusal.NotFound:          http.StatusNotFound,
	refusal.Unknown:           http.StatusNotFound,
	refusal.StepUpRequired:    http.StatusForbidden,
	refusal.OtherPerson:       http.StatusForbidden,
	refusal.Forbidden:         http.StatusForbidden,
	refusal.PolicyDenied:      http.StatusForbidden,
	refusal.PolicyUnavailable: http.StatusServiceUnavailable,
	refusal.InvalidRequest:    http.StatusBadRequest,
	refusal.Expired:           http.StatusConflict,
	refusal.Replayed:          http.StatusConflict,
	refusal.Conflict:          http.StatusConflict,
	refusal.TooMany:           http.StatusTooManyRequests,
	refusal.DatabaseBusy:      http.StatusServiceUnavailable,

	refusal.PrerequisiteMissing: http.StatusServiceUnavailable,
}

// protect sets what every answer of the table carries: it is nobody's to keep,
// frame, sniff or run.
func protect(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "tools=()")
	h.Set("Referrer-Policy", "no-referrer")
}

// Read decodes a request's JSON body strictly: one value, known members, none
// twice. Where it can't, it has answered, and the handler returns.
func Read(w http.ResponseWriter, r *http.Request, into any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, refusal.Malformed, nil)
		return false
	}
	err = json.UnmarshalRead(r.Body, into, json.RejectUnknownMembers(true))
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return true
	case errors.As(err, &over):
		refuse(w, http.StatusRequestEntityTooLarge, refusal.TooLarge, map[string]any{"limit": over.Limit})
	default:
		details := map[string]any{}
		var semantic *json.SemanticError
		if errors.As(err, &semantic) && semantic.JSONPointer != "" {
			details["rule"] = "type" // the pointer may hold the caller's own names
		}
		refuse(w, http.StatusBadRequest, refusal.Malformed, details)
	}
	return false
}

// Answer writes a value as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(true))
	if err != nil {
		refuse(w, http.StatusInternalServerError, refusal.Failed, nil)
		return
	}
	Raw(w, status, data)
}

// Raw writes JSON text as it is.
func Raw(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data) // a caller that has gone is no fault of ours
}

// Refuse writes the refusal of a code.
func Refuse(w http.ResponseWriter, code refusal.Code) {
	refuse(w, statusOf(code), code, nil)
}

// RefuseError writes what an authority or an operation answered. An error without
// a code is our own fault: a 500 that tells nothing.
func RefuseError(w http.ResponseWriter, err error) {
	var failed *tool.Error
	if errors.As(err, &failed) {
		protect(w)
		Raw(w, failed.Status(), failed.JSON())
		return
	}
	code := refusal.Of(err)
	if code == "" {
		code = refusal.Failed
	}
	Refuse(w, code)
}

func statusOf(code refusal.Code) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return tool.Fail(code).Status()
}

func refuse(w http.ResponseWriter, status int, code refusal.Code, details map[string]any) {
	protect(w)
	e := &tool.Error{Code: code, Details: details}
	Raw(w, status, e.JSON())
}
