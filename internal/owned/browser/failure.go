package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Failure is the error of an action that failed. Detail carries no page text, no
// argument and no credential.
type Failure struct {
	Code   refusal.Code // BROWSER_SCOPE_DENIED, BROWSER_ACTION_FAILED or BROWSER_TIMEOUT
	Reason refusal.Code // scope_denied, timeout, not_found, …; section 1
	Detail string
	Rule   string // of a scope_denied
	Fix    string // what a person would change to widen the scope
	Sent   bool   // it may have had an effect
	Notes  Notes
}

// Error returns the code, the reason and the detail.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return fmt.Sprintf("%s (%s)", f.Code, f.Reason)
	}
	return fmt.Sprintf("%s (%s): %s", f.Code, f.Reason, f.Detail)
}

// Unwrap answers the code and the reason, so that errors.Is finds either.
func (f *Failure) Unwrap() []error { return []error{f.Code, f.Reason} }

// failed is a failure of the action itself for the given reason.
func failed(reason refusal.Code, format string, args ...any) *Failure {
	return &Failure{Code: refusal.BrowserActionFailed, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// denied is a failure by a scope decision.
func denied(d scope.Decision) *Failure {
	if unreached(d) {
		return failed(refusal.Failed, "the site can't be reached: %s", d.Code)
	}
	return &Failure{
		Code: refusal.BrowserScopeDenied, Reason: refusal.ScopeDenied,
		Detail: "the scope denies it: " + string(d.Code), Rule: d.Rule, Fix: d.Fix,
	}
}

// failure turns whatever ended an action into what is told of it.
func (b *Browser) failure(on *act, err error) *Failure {
	f := reason(err)
	f.Sent = f.Sent || on.sent
	f.Notes = b.takeNotes(on)
	if on.emptied {
		f.Detail = strings.TrimPrefix(f.Detail+"; its script was still waiting, so the page was emptied to stop it", "; ")
	}
	if f.Reason == refusal.NoBrowser {
		if cause := b.Err(); cause != nil && f.Detail == "" {
			f.Detail = "the browser has ended: " + string(refusal.Of(cause))
		}
	}
	return f
}

func reason(err error) *Failure {
	var f *Failure
	var refused *protocolError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, errLimit):
		return failed(refusal.TimedOut, "its timeout_ms ended first")
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Code: refusal.BrowserTimeout, Reason: refusal.TimedOut, Detail: "its deadline ended first"}
	case errors.Is(err, context.Canceled):
		return failed(refusal.Cancelled, "")
	case errors.Is(err, errDestroyed):
		return failed(refusal.Failed, "the document went away meanwhile")
	case errors.As(err, &refused):
		return failed(refusal.Failed, "the engine refused %s", refused.Method)
	}
	for _, code := range []refusal.Code{
		refusal.TabCrashed, refusal.TabGone, refusal.NoBrowser, refusal.DialogOpen, refusal.TooLarge,
		refusal.NotFound, refusal.Covered, refusal.Stale, refusal.SentUnconfirmed,
	} {
		if errors.Is(err, code) {
			return failed(code, "")
		}
	}
	if errors.Is(err, refusal.Ended) || errors.Is(err, refusal.EngineExited) {
		return failed(refusal.NoBrowser, "")
	}
	return failed(refusal.Failed, "")
}
