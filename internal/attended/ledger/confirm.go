package ledger

import (
	"context"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Confirmed is the person's yes to one exact request, as the channel received and
// (for a passkey) verified it. Caller is who asked, as it stands now.
type Confirmed struct {
	Call         controlv1.ID
	Confirmation controlv1.Digest
	Level        controlv1.Level
	Caller       Caller
	Claim        Reference // minted for this one claim
}

// Confirm is T2: it records the confirmation and claims the fence in one
// transaction, with everything judged again inside it: lease, arm, access token,
// roles, the caller's grant, kill switches. The first wins; whoever comes after it
// is replayed, and must not send. What is over meanwhile ends the call without an
// effect. Refusals: those of a lease, request_conflict for another digest or level,
// authority_lost, confirmation_expired, killed, unknown_call.
func (b *Book) Confirm(ctx context.Context, k Confirmed) (out Call, err error) {
	if k.Claim.text == "" {
		return Call{}, refuse(refusal.InvalidRequest, "a claim has a reference")
	}
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		c, err := b.ownCall(tx, k.Call, k.Caller)
		if err != nil {
			return nil, err
		}
		out = c.Call
		switch {
		case c.Confirmation.IsZero() || c.Confirmation != k.Confirmation && mutant != anyDigest || c.Level != k.Level:
			return nil, refuse(refusal.RequestConflict, "that isn't what was asked to confirm")
		case c.State == CallPending:
		case mutant == claimTwice && c.State == CallDispatched:
			return nil, nil
		case c.Attempts > 0:
			return nil, refuse(refusal.Replayed, "confirmed already")
		default:
			return nil, refuse(c.Code, "the call is over")
		}
		if c.DeadlineMS <= now.UnixMilli() {
			return refuse(refusal.ConfirmExpired, "nobody confirmed in time"), b.settle(tx, &c, callLapse, end{effect: controlv1.NoEffect, code: refusal.ConfirmExpired}, now)
		}
		if refused, err := b.again(tx, c, k.Caller, now); refused != nil || err != nil {
			return refused, err
		}
		if err := b.used(tx, c); err != nil {
			return nil, err
		}
		c.claim, c.Attempts = k.Claim.text, c.Attempts+1
		out.State, out.Attempts, out.Effect = CallDispatched, c.Attempts, controlv1.UnknownEffect
		// A crash after this commit leaves a claim whose node is gone: unknown.
		return nil, b.move(tx, &calls, c.ID.String(), callConfirm, c.stand,
			c.event("", audit.Digest("confirmation", c.Confirmation.String()), audit.Word("level", c.Level), audit.Count("attempts", c.Attempts)), now,
			"claim=", c.claim, "attempts=", c.Attempts, "node=", b.node, "claimed_ms=", now.UnixMilli(), "effect=", string(controlv1.UnknownEffect))
	})
	return out, err
}

// again judges everything that T1 judged, for the claim. Where authority is gone
// the call ends without an effect.
func (b *Book) again(tx *tx, c call, caller Caller, now time.Time) (refused, err error) {
	if mutant == judgeOnce {
		return nil, nil
	}
	l, err := b.findLease(tx, c.Call.Lease, caller)
	if err != nil {
		return nil, err
	}
	var why error
	r, _, refused, err := b.usableLease(tx, l, caller, c.ID, now)
	switch {
	case refused != nil: // the clock ended lease or arm, and the call with it
		return refused, err
	case err != nil:
		why = err
	case caller.GrantGeneration != c.grant:
		why = refuse(refusal.AuthorityLost, "the caller's grant is another now")
	default:
		t, err := findTool(tx, r.ID.String(), c.Tool)
		if err != nil {
			why = err
		} else if !t.allows(caller.Roles) {
			why = refuse(refusal.AuthorityLost, "a role is gone")
		}
	}
	if why == nil {
		return nil, nil
	}
	code := refusal.Of(why)
	if code == "" || code == refusal.Tampered {
		return nil, why // the database's own fault decides nothing
	}
	return why, b.settle(tx, &c, callCancel, end{effect: controlv1.NoEffect, code: code}, now)
}

// Deny is the person's no: the call ends at once without an effect.
func (b *Book) Deny(ctx context.Context, id controlv1.ID) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		return callDeny, end{effect: controlv1.NoEffect, code: refusal.UserDenied}, nil
	})
}

// Lapse ends a call that nobody confirmed in time. Before its deadline it is a
// Conflict.
func (b *Book) Lapse(ctx context.Context, id controlv1.ID) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		if c.State == CallPending && c.DeadlineMS > time.Now().UnixMilli() {
			return "", end{}, refuse(refusal.Conflict, "there is time still")
		}
		return callLapse, end{effect: controlv1.NoEffect, code: refusal.ConfirmExpired}, nil
	})
}

// Withhold says that a claimed call wasn't sent, which only who claimed it can
// know: the commit's answer was lost, or revalidation failed right before the
// frame. It ends without an effect. Another's reference is forbidden.
func (b *Book) Withhold(ctx context.Context, id controlv1.ID, own Reference, why refusal.Code) (Call, error) {
	return b.end(ctx, id, func(c call) (verb, end, error) {
		if (c.claim == "" || c.claim != own.text) && mutant != anyReference {
			return "", end{}, refuse(refusal.Forbidden, "the claim is another's")
		}
		return callWithhold, end{effect: controlv1.NoEffect, code: why}, nil
	})
}
