package controlv1

import (
	"chaperone/internal/canon"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Action is what a caller asks of browser_control, MCP tool and REST body alike:
// [ListDocuments], [IssueLease], [RevokeLease], [ExecuteCall], [CancelCall],
// [ReconcileCall] or [AskCall].
type Action interface {
	action() (name string, fields map[string]any, err error)
}

// ListDocuments asks for the caller's live documents.
type ListDocuments struct{}

// IssueLease asks for a lease over tools of one document.
type IssueLease struct {
	Document   ref.Document
	Tools      []ID  // 1 to 64, distinct
	TTLSeconds int64 // 1 to 900, 300 where absent
}

// RevokeLease ends a lease and its active calls.
type RevokeLease struct {
	Lease  ID
	Reason Word
}

// ExecuteCall asks for one call.
type ExecuteCall struct {
	Lease, Request, Tool ID
	Schemas              Digest
	Arguments            Value
	TimeoutSeconds       int64  // 1 to 120; 0 where absent, see Timeout
	Catalog              Digest // zero where absent
}

// Timeout answers the call's time in seconds: 30 for reads and 120 for mutations
// where the caller named none.
func (e ExecuteCall) Timeout(c Class) int64 {
	switch {
	case e.TimeoutSeconds > 0:
		return e.TimeoutSeconds
	case c.Mutates():
		return 120
	}
	return 30
}

// CancelCall asks that a call be stopped.
type CancelCall struct {
	Call   ID
	Reason Word
}

// ReconcileCall asks what became of a call.
type ReconcileCall struct{ Call ID }

// AskCall is get_call: it waits for a change for at most WaitSeconds.
type AskCall struct {
	Call        ID
	WaitSeconds int64 // 0 to 50
}

// DecodeAction reads a request to browser_control: flat, closed, at most 65,536
// bytes. Its error is a *Bad with the code invalid_request, arguments_invalid or
// too_large.
func DecodeAction(data []byte) (Action, error) {
	name, err := named(data, "action")
	if err != nil {
		return nil, err
	}
	kind := exactly("action", name)
	read := func(members ...member) error { return decode(data, MaxFrame, append(members, kind)...) }
	switch name {
	case "list_documents":
		return orNil(ListDocuments{}, read())
	case "issue_lease":
		a := IssueLease{TTLSeconds: DefaultLeaseMS / 1000}
		err := read(of("document_ref", &a.Document, ref.Parse[ref.DocumentKind]), ids("tool_ids", &a.Tools, MaxTools),
			integer("requested_ttl_seconds", &a.TTLSeconds, 1, LeaseMS/1000).or())
		return orNil(a, err)
	case "revoke_lease":
		var a RevokeLease
		err := read(of("lease_id", &a.Lease, ParseID), of("reason", &a.Reason, ParseWord))
		return orNil(a, err)
	}
	return decodeCallAction(name, read)
}

// orNil answers no action beside an error.
func orNil(a Action, err error) (Action, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

func decodeCallAction(name string, read func(...member) error) (Action, error) {
	switch name {
	case "execute_call":
		var a ExecuteCall
		err := read(of("lease_id", &a.Lease, ParseID), of("request_id", &a.Request, ParseID), of("tool_id", &a.Tool, ParseID),
			of("schema_digest", &a.Schemas, ParseDigest), object("arguments", &a.Arguments, MaxArguments),
			integer("timeout_seconds", &a.TimeoutSeconds, 1, 120).or(), of("catalog_digest", &a.Catalog, ParseDigest).or())
		return orNil(a, err)
	case "cancel_call":
		var a CancelCall
		err := read(of("call_id", &a.Call, ParseID), of("reason", &a.Reason, ParseWord))
		return orNil(a, err)
	case "reconcile_call":
		var a ReconcileCall
		err := read(of("call_id", &a.Call, ParseID))
		return orNil(a, err)
	case "get_call":
		var a AskCall
		err := read(of("call_id", &a.Call, ParseID), integer("wait_seconds", &a.WaitSeconds, 0, 50).or())
		return orNil(a, err)
	}
	return nil, invalid("action", "isn't one of the seven")
}

func (ListDocuments) action() (string, map[string]any, error) {
	return "list_documents", map[string]any{}, nil
}

func (a IssueLease) action() (string, map[string]any, error) {
	ids := []string{}
	for _, id := range a.Tools {
		if id.IsZero() {
			return "", nil, empty
		}
		ids = append(ids, id.text)
	}
	if a.Document.IsZero() || len(ids) < 1 || len(ids) > MaxTools || a.TTLSeconds < 1 || a.TTLSeconds > LeaseMS/1000 {
		return "", nil, empty
	}
	return "issue_lease", map[string]any{"document_ref": a.Document.String(), "tool_ids": ids, "requested_ttl_seconds": a.TTLSeconds}, nil
}

func (a RevokeLease) action() (string, map[string]any, error) {
	return "revoke_lease", map[string]any{"lease_id": a.Lease.text, "reason": a.Reason.text}, need(!a.Lease.IsZero() && !a.Reason.IsZero())
}

func (a ExecuteCall) action() (string, map[string]any, error) {
	m := map[string]any{"lease_id": a.Lease.text, "request_id": a.Request.text, "tool_id": a.Tool.text, "schema_digest": a.Schemas.text,
		"arguments": canon.Text(a.Arguments.canonical)}
	if a.TimeoutSeconds != 0 {
		m["timeout_seconds"] = a.TimeoutSeconds
	}
	if !a.Catalog.IsZero() {
		m["catalog_digest"] = a.Catalog.text
	}
	return "execute_call", m, need(!a.Lease.IsZero() && !a.Request.IsZero() && !a.Tool.IsZero() && !a.Schemas.IsZero() && a.Arguments.IsObject())
}

func (a CancelCall) action() (string, map[string]any, error) {
	return "cancel_call", map[string]any{"call_id": a.Call.text, "reason": a.Reason.text}, need(!a.Call.IsZero() && !a.Reason.IsZero())
}

func (a ReconcileCall) action() (string, map[string]any, error) {
	return "reconcile_call", map[string]any{"call_id": a.Call.text}, need(!a.Call.IsZero())
}

func (a AskCall) action() (string, map[string]any, error) {
	return "get_call", map[string]any{"call_id": a.Call.text, "wait_seconds": a.WaitSeconds}, need(!a.Call.IsZero())
}

func need(ok bool) error {
	if !ok {
		return empty
	}
	return nil
}

// EncodeAction answers an action's canonical bytes.
func EncodeAction(a Action) ([]byte, error) {
	if a == nil {
		return nil, empty
	}
	name, fields, err := a.action()
	if err != nil {
		return nil, err
	}
	fields["action"] = name
	out, err := canon.Marshal(fields)
	if err == nil && len(out) > MaxFrame {
		err = large("", "is over 65,536 bytes")
	}
	return out, err
}

// RESTStatus answers the HTTP status that goes with a refusal's code.
func RESTStatus(code refusal.Code) int {
	switch code {
	case refusal.ArgumentsInvalid, refusal.ResultInvalid:
		return 422
	case refusal.InvalidRequest:
		return 400
	case refusal.Unauthenticated:
		return 401
	case refusal.PolicyDenied, refusal.AuthorityLost, refusal.LeaseExpired, refusal.LeaseRevoked, refusal.Killed, refusal.Forbidden:
		return 403
	case refusal.UnknownTool, refusal.UnknownDocument, refusal.UnknownCall:
		return 404
	case refusal.RequestConflict, refusal.StaleGeneration, refusal.CatalogStale:
		return 409
	case refusal.TooLarge:
		return 413
	case refusal.RateLimited, refusal.AttentionBudget, refusal.Busy:
		return 429
	}
	return 503 // the rest are what is unavailable; an unknown code fails closed
}

// Retryable tells whether the same request may be asked again and succeed.
func Retryable(code refusal.Code) bool {
	s := RESTStatus(code)
	return s == 429 || s == 503
}
