package credential

import (
	"context"
	"encoding/base64"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// ConfirmKeys answers with which passkeys a person can confirm: the RP ID, and the
// credentials' ids in base64url. refusal.Disabled for who may not sign in.
func (b *Book) ConfirmKeys(ctx context.Context, person string) (rpID string, ids []string, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		who, err := b.person(tx, `id=$1`, person)
		if err != nil {
			return err
		}
		if who.State != Active {
			return disabled()
		}
		all, err := b.passkeys(tx, `person=$1`, person)
		ids = nil
		for _, h := range all {
			ids = append(ids, base64.RawURLEncoding.EncodeToString(h.Credential.ID))
		}
		return err
	})
	return b.rp.Config.RPID, ids, err
}

// Confirm judges an assertion with user verification over a challenge that the caller
// computed from what is confirmed (spec/attended-control.md, section 6). The passkey
// must be that person's, and its counter moves on. It doesn't spend the challenge:
// what it confirms is claimed once. refusal.BadCredential otherwise, told in the
// audit.
func (b *Book) Confirm(ctx context.Context, person string, challenge, assertion []byte) error {
	if err := plain(assertion); err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(assertion)
	if err != nil {
		return denied()
	}
	session := webauthn.SessionData{Challenge: base64.RawURLEncoding.EncodeToString(challenge), RelyingPartyID: b.rp.Config.RPID, UserVerification: protocol.VerificationRequired}
	return b.judged(ctx, func(tx *tx) (refused, err error) {
		who, h, err := b.verify(tx, session, parsed)
		if err != nil {
			return nil, err
		}
		switch {
		case who.ID == "" || who.ID != person || h.Authenticator.CloneWarning:
			return denied(), b.audit(tx, "refused", person, person, refusal.BadCredential, audit.Word("method", "confirmation"))
		case who.State != Active:
			return disabled(), b.audit(tx, "refused", who.ID, who.ID, refusal.Disabled, audit.Word("method", "confirmation"))
		}
		return nil, b.count(tx, h)
	})
}
