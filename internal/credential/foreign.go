package credential

import (
	"errors"
	"regexp"
	"time"

	"chaperone/internal/refusal"
)

// Who is somebody who is signed in: their actor, and what they are called.
type Who struct{ ID, Name string }

// foreigners is the condition on person that [Foreign] is on an id.
const foreigners = `id like 'user-%'`

var foreign = regexp.MustCompile(`^user-[0-9a-f]{32}$`)

// Foreign tells whether an id is that of somebody whom another provider signs in
// (package oidc derives it from issuer and subject). Such a person has passkeys to
// confirm with and no role; they are nobody's first admin, aren't listed or
// invited, have no recovery code, and none of their passkeys answers a request.
func Foreign(id string) bool { return foreign.MatchString(id) }

// owner reads whose passkey is added. Somebody of another provider who isn't there
// yet is answered without a State, and not written.
func (b *Book) owner(tx *tx, who Who) (user, error) {
	u, err := b.user(tx, who.ID)
	if !errors.Is(err, refusal.Unknown) || !Foreign(who.ID) {
		return u, err
	}
	name, err := Name(who.Name)
	if err != nil {
		name = who.ID // another provider's names can be anything
	}
	// The handle is derived, so that what is begun on one node is finished on another
	// and two first passkeys at once are one person's.
	return user{Person: Person{ID: who.ID, Name: name, handle: hexOf(b.Derive("handle " + b.tenant + "\x00" + who.ID))}}, nil
}

// admit writes them. It is called in the transaction that writes their first
// passkey, so that nobody is there without one; that the roles are none is a rule
// of [Check].
func (b *Book) admit(tx *tx, p Person) error {
	p.Created = time.Now()
	return b.writePerson(tx, p)
}
