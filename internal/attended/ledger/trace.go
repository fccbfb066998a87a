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
	for _, n := range []struct{ kind, id, digest string }{
		{kindRun, c.RunTrace.String(), c.RequestDigest.String()},
		{kindTool, "toolcall_" + own, c.Arguments.String()},
		{kindEvaluation, "evaluation_" + own, ""},
	} {
		_, err := tx.Exec(`insert into attended_trace (trace, tenant, kind, run_trace, call, outcome, effect, code, digest, begun_ms, ended_ms)
			values ($1,$2,$3,$4,$5,$6,$7,'',$8,$9,0)`,
			n.id, c.tenant, n.kind, c.RunTrace.String(), c.ID.String(), awaiting, string(controlv1.NoEffect), n.digest, now.UnixMilli())
		if err != nil {
			return err
		}
	}
	return nil
}

// endTrace writes the outcome into the batch, before the call itself moves. What
// is unknown has its outcome, and may get another, once.
func endTrace(tx *tx, c call, to CallState, effect controlv1.Effect, code refusal.Code, result string, now time.Time) error {
	if _, err := tx.Exec(`update attended_trace set outcome=$1, effect=$2, code=$3, ended_ms=$4 where call=$5`,
		string(to), string(effect), string(code), now.UnixMilli(), c.ID.String()); err != nil {
		return err
	}
	_, err := tx.Exec(`update attended_trace set digest=$1 where call=$2 and kind=$3`, result, c.ID.String(), kindEvaluation)
	return err
}

// traceID answers the id of a call's run trace.
func traceID(call controlv1.ID) string { return "trace_" + hash("trace\x00"+call.String()) }
