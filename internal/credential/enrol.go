package credential

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
)

// EnrolmentTime is how long a link is good.
const EnrolmentTime = 15 * time.Minute

// link is what a link stands for while it is good.
type link struct {
	name   string // suggested, or the person's own
	person string // "" for somebody new
}

// Enrolment makes a link's secret for somebody new; name is what the page
// suggests, or "". It is good once. The secret is told here and never again.
func (b *Book) Enrolment(ctx context.Context, name string) (secret string, err error) {
	if name != "" {
		if name, err = Name(name); err != nil {
			return "", err
		}
	}
	return b.link(ctx, "", link{name: name})
}

// EnrolmentFor makes a link's secret for somebody who has lost their passkeys:
// it adds one, and draws new recovery codes. by is who made it. Who holds the
// link becomes that person, so it is for the operator to hand out.
func (b *Book) EnrolmentFor(ctx context.Context, by, person string) (secret string, err error) {
	return b.link(ctx, by, link{person: person})
}

func (b *Book) link(ctx context.Context, by string, l link) (string, error) {
	secret := NewSecret()
	err := b.db.Update(ctx, func(tx *tx) error {
		if l.person != "" {
			p, err := b.active(tx, l.person)
			if err != nil {
				return err
			}
			l.name = p.Name
		}
		now := time.Now()
		_, err := tx.Exec(`insert into enrolment (secret_hash, tenant, name, person, state, created_ms, until_ms) values ($1,$2,$3,$4,$5,$6,$7)`,
			hash(secret), b.tenant, l.name, l.person, string(Unused), now.UnixMilli(), now.Add(EnrolmentTime).UnixMilli())
		if err != nil {
			return err
		}
		return b.audit(tx, "invited", by, l.person, "", count("minutes", int64(EnrolmentTime/time.Minute)))
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// invited answers what a link that is still good stands for.
func (b *Book) invited(tx *tx, secret string) (l link, ok bool, err error) {
	var until int64
	err = tx.QueryRow(`select name, person, until_ms from enrolment where secret_hash=$1 and tenant=$2 and state=$3`,
		hash(secret), b.tenant, string(Unused)).Scan(&l.name, &l.person, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return link{}, false, nil
	}
	return l, err == nil && time.Now().UnixMilli() < until, err
}

// Invited answers the name that a link suggests. A link that was used, is too
// old or was never made is [refusal.BadCredential].
func (b *Book) Invited(ctx context.Context, secret string) (name string, err error) {
	l, err := b.linked(ctx, secret)
	return l.name, err
}

func (b *Book) linked(ctx context.Context, secret string) (l link, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		var ok bool
		if l, ok, err = b.invited(tx, secret); err == nil && !ok {
			err = denied()
		}
		return err
	})
	return l, err
}

// BeginEnrol answers the options of navigator.credentials.create for somebody
// who opened a link. It doesn't use the link up.
func (b *Book) BeginEnrol(ctx context.Context, secret, name string) (options []byte, err error) {
	if name, err = Name(name); err != nil {
		return nil, err
	}
	l, err := b.linked(ctx, secret)
	if err != nil {
		return nil, err
	}
	u := user{Person: Person{Name: name, handle: NewSecret()}}
	if l.person != "" {
		if err := b.db.View(ctx, func(tx *tx) (err error) { u, err = b.user(tx, l.person); return err }); err != nil {
			return nil, err
		}
	}
	// The handle of somebody new is drawn now, since the authenticator keeps it; it
	// travels in the challenge's row.
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
		l, ok, err := b.invited(tx, secret)
		if err != nil || !ok {
			return denied(), err
		}
		u := user{Person: Person{Name: name, handle: hexOf(session.UserID)}}
		if l.person != "" {
			if u, err = b.user(tx, l.person); err != nil {
				return nil, err
			}
		}
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
		p, codes, err = b.join(tx, u.Person, hash(secret), *made)
		return nil, err
	})
	if err != nil {
		return Person{}, nil, err
	}
	return p, codes, nil
}

// join writes somebody new, or somebody known with one more passkey, and draws
// their recovery codes.
func (b *Book) join(tx *tx, p Person, link string, made webauthn.Credential) (_ Person, codes []string, err error) {
	kind := "passkey_added"
	if p.ID == "" {
		kind = "enrolled"
		if p, err = b.insertPerson(tx, p.Name, p.handle); err != nil {
			return Person{}, nil, err
		}
		if _, err := tx.Exec(`update enrolment set person=$1 where secret_hash=$2`, p.ID, link); err != nil {
			return Person{}, nil, err
		}
	}
	key, err := b.insertPasskey(tx, p.ID, "", made)
	if err != nil {
		return Person{}, nil, err
	}
	if codes, err = b.renewCodes(tx, p.ID); err != nil {
		return Person{}, nil, err
	}
	return p, codes, b.audit(tx, kind, p.ID, p.ID, "", audit.ID("passkey", key.ID), count("codes", len(codes)))
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
