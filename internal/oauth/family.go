package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// family is the row of one answer of a person; see the package comment.
type family struct {
	id, kind, client, name, actor string
	roles, scopes                 string // a JSON list; words
	resource, connection          string
	state                         State
	reason                        refusal.Code
	created, ends                 int64
}

// Family is what is told of one: to the owner, and to whoever must end its
// connection with it.
type Family struct {
	ID, Connection, Actor string
	Client, Name          string
	Script                bool // made for a script, not by a client's request
	Scopes                []string
	State                 State
	Reason                refusal.Code
	Created, Ends         time.Time
}

func (f family) tell() Family {
	return Family{f.id, f.connection, f.actor, f.client, f.name, f.kind == "script", strings.Fields(f.scopes), f.state, f.reason,
		time.UnixMilli(f.created), time.UnixMilli(f.ends)}
}

// found inserts a family and tells who may do what by it.
func (b *Book) found(tx *tx, f family, v verb, now time.Time) error {
	_, err := tx.Exec(`insert into oauth_family (id, tenant, kind, client, name, actor, roles, scopes, resource, connection, state, reason,
		created_ms, ends_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,'',$12,$13,$12)`,
		f.id, b.tenant, f.kind, f.client, f.name, f.actor, f.roles, f.scopes, f.resource, f.connection, born(aFamily, v), now.UnixMilli(), f.ends)
	if err != nil {
		return err
	}
	// Engagements can be many and long: their number stands in clear, and the digest
	// holds the row to all of it.
	scopes := strings.Fields(f.scopes)
	engagements := len(Engagements(scopes))
	plain := slices.DeleteFunc(scopes, func(s string) bool { return Base(s) != s })
	return b.tell(tx, event{verb: v, actor: f.actor, subject: f.id, client: f.client, public: []audit.Field{
		audit.ID("connection", f.connection), audit.Word("scopes", strings.ReplaceAll(strings.Join(plain, "."), ":", "_")),
		audit.Count("engagements", engagements), audit.Digest("granted", digestOf(f.scopes)), audit.Count("ends_ms", f.ends),
	}})
}

const familyColumns = `id, kind, client, name, actor, roles, scopes, resource, connection, state, reason, created_ms, ends_ms`

func (f *family) into() []any {
	return []any{&f.id, &f.kind, &f.client, &f.name, &f.actor, &f.roles, &f.scopes, &f.resource, &f.connection, &f.state, &f.reason, &f.created, &f.ends}
}

// family reads a family that is known to be there.
func (b *Book) family(tx *tx, id string) (family, error) {
	var f family
	known, err := tx.One(`select `+familyColumns+` from oauth_family where tenant=$1 and id=$2`, []any{b.tenant, id}, f.into()...)
	if err == nil && !known {
		err = unknown("family")
	}
	return f, err
}

// live reads a family that can still be given tokens.
func (b *Book) live(tx *tx, id string) (family, error) {
	f, err := b.family(tx, id)
	switch {
	case err != nil:
	case f.state != Live:
		err = unknown("family that is live")
	case time.Now().UnixMilli() >= f.ends:
		err = fmt.Errorf("family: %w", refusal.Expired)
	}
	return f, err
}

// end moves a live family to its end. All of its codes and tokens are dead with
// that: each use of one reads the family.
func (b *Book) end(tx *tx, f family, v verb, why refusal.Code) error {
	if err := move(tx, aFamily, f.id, v); err != nil {
		return err
	}
	if _, err := tx.Exec(`update oauth_family set reason=$1 where id=$2`, string(why), f.id); err != nil {
		return err
	}
	return b.tell(tx, event{verb: v, actor: f.actor, subject: f.id, client: f.client, code: why,
		public: []audit.Field{audit.ID("connection", f.connection)}})
}

// families answers the families that a condition names; $1 is the tenant.
func (b *Book) families(tx *tx, which string, args ...any) ([]family, error) {
	rows, err := tx.Query(`select `+familyColumns+` from oauth_family where tenant=$1 and `+which+` order by created_ms, id`, append([]any{b.tenant}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []family
	for rows.Next() {
		var f family
		if err := rows.Scan(f.into()...); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, rows.Err()
}

// RevokeConnection ends what was given for a connection, unredeemed codes too.
// With nothing left to end it does nothing.
func (b *Book) RevokeConnection(ctx context.Context, connection string) error {
	return b.db.Update(ctx, func(tx *tx) error {
		all, err := b.families(tx, `connection=$2 and state=$3`, connection, string(Live))
		if err != nil {
			return err
		}
		for _, f := range all {
			if err := b.end(tx, f, verbRevoke, refusal.Ended); err != nil {
				return err
			}
		}
		return nil
	})
}

// Families answers what an actor has given, oldest first; with actor "" everybody.
func (b *Book) Families(ctx context.Context, actor string) ([]Family, error) {
	var told []Family
	err := b.db.View(ctx, func(tx *tx) error {
		all, err := b.families(tx, `($2='' or actor=$2)`, actor)
		for _, f := range all {
			told = append(told, f.tell())
		}
		return err
	})
	return told, err
}

// Stands tells whether a family is live and not past its end: what a stream that
// was opened by one of its tokens asks from time to time.
func (b *Book) Stands(ctx context.Context, id string) (bool, error) {
	stands := false
	err := b.db.View(ctx, func(tx *tx) error {
		f, err := b.family(tx, id)
		stands = err == nil && f.state == Live && time.Now().UnixMilli() < f.ends
		if errors.Is(err, refusal.Unknown) {
			return nil
		}
		return err
	})
	return stands, err
}
