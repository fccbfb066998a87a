package controlv1

import (
	"slices"

	"chaperone/internal/canon"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Receipt is what a caller is told of a call. Result is returned once and is
// stored nowhere.
type Receipt struct {
	Call, Lease  ID
	Status       Status
	Effect       Effect
	Result       Value  // zero where there is none to return
	ResultDigest Digest // zero where the call has no result
	Code         refusal.Code
	RunTrace     ID
	Level        Level // "" for a read, and before a confirmation
	Telemetry    Telemetry
}

// Encode answers the receipt's canonical bytes; absent fields are absent.
func (r Receipt) Encode() ([]byte, error) {
	if r.Call.IsZero() || r.Lease.IsZero() || r.RunTrace.IsZero() || !slices.Contains(Statuses, r.Status) {
		return nil, empty
	}
	if _, err := ParseEffect(string(r.Effect)); err != nil {
		return nil, err
	}
	if _, err := ParseTelemetry(string(r.Telemetry)); err != nil {
		return nil, err
	}
	m := map[string]any{"call_id": r.Call.text, "lease_id": r.Lease.text, "status": string(r.Status), "effect": string(r.Effect),
		"run_trace_id": r.RunTrace.text, "telemetry": string(r.Telemetry)}
	if !r.Result.IsZero() {
		m["result"] = canon.Text(r.Result.canonical)
	}
	put(m, "result_digest", r.ResultDigest.text)
	put(m, "error_code", string(r.Code))
	put(m, "confirmation_level", string(r.Level))
	return canon.Marshal(m)
}

func put(m map[string]any, name, text string) {
	if text != "" {
		m[name] = text
	}
}

// DecodeReceipt reads a receipt, as a client does.
func DecodeReceipt(data []byte) (Receipt, error) {
	var r Receipt
	var code Word
	var hasResult bool
	err := decode(data, MaxFrame, of("call_id", &r.Call, ParseID), of("lease_id", &r.Lease, ParseID), of("run_trace_id", &r.RunTrace, ParseID),
		of("status", &r.Status, func(s string) (Status, error) {
			if !slices.Contains(Statuses, Status(s)) {
				return "", invalid("", "isn't a status")
			}
			return Status(s), nil
		}),
		of("effect", &r.Effect, ParseEffect), of("telemetry", &r.Telemetry, ParseTelemetry), value("result", &r.Result, MaxResult).told(&hasResult),
		of("result_digest", &r.ResultDigest, ParseDigest).or(), of("error_code", &code, ParseWord).or(), of("confirmation_level", &r.Level, ParseLevel).or())
	if err != nil {
		return Receipt{}, err
	}
	if hasResult && r.Result.Digest() != r.ResultDigest {
		return Receipt{}, invalid("result_digest", "isn't the digest of the result")
	}
	r.Code = refusal.Code(code.text)
	return r, nil
}

// LeaseStatus is where a lease stands.
type LeaseStatus string

// LeaseReceipt is what a caller is told of a lease.
type LeaseReceipt struct {
	Lease                    ID
	Document                 ref.Document
	Tools                    []ID
	Generation               Generation
	ExpiresMS, HardExpiresMS int64
	Status                   LeaseStatus // active, revoked or expired
}

// Encode answers the receipt's canonical bytes.
func (r LeaseReceipt) Encode() ([]byte, error) {
	ids := []string{}
	for _, t := range r.Tools {
		ids = append(ids, t.text)
	}
	if r.Lease.IsZero() || r.Document.IsZero() || len(ids) == 0 || r.Generation.IsZero() || r.ExpiresMS < 1 || r.HardExpiresMS < r.ExpiresMS || !leaseStatus(string(r.Status)) {
		return nil, empty
	}
	return canon.Marshal(map[string]any{"lease_id": r.Lease.text, "document_ref": r.Document.String(), "tool_ids": ids,
		"registration_generation": r.Generation.n, "expires_at_ms": r.ExpiresMS, "hard_expires_at_ms": r.HardExpiresMS, "status": string(r.Status)})
}

func leaseStatus(s string) bool { return s == "active" || s == "revoked" || s == "expired" }

// DecodeLeaseReceipt reads one, as a client does.
func DecodeLeaseReceipt(data []byte) (LeaseReceipt, error) {
	var r LeaseReceipt
	status := ""
	err := decode(data, MaxFrame, of("lease_id", &r.Lease, ParseID), of("document_ref", &r.Document, ref.Parse[ref.DocumentKind]), ids("tool_ids", &r.Tools, MaxTools),
		generation("registration_generation", &r.Generation), moment("expires_at_ms", &r.ExpiresMS), moment("hard_expires_at_ms", &r.HardExpiresMS),
		str("status", &status, leaseStatus))
	r.Status = LeaseStatus(status)
	if err == nil && r.HardExpiresMS < r.ExpiresMS {
		err = invalid("hard_expires_at_ms", "is before expires_at_ms")
	}
	if err != nil {
		return LeaseReceipt{}, err
	}
	return r, nil
}
