package controlv1

import (
	"errors"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/internal/schema"
)

// marshal answers the digest of a Go value in the closed subset.
func digest(v any) (Digest, error) {
	b, err := canon.Marshal(v)
	if err != nil {
		return Digest{}, err
	}
	return digestOf(b), nil
}

// SchemaDigest names a tool's two schemas.
func SchemaDigest(input, output Value) (Digest, error) {
	if input.IsZero() || output.IsZero() {
		return Digest{}, invalid("", "a schema is missing")
	}
	return digest(map[string]any{"input_schema": canon.Text(input.canonical), "output_schema": canon.Text(output.canonical)})
}

// catalogDigest names the array of descriptors without their schemas.
func catalogDigest(tools []Tool) (Digest, error) {
	bare := make([]any, len(tools))
	for i, t := range tools {
		bare[i] = t.bare()
	}
	return digest(bare)
}

func toolScopeDigest(tools []Tool) (Digest, error) {
	entries := make([]Scoped, len(tools))
	for i, t := range tools {
		entries[i] = Scoped{t.ID(), t.digest}
	}
	return scopeDigest(entries)
}

func scopeDigest(entries []Scoped) (Digest, error) {
	ids, schemas := []string{}, map[string]any{}
	for _, e := range entries {
		ids = append(ids, e.ID.text)
		schemas[e.ID.text] = e.Schemas.text
	}
	return digest(map[string]any{"tool_ids": ids, "schema_digests": schemas})
}

// Request is everything that a call's effect depends on. Its timeout is outside:
// it can't widen the effect.
type Request struct {
	Binding   Digest
	Lease     ID
	ID        ID // request_id, the caller's own
	Tool      ID
	Schemas   Digest
	Arguments Value
}

// Digest names the exact request.
func (r Request) Digest() (Digest, error) {
	if r.Binding.IsZero() || r.Lease.IsZero() || r.ID.IsZero() || r.Tool.IsZero() || r.Schemas.IsZero() || !r.Arguments.IsObject() {
		return Digest{}, invalid("", "a part of the request is missing")
	}
	return digest(map[string]any{
		"binding_digest": r.Binding.text, "lease_id": r.Lease.text, "request_id": r.ID.text,
		"tool_id": r.Tool.text, "schema_digest": r.Schemas.text, "arguments": canon.Text(r.Arguments.canonical),
	})
}

// ConfirmationDigest names what a person confirms: the exact request, under the
// policy that asked for it.
func ConfirmationDigest(policy ID, request Digest) (Digest, error) {
	if policy.IsZero() || request.IsZero() {
		return Digest{}, invalid("", "a part of the confirmation is missing")
	}
	return digest(map[string]any{"policy_reference": policy.text, "request_digest": request.text})
}

// ResultDigest names a result's value.
func ResultDigest(v Value) Digest { return digestOf([]byte(v.canonical)) }

// Digest names any value; the zero Value has none.
func (v Value) Digest() Digest {
	if v.IsZero() {
		return Digest{}
	}
	return digestOf([]byte(v.canonical))
}

// CallID derives a call's id from its exact request and the acting agent, so that
// every way to deliver the same request meets one fence. agent is "" where the
// person's own session acts.
func CallID(request Digest, agent string) (ID, error) {
	if request.IsZero() {
		return ID{}, invalid("", "a call has a request")
	}
	d, err := digest(map[string]any{"agent": agent, "kind": Protocol + " call", "request_digest": request.text})
	if err != nil {
		return ID{}, under("agent", err)
	}
	return ID{"call_" + d.text[len("sha256:"):]}, nil
}

// FenceID derives the id of a call's fence.
func FenceID(call ID) ID {
	return ID{"fence_" + canon.Digest([]byte(Protocol + " fence\x00" + call.text))[len("sha256:"):]}
}

func argumentsInvalid(why string) *Bad {
	return &Bad{Code: refusal.ArgumentsInvalid, Field: "arguments", Why: why}
}

func resultInvalid(why string) *Bad {
	return &Bad{Code: refusal.ResultInvalid, Field: "result", Why: why}
}

// judge validates a value; the place of the fault is the schema's own name.
func judge(s *schema.Schema, v Value, bad func(string) *Bad) error {
	if s == nil || v.IsZero() {
		return bad("isn't there")
	}
	err := s.Validate(v.Bytes())
	var i *schema.Invalid
	switch {
	case err == nil:
		return nil
	case errors.As(err, &i):
		return bad("doesn't meet " + i.Keyword + " of its schema")
	}
	return bad("can't be judged by its schema")
}
