package credential

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// The levels at which the built-in provider's people prove themselves.
const (
	Passkeyed = "urn:chaperone:passkey"  // a passkey with user verification
	Recovered = "urn:chaperone:recovery" // a recovery code; never a step-up
)

// BeginLogin answers the options of navigator.credentials.get for a waiting
// request of this browser. Whoever holds one of our passkeys may answer it.
func (b *Book) BeginLogin(ctx context.Context, request, browser string) ([]byte, error) {
	if _, err := b.Request(ctx, request, browser); err != nil {
		return nil, err
	}
	assertion, session, err := b.rp.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, err
	}
	if err := b.keep(ctx, forLogin, request, session); err != nil {
		return nil, err
	}
	return json.Marshal(assertion)
}

// FinishLogin takes the authenticator's answer and answers the request with that
// person. Another challenge, origin or RP ID, no user verification, a counter
// that went back, a person who may not sign in: [refusal.BadCredential] (or
// [refusal.Disabled]), and the challenge is spent.
func (b *Book) FinishLogin(ctx context.Context, request, browser string, response []byte) error {
	if err := plain(response); err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		return denied()
	}
	return b.judged(ctx, func(tx *tx) (refused, err error) {
		session, ok, err := b.spend(tx, parsed.Response.CollectedClientData.Challenge, forLogin, request)
		if err != nil || !ok {
			return denied(), err
		}
		pending, err := b.pending(tx, request, browser)
		if err != nil {
			return nil, err
		}
		who, h, err := b.verify(tx, session, parsed)
		if err != nil {
			return nil, err
		}
		switch {
		case who.ID == "":
			return denied(), nil
		case Foreign(who.ID):
			// Theirs confirm, and sign nobody in, whichever provider there is by now.
			return denied(), b.audit(tx, "refused", who.ID, who.ID, refusal.BadCredential, audit.Word("method", "passkey"), audit.ID("passkey", h.Passkey.ID))
		case h.Authenticator.CloneWarning:
			// Two copies of one private key are about; it isn't ours to tell which is whose.
			return denied(), b.audit(tx, "refused", who.ID, who.ID, refusal.BadCredential, audit.Word("method", "passkey"), audit.ID("passkey", h.Passkey.ID))
		case who.State != Active:
			return disabled(), b.audit(tx, "refused", who.ID, who.ID, refusal.Disabled, audit.Word("method", "passkey"))
		case !accepts(pending.ACR, Passkeyed):
			return lower(), nil
		}
		if err := b.count(tx, h); err != nil {
			return nil, err
		}
		return nil, b.answer(tx, request, who.ID, Passkeyed)
	})
}

// verify judges an assertion. It answers nobody for one that isn't accepted.
func (b *Book) verify(tx *tx, session webauthn.SessionData, parsed *protocol.ParsedCredentialAssertionData) (Person, held, error) {
	var who Person
	var h held
	var fault error
	find := func(raw, handle []byte) (webauthn.User, error) {
		all, err := b.passkeys(tx, `credential=$1`, key(raw))
		if err == nil && len(all) == 1 {
			h = all[0]
			who, err = b.person(tx, `id=$1`, h.person)
		}
		if err != nil && !errors.Is(err, refusal.Unknown) {
			fault = err
		}
		if err != nil || len(all) != 1 || who.handle != hexOf(handle) {
			return nil, denied()
		}
		return user{Person: who, passkeys: []webauthn.Credential{h.Credential}}, nil
	}
	session.UserVerification = protocol.VerificationRequired
	_, made, err := b.rp.ValidatePasskeyLogin(find, session, parsed)
	if err != nil {
		return Person{}, held{}, fault
	}
	h.Credential = *made
	return who, h, nil
}

// count moves a passkey's counter on, from what was read.
func (b *Book) count(tx *tx, h held) error {
	h.Attestation = webauthn.CredentialAttestation{}
	body, err := json.Marshal(h.Credential)
	if err != nil {
		return err
	}
	rows, err := tx.Exec(`update passkey set body=$1, counter=$2, used_ms=$3 where id=$4 and counter<=$2`,
		string(body), int64(h.Authenticator.SignCount), time.Now().UnixMilli(), h.Passkey.ID)
	if err == nil && rows != 1 {
		err = denied()
	}
	return err
}

// Recover answers the request with the person whose unused recovery code it is,
// at the lower level. Where the request demands a level, it is refused.
func (b *Book) Recover(ctx context.Context, request, browser, code string) error {
	drawn := normal(code)
	if drawn == "" {
		return denied()
	}
	return b.judged(ctx, func(tx *tx) (refused, err error) {
		pending, err := b.pending(tx, request, browser)
		if err != nil {
			return nil, err
		}
		if !accepts(pending.ACR, Recovered) {
			return lower(), nil
		}
		h := hash(b.tenant + "\x00" + drawn)
		var person string
		err = tx.QueryRow(`select person from recovery_code where code_hash=$1 and state=$2`, h, string(Unused)).Scan(&person)
		if errors.Is(err, sql.ErrNoRows) {
			return denied(), nil
		}
		if err != nil {
			return nil, err
		}
		who, err := b.person(tx, `id=$1`, person)
		if err != nil {
			return nil, err
		}
		if Foreign(who.ID) {
			return denied(), b.audit(tx, "refused", who.ID, who.ID, refusal.BadCredential, audit.Word("method", "recovery"))
		}
		if who.State != Active {
			return disabled(), b.audit(tx, "refused", who.ID, who.ID, refusal.Disabled, audit.Word("method", "recovery"))
		}
		if won, err := move(tx, "recovery_code", h, Unused, Used); err != nil || !won {
			return denied(), err
		}
		if _, err := tx.Exec(`update recovery_code set used_ms=$1 where code_hash=$2`, time.Now().UnixMilli(), h); err != nil {
			return nil, err
		}
		return nil, b.answer(tx, request, who.ID, Recovered)
	})
}

// accepts tells whether a request that demands these levels takes that one.
func accepts(demanded []string, level string) bool {
	return len(demanded) == 0 || slices.Contains(demanded, level)
}

func lower() error {
	return fmt.Errorf("this request demands another level: %w", refusal.BadACR)
}

func disabled() error {
	return fmt.Errorf("this person may not sign in: %w", refusal.Disabled)
}
