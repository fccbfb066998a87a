package host

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// accepted is one request id and sequence of the session, for as long as it
// lives: replays are refused against it, also after a lost response.
type accepted struct {
	run.Action
	buried    bool                    // a tombstone: it has no stop and no execution
	stop      context.CancelCauseFunc // nil once its execution has stopped
	stopped   chan struct{}           // closed then
	cancelled bool                    // while it still ran
}

// Action does one action of the protocol. The request was admitted and decoded;
// refusals are 403, 409 and 504, and a failure of the action itself is a result.
// When ctx ends, because the client hung up, the work stops too.
func (h *Host) Action(ctx context.Context, req ownedv1.ActionRequest) (ownedv1.ActionResponse, error) {
	if err := req.Check(ownedv1.DoAction, h.Identity()); err != nil {
		return ownedv1.ActionResponse{}, err
	}
	ctx, cancel := context.WithDeadline(ctx, req.Deadline())
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	entry, place, err := h.session.accept(req, stop, &h.turn)
	if err != nil {
		return ownedv1.ActionResponse{}, err
	}
	result, err := h.result(ctx, entry, place, req)
	if h.session.stopped(entry) {
		return ownedv1.ActionResponse{}, ownedv1.DoAction.Refuse(http.StatusConflict, "", "the action was cancelled")
	}
	if err != nil {
		return ownedv1.ActionResponse{}, err
	}
	return ownedv1.ActionResponse{Identity: h.Identity(), RequestID: req.RequestID, Sequence: req.Sequence, Result: result}, nil
}

// accept takes a request's sequence and id, and its place in the queue, or
// refuses it and takes nothing.
func (s *session) accept(req ownedv1.ActionRequest, stop context.CancelCauseFunc, t *turn) (*accepted, chan struct{}, error) {
	refuse := func(status int, why string) (*accepted, chan struct{}, error) {
		return nil, nil, ownedv1.DoAction.Refuse(status, "", why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.byID[req.RequestID] != nil || s.bySeq[req.Sequence] != nil:
		return refuse(http.StatusConflict, "the request id or sequence was used or cancelled before")
	case req.Sequence <= s.sequence:
		return refuse(http.StatusConflict, "the sequence is stale")
	case req.Expired(time.Now()):
		return refuse(http.StatusGatewayTimeout, "the deadline is past")
	}
	s.sequence = req.Sequence
	entry := &accepted{
		Action: run.Action{Sequence: req.Sequence, RequestID: req.RequestID, Name: req.Action},
		stop:   stop, stopped: make(chan struct{}),
	}
	s.keep(entry)
	if req.ParamsErr != nil {
		return entry, nil, nil // answered without a look at the browser
	}
	return entry, t.queue(), nil
}

func (s *session) keep(entry *accepted) {
	s.byID[entry.RequestID], s.bySeq[entry.Sequence] = entry, entry
}

// stopped marks the end of an action's execution, lets go of what only its
// execution needed, and tells whether it was cancelled before.
func (s *session) stopped(entry *accepted) (cancelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.stop = nil
	close(entry.stopped)
	return entry.cancelled
}

// result does an accepted action and answers its wire result.
func (h *Host) result(ctx context.Context, entry *accepted, place chan struct{}, req ownedv1.ActionRequest) (jsontext.Value, error) {
	if req.ParamsErr != nil {
		h.run.Settle(entry.Action, run.NotSent)
		return failure(refusal.BrowserActionFailed), nil
	}
	answer, err := h.perform(ctx, &entry.Action, place, req.Params)
	var f *browser.Failure
	switch {
	case errors.As(err, &f) && (f.Code == refusal.BrowserTimeout || req.Expired(time.Now())):
		return nil, ownedv1.DoAction.Refuse(http.StatusGatewayTimeout, "", "the deadline ended first")
	case errors.As(err, &f):
		return failure(f.Code), nil
	}
	result, err := ownedv1.EncodeResult(answer.Result)
	if err != nil {
		// It was done, and the journal says so; the answer alone couldn't travel.
		return failure(refusal.BrowserActionFailed), nil
	}
	return result, nil
}

// failure is the one shape of a failed action's result.
func failure(code refusal.Code) jsontext.Value {
	return ownedv1.Encode(ownedv1.FailureResult{Error: code})
}

// Cancel stops an action, or makes sure that it never starts, and answers only
// after its execution has stopped. It says nothing of effect.
func (h *Host) Cancel(ctx context.Context, req ownedv1.CancelRequest) (ownedv1.CancelResponse, error) {
	if err := req.Check(ownedv1.Cancel, h.Identity()); err != nil {
		return ownedv1.CancelResponse{}, err
	}
	entry, err := h.session.cancel(req)
	if err != nil {
		return ownedv1.CancelResponse{}, err
	}
	if entry.buried {
		// It goes on when its caller is gone: the run must not end for that.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := h.run.Bury(ctx, entry.Action); err != nil {
			return ownedv1.CancelResponse{}, h.broken(ownedv1.Cancel, err)
		}
	} else {
		select {
		case <-entry.stopped:
		case <-ctx.Done():
			// Nobody listens any more. The action is being stopped all the same.
			return ownedv1.CancelResponse{}, ownedv1.Cancel.Refuse(http.StatusGatewayTimeout, "", "the client hung up")
		}
	}
	return ownedv1.CancelResponse{Identity: h.Identity(), RequestID: req.RequestID, Sequence: req.Sequence, Cancelled: true}, nil
}

// cancel stops the pair's action, or makes it a tombstone where it hasn't come yet.
func (s *session) cancel(req ownedv1.CancelRequest) (*accepted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, other := s.byID[req.RequestID], s.bySeq[req.Sequence]
	switch {
	case entry != other:
		return nil, ownedv1.Cancel.Refuse(http.StatusConflict, "", "the request id and sequence are no pair")
	case entry == nil && s.tombs == maxTombstones:
		return nil, ownedv1.Cancel.Refuse(http.StatusConflict, "", "too many actions were cancelled before they came")
	case entry == nil:
		entry = &accepted{Action: run.Action{Sequence: req.Sequence, RequestID: req.RequestID}, buried: true}
		s.tombs++
		s.keep(entry)
	case entry.stop != nil: // else it has finished, and its own answer stands
		entry.cancelled = true
		entry.stop(refusal.Cancelled)
	}
	return entry, nil
}
