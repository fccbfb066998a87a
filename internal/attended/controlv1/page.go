package controlv1

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
	"chaperone/internal/refusal"
)

// PageFrame is a frame that the page sends: [Open], [Register], [Confirm],
// [Result] or [Cancelled]. The socket is response-only: none of them mints a
// lease or starts a call.
type PageFrame interface {
	pageFrame() (kind string, fields map[string]any, err error)
}

// Types of the frames that a page sends.
const (
	TypeOpen      = "channel.open"
	TypeRegister  = "catalog.register"
	TypeConfirm   = "control.confirm"
	TypeResult    = "control.result"
	TypeCancelled = "control.cancelled"
)

// Open is channel.open. That the page is attended, in a secure context, allowed by
// its permissions policy and visible is literally true in it, or it doesn't decode.
type Open struct {
	Nonce      Nonce // of finalize, one-use
	Route      ID
	Generation Generation
}

// Nonce is 64 lower-case hex digits that tell one tab from another.
type Nonce struct{ text string }

// ParseNonce reads one.
func ParseNonce(s string) (Nonce, error) {
	if !isHex(s, 64) {
		return Nonce{}, invalid("", "isn't 64 lower-case hex digits")
	}
	return Nonce{s}, nil
}

// String answers the digits.
func (n Nonce) String() string { return n.text }

// Register is catalog.register, exactly once after channel.open. Its digests are
// the page's claims, and those that were recomputed: a frame in which they differ
// doesn't decode.
type Register struct {
	Route      ID
	Generation Generation
	Catalog    Catalog
}

// Confirm is control.confirm. Assertion is there for the level passkey alone.
type Confirm struct {
	Call         ID
	Confirmation Digest
	Assertion    Value
}

// Result is control.result.
type Result struct {
	Call    ID
	Outcome Outcome
}

// Outcome is what a page says became of a call: [Success] or [Failure].
type Outcome interface{ outcome() }

// Success is a tool's result: at most 1,500 canonical bytes; Null where the tool
// answered nothing.
type Success struct{ Value Value }

// Failure is a tool's failure.
type Failure struct{ Code Word }

func (Success) outcome() {}
func (Failure) outcome() {}

// Cancelled is control.cancelled: the answer to control.cancel. With none
// outstanding, on a call that awaits its confirmation, and with the effect none it
// is the person's Deny.
type Cancelled struct {
	Call   ID
	Effect Effect
}

// envelope reads a frame of one type.
func envelope(data []byte, kind string, members ...member) error {
	return decode(data, MaxFrame, append([]member{exactly("protocol", Protocol), exactly("type", kind)}, members...)...)
}

// DecodePage reads a frame that a page sent. Its error is a *Bad: one with a Call
// fails that call and leaves the channel up, any other closes it.
func DecodePage(data []byte) (PageFrame, error) {
	kind, err := named(data, "type")
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeOpen:
		return decodeOpen(data)
	case TypeRegister:
		return decodeRegister(data)
	case TypeConfirm:
		return decodeConfirm(data)
	case TypeResult:
		return decodeResult(data)
	case TypeCancelled:
		return decodeCancelled(data)
	}
	return nil, invalid("type", "isn't one that a page sends")
}

func decodeOpen(data []byte) (PageFrame, error) {
	var f Open
	err := envelope(data, TypeOpen, of("open_nonce", &f.Nonce, ParseNonce), of("route_id", &f.Route, ParseID),
		generation("registration_generation", &f.Generation), yes("attended"), yes("secure_context"), yes("permissions_policy"), yes("document_visible"))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func decodeRegister(data []byte) (PageFrame, error) {
	var f Register
	var all []Tool
	var catalog, scope Digest
	err := envelope(data, TypeRegister, exactly("authority", "browser-local"), of("route_id", &f.Route, ParseID),
		generation("registration_generation", &f.Generation), of("catalog_digest", &catalog, ParseDigest),
		of("tool_scope_digest", &scope, ParseDigest), tools("tools", &all))
	if err != nil {
		return nil, err
	}
	if f.Catalog, err = NewCatalog(all); err != nil {
		return nil, err
	}
	switch {
	case f.Catalog.catalog != catalog:
		return nil, invalid("catalog_digest", "isn't the digest of the tools")
	case f.Catalog.scope != scope:
		return nil, invalid("tool_scope_digest", "isn't the digest of the tools' ids and schemas")
	}
	return f, nil
}

func decodeConfirm(data []byte) (PageFrame, error) {
	var f Confirm
	err := envelope(data, TypeConfirm, of("call_id", &f.Call, ParseID), of("confirmation_digest", &f.Confirmation, ParseDigest),
		object("assertion", &f.Assertion, MaxAssertion).or())
	if err != nil {
		return nil, err
	}
	return f, nil
}

func decodeResult(data []byte) (PageFrame, error) {
	var f Result
	var status string
	var code Word
	var hasCode bool
	value, raw := Null, jsontext.Value(nil)
	err := envelope(data, TypeResult, of("call_id", &f.Call, ParseID),
		str("status", &status, func(s string) bool { return s == string(StatusSucceeded) || s == string(StatusFailed) }),
		member{name: "result", read: func(v jsontext.Value) error { raw = v.Clone(); return nil }}.or(),
		of("error_code", &code, ParseWord).told(&hasCode))
	if err != nil {
		return nil, err
	}
	if hasCode != (status == string(StatusFailed)) {
		return nil, invalid("error_code", "is there exactly where the call failed")
	}
	if raw != nil {
		if value, err = ParseValue(raw, MaxResult); err != nil {
			bad := under("result", err)
			bad.Code, bad.Call, bad.Close = refusal.ResultInvalid, f.Call, 0
			return nil, bad
		}
	}
	if status == string(StatusFailed) {
		if value != Null {
			return nil, invalid("result", "is there though the call failed")
		}
		f.Outcome = Failure{code}
		return f, nil
	}
	f.Outcome = Success{value}
	return f, nil
}

func decodeCancelled(data []byte) (PageFrame, error) {
	var f Cancelled
	if err := envelope(data, TypeCancelled, of("call_id", &f.Call, ParseID), of("effect", &f.Effect, ParseEffect)); err != nil {
		return nil, err
	}
	return f, nil
}

func (f Open) pageFrame() (string, map[string]any, error) {
	if f.Nonce.text == "" || f.Route.IsZero() || f.Generation.IsZero() {
		return "", nil, empty
	}
	return TypeOpen, map[string]any{"open_nonce": f.Nonce.text, "route_id": f.Route.text, "registration_generation": f.Generation.n,
		"attended": true, "secure_context": true, "permissions_policy": true, "document_visible": true}, nil
}

func (f Register) pageFrame() (string, map[string]any, error) {
	if f.Route.IsZero() || f.Generation.IsZero() || f.Catalog.IsZero() {
		return "", nil, empty
	}
	all := make([]any, len(f.Catalog.tools))
	for i, t := range f.Catalog.tools {
		all[i] = t.full()
	}
	return TypeRegister, map[string]any{"authority": "browser-local", "route_id": f.Route.text, "registration_generation": f.Generation.n,
		"catalog_digest": f.Catalog.catalog.text, "tool_scope_digest": f.Catalog.scope.text, "tools": all}, nil
}

func (f Confirm) pageFrame() (string, map[string]any, error) {
	if f.Call.IsZero() || f.Confirmation.IsZero() {
		return "", nil, empty
	}
	m := map[string]any{"call_id": f.Call.text, "confirmation_digest": f.Confirmation.text}
	if !f.Assertion.IsZero() {
		if !f.Assertion.IsObject() || len(f.Assertion.canonical) > MaxAssertion {
			return "", nil, invalid("assertion", "isn't an object within its limit")
		}
		m["assertion"] = canon.Text(f.Assertion.canonical)
	}
	return TypeConfirm, m, nil
}

func (f Result) pageFrame() (string, map[string]any, error) {
	if f.Call.IsZero() {
		return "", nil, empty
	}
	m := map[string]any{"call_id": f.Call.text}
	switch o := f.Outcome.(type) {
	case Success:
		if o.Value.IsZero() || len(o.Value.canonical) > MaxResult {
			return "", nil, invalid("result", "is missing or over 1,500 bytes")
		}
		m["status"], m["result"] = string(StatusSucceeded), canon.Text(o.Value.canonical)
	case Failure:
		if o.Code.IsZero() {
			return "", nil, empty
		}
		m["status"], m["error_code"] = string(StatusFailed), o.Code.text
	default:
		return "", nil, empty
	}
	return TypeResult, m, nil
}

func (f Cancelled) pageFrame() (string, map[string]any, error) {
	if _, err := ParseEffect(string(f.Effect)); err != nil || f.Call.IsZero() {
		return "", nil, empty
	}
	return TypeCancelled, map[string]any{"call_id": f.Call.text, "effect": string(f.Effect)}, nil
}

// empty is the refusal to send a frame with a zero element.
var empty = invalid("", "the frame lacks a field")

// EncodePage answers a frame's canonical bytes.
func EncodePage(f PageFrame) ([]byte, error) {
	if f == nil {
		return nil, empty
	}
	kind, fields, err := f.pageFrame()
	return seal(kind, fields, err)
}

// seal adds the two fields of every frame and holds it to its limit.
func seal(kind string, fields map[string]any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	fields["protocol"], fields["type"] = Protocol, kind
	out, err := canon.Marshal(fields)
	switch {
	case err != nil:
		return nil, under("", err)
	case len(out) > MaxFrame:
		return nil, large("", "is over 65,536 bytes")
	}
	return out, nil
}

// OfCall tells whether err is one call's fault, and whose.
func OfCall(err error) (ID, bool) {
	var b *Bad
	if errors.As(err, &b) && !b.Call.IsZero() {
		return b.Call, true
	}
	return ID{}, false
}
