package ledger

import (
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/refusal"
)

// Kinds of a call's trace. Each call has one of each, written as one batch.
const (
	kindRun        = "run_trace"
	kindTool       = "tool_call"
	kindEvaluation = "outcome_evaluation"
)

// awaiting is the outcome of what isn't over.
const awaiting = "pending"

// pendingTrace writes a call's batch: the run, the tool call and the outcome's
// evaluation, with their edges. Without it nothing is dispatched.
func pendingTrace(tx *tx, c call, now time.Time) error {
	own := strings.TrimPrefix(c.RunTrace.String(), "trace_")
	_, err := tx.Exec(`insert into attended_trace (trace, tenant, kind, run_trace, call, outcome, effect, code, digest, begun_ms, ended_ms)
		values ($1,$2,$3,$1,$4,$5,$6,'',$7,$8,0), ($9,$2,$10,$1,$4,$5,$6,'',$11,$8,0), ($12,$2,$13,$1,$4,$5,$6,'','',$8,0)`,
		c.RunTrace.String(), c.tenant, kindRun, c.ID.String(), awaiting, string(controlv1.NoEffect), c.RequestDigest.String(), now.UnixMilli(),
		"toolcall_"+own, kindTool, c.Arguments.String(), "evaluation_"+own, kindEvaluation)
	return err
}

// endTrace writes the outcome into the batch, before the call itself moves. What
// is unknown has its outcome, and may get another, once.
func endTrace(tx *tx, c call, to CallState, effect controlv1.Effect, code refusal.Code, result string, now time.Time) error {
	_, err := tx.Exec(`update attended_trace set outcome=$1, effect=$2, code=$3, ended_ms=$4, digest=case when kind=$5 then $6 else digest end where call=$7`,
		string(to), string(effect), string(code), now.UnixMilli(), kindEvaluation, result, c.ID.String())
	return err
}

// traceID answers the id of a call's run trace.
func traceID(call controlv1.ID) string { return "trace_" + hash("trace\x00"+call.String()) }
