package host

import (
	"context"
	"errors"
	"slices"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// Do does one action for a local surface: in its turn, journalled before its
// effect. ctx cancels it and bounds it; without a deadline it is Config.Timeout.
// The error is always a *browser.Failure, and says whether the action may have
// had an effect. Do answers only after its execution has stopped.
func (h *Host) Do(ctx context.Context, a ownedv1.Action) (browser.Answer, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.config.Timeout)
		defer cancel()
	}
	entry := &run.Action{RequestID: run.NewToken()[:32], Name: a.Name()}
	if slices.Contains(beside, entry.Name) {
		return h.act(ctx, entry, a)
	}
	return h.perform(ctx, entry, h.turn.queue(), a)
}

// beside lists the actions that take no turn: they settle what holds another one
// up, and would else wait for it.
var beside = []string{browser.ActionSetDialogs, browser.ActionAnswerDialog}

// perform waits for the action's turn and then does it.
func (h *Host) perform(ctx context.Context, entry *run.Action, place chan struct{}, a ownedv1.Action) (browser.Answer, error) {
	if err := h.turn.wait(ctx, place); err != nil {
		return h.unsent(entry, err)
	}
	defer h.turn.leave()
	return h.act(ctx, entry, a)
}

// act commits an action, does it and settles it.
func (h *Host) act(ctx context.Context, entry *run.Action, a ownedv1.Action) (browser.Answer, error) {
	if err := h.mayBegin(ctx); err != nil {
		return h.unsent(entry, err)
	}
	// From here to the settling, a crash leaves the action running in the journal
	// and the next holder tells it as unknown.
	if err := h.begin(ctx, entry); err != nil {
		return h.unsent(entry, err)
	}
	answer, err := h.machine.browser.Do(ctx, a)
	h.run.Settle(*entry, outcome(err))
	return answer, asFailure(err)
}

// begin commits an action. Local ones get their sequence here, so that it rises
// in the order of the commits.
func (h *Host) begin(ctx context.Context, entry *run.Action) error {
	h.session.beginning.Lock()
	defer h.session.beginning.Unlock()
	h.session.number(entry)
	return h.run.Begin(ctx, *entry)
}

// unsent settles an action that never reached the browser.
func (h *Host) unsent(entry *run.Action, why error) (browser.Answer, error) {
	h.session.number(entry)
	h.run.Settle(*entry, run.NotSent)
	return browser.Answer{}, notSent(why)
}

// mayBegin is asked when an action's turn has come.
func (h *Host) mayBegin(ctx context.Context) error {
	if h.turn.stopped() {
		return refusal.NoBrowser
	}
	return context.Cause(ctx)
}

// outcome is what the journal says of an action that was handed to the browser.
func outcome(err error) run.Outcome {
	var f *browser.Failure
	switch {
	case err == nil:
		return run.Done
	case !errors.As(err, &f):
		return run.Unconfirmed
	case !f.Sent:
		return run.NotSent
	case f.Code == refusal.BrowserTimeout, f.Reason == refusal.SentUnconfirmed, f.Reason == refusal.TimedOut,
		f.Reason == refusal.Cancelled, f.Reason == refusal.NoBrowser, f.Reason == refusal.TabCrashed:
		return run.Unconfirmed
	}
	return run.Failed
}

// asFailure keeps Do's promise about its error.
func asFailure(err error) error {
	var f *browser.Failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.SentUnconfirmed, Detail: "the browser didn't tell how it ended", Sent: true}
}

// notSent is the failure of an action that never reached the browser.
func notSent(err error) *browser.Failure {
	f := &browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.Failed}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Reason, f.Detail = refusal.BrowserTimeout, refusal.TimedOut, "its deadline ended before it was sent"
	case errors.Is(err, context.Canceled), errors.Is(err, refusal.Cancelled):
		f.Reason, f.Detail = refusal.Cancelled, "it was cancelled before it was sent"
	case errors.Is(err, refusal.NoBrowser), errors.Is(err, refusal.Conflict):
		f.Reason, f.Detail = refusal.NoBrowser, "the run is over"
	case errors.Is(err, refusal.DatabaseBusy):
		f.Detail = "it couldn't be journalled, so it wasn't sent: the database is busy"
	default:
		f.Detail = "it couldn't be journalled, so it wasn't sent: the database can't be written; see whether its disk is full"
	}
	return f
}
