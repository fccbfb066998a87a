package ownedv1

import (
	"crypto/subtle"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
)

// HandshakeResponse opens a session.
type HandshakeResponse struct {
	Identity
	ClientNonce  string   `json:"client_nonce"`  // the request's
	SessionToken string   `json:"session_token"` // 64 lower-case hex, new
	ExpiresAtMS  int64    `json:"expires_at_ms"` // Unix ms, at most one hour ahead
	HostCommit   string   `json:"host_commit"`   // the descriptor's
	Capabilities []string `json:"capabilities"`  // exactly Capabilities, in any order
}

// ActionResponse answers an action. Result is a …Result struct's JSON, or
// {"error": CODE} of a failed action.
type ActionResponse struct {
	Identity
	RequestID string         `json:"request_id"`
	Sequence  int64          `json:"sequence"`
	Result    jsontext.Value `json:"result"`
}

// CancelResponse says that execution has stopped; it says nothing of effect.
type CancelResponse struct {
	Identity
	RequestID string `json:"request_id"`
	Sequence  int64  `json:"sequence"`
	Cancelled bool   `json:"cancelled"` // true, always
}

// DecodeHandshakeResponse reads the answer to a handshake. Every fault, the
// protocol's name included, is INCOMPATIBLE_RUNTIME.
func DecodeHandshakeResponse(data []byte) (HandshakeResponse, error) {
	var r HandshakeResponse
	err := decode(data, strict, append(r.members(),
		str("client_nonce", &r.ClientNonce, isHex(64)),
		str("session_token", &r.SessionToken, isHex(64)),
		integer("expires_at_ms", &r.ExpiresAtMS, 0, 1<<62),
		str("host_commit", &r.HostCommit, isHex(40)),
		capabilities("capabilities", &r.Capabilities))...)
	return r, badAnswer(refusal.IncompatibleRuntime, err)
}

// DecodeActionResponse reads the answer to an action; a fault is
// BROWSER_PROTOCOL_ERROR.
func DecodeActionResponse(data []byte) (ActionResponse, error) {
	var r ActionResponse
	err := decode(data, strict, append(r.members(),
		str("request_id", &r.RequestID, isHex(32)),
		integer("sequence", &r.Sequence, 1, MaxSequence),
		object("result", &r.Result))...)
	return r, badAnswer(refusal.BrowserProtocolError, err)
}

// DecodeCancelResponse reads the answer to a cancel; a fault is
// BROWSER_PROTOCOL_ERROR, and so is a cancelled that isn't true.
func DecodeCancelResponse(data []byte) (CancelResponse, error) {
	var r CancelResponse
	err := decode(data, strict, append(r.members(),
		str("request_id", &r.RequestID, isHex(32)),
		integer("sequence", &r.Sequence, 1, MaxSequence),
		boolean("cancelled", &r.Cancelled))...)
	if err == nil && !r.Cancelled {
		err = &fault{"cancelled", "isn't true"}
	}
	return r, badAnswer(refusal.BrowserProtocolError, err)
}

// capabilities reads the exact set, in any order. A host that offers more is
// as foreign as one that offers less.
func capabilities(name string, into *[]string) member {
	return member{name: name, read: func(v jsontext.Value) string {
		const other = "isn't exactly the set that the protocol asks for"
		if v.Kind() != '[' || json.Unmarshal(v, into) != nil || len(*into) != len(Capabilities) {
			return other
		}
		// Null elements decode to "", which is no capability either.
		for _, c := range Capabilities {
			if !slices.Contains(*into, c) {
				return other
			}
		}
		return ""
	}}
}

// Answers refuses a response that doesn't belong to a handshake with d under
// this nonce, or whose session is over or outlives an hour.
func (r HandshakeResponse) Answers(d Descriptor, nonce string, now time.Time) error {
	bad := func(field, why string) error {
		return &Bad{Code: refusal.IncompatibleRuntime, Field: field, Why: why}
	}
	switch ms := now.UnixMilli(); {
	case r.Identity != d.Identity:
		return bad("", "the binding is another run's")
	case subtle.ConstantTimeCompare([]byte(r.ClientNonce), []byte(nonce)) != 1:
		return bad("client_nonce", "isn't the request's")
	case r.HostCommit != d.HostCommit:
		return bad("host_commit", "isn't the descriptor's")
	case r.SessionToken == d.BootstrapToken:
		return bad("session_token", "is the bootstrap token")
	case r.ExpiresAtMS <= ms || r.ExpiresAtMS > ms+MaxSessionMS:
		return bad("expires_at_ms", "isn't within the next hour")
	}
	return nil
}

// Answers refuses a response that doesn't belong to the request.
func (r ActionResponse) Answers(q ActionRequest) error {
	return echo(r.Identity, q.Identity, r.RequestID == q.RequestID && r.Sequence == q.Sequence)
}

// Answers refuses a response that doesn't belong to the request.
func (r CancelResponse) Answers(q CancelRequest) error {
	return echo(r.Identity, q.Identity, r.RequestID == q.RequestID && r.Sequence == q.Sequence)
}

// echo judges what an answer repeats. Another identity means another runtime;
// another request means that this one's envelope is wrong (section 2, mapping).
func echo(got, want Identity, sameRequest bool) error {
	if got != want {
		return &Bad{Code: refusal.IncompatibleRuntime, Why: "the binding is another run's"}
	}
	if !sameRequest {
		return &Bad{Code: refusal.BrowserProtocolError, Why: "the answer is to another request"}
	}
	return nil
}

// Encode marshals the response's body.
func (r HandshakeResponse) Encode() []byte { return Encode(r) }

// Encode marshals the response's body.
func (r ActionResponse) Encode() []byte { return Encode(r) }

// Encode marshals the response's body.
func (r CancelResponse) Encode() []byte { return Encode(r) }
