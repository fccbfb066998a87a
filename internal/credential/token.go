package credential

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"chaperone/internal/refusal"
)

// TokenLife is how long an access token is good.
const TokenLife = time.Hour

// Token is what an access token stands for.
type Token struct {
	Request, Person, Client string
	Scopes                  []string
	ACR                     string
	AuthTime, Issued, Until time.Time
}

// IssueToken makes an access token for an exchanged request and answers its
// secret, which is told here alone.
func (b *Book) IssueToken(ctx context.Context, p Pending, scopes []string) (secret string, until time.Time, err error) {
	secret = NewSecret()
	now := time.Now()
	until = now.Add(TokenLife)
	err = b.db.Update(ctx, func(tx *tx) error {
		// A code that was replayed between its exchange and here gets nothing.
		var state State
		if err := tx.QueryRow(`select state from idp_request where id=$1 and tenant=$2`, p.ID, b.tenant).Scan(&state); err != nil {
			return err
		}
		if state != Spent {
			return fmt.Errorf("this request isn't good for a token: %w", refusal.Replayed)
		}
		if _, err := b.active(tx, p.Person); err != nil {
			return err
		}
		_, err := tx.Exec(`insert into idp_token (token_hash, tenant, request, person, client, scopes, acr, auth_ms, issued_ms, until_ms, state)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)`, hash(secret), b.tenant, p.ID, p.Person, p.Client, strings.Join(scopes, " "),
			p.Level, p.AuthTime.UnixMilli(), now.UnixMilli(), until.UnixMilli(), string(Active))
		return err
	})
	return secret, until, err
}

// Token answers what a good token stands for; [refusal.Inactive] where it is
// unknown, too old or revoked, or its person may not sign in.
func (b *Book) Token(ctx context.Context, secret string) (t Token, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		var scopes string
		var state State
		var auth, issued, until int64
		err := tx.QueryRow(`select t.request, t.person, t.client, t.scopes, t.acr, t.auth_ms, t.issued_ms, t.until_ms, p.state
			from idp_token t join person p on p.id=t.person and p.tenant=t.tenant where t.token_hash=$1 and t.tenant=$2 and t.state=$3`,
			hash(secret), b.tenant, string(Active)).Scan(&t.Request, &t.Person, &t.Client, &scopes, &t.ACR, &auth, &issued, &until, &state)
		if errors.Is(err, sql.ErrNoRows) {
			return inactive()
		}
		if err != nil {
			return err
		}
		t.Scopes = strings.Fields(scopes)
		t.AuthTime, t.Issued, t.Until = time.UnixMilli(auth), time.UnixMilli(issued), time.UnixMilli(until)
		if !time.Now().Before(t.Until) || state != Active || Foreign(t.Person) {
			return inactive()
		}
		return nil
	})
	if err != nil {
		return Token{}, err
	}
	return t, nil
}

func inactive() error { return fmt.Errorf("this token is no longer good: %w", refusal.Inactive) }

// RevokeToken revokes one; an unknown one is fine (RFC 7009).
func (b *Book) RevokeToken(ctx context.Context, secret string) error {
	return b.db.Update(ctx, func(tx *tx) error { return b.revoke(tx, `token_hash=$1`, hash(secret)) })
}

// EndRequest revokes what a sign-in was given: the person signed out.
func (b *Book) EndRequest(ctx context.Context, request string) error {
	return b.db.Update(ctx, func(tx *tx) error { return b.revoke(tx, `request=$1`, request) })
}

// revoke revokes the good tokens that a condition names.
func (b *Book) revoke(tx *tx, where, value string) error {
	all, err := tx.Texts(`select token_hash from idp_token where `+where+` and tenant=$2 and state=$3`, value, b.tenant, string(Active))
	if err != nil {
		return err
	}
	for _, h := range all {
		if _, err := move(tx, "idp_token", h, Active, Revoked); err != nil {
			return err
		}
	}
	return nil
}
