package ledger

import (
	"database/sql"
	"errors"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// CallState is where a call and its fence stand.
type CallState string

const (
	// CallPending awaits the person's confirmation. Nothing was sent that the page
	// may execute.
	CallPending CallState = "pending_confirmation"
	// CallDispatched is claimed: it is on its way to the page, or there.
	CallDispatched CallState = "dispatched"
	// CallCancelling is claimed, and its page was or is being told to stop.
	CallCancelling CallState = "cancelling"
	// CallSucceeded is over: the page reported that it was done.
	CallSucceeded CallState = "succeeded"
	// CallFailed is over: the page reported a failure, or nothing was sent.
	CallFailed CallState = "failed"
	// CallCancelled is over without an effect.
	CallCancelled CallState = "cancelled"
	// CallUnknown was sent, and nothing tells what became of it. A result may still
	// come, for 30 s.
	CallUnknown CallState = "unknown"
	// CallReaped is over: nothing came in time. Its effect stays unknown, and it is
	// never sent again.
	CallReaped CallState = "unknown_reaped"
	// CallDenied is over: the person said no, or nothing in time.
	CallDenied CallState = "denied"
)

const (
	callAdmit    verb = "admitted"
	callDispatch verb = "dispatched" // a read, which T1 claims
	callConfirm  verb = "confirmed"  // a mutation, which T2 claims
	callDeny     verb = "denied"
	callLapse    verb = "lapsed"
	callRetire   verb = "retired"
	callWithhold verb = "withheld"
	callCancel   verb = "cancelled"
	callStop     verb = "stopping"
	callStopped  verb = "stopped"
	callSucceed  verb = "succeeded"
	callFail     verb = "failed"
	callLose     verb = "lost"
	callReap     verb = "reaped"
)

var calls = noun{
	name: "call", table: "attended_call", key: "call",
	facts: `call, fence, tenant, principal, agent_ref, lease, document, request_id, tool_id, class, schema_digest, arguments_digest, request_digest, binding_digest, policy,
		confirmation_digest, level, grant_generation, attempts, node, run_trace, effect, result_digest, reason, admitted_ms, deadline_ms, claimed_ms, late_until_ms, settled_ms`,
	moves: []step{
		{callAdmit, "", string(CallPending)},
		{callDispatch, "", string(CallDispatched)},
		{callConfirm, string(CallPending), string(CallDispatched)},
		{callDeny, string(CallPending), string(CallDenied)},
		{callLapse, string(CallPending), string(CallDenied)},
		{callRetire, string(CallPending), string(CallFailed)},
		{callCancel, string(CallPending), string(CallCancelled)},
		{callWithhold, string(CallDispatched), string(CallFailed)},
		{callWithhold, string(CallCancelling), string(CallFailed)},
		{callStop, string(CallDispatched), string(CallCancelling)},
		{callStopped, string(CallCancelling), string(CallCancelled)},
		{callStopped, string(CallUnknown), string(CallCancelled)},
		{callSucceed, string(CallDispatched), string(CallSucceeded)},
		{callSucceed, string(CallCancelling), string(CallSucceeded)},
		{callSucceed, string(CallUnknown), string(CallSucceeded)},
		{callFail, string(CallDispatched), string(CallFailed)},
		{callFail, string(CallCancelling), string(CallFailed)},
		{callFail, string(CallUnknown), string(CallFailed)},
		{callLose, string(CallDispatched), string(CallUnknown)},
		{callLose, string(CallCancelling), string(CallUnknown)},
		{callReap, string(CallUnknown), string(CallReaped)},
	},
}

// Status answers what a receipt says of the state.
func (s CallState) Status() controlv1.Status {
	switch s {
	case CallPending:
		return controlv1.StatusPending
	case CallDispatched, CallCancelling:
		return controlv1.StatusDispatched
	case CallSucceeded:
		return controlv1.StatusSucceeded
	case CallCancelled:
		return controlv1.StatusCancelled
	case CallDenied:
		return controlv1.StatusDenied
	case CallUnknown:
		return controlv1.StatusUnknown
	}
	return controlv1.StatusFailed
}

// Over tells whether nothing moves the call any more.
func (s CallState) Over() bool { return calls.over(string(s)) }

// Call is what a verb answers of one.
type Call struct {
	ID, Lease, Request, Tool controlv1.ID
	Document                 ref.Document
	Arm                      ref.Attended
	Class                    controlv1.Class
	Schemas                  controlv1.Digest
	RequestDigest            controlv1.Digest
	Arguments                controlv1.Digest // the arguments themselves are nowhere here
	Confirmation             controlv1.Digest // zero for a read
	Level                    controlv1.Level  // asked for; "" for a read
	Policy                   controlv1.ID
	RunTrace                 controlv1.ID
	State                    CallState
	Effect                   controlv1.Effect
	ResultDigest             controlv1.Digest
	Code                     refusal.Code
	DeadlineMS               int64
	LateUntilMS              int64 // while unknown: until when a result may come
	Attempts                 int64 // 0 or 1: it is sent at most once
	Telemetry                controlv1.Telemetry
}

// Receipt answers what the caller is told. A result is the caller's to add.
func (c Call) Receipt() controlv1.Receipt {
	r := controlv1.Receipt{Call: c.ID, Lease: c.Lease, Status: c.State.Status(), Effect: c.Effect, ResultDigest: c.ResultDigest, RunTrace: c.RunTrace, Telemetry: c.Telemetry}
	if c.State != CallSucceeded && (c.State.Over() || c.State == CallUnknown) {
		r.Code = c.Code
	}
	if c.Attempts > 0 {
		r.Level = c.Level
	}
	return r
}

// call is a row. admission and claim never leave this package.
type call struct {
	Call
	tenant, principal, agent, binding, admission, claim, node string
	grant                                                     int64
	stand                                                     stand
}

const callColumns = `call, tenant, principal, agent_ref, lease, document, request_id, tool_id, class, schema_digest, arguments_digest, request_digest, binding_digest, policy,
	confirmation_digest, level, admission, claim, grant_generation, attempts, node, run_trace, effect, result_digest, state, version, reason, deadline_ms, late_until_ms, telemetry`

func readCall(r store.Scanner) (call, error) {
	var c call
	var id, lease, document, request, toolID, class, schemas, arguments, digest, policy, confirmation, level, trace, effect, result, reason, telemetry, arm string
	err := r.Scan(&id, &c.tenant, &c.principal, &c.agent, &lease, &document, &request, &toolID, &class, &schemas, &arguments, &digest, &c.binding, &policy,
		&confirmation, &level, &c.admission, &c.claim, &c.grant, &c.Attempts, &c.node, &trace, &effect, &result, &c.stand.state, &c.stand.version, &reason,
		&c.DeadlineMS, &c.LateUntilMS, &telemetry, &arm)
	if err != nil {
		return c, err
	}
	p := parser{}
	c.ID, c.Call.Lease, c.Request, c.Tool = parsed(&p, id, controlv1.ParseID), parsed(&p, lease, controlv1.ParseID), parsed(&p, request, controlv1.ParseID), parsed(&p, toolID, controlv1.ParseID)
	c.Document, c.Class = parsed(&p, document, ref.Parse[ref.DocumentKind]), controlv1.Class(class)
	c.Schemas, c.Arguments, c.RequestDigest = parsed(&p, schemas, controlv1.ParseDigest), parsed(&p, arguments, controlv1.ParseDigest), parsed(&p, digest, controlv1.ParseDigest)
	c.Policy, c.RunTrace = parsed(&p, policy, controlv1.ParseID), parsed(&p, trace, controlv1.ParseID)
	if arm != "" {
		c.Arm = parsed(&p, arm, ref.Parse[ref.AttendedKind])
	}
	if confirmation != "" {
		c.Confirmation, c.Level = parsed(&p, confirmation, controlv1.ParseDigest), parsed(&p, level, controlv1.ParseLevel)
	}
	if result != "" {
		c.ResultDigest = parsed(&p, result, controlv1.ParseDigest)
	}
	c.Effect, c.Telemetry = parsed(&p, effect, controlv1.ParseEffect), parsed(&p, telemetry, controlv1.ParseTelemetry)
	c.State, c.Code = CallState(c.stand.state), refusal.Code(reason)
	return c, p.err
}

// selectCall reads calls with the arms of their leases.
const selectCall = `select ` + callColumns + `, coalesce((select l.arm from attended_lease l where l.lease=attended_call.lease),'') from attended_call where `

// readCalls answers the calls that meet a condition.
func readCalls(tx *tx, where string, args ...any) (all []call, err error) {
	err = tx.Each(selectCall+where+` order by call`, args, func(r store.Scanner) error {
		c, err := readCall(r)
		all = append(all, c)
		return err
	})
	return all, err
}

// findCall reads one call, whose it may be.
func (b *Book) findCall(tx *tx, id string) (call, error) {
	c, err := readCall(tx.QueryRow(selectCall+`call=$1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = refuse(refusal.UnknownCall, "no such call")
	}
	return c, err
}

// ownCall reads a call of a caller's own; another's is told like one that isn't
// there.
func (b *Book) ownCall(tx *tx, id controlv1.ID, c Caller) (call, error) {
	found, err := b.findCall(tx, id.String())
	if err == nil && (found.tenant != b.tenant || found.principal != c.Principal.String() || found.agent != c.Agent.String()) {
		err = refuse(refusal.UnknownCall, "no such call")
	}
	return found, err
}

func (c call) event(why refusal.Code, more ...audit.Field) event {
	return event{tenant: c.tenant, principal: c.principal, reason: why, public: append([]audit.Field{
		audit.Digest("binding", c.binding), audit.Digest("request", c.RequestDigest.String()), audit.ID("agent", c.agent), audit.ID("lease", c.Call.Lease.String()),
		audit.ID("document", c.Document.String()), audit.ID("tool", c.Tool.String()), audit.ID("trace", c.RunTrace.String())}, more...)}
}
