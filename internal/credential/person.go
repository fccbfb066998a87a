package credential

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// RoleAdmin is the role of the first person of a tenant.
const RoleAdmin = "admin"

// Person is somebody of the built-in provider, or of another one (see [Foreign]).
type Person struct {
	ID      string // "person-" and 16 hex; the actor of all that they do
	Name    string
	Roles   []string
	State   State // Active or Disabled
	Created time.Time

	handle string // the WebAuthn user handle, hex
}

// Name checks what a person is called: 1 to 64 printable characters without
// white space around. [refusal.BadDocument] otherwise.
func Name(name string) (string, error) {
	bad := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
	if bad || name == "" || strings.TrimSpace(name) != name || utf8.RuneCountInString(name) > 64 {
		return "", fmt.Errorf("a name has 1 to 64 printable characters: %w", refusal.BadDocument)
	}
	return name, nil
}

// HasPeople tells whether anybody of the built-in provider has ever enrolled.
func (b *Book) HasPeople(ctx context.Context) (has bool, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		has, err = b.any(tx)
		return err
	})
	return has, err
}

func (b *Book) any(tx *tx) (bool, error) {
	var n int64
	err := tx.QueryRow(`select count(*) from person where tenant=$1 and not `+foreigners, b.tenant).Scan(&n)
	return n > 0, err
}

// People answers everybody of the built-in provider, the first enrolled first.
func (b *Book) People(ctx context.Context) ([]Person, error) {
	var all []Person
	err := b.db.View(ctx, func(tx *tx) error {
		rows, err := tx.Query(`select id, name, handle, roles, state, created_ms from person where tenant=$1 and not `+foreigners+` order by created_ms, id`, b.tenant)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			p, err := readPerson(rows.Scan)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, err
}

// Person answers somebody by id; [refusal.Unknown] where there is nobody.
func (b *Book) Person(ctx context.Context, id string) (p Person, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		p, err = b.person(tx, `id=$1`, id)
		return err
	})
	return p, err
}

func (b *Book) person(tx *tx, where, value string) (Person, error) {
	p, err := readPerson(tx.QueryRow(`select id, name, handle, roles, state, created_ms from person where `+where+` and tenant=$2`, value, b.tenant).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("no such person: %w", refusal.Unknown)
	}
	return p, err
}

// active answers somebody who may sign in; [refusal.Disabled] who may not, and
// [refusal.Unknown] who does that elsewhere.
func (b *Book) active(tx *tx, id string) (Person, error) {
	if Foreign(id) {
		return Person{}, fmt.Errorf("no such person: %w", refusal.Unknown)
	}
	return b.enabled(tx, id)
}

// enabled answers somebody of any provider who isn't disabled.
func (b *Book) enabled(tx *tx, id string) (Person, error) {
	p, err := b.person(tx, `id=$1`, id)
	if err == nil && p.State != Active {
		err = disabled()
	}
	return p, err
}

func readPerson(scan func(...any) error) (p Person, err error) {
	var list string
	var created int64
	err = scan(&p.ID, &p.Name, &p.handle, &list, &p.State, &created)
	p.Roles, p.Created = strings.Fields(list), time.UnixMilli(created)
	return p, err
}

// insertPerson writes somebody new, with the handle that their authenticator
// keeps; the first of a tenant is its admin.
func (b *Book) insertPerson(tx *tx, name, handle string) (Person, error) {
	others, err := b.any(tx)
	if err != nil {
		return Person{}, err
	}
	p := Person{ID: "person-" + NewSecret()[:16], Name: name, State: Active, Created: time.Now(), handle: handle}
	if !others {
		p.Roles = []string{RoleAdmin}
	}
	return p, b.writePerson(tx, p)
}

func (b *Book) writePerson(tx *tx, p Person) error {
	_, err := tx.Exec(`insert into person (id, tenant, name, handle, roles, state, created_ms) values ($1,$2,$3,$4,$5,$6,$7)`,
		p.ID, b.tenant, p.Name, p.handle, strings.Join(p.Roles, " "), string(Active), p.Created.UnixMilli())
	return err
}

// Disable bars a person: their tokens are revoked in the same transaction, and
// no request of theirs is answered from then on. Who runs sessions ends those.
// by is who did it.
func (b *Book) Disable(ctx context.Context, by, id string) error {
	return b.db.Update(ctx, func(tx *tx) error {
		if err := b.turn(tx, id, Active, Disabled); err != nil {
			return err
		}
		if err := b.revoke(tx, `person=$1`, id); err != nil {
			return err
		}
		return b.audit(tx, "disabled", by, id, refusal.Disabled)
	})
}

// Enable lets a disabled person in again.
func (b *Book) Enable(ctx context.Context, by, id string) error {
	return b.db.Update(ctx, func(tx *tx) error {
		if err := b.turn(tx, id, Disabled, Active); err != nil {
			return err
		}
		return b.audit(tx, "enabled", by, id, "")
	})
}

func (b *Book) turn(tx *tx, id string, from, to State) error {
	if _, err := b.person(tx, `id=$1`, id); err != nil {
		return err
	}
	moved, err := move(tx, "person", id, from, to)
	if err == nil && !moved {
		err = fmt.Errorf("this person isn't %s: %w", from, refusal.Conflict)
	}
	return err
}

// user is a person as the WebAuthn library wants one.
type user struct {
	Person
	passkeys []webauthn.Credential
}

func (u user) WebAuthnID() []byte {
	raw, err := hex.DecodeString(u.handle)
	if err != nil {
		return nil // no handle: the library refuses
	}
	return raw
}
func (u user) WebAuthnName() string                       { return u.Name }
func (u user) WebAuthnDisplayName() string                { return u.Name }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.passkeys }

// count is a shorthand for the audit.
func count[T ~int | ~int64](name string, n T) audit.Field { return audit.Count(name, n) }
