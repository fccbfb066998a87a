package live

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/canon"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// passkeys is with what a person can confirm by passkey, as it was read before T1.
type passkeys struct {
	rpID controlv1.RPID
	ids  []controlv1.Base64
}

// passkeyed looks before T1 whether a confirmation by passkey, where the policy asks
// for one, could be given at all: a prompt that nobody can answer isn't shown.
func (f *flight) passkeyed(ctx context.Context) error {
	if !f.tool.Class().Mutates() {
		return nil
	}
	ask := f.ask
	ask.Arguments, ask.Tainted = f.request.Arguments.Bytes(), f.tainted()
	if d := f.a.Policy.Decide(ask); !d.Allow || d.Level != policy.Passkey {
		return nil // T1 decides, and writes what it refuses
	}
	if f.a.Passkeys == nil {
		return refusal.PolicyUnavailable
	}
	rpID, ids, err := f.a.Passkeys.ConfirmKeys(ctx, f.c.actor)
	if err != nil {
		return errors.Join(refusal.PolicyUnavailable, err)
	}
	if f.keys.rpID, err = controlv1.ParseRPID(rpID); err != nil {
		return err
	}
	for _, id := range ids {
		key, err := controlv1.ParseBase64(id)
		if err != nil {
			return err
		}
		f.keys.ids = append(f.keys.ids, key)
	}
	if len(f.keys.ids) == 0 {
		return refusal.PolicyUnavailable
	}
	f.keys.ids = f.keys.ids[:min(len(f.keys.ids), controlv1.MaxKeys)]
	return nil
}

// asked is the level at which a call is to be confirmed.
func (f *flight) asked(call ledger.Call) (controlv1.Asked, error) {
	if call.Level != controlv1.Passkey {
		return controlv1.AskClick{}, nil
	}
	challenge, err := f.challenge(call)
	if err != nil {
		return nil, err
	}
	text, err := controlv1.ParseBase64(base64.RawURLEncoding.EncodeToString(challenge))
	if err != nil || len(f.keys.ids) == 0 {
		return nil, errors.Join(refusal.PolicyUnavailable, err)
	}
	return controlv1.AskPasskey{Challenge: text, RPID: f.keys.rpID, Keys: f.keys.ids}, nil
}

// challenge is bound to every field that could widen what is confirmed (section 6).
func (f *flight) challenge(call ledger.Call) ([]byte, error) {
	text, err := canon.Marshal(map[string]any{
		"decision": "confirm", "tenant": f.a.Tenant, "principal": f.c.evidence.Principal.String(), "arm": call.Arm.String(),
		"lease_id": call.Lease.String(), "document": call.Document.String(), "generation": f.c.place.Generation.Int(),
		"tool_id": call.Tool.String(), "request_digest": call.RequestDigest.String(), "expires_at_ms": call.DeadlineMS,
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("chaperone.confirm.v1\x00"), text...))
	return sum[:], nil
}

// verify judges a confirmation by the level that was asked for.
func (f *flight) verify(call ledger.Call, asked controlv1.Asked, k controlv1.Confirm) (controlv1.Level, error) {
	if k.Confirmation != call.Confirmation {
		return "", refusal.RequestConflict
	}
	if _, ok := asked.(controlv1.AskPasskey); !ok {
		if !k.Assertion.IsZero() {
			return "", refusal.InvalidRequest
		}
		return controlv1.VisibleClick, nil
	}
	challenge, err := f.challenge(call)
	if err != nil || k.Assertion.IsZero() {
		return "", errors.Join(refusal.InvalidRequest, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	return controlv1.Passkey, f.a.Passkeys.Confirm(ctx, f.c.actor, challenge, k.Assertion.Bytes())
}
