package credential

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// maxPasskeys bounds how many a person has.
const maxPasskeys = 20

// Passkey is one of a person's, as they may see it.
type Passkey struct {
	ID, Name string
	Created  time.Time
	Used     time.Time // zero before its first use
	Synced   bool      // the authenticator may copy it to other devices
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

// key is how a credential id stands in the database.
func key(credential []byte) string { return base64.RawURLEncoding.EncodeToString(credential) }

// held is a passkey with what the library needs of it.
type held struct {
	Passkey
	person string
	webauthn.Credential
}

func (b *Book) holds(tx *tx, credential []byte) (bool, error) {
	var n int64
	err := tx.QueryRow(`select count(*) from passkey where credential=$1`, key(credential)).Scan(&n)
	return n > 0, err
}

// passkeys answers those that a condition names.
func (b *Book) passkeys(tx *tx, where string, value string) ([]held, error) {
	rows, err := tx.Query(`select id, person, name, body, counter, created_ms, used_ms from passkey where `+where+` order by created_ms, id`, value)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []held
	for rows.Next() {
		var h held
		var body string
		var counter, created, used int64
		if err := rows.Scan(&h.Passkey.ID, &h.person, &h.Name, &body, &counter, &created, &used); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(body), &h.Credential); err != nil {
			return nil, fmt.Errorf("a passkey doesn't decode: %w", refusal.Tampered)
		}
		h.Authenticator.SignCount = uint32(counter)
		h.Created, h.Synced = time.UnixMilli(created), h.Flags.BackupEligible
		if used > 0 {
			h.Used = time.UnixMilli(used)
		}
		all = append(all, h)
	}
	return all, rows.Err()
}

// insertPasskey writes a new passkey. An attestation isn't asked for and isn't
// kept: it would tell which device a person has.
func (b *Book) insertPasskey(tx *tx, person, name string, c webauthn.Credential) (Passkey, error) {
	c.Attestation = webauthn.CredentialAttestation{}
	if name == "" {
		name = "Passkey"
	}
	body, err := json.Marshal(c)
	if err != nil {
		return Passkey{}, err
	}
	p := Passkey{ID: NewSecret()[:32], Name: name, Created: time.Now(), Synced: c.Flags.BackupEligible}
	_, err = tx.Exec(`insert into passkey (id, person, credential, name, body, counter, created_ms, used_ms) values ($1,$2,$3,$4,$5,$6,$7,0)`,
		p.ID, person, key(c.ID), name, string(body), int64(c.Authenticator.SignCount), p.Created.UnixMilli())
	return p, err
}

// Passkeys answers a person's, the oldest first; none for somebody of another
// provider who has never added one.
func (b *Book) Passkeys(ctx context.Context, person string) ([]Passkey, error) {
	var out []Passkey
	err := b.db.View(ctx, func(tx *tx) error {
		if _, err := b.person(tx, `id=$1`, person); err != nil && !Foreign(person) {
			return err
		}
		all, err := b.passkeys(tx, `person=$1`, person)
		for _, h := range all {
			out = append(out, h.Passkey)
		}
		return err
	})
	return out, err
}

// BeginPasskey answers the options of navigator.credentials.create for one more
// passkey of somebody who is signed in and has just stepped up. Nobody is written
// before it is answered.
func (b *Book) BeginPasskey(ctx context.Context, who Who) ([]byte, error) {
	var u user
	err := b.db.View(ctx, func(tx *tx) (err error) {
		u, err = b.owner(tx, who)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.beginCreate(ctx, u, forAdd, who.ID)
}

// user reads a person who isn't disabled, with their passkeys.
func (b *Book) user(tx *tx, person string) (u user, err error) {
	if u.Person, err = b.enabled(tx, person); err != nil {
		return u, err
	}
	all, err := b.passkeys(tx, `person=$1`, person)
	for _, h := range all {
		u.passkeys = append(u.passkeys, h.Credential)
	}
	return u, err
}

// FinishPasskey takes the authenticator's answer to BeginPasskey. With their first
// passkey somebody of another provider exists here; a crash before the commit
// leaves neither, and the challenge is good still.
func (b *Book) FinishPasskey(ctx context.Context, who Who, name string, response []byte) (p Passkey, err error) {
	if name, err = Name(name); err != nil {
		return Passkey{}, err
	}
	parsed, err := parseCreation(response)
	if err != nil {
		return Passkey{}, err
	}
	err = b.judged(ctx, func(tx *tx) (refused, err error) {
		session, ok, err := b.spend(tx, parsed.Response.CollectedClientData.Challenge, forAdd, who.ID)
		if err != nil || !ok {
			return denied(), err
		}
		u, err := b.owner(tx, who)
		if err != nil {
			return nil, err
		}
		if len(u.passkeys) >= maxPasskeys {
			return fmt.Errorf("a person has at most %d passkeys: %w", maxPasskeys, refusal.TooMany), nil
		}
		made, err := b.rp.CreateCredential(u, session, parsed)
		if err != nil {
			return denied(), nil
		}
		if known, err := b.holds(tx, made.ID); err != nil || known {
			return denied(), err
		}
		kind := "passkey_added"
		if u.State == "" {
			kind = "enrolled"
			if err := b.admit(tx, u.Person); err != nil {
				return nil, err
			}
		}
		if p, err = b.insertPasskey(tx, who.ID, name, *made); err != nil {
			return nil, err
		}
		return nil, b.audit(tx, kind, who.ID, who.ID, "", audit.ID("passkey", p.ID))
	})
	return p, err
}

// RemovePasskey removes one. The last stays: without it nobody could step up
// again, and a row that went with its last passkey would come back undisabled with
// the next. [refusal.Unknown] where it isn't that person's.
func (b *Book) RemovePasskey(ctx context.Context, person, id string) error {
	return b.db.Update(ctx, func(tx *tx) error {
		all, err := b.passkeys(tx, `person=$1`, person)
		if err != nil {
			return err
		}
		rows, err := tx.Exec(`delete from passkey where id=$1 and person=$2`, id, person)
		switch {
		case err != nil:
			return err
		case rows != 1:
			return fmt.Errorf("no such passkey: %w", refusal.Unknown)
		case len(all) == 1:
			return fmt.Errorf("the last passkey stays: %w", refusal.Conflict)
		}
		return b.audit(tx, "passkey_removed", person, person, "", audit.ID("passkey", id))
	})
}
