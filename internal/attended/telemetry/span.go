package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/canon"
)

// The ontology of a call's trace: one run trace, and under it the tool call and the
// evaluation of its outcome, as the ledger has them.
const (
	kindRun        = "run_trace"
	kindTool       = "tool_call"
	kindEvaluation = "outcome_evaluation"
)

// resource is calls as a collector takes them.
func resource(version string, calls []ledger.Told) []*trace.ResourceSpans {
	var spans []*trace.Span
	for _, c := range calls {
		spans = append(spans, spansOf(c)...)
	}
	return []*trace.ResourceSpans{{
		Resource:   &resourcev1.Resource{Attributes: attributes("service.name", "chaperone", "service.version", version)},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: controlv1.Protocol, Version: version}, Spans: spans}},
	}}
}

// spansOf answers a call's three spans. Their ids are derived from the ledger's, so
// that the same call is the same trace however often it is sent, and from whichever
// node.
func spansOf(c ledger.Told) []*trace.Span {
	own := strings.TrimPrefix(c.RunTrace.String(), "trace_")
	root := spanID(kindRun, own)
	begun := c.AdmittedMS
	if c.ClaimedMS > 0 {
		begun = c.ClaimedMS
	}
	code := string(c.Receipt().Code)
	both := []string{"chaperone.call_ref", c.ID.String(), "chaperone.run_trace_ref", c.RunTrace.String()}
	run := span(own, root, nil, kindRun, c.AdmittedMS, c.SettledMS, append(both,
		"chaperone.lease_ref", c.Lease.String(), "chaperone.document_ref", c.Document.String(), "chaperone.agent_ref", c.Agent.String(),
		"chaperone.mutation_class", string(c.Class), "chaperone.policy_ref", c.Policy.String(), "chaperone.request_digest", c.RequestDigest.String(),
		"chaperone.confirmation_level", confirmed(c), "chaperone.status", string(c.State.Status()), "chaperone.effect", string(c.Effect),
		"chaperone.error_code", code))
	tool := span(own, spanID(kindTool, own), root, kindTool, begun, c.SettledMS, append(both,
		"gen_ai.operation.name", "execute_tool", "langfuse.observation.type", "tool",
		"chaperone.tool_digest", canon.Digest([]byte(c.Tool.String())), // its id is the page's own text
		"chaperone.schema_digest", c.Schemas.String(), "chaperone.arguments_digest", c.Arguments.String()))
	tool.Attributes = append(tool.Attributes, count("chaperone.attempts", c.Attempts))
	evaluation := span(own, spanID(kindEvaluation, own), root, kindEvaluation, c.SettledMS, c.SettledMS, append(both,
		"langfuse.observation.type", "evaluator", "chaperone.outcome", string(c.State), "chaperone.effect", string(c.Effect),
		"chaperone.error_code", code, "chaperone.result_digest", c.ResultDigest.String()))
	for _, s := range []*trace.Span{run, tool, evaluation} {
		s.Status = status(c, code)
	}
	return []*trace.Span{run, tool, evaluation}
}

func confirmed(c ledger.Told) string {
	if c.Attempts == 0 {
		return "" // asked for, and nobody gave it
	}
	return string(c.Level)
}

// status is the outcome in OpenTelemetry's terms. Who said no, or stopped it, made no
// error.
func status(c ledger.Told, code string) *trace.Status {
	switch c.State.Status() {
	case controlv1.StatusSucceeded:
		return &trace.Status{Code: trace.Status_STATUS_CODE_OK}
	case controlv1.StatusFailed, controlv1.StatusUnknown:
		return &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: code}
	}
	return &trace.Status{}
}

func span(of string, id, parent []byte, kind string, begunMS, endedMS int64, pairs []string) *trace.Span {
	return &trace.Span{TraceId: traceID(of), SpanId: id, ParentSpanId: parent, Name: kind, Kind: trace.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nano(begunMS), EndTimeUnixNano: nano(endedMS),
		Attributes: attributes(append([]string{"chaperone.kind", kind}, pairs...)...)}
}

func nano(ms int64) uint64 { return uint64(ms) * uint64(time.Millisecond) }

// traceID is half of the ledger's own id, which is 256 bits of a digest.
func traceID(own string) []byte {
	id, err := hex.DecodeString(own)
	if err != nil || len(id) < 16 {
		panic("telemetry: a run trace whose id isn't the ledger's")
	}
	return id[:16]
}

func spanID(kind, own string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + own))
	return sum[:8]
}

// attributes takes names and texts in turn, and leaves out what is empty.
func attributes(pairs ...string) (out []*common.KeyValue) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, &common.KeyValue{Key: pairs[i], Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: pairs[i+1]}}})
		}
	}
	return out
}

func count(name string, n int64) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}}
}
