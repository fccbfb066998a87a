package ledger

import (
	"context"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// end is what becomes of a call.
type end struct {
	effect controlv1.Effect
	code   refusal.Code
	result string // its digest, "" for none
	late   int64  // while unknown: until when a result may come
}

// end moves a call of the tenant's by the verb that decide names. It answers the
// call as it stands; from a state where the verb doesn't start it is a Conflict.
func (b *Book) end(ctx context.Context, id controlv1.ID, decide func(call) (verb, end, error)) (out Call, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		c, err := b.findCall(tx, id.String())
		if err == nil && c.tenant != b.tenant {
			err = refuse(refusal.UnknownCall, "no such call")
		}
		if err != nil {
			return nil, err
		}
		out = c.Call
		v, e, err := decide(c)
		if err != nil {
			return nil, err
		}
		err = b.settle(tx, &c, v, e, time.Now())
		out = c.Call
		return nil, err
	})
	return out, err
}

// settle is the one way to a call's end: the trace's outcome first, then the
// call's move with its facts, and c as it stands then.
func (b *Book) settle(tx *tx, c *call, v verb, e end, now time.Time) error {
	to, ok := calls.goes(v, c.stand.state)
	if !ok {
		return refuse(refusal.Conflict, "the call can't be "+string(v)+" now")
	}
	if c.Attempts == 0 {
		if err := b.opts.Receipts.DropIn(tx, c.Policy.String(), e.code); err != nil {
			return err
		}
	}
	if mutant == lossWithout && v == callLose {
		e.effect = controlv1.NoEffect
	}
	settled := now.UnixMilli()
	if !calls.over(to) {
		settled = 0
	}
	if to != string(CallCancelling) {
		if err := endTrace(tx, *c, CallState(to), e.effect, e.code, e.result, now); err != nil {
			return err
		}
	}
	more := []audit.Field{audit.Word("effect", e.effect)}
	if e.result != "" {
		more = append(more, audit.Digest("result", e.result))
	}
	err := b.move(tx, &calls, c.ID.String(), v, c.stand, c.event(e.code, more...), now,
		"effect=", string(e.effect), "result_digest=", e.result, "late_until_ms=", e.late, "settled_ms=", settled)
	if err != nil {
		return err
	}
	c.stand = stand{to, c.stand.version + 1}
	c.State, c.Effect, c.Code, c.LateUntilMS, c.ResultDigest = CallState(to), e.effect, e.code, e.late, controlv1.Digest{}
	if e.result != "" {
		c.ResultDigest, err = controlv1.ParseDigest(e.result)
	}
	return err
}

// Settle writes what the page reported of a call that was sent: Success with the
// digest of its value, or Failure with its code. bad is the code where the value
// didn't meet the output schema, else "". A result that comes while the call is
// unknown reconciles it, within its window; after that, and for a call that is
// over, it is a Conflict and changes nothing.
func (b *Book) Settle(ctx context.Context, id controlv1.ID, o controlv1.Outcome, bad refusal.Code) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		if err := c.late(); err != nil {
			return "", end{}, err
		}
		switch o := o.(type) {
		case controlv1.Success:
			if bad != "" {
				return callFail, end{effect: controlv1.EffectOf(c.Class, false, bad), code: bad}, nil
			}
			return callSucceed, end{effect: controlv1.EffectOf(c.Class, true, ""), result: controlv1.ResultDigest(o.Value).String()}, nil
		case controlv1.Failure:
			code := refusal.Code(o.Code.String())
			e := end{effect: controlv1.EffectOf(c.Class, false, code), code: refusal.ExecutionFailed}
			if controlv1.NothingBegan(code) {
				e.code = refusal.NotDispatched
			}
			return callFail, e, nil
		}
		return "", end{}, refuse(refusal.InvalidRequest, "that is no outcome")
	})
}

// late refuses what comes after a call's window.
func (c call) late() error {
	if c.State == CallUnknown && c.LateUntilMS <= time.Now().UnixMilli() && mutant != anyTime {
		return refuse(refusal.WindowExpired, "the result came too late")
	}
	return nil
}

// Cancel asks that a caller's call be stopped. One that awaits its confirmation is
// cancelled at once, without an effect; one that was sent becomes cancelling, and
// its page is to be told; any other is answered as it stands.
func (b *Book) Cancel(ctx context.Context, who Caller, id controlv1.ID) (out Call, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		c, err := b.ownCall(tx, id, who)
		if err != nil {
			return nil, err
		}
		err = b.stop(tx, &c, refusal.CallCancelled, true, time.Now())
		out = c.Call
		return nil, err
	})
	return out, err
}

// TimeOut takes a call whose deadline has passed the same road.
func (b *Book) TimeOut(ctx context.Context, id controlv1.ID) (out Call, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		c, err := b.findCall(tx, id.String())
		switch {
		case err != nil:
			return nil, err
		case c.tenant != b.tenant:
			return nil, refuse(refusal.UnknownCall, "no such call")
		case c.DeadlineMS > time.Now().UnixMilli():
			return nil, refuse(refusal.Conflict, "there is time still")
		case c.State == CallPending:
			err = b.settle(tx, &c, callLapse, end{effect: controlv1.NoEffect, code: refusal.ConfirmExpired}, time.Now())
		default:
			err = b.stop(tx, &c, refusal.TimedOut, true, time.Now())
		}
		out = c.Call
		return nil, err
	})
	return out, err
}

// Stopped writes what the page answered to control.cancel: no effect cancels the
// call, a committed one makes it succeeded, and unknown leaves it unknown.
func (b *Book) Stopped(ctx context.Context, id controlv1.ID, effect controlv1.Effect) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		if err := c.late(); err != nil {
			return "", end{}, err
		}
		if c.State == CallDispatched {
			return "", end{}, refuse(refusal.Conflict, "nobody asked to cancel")
		}
		switch effect {
		case controlv1.NoEffect:
			return callStopped, end{effect: controlv1.NoEffect, code: c.cancelled()}, nil
		case controlv1.Committed:
			if !c.Class.Mutates() {
				effect = controlv1.NoEffect
			}
			return callSucceed, end{effect: effect}, nil
		case controlv1.UnknownEffect:
			return callLose, end{effect: controlv1.UnknownEffect, code: c.cancelled(), late: time.Now().Add(LateTime).UnixMilli()}, nil
		}
		return "", end{}, refuse(refusal.InvalidRequest, "that is no effect")
	})
}

// cancelled is the code of a call that was stopped.
func (c call) cancelled() refusal.Code {
	if c.Code == "" {
		return refusal.CallCancelled
	}
	return c.Code
}

// Lose says that nothing tells what became of a call that was sent. socket tells
// whether its page can still be reached, and so whether a result may come for 30 s.
func (b *Book) Lose(ctx context.Context, id controlv1.ID, socket bool) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) { return callLose, c.lost(socket, time.Now()), nil })
}

func (c call) lost(socket bool, now time.Time) end {
	e := end{effect: controlv1.UnknownEffect, code: c.cancelled(), late: now.UnixMilli()}
	if socket {
		e.late = now.Add(LateTime).UnixMilli()
	}
	return e
}

// Reap closes the window of an unknown call: it stays failed for good, and is
// never sent again. Before the window's end it is a Conflict.
func (b *Book) Reap(ctx context.Context, id controlv1.ID) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		if c.State == CallUnknown && c.LateUntilMS > time.Now().UnixMilli() {
			return "", end{}, refuse(refusal.Conflict, "a result may still come")
		}
		return callReap, end{effect: c.unheard(), code: refusal.WindowExpired, late: c.LateUntilMS}, nil
	})
}

// unheard is the effect of a call that nothing was heard of: a read has none.
func (c call) unheard() controlv1.Effect {
	if c.Class.Mutates() {
		return controlv1.UnknownEffect
	}
	return controlv1.NoEffect
}

// stop ends or stops a call that is active, and leaves any other as it is.
func (b *Book) stop(tx *tx, c *call, why refusal.Code, socket bool, now time.Time) error {
	switch {
	case mutant == stopCommits && c.State == CallDispatched && socket:
		return b.settle(tx, c, callSucceed, end{effect: controlv1.Committed}, now)
	case mutant == leaveWaiting && c.State == CallPending:
	case c.State == CallPending:
		return b.settle(tx, c, callCancel, end{effect: controlv1.NoEffect, code: callCode(why)}, now)
	case c.State == CallDispatched && socket:
		return b.settle(tx, c, callStop, end{effect: c.unheard(), code: callCode(why)}, now)
	case (c.State == CallDispatched || c.State == CallCancelling) && !socket:
		if c.Code == "" {
			c.Code = callCode(why)
		}
		return b.settle(tx, c, callLose, c.lost(false, now), now)
	}
	return nil
}

// stopCalls stops the active calls that meet a condition.
func (b *Book) stopCalls(tx *tx, why refusal.Code, socket bool, now time.Time, where string, args ...any) error {
	all, err := readCalls(tx, `state in ('pending_confirmation','dispatched','cancelling') and `+where, args...)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := b.stop(tx, &c, why, socket, now); err != nil {
			return err
		}
	}
	return nil
}

// callCode is what a call is told when what it stands under ends.
func callCode(why refusal.Code) refusal.Code {
	switch why {
	case refusal.CallCancelled, refusal.Killed, refusal.LeaseRevoked, refusal.LeaseExpired, refusal.AuthorityLost, refusal.ChannelUnavailable, refusal.TimedOut:
		return why
	}
	return refusal.AuthorityLost // the arm's own reason isn't the caller's to know
}
