package credential

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-webauthn/webauthn/protocol"

	"chaperone/internal/audit"
)

// EnrolmentTime is how long a link is good.
const EnrolmentTime = 15 * time.Minute

// Enrolment makes a link's secret for somebody new; name is what the page
// suggests, or "". It is good once. The secret is told here and never again.
func (b *Book) Enrolment(ctx context.Context, name string) (secret string, err error) {
	if name != "" {
		if name, err = Name(name); err != nil {
			return "", err
		}
	}
	secret = NewSecret()
	err = b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		_, err := tx.Exec(`insert into enrolment (secret_hash, tenant, name, person, state, created_ms, until_ms) values ($1,$2,$3,'',$4,$5,$6)`,
			hash(secret), b.tenant, name, string(Unused), now.UnixMilli(), now.Add(EnrolmentTime).UnixMilli())
		if err != nil {
			return err
		}
		return b.audit(tx, "invited", "", "", "", count("minutes", int64(EnrolmentTime/time.Minute)))
	})
	return secret, err
}

// invited answers the suggested name of a link that is still good.
func (b *Book) invited(tx *tx, secret string) (name string, ok bool, err error) {
	var until int64
	err = tx.QueryRow(`select name, until_ms from enrolment where secret_hash=$1 and tenant=$2 and state=$3`,
		hash(secret), b.tenant, string(Unused)).Scan(&name, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return name, err == nil && time.Now().UnixMilli() < until, err
}

// Invited answers the name that a link suggests. A link that was used, is too
// old or was never made is [refusal.BadCredential].
func (b *Book) Invited(ctx context.Context, secret string) (name string, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		var ok bool
		if name, ok, err = b.invited(tx, secret); err == nil && !ok {
			err = denied()
		}
		return err
	})
	return name, err
}

// BeginEnrol answers the options of navigator.credentials.create for somebody
// who opened a link. It doesn't use the link up.
func (b *Book) BeginEnrol(ctx context.Context, secret, name string) (options []byte, err error) {
	if name, err = Name(name); err != nil {
		return nil, err
	}
	if _, err := b.Invited(ctx, secret); err != nil {
		return nil, err
	}
	// The handle is drawn now, since the authenticator keeps it; it travels in the
	// challenge's row.
	u := user{Person: Person{Name: name, handle: NewSecret()}}
	return b.beginCreate(ctx, u, forEnrol, hash(secret))
}

func (b *Book) beginCreate(ctx context.Context, u user, purpose, binding string) ([]byte, error) {
	creation, session, err := b.rp.BeginRegistration(u)
	if err != nil {
		return nil, err
	}
	for _, c := range u.passkeys {
		creation.Response.CredentialExcludeList = append(creation.Response.CredentialExcludeList, c.Descriptor())
	}
	if err := b.keep(ctx, purpose, binding, session); err != nil {
		return nil, err
	}
	return json.Marshal(creation)
}

// FinishEnrol takes the authenticator's answer: the person exists from then on,
// with that passkey and ten recovery codes, which are told here and never again.
// The link is used up by the first answer that is accepted; a bad answer spends
// its challenge alone.
func (b *Book) FinishEnrol(ctx context.Context, secret, name string, response []byte) (p Person, codes []string, err error) {
	if name, err = Name(name); err != nil {
		return Person{}, nil, err
	}
	parsed, err := parseCreation(response)
	if err != nil {
		return Person{}, nil, err
	}
	err = b.judged(ctx, func(tx *tx) (refused, err error) {
		session, ok, err := b.spend(tx, parsed.Response.CollectedClientData.Challenge, forEnrol, hash(secret))
		if err != nil || !ok {
			return denied(), err
		}
		if _, ok, err = b.invited(tx, secret); err != nil || !ok {
			return denied(), err
		}
		u := user{Person: Person{Name: name, handle: hexOf(session.UserID)}}
		made, err := b.rp.CreateCredential(u, session, parsed)
		if err != nil {
			return denied(), nil
		}
		if known, err := b.holds(tx, made.ID); err != nil || known {
			return denied(), err
		}
		if won, err := move(tx, "enrolment", hash(secret), Unused, Used); err != nil || !won {
			return denied(), err
		}
		if p, err = b.insertPerson(tx, name, u.handle); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`update enrolment set person=$1 where secret_hash=$2`, p.ID, hash(secret)); err != nil {
			return nil, err
		}
		if _, err := b.insertPasskey(tx, p.ID, "", *made); err != nil {
			return nil, err
		}
		if codes, err = b.renewCodes(tx, p.ID); err != nil {
			return nil, err
		}
		return nil, b.audit(tx, "enrolled", p.ID, p.ID, "", count("codes", len(codes)), audit.Word("first", word(len(p.Roles) > 0)))
	})
	if err != nil {
		return Person{}, nil, err
	}
	return p, codes, nil
}

// parseCreation reads an authenticator's answer to create.
func parseCreation(response []byte) (*protocol.ParsedCredentialCreationData, error) {
	if err := plain(response); err != nil {
		return nil, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return nil, denied()
	}
	return parsed, nil
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
