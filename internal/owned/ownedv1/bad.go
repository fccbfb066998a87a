package ownedv1

import (
	"fmt"
	"net/http"

	"chaperone/internal/refusal"
)

// Bad is one refusal: the HTTP status a host answers (0 for a descriptor or an
// answer, which nobody replies to), the code in its body, and the field at
// fault, "" where the message as a whole is. It never holds a value.
type Bad struct {
	Status int
	Code   refusal.Code
	Field  string
	Why    string // a few words for a log, made of this package's own text
}

// Error says what is wrong with which field.
func (b *Bad) Error() string {
	if b.Field == "" {
		return fmt.Sprintf("%s: %s", b.Code, b.Why)
	}
	return fmt.Sprintf("%s: field %q %s", b.Code, b.Field, b.Why)
}

// Unwrap lets errors.Is and refusal.Of find the code.
func (b *Bad) Unwrap() error { return b.Code }

// Refuse makes the refusal of a request to v with this HTTP status. The status
// alone fixes the code, but for a handshake, where whatever is no matter of
// credentials means that the two ends don't fit.
func (v Verb) Refuse(status int, field, why string) *Bad {
	b := &Bad{Status: status, Code: refusal.BrowserProtocolError, Field: field, Why: why}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict:
		b.Code = refusal.UnauthorizedAdapter
	case http.StatusUpgradeRequired:
		b.Code = refusal.IncompatibleRuntime
	case http.StatusGatewayTimeout:
		b.Code = refusal.BrowserTimeout
	default:
		if v == Handshake {
			b.Code = refusal.IncompatibleRuntime
		}
	}
	return b
}

// ErrorBody is the body of every answer that isn't a 200.
type ErrorBody struct {
	Error refusal.Code `json:"error"`
}

// Body is the JSON body that goes with the refusal.
func (b *Bad) Body() []byte { return Encode(ErrorBody{b.Code}) }

// DecodeErrorBody reads the body of an answer that isn't a 200. A body that
// isn't exactly {"error": CODE} is refused.
func DecodeErrorBody(data []byte) (ErrorBody, error) {
	var code string
	err := decode(data, strict, str("error", &code, isCode))
	return ErrorBody{refusal.Code(code)}, badAnswer(refusal.BrowserProtocolError, err)
}

// isCode tells a wire code: upper-case words joined by underscores.
func isCode(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
