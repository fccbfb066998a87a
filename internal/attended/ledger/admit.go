package ledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Admission is one request for a call.
type Admission struct {
	Caller    Caller
	Request   controlv1.Request
	Catalog   controlv1.Digest // that the caller saw; zero where it said none
	Timeout   time.Duration    // 1 to 120 s
	Ruling    Ruling
	Reference Reference // minted for this one submission
}

// Reference is 256 random bits that never leave the server: who minted it for a
// submission or a claim can prove that a fence is its own.
type Reference struct{ text string }

// NewReference mints one.
func NewReference() Reference { return Reference{random()} }

// String keeps it out of logs.
func (Reference) String() string { return "ledger.Reference" }

// GoString keeps it out of %#v.
func (Reference) GoString() string { return "ledger.Reference" }

// Admit is T1. It decides over the exact request and creates the call's fence if it
// isn't there, with its pending trace, in one transaction; a read is claimed by it
// too, under the admission's reference. A decision that refuses is written and leaves
// no fence; none is made again on a replay. fresh tells whether this submission created it: what isn't fresh is
// another delivery's and must not be sent.
//
// A pending call of the same lease, tool and arguments under another request_id
// is answered in its place, so a client's retry makes no second prompt. Refusals:
// those of a lease, unknown_tool, catalog_stale, stale_generation, forbidden,
// authority_lost, request_conflict, busy, attention_budget, policy_denied,
// policy_unavailable, killed.
func (b *Book) Admit(ctx context.Context, m Admission) (out Call, fresh bool, err error) {
	digest, err := m.Request.Digest()
	if err != nil || m.Timeout < time.Second || m.Timeout > 120*time.Second || m.Reference.text == "" {
		return Call{}, false, refuse(refusal.InvalidRequest, "the request lacks a part")
	}
	id, err := controlv1.CallID(digest, m.Caller.Agent.String())
	if err != nil {
		return Call{}, false, err
	}
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		fresh = false
		l, err := b.findLease(tx, m.Request.Lease, m.Caller)
		if err != nil {
			return nil, err
		}
		if known, err := b.replay(tx, m, id, &out); known || err != nil {
			fresh = mutant == secondSends && err == nil
			return nil, err
		}
		r, _, refused, err := b.usableLease(tx, l, m.Caller, id, now)
		if refused != nil || err != nil {
			return refused, err
		}
		t, err := judge(tx, m, l, r)
		if err != nil {
			return nil, err
		}
		c := call{tenant: b.tenant, principal: l.principal, agent: l.agent, binding: r.Binding.String(), admission: m.Reference.text, grant: m.Caller.GrantGeneration, node: b.node}
		c.ID, c.Call.Lease, c.Request, c.Tool, c.Document, c.Class = id, m.Request.Lease, m.Request.ID, m.Request.Tool, l.Document, t.class
		c.Arm, c.Schemas, c.Arguments, c.RequestDigest = l.Arm, m.Request.Schemas, m.Request.Arguments.Digest(), digest
		c.DeadlineMS = min(now.Add(m.Timeout).UnixMilli(), l.ExpiresMS)
		if t.class.Mutates() {
			known, err := b.prompt(tx, c, now)
			if known != nil || err != nil {
				if known != nil {
					out = known.Call
				}
				return nil, err
			}
		}
		if refused, err := b.rule(tx, &c, m.Ruling, m.Request.Arguments); refused != nil || err != nil {
			return refused, err
		}
		if err := b.create(tx, &c, now); err != nil {
			return nil, err
		}
		out, fresh = c.Call, true
		return nil, nil
	})
	if err != nil {
		return Call{}, false, err
	}
	return out, fresh, nil
}

// replay answers the call that this exact request made before, whatever became of
// it or its lease. The same request_id with other content is a conflict.
func (b *Book) replay(tx *tx, m Admission, id controlv1.ID, out *Call) (bool, error) {
	c, err := readCall(tx.QueryRow(selectCall+`lease=$1 and request_id=$2`, m.Request.Lease.String(), m.Request.ID.String()))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case c.ID != id:
		return false, refuse(refusal.RequestConflict, "that request id was used for another request")
	}
	*out = c.Call
	return true, nil
}

// judge holds a request to the lease and the registered tool.
func judge(tx *tx, m Admission, l lease, r registration) (tool, error) {
	if !slices.Contains(l.Tools, m.Request.Tool) {
		return tool{}, refuse(refusal.UnknownTool, "the tool isn't in the lease")
	}
	t, err := findTool(tx, r.ID.String(), m.Request.Tool)
	switch {
	case err != nil:
		return t, err
	case !m.Catalog.IsZero() && m.Catalog != r.Catalog, m.Request.Schemas.String() != t.schemas:
		return t, refuse(refusal.CatalogStale, "the caller saw other tools")
	case m.Request.Binding != r.Binding:
		return t, refuse(refusal.StaleGeneration, "the request is of another channel")
	case !t.allows(m.Caller.Roles):
		return t, refuse(refusal.Forbidden, "a role is missing")
	}
	return t, nil
}

// prompt fits a mutation into the page's and the person's attention, or answers
// the call that it repeats.
func (b *Book) prompt(tx *tx, c call, now time.Time) (*call, error) {
	same, err := readCalls(tx, `lease=$1 and tool_id=$2 and arguments_digest=$3 and schema_digest=$4 and state='pending_confirmation' and deadline_ms>$5`,
		c.Call.Lease.String(), c.Tool.String(), c.Arguments.String(), c.Schemas.String(), now.UnixMilli())
	if err != nil || len(same) > 0 {
		if len(same) > 0 {
			return &same[0], nil
		}
		return nil, err
	}
	waiting, err := number(tx, `select count(*) from attended_call where document=$1 and state='pending_confirmation' and deadline_ms>$2`, c.Document.String(), now.UnixMilli())
	if err != nil {
		return nil, err
	}
	if waiting >= MaxPrompts {
		return nil, refuse(refusal.Busy, "eight confirmations wait already")
	}
	asked, err := number(tx, `select count(*) from attended_call where tenant=$1 and principal=$2 and level<>'' and admitted_ms>$3`,
		c.tenant, c.principal, now.Add(-BudgetTime).UnixMilli())
	if err == nil && asked >= BudgetPrompt {
		err = refuse(refusal.AttentionBudget, "the person was asked too often")
	}
	return nil, err
}

// create writes the fence with its pending trace, and of a read its claim.
func (b *Book) create(tx *tx, c *call, now time.Time) error {
	v := callAdmit
	claimed := int64(0)
	if !c.Class.Mutates() {
		v, c.claim, c.Attempts, claimed = callDispatch, c.admission, 1, now.UnixMilli()
	}
	c.State, c.Effect, c.Telemetry = CallState(calls.born(v)), controlv1.NoEffect, controlv1.NotConfigured
	if b.opts.Exports {
		c.Telemetry = controlv1.Queued
	}
	trace, err := controlv1.ParseID(traceID(c.ID))
	if err != nil {
		return err
	}
	c.RunTrace = trace
	// A crash after this commit leaves a pending confirmation, which lapses, or a
	// claimed read, which becomes unknown with its node; neither is sent again.
	facts, err := calls.written(tx, `insert into attended_call (`+callColumns+`, fence, admitted_ms, claimed_ms, settled_ms, moved_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,'',$24,1,'',$25,0,$26,$27,$28,$29,0,$28) on conflict do nothing returning `+calls.facts,
		c.ID.String(), c.tenant, c.principal, c.agent, c.Call.Lease.String(), c.Document.String(), c.Request.String(), c.Tool.String(), string(c.Class), c.Schemas.String(),
		c.Arguments.String(), c.RequestDigest.String(), c.binding, c.Policy.String(), c.Confirmation.String(), string(c.Level), c.admission, c.claim, c.grant, c.Attempts,
		c.node, c.RunTrace.String(), string(c.Effect), string(c.State), c.DeadlineMS, string(c.Telemetry), controlv1.FenceID(c.ID).String(), now.UnixMilli(), claimed)
	if errors.Is(err, sql.ErrNoRows) {
		err = refuse(refusal.RequestConflict, "another call has that fence")
	}
	if err != nil {
		return err
	}
	if err := pendingTrace(tx, *c, now); err != nil {
		return err
	}
	return b.born(tx, &calls, c.ID.String(), v, c.event("", audit.Digest("arguments", c.Arguments.String()), audit.Count("attempts", c.Attempts)), facts)
}

// Retire is the recovery of a submission whose Admit failed after it may have been
// written: it retires the unclaimed fence that carries its own reference, and of a
// read, which its submission alone may send, the claim. A fence with another's
// reference is left alone, and one that isn't there is fine. It answers whether it
// retired one.
func (b *Book) Retire(ctx context.Context, id controlv1.ID, own Reference) (retired bool, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		retired = false
		c, err := b.findCall(tx, id.String())
		if refusal.Of(err) == refusal.UnknownCall || err == nil && (c.tenant != b.tenant || c.admission != own.text) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		v := callRetire
		if c.claim != "" && c.claim == c.admission {
			v = callWithhold
		}
		if _, ok := calls.goes(v, c.stand.state); !ok {
			return nil, nil
		}
		retired = true
		return nil, b.settle(tx, &c, v, end{effect: controlv1.NoEffect, code: refusal.NotDispatched}, time.Now())
	})
	return retired, err
}
