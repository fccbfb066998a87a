package controlv1

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/canon"
)

// AuthorityFrame is a frame that the page gets: [Ready], [ConfirmationRequest],
// [Call] or [Cancel].
type AuthorityFrame interface {
	authorityFrame() (kind string, fields map[string]any, err error)
}

// Types of the frames that a page gets.
const (
	TypeReady  = "channel.ready"
	TypeAsk    = "control.confirmation_request"
	TypeCall   = "control.call"
	TypeCancel = "control.cancel"
)

// Ready is channel.ready: the receipt of the published registration, never the
// page's own words.
type Ready struct {
	Authority  ID
	Route      ID
	Generation Generation
	Catalog    Digest
	Scope      Digest
}

// ConfirmationRequest asks the person; the page must not execute on it.
type ConfirmationRequest struct {
	Call, Lease, Request, Tool ID
	Schemas, Binding           Digest
	Policy                     ID
	Arguments                  Value
	Confirmation               Digest
	Level                      Asked
	ExpiresMS                  int64
}

// Asked is the level that a confirmation must have: [AskClick] or [AskPasskey].
type Asked interface{ level() Level }

// AskClick asks for a visible click.
type AskClick struct{}

// AskPasskey asks for a WebAuthn assertion with user verification.
type AskPasskey struct {
	Challenge Base64 // 32 bytes
	RPID      RPID
	Keys      []Base64 // 1 to 64
}

func (AskClick) level() Level   { return VisibleClick }
func (AskPasskey) level() Level { return Passkey }

// Base64 is base64url without padding, 1 to 1,024 characters.
type Base64 struct{ text string }

// ParseBase64 reads one.
func ParseBase64(s string) (Base64, error) {
	if s == "" || len(s) > 1024 || len(s)%4 == 1 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return Base64{}, invalid("", "isn't base64url without padding")
	}
	return Base64{s}, nil
}

// String answers the characters.
func (b Base64) String() string { return b.text }

// RPID is a relying party's id: a lower-case host name.
type RPID struct{ text string }

// ParseRPID reads one.
func ParseRPID(s string) (RPID, error) {
	if s == "" || len(s) > 253 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return RPID{}, invalid("", "isn't a lower-case host name")
	}
	return RPID{s}, nil
}

// String answers the name.
func (r RPID) String() string { return r.text }

// Call is control.call.
type Call struct {
	Call, Lease, Tool ID
	Arguments         Value
	DeadlineMS        int64
	Authorization     Authorization
}

// Authorization is why a call may run: [AsRead] or [AsConfirmed].
type Authorization interface{ authorization() string }

// AsRead authorizes a read.
type AsRead struct{}

// AsConfirmed authorizes a mutation by the digest that was confirmed.
type AsConfirmed struct{ Confirmation Digest }

func (AsRead) authorization() string      { return "read" }
func (AsConfirmed) authorization() string { return "confirmed_mutation" }

// Cancel is control.cancel.
type Cancel struct {
	Call   ID
	Reason Word
}

// DecodeAuthority reads a frame that a page got. Its error is a *Bad.
func DecodeAuthority(data []byte) (AuthorityFrame, error) {
	kind, err := named(data, "type")
	if err != nil {
		return nil, err
	}
	switch kind {
	case TypeReady:
		return decodeReady(data)
	case TypeAsk:
		return decodeAsk(data)
	case TypeCall:
		return decodeCall(data)
	case TypeCancel:
		return decodeCancel(data)
	}
	return nil, invalid("type", "isn't one that a page gets")
}

func decodeReady(data []byte) (AuthorityFrame, error) {
	var f Ready
	err := envelope(data, TypeReady, of("authority", &f.Authority, ParseID), of("route_id", &f.Route, ParseID),
		generation("registration_generation", &f.Generation), of("catalog_digest", &f.Catalog, ParseDigest), of("tool_scope_digest", &f.Scope, ParseDigest))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func decodeAsk(data []byte) (AuthorityFrame, error) {
	var f ConfirmationRequest
	var level Level
	var key AskPasskey
	var hasKey bool
	err := envelope(data, TypeAsk, of("call_id", &f.Call, ParseID), of("lease_id", &f.Lease, ParseID), of("request_id", &f.Request, ParseID),
		of("tool_id", &f.Tool, ParseID), of("schema_digest", &f.Schemas, ParseDigest), of("binding_digest", &f.Binding, ParseDigest),
		of("policy_reference", &f.Policy, ParseID), object("arguments", &f.Arguments, MaxArguments), of("confirmation_digest", &f.Confirmation, ParseDigest),
		of("level", &level, ParseLevel), moment("expires_at_ms", &f.ExpiresMS), publicKey("public_key", &key).told(&hasKey))
	if err != nil {
		return nil, err
	}
	if hasKey != (level == Passkey) {
		return nil, invalid("public_key", "is there exactly for the level passkey")
	}
	f.Level = AskClick{}
	if hasKey {
		f.Level = key
	}
	return f, nil
}

func publicKey(name string, into *AskPasskey) member {
	return member{name: name, read: func(v jsontext.Value) error {
		return decode(v, MaxFrame, of("challenge", &into.Challenge, ParseBase64), of("rp_id", &into.RPID, ParseRPID),
			list("allow_credentials", 1, MaxKeys, func(v jsontext.Value) error {
				s, err := text(v)
				if err != nil {
					return err
				}
				b, err := ParseBase64(s)
				into.Keys = append(into.Keys, b)
				return err
			}), exactly("user_verification", "required"))
	}}
}

func decodeCall(data []byte) (AuthorityFrame, error) {
	var f Call
	var kind string
	var confirmation Digest
	var confirmed bool
	err := envelope(data, TypeCall, of("call_id", &f.Call, ParseID), of("lease_id", &f.Lease, ParseID), of("tool_id", &f.Tool, ParseID),
		object("arguments", &f.Arguments, MaxArguments), moment("deadline_ms", &f.DeadlineMS),
		str("authorization", &kind, func(s string) bool { return s == AsRead{}.authorization() || s == AsConfirmed{}.authorization() }),
		of("confirmation_digest", &confirmation, ParseDigest).told(&confirmed))
	if err != nil {
		return nil, err
	}
	if confirmed != (kind == AsConfirmed{}.authorization()) {
		return nil, invalid("confirmation_digest", "is there exactly for a confirmed mutation")
	}
	f.Authorization = AsRead{}
	if confirmed {
		f.Authorization = AsConfirmed{confirmation}
	}
	return f, nil
}

func decodeCancel(data []byte) (AuthorityFrame, error) {
	var f Cancel
	if err := envelope(data, TypeCancel, of("call_id", &f.Call, ParseID), of("reason", &f.Reason, ParseWord)); err != nil {
		return nil, err
	}
	return f, nil
}

func (f Ready) authorityFrame() (string, map[string]any, error) {
	if f.Authority.IsZero() || f.Route.IsZero() || f.Generation.IsZero() || f.Catalog.IsZero() || f.Scope.IsZero() {
		return "", nil, empty
	}
	return TypeReady, map[string]any{"authority": f.Authority.text, "route_id": f.Route.text, "registration_generation": f.Generation.n,
		"catalog_digest": f.Catalog.text, "tool_scope_digest": f.Scope.text}, nil
}

func (f ConfirmationRequest) authorityFrame() (string, map[string]any, error) {
	for _, id := range []ID{f.Call, f.Lease, f.Request, f.Tool, f.Policy} {
		if id.IsZero() {
			return "", nil, empty
		}
	}
	if f.Schemas.IsZero() || f.Binding.IsZero() || f.Confirmation.IsZero() || f.Level == nil || f.ExpiresMS < 1 {
		return "", nil, empty
	}
	if err := f.Arguments.arguments(f.Call); err != nil {
		return "", nil, err
	}
	m := map[string]any{"call_id": f.Call.text, "lease_id": f.Lease.text, "request_id": f.Request.text, "tool_id": f.Tool.text,
		"schema_digest": f.Schemas.text, "binding_digest": f.Binding.text, "policy_reference": f.Policy.text,
		"arguments": canon.Text(f.Arguments.canonical), "confirmation_digest": f.Confirmation.text,
		"level": string(f.Level.level()), "expires_at_ms": f.ExpiresMS}
	if key, ok := f.Level.(AskPasskey); ok {
		all := []string{}
		for _, c := range key.Keys {
			if c.text == "" {
				return "", nil, empty
			}
			all = append(all, c.text)
		}
		if key.Challenge.text == "" || key.RPID.text == "" || len(all) < 1 || len(all) > MaxKeys {
			return "", nil, empty
		}
		m["public_key"] = map[string]any{"challenge": key.Challenge.text, "rp_id": key.RPID.text, "allow_credentials": all, "user_verification": "required"}
	}
	return TypeAsk, m, nil
}

// arguments holds a call's arguments to the limit that both ends have alike.
func (v Value) arguments(call ID) error {
	if !v.IsObject() || len(v.canonical) > MaxArguments {
		bad := argumentsInvalid("aren't an object of at most 49,152 bytes")
		bad.Call = call
		return bad
	}
	return nil
}

func (f Call) authorityFrame() (string, map[string]any, error) {
	if f.Call.IsZero() || f.Lease.IsZero() || f.Tool.IsZero() || f.DeadlineMS < 1 || f.Authorization == nil {
		return "", nil, empty
	}
	if err := f.Arguments.arguments(f.Call); err != nil {
		return "", nil, err
	}
	m := map[string]any{"call_id": f.Call.text, "lease_id": f.Lease.text, "tool_id": f.Tool.text,
		"arguments": canon.Text(f.Arguments.canonical), "deadline_ms": f.DeadlineMS, "authorization": f.Authorization.authorization()}
	if a, ok := f.Authorization.(AsConfirmed); ok {
		if a.Confirmation.IsZero() {
			return "", nil, empty
		}
		m["confirmation_digest"] = a.Confirmation.text
	}
	return TypeCall, m, nil
}

func (f Cancel) authorityFrame() (string, map[string]any, error) {
	if f.Call.IsZero() || f.Reason.IsZero() {
		return "", nil, empty
	}
	return TypeCancel, map[string]any{"call_id": f.Call.text, "reason": f.Reason.text}, nil
}

// EncodeAuthority answers a frame's canonical bytes.
func EncodeAuthority(f AuthorityFrame) ([]byte, error) {
	if f == nil {
		return nil, empty
	}
	kind, fields, err := f.authorityFrame()
	return seal(kind, fields, err)
}
