package tool

import (
	"net/http"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

// Codes of the five tools, on both transports (section 1). Those that other
// packages share stand in package refusal.
const (
	InvalidInput         refusal.Code = "invalid_input"
	UnknownTool          refusal.Code = "unknown_tool"
	UnknownCollection    refusal.Code = "unknown_collection"
	UnselectedCollection refusal.Code = "unselected_collection" // the owner's own page only
	FunctionUnavailable  refusal.Code = "function_unavailable"
	NotFound             refusal.Code = "not_found"
	VersionConflict      refusal.Code = "version_conflict" // details: version
	AlreadyExists        refusal.Code = "already_exists"
	QuotaExceeded        refusal.Code = "quota_exceeded" // details: limit, used
	RateLimited          refusal.Code = "rate_limited"   // details: retry_after_ms
	Busy                 refusal.Code = "busy"
	SessionExpired       refusal.Code = "session_expired"
	GrantRevoked         refusal.Code = "grant_revoked"
	Disabled             refusal.Code = "disabled"
	Offline              refusal.Code = "offline" // the page's own
	SourceDisconnected   refusal.Code = "source_disconnected"
	SourceUnavailable    refusal.Code = "source_unavailable"
	RequestConflict      refusal.Code = "request_conflict" // same request_id, other input
	TooLarge             refusal.Code = "too_large"
	ReviewDeclined       refusal.Code = "review_declined"
	ReceiptExpired       refusal.Code = "receipt_expired"
	ReceiptUsed          refusal.Code = "receipt_used"
	Cancelled            refusal.Code = "cancelled" // nothing was sent
	CSRFDenied           refusal.Code = "csrf_denied"
	OriginDenied         refusal.Code = "origin_denied"
	UnknownOutcome       refusal.Code = "unknown_outcome" // it may have taken effect
)

// kinds is every code with the owner API's status and whether the same call,
// unchanged, may succeed later. A mutation is tried again with its own request_id.
var kinds = map[refusal.Code]struct {
	status    int
	retryable bool
}{
	InvalidInput: {http.StatusUnprocessableEntity, false}, UnknownTool: {http.StatusNotFound, false},
	UnknownCollection: {http.StatusNotFound, false}, UnselectedCollection: {http.StatusForbidden, false},
	FunctionUnavailable: {http.StatusForbidden, false}, NotFound: {http.StatusNotFound, false},
	VersionConflict: {http.StatusConflict, false}, AlreadyExists: {http.StatusConflict, false},
	QuotaExceeded: {http.StatusConflict, false}, RateLimited: {http.StatusTooManyRequests, true},
	Busy: {http.StatusTooManyRequests, true}, SessionExpired: {http.StatusUnauthorized, false},
	GrantRevoked: {http.StatusForbidden, false}, Disabled: {http.StatusForbidden, false},
	Offline: {http.StatusServiceUnavailable, true}, SourceDisconnected: {http.StatusServiceUnavailable, false},
	SourceUnavailable: {http.StatusServiceUnavailable, true}, RequestConflict: {http.StatusConflict, false},
	TooLarge: {http.StatusRequestEntityTooLarge, false}, ReviewDeclined: {http.StatusConflict, false},
	ReceiptExpired: {http.StatusConflict, false}, ReceiptUsed: {http.StatusConflict, false},
	Cancelled: {http.StatusConflict, true}, CSRFDenied: {http.StatusForbidden, false},
	OriginDenied: {http.StatusForbidden, false}, UnknownOutcome: {http.StatusAccepted, false},
}

// Error is how a tool fails: bounded and structured, with nothing of the caller's
// or a source's own text in it.
type Error struct {
	Code    refusal.Code
	Details map[string]any // canon values: strings of ours, versions, integers
}

// Fail makes an Error. details are names and values in turn.
func Fail(code refusal.Code, details ...any) *Error {
	e := &Error{Code: code}
	for i := 0; i+1 < len(details); i += 2 {
		if e.Details == nil {
			e.Details = map[string]any{}
		}
		e.Details[details[i].(string)] = details[i+1]
	}
	return e
}

// Error tells the code.
func (e *Error) Error() string { return "tool: " + string(e.Code) }

// Unwrap lets errors.Is and refusal.Of find the code.
func (e *Error) Unwrap() error { return e.Code }

// Status answers the owner API's HTTP status; a code that isn't the contract's is
// a 500.
func (e *Error) Status() int {
	if k, ok := kinds[e.Code]; ok {
		return k.status
	}
	return http.StatusInternalServerError
}

// Retryable tells whether the same call may succeed later.
func (e *Error) Retryable() bool { return kinds[e.Code].retryable }

// JSON answers {isError, code, retryable, details?} in canonical bytes.
func (e *Error) JSON() []byte {
	v := map[string]any{"isError": true, "code": string(e.Code), "retryable": e.Retryable()}
	if len(e.Details) > 0 {
		v["details"] = e.Details
	}
	data, err := canon.Marshal(v)
	if err != nil { // a detail outside the subset is our own fault, and costs the detail
		delete(v, "details")
		data, _ = canon.Marshal(v)
	}
	return data
}

// Codes lists every code of the contract.
func Codes() []refusal.Code {
	out := make([]refusal.Code, 0, len(kinds))
	for c := range kinds {
		out = append(out, c)
	}
	return out
}
