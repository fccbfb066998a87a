package controlv1

import (
	"errors"
	"fmt"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/internal/schema"
)

// Bad is one refusal: its code, the field at fault ("" where the message as a
// whole is), and the call that it concerns. It never holds a value.
type Bad struct {
	Code  refusal.Code
	Field string
	Why   string // a few words for a log, made of this package's own text

	// Call is the call that alone is at fault, zero where the protocol is: then
	// the channel is closed with Close.
	Call  ID
	Close Close
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

// invalid is a fault of the protocol.
func invalid(field, why string) *Bad {
	return &Bad{Code: refusal.InvalidRequest, Field: field, Why: why, Close: CloseInvalid}
}

func large(field, why string) *Bad {
	return &Bad{Code: refusal.TooLarge, Field: field, Why: why, Close: CloseTooLarge}
}

// under keeps the code of a value's own fault and says in which field it stands.
func under(field string, err error) *Bad {
	var b *Bad
	if errors.As(err, &b) {
		copied := *b
		if copied.Field == "" {
			copied.Field = field
		} else {
			copied.Field = field + "." + copied.Field
		}
		return &copied
	}
	code := refusal.Of(err)
	if code == "" || code == refusal.BadDocument || code == refusal.TooDeep {
		code = refusal.InvalidRequest
	}
	// Only these two are made of their own packages' words, which hold no value.
	var c *canon.Error
	var s *schema.Error
	why := "isn't valid"
	switch {
	case errors.As(err, &c):
		why = c.Error()
	case errors.As(err, &s):
		why = s.Why
	}
	return &Bad{Code: code, Field: field, Why: why, Close: CloseInvalid}
}
