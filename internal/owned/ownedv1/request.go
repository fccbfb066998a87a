package ownedv1

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// HandshakeRequest trades the bootstrap token for a session.
type HandshakeRequest struct {
	Identity
	ClientNonce string `json:"client_nonce"` // 64 lower-case hex, the client's own
}

// ActionRequest asks for one action.
type ActionRequest struct {
	Identity
	RequestID  string         `json:"request_id"`  // 32 lower-case hex
	Sequence   int64          `json:"sequence"`    // >= 1, over every accepted one
	DeadlineMS int64          `json:"deadline_ms"` // Unix ms, at most 30 s ahead
	Action     string         `json:"action"`      // one of Actions
	RawParams  jsontext.Value `json:"params"`      // the action's JSON object as sent

	// Params is the decoded form of RawParams. It is nil where ParamsErr isn't:
	// ill-typed params are no fault of the envelope, and the answer is a 200
	// with the result {"error":"BROWSER_ACTION_FAILED"}.
	Params    Action `json:"-"`
	ParamsErr error  `json:"-"`
}

// CancelRequest asks that the action sent under this pair be stopped, or never
// started if it hasn't come yet.
type CancelRequest struct {
	Identity
	RequestID string `json:"request_id"`
	Sequence  int64  `json:"sequence"`
}

// DecodeHandshakeRequest reads a handshake. Its error is a *Bad: 400, or 426 for
// a sound envelope of another protocol.
func DecodeHandshakeRequest(data []byte) (HandshakeRequest, error) {
	var r HandshakeRequest
	err := decode(data, strict, append(r.members(),
		str("client_nonce", &r.ClientNonce, isHex(64)))...)
	return r, Handshake.judge(r.Identity, err)
}

// DecodeActionRequest reads an action request. Its error is a *Bad: 400 (also
// for an unknown action and for a deadline more than 30 s after now), or 426 for
// a sound envelope of another protocol. A deadline that is past is none of its
// business: see [ActionRequest.Expired].
func DecodeActionRequest(data []byte, now time.Time) (ActionRequest, error) {
	var r ActionRequest
	err := decode(data, strict, append(r.members(),
		str("request_id", &r.RequestID, isHex(32)),
		integer("sequence", &r.Sequence, 1, MaxSequence),
		integer("deadline_ms", &r.DeadlineMS, 0, now.UnixMilli()+MaxDeadlineMS),
		str("action", &r.Action, func(s string) bool { return slices.Contains(Actions, s) }),
		object("params", &r.RawParams))...)
	if err := DoAction.judge(r.Identity, err); err != nil {
		return r, err
	}
	r.Params, r.ParamsErr = DecodeParams(r.Action, r.RawParams)
	return r, nil
}

// DecodeCancelRequest reads a cancel request. Its error is a *Bad: 400, or 426
// for a sound envelope of another protocol.
func DecodeCancelRequest(data []byte) (CancelRequest, error) {
	var r CancelRequest
	err := decode(data, strict, append(r.members(),
		str("request_id", &r.RequestID, isHex(32)),
		integer("sequence", &r.Sequence, 1, MaxSequence))...)
	return r, Cancel.judge(r.Identity, err)
}

// judge keeps the order of refusals: the envelope's fault, then the protocol's.
func (v Verb) judge(id Identity, err error) error {
	if err != nil {
		return v.badRequest(err)
	}
	if id.Protocol != Protocol {
		return v.Refuse(426, "protocol", "is another protocol")
	}
	return nil
}

// Expired tells whether the deadline is reached at now: such an action is
// answered 504 and not run.
func (r ActionRequest) Expired(now time.Time) bool { return r.DeadlineMS <= now.UnixMilli() }

// Deadline is deadline_ms as a time.
func (r ActionRequest) Deadline() time.Time { return time.UnixMilli(r.DeadlineMS) }

// Encode marshals the request's body.
func (r HandshakeRequest) Encode() []byte { return Encode(r) }

// Encode marshals the request's body.
func (r ActionRequest) Encode() []byte { return Encode(r) }

// Encode marshals the request's body.
func (r CancelRequest) Encode() []byte { return Encode(r) }
