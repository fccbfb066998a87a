package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Redemption is a client's claim to a code.
type Redemption struct {
	Code, Client, Redirect, Verifier string
	Resource                         string // "" is the one that there is
}

// Tokens are the only copy of what was given; the book keeps digests.
type Tokens struct {
	Access, Refresh string
	Scopes          []string
	Expires         time.Time // of the access token
	Connection      string
}

// Redeem makes the first two tokens of a code, once. A code past its minute is
// [refusal.Expired]; one that isn't this client's, redirect URI's or verifier's is
// [refusal.Unknown] and stays as it is. The second use is [refusal.Replayed] and
// burns what the first one gave.
func (b *Book) Redeem(ctx context.Context, r Redemption) (Tokens, error) {
	if !wellFormed(r.Code, codePrefix) {
		return Tokens{}, unknown("code")
	}
	if r.Resource != "" && r.Resource != b.resource {
		return Tokens{}, fmt.Errorf("code: %w", refusal.BadResource)
	}
	t := Tokens{Access: secret(accessPrefix), Refresh: secret(refreshPrefix)}
	var late error
	err := b.db.Update(ctx, func(tx *tx) error {
		late = nil
		var client, redirect, challenge, familyID string
		var state State
		var expires int64
		hash := digest(r.Code)
		known, err := tx.One(`select family, client, redirect, challenge, state, expires_ms from oauth_code where tenant=$1 and hash=$2`,
			[]any{b.tenant, hash}, &familyID, &client, &redirect, &challenge, &state, &expires)
		switch {
		case err != nil:
			return err
		case !known:
			return unknown("code")
		case state == Redeemed || state == Replayed:
			late = fmt.Errorf("the code was used before: %w", refusal.Replayed)
			return b.replay(tx, hash, state, familyID)
		case client != r.Client || redirect != r.Redirect || !proves(r.Verifier, challenge):
			return unknown("code")
		case state == Expired:
			return fmt.Errorf("code: %w", refusal.Expired)
		case time.Now().UnixMilli() >= expires:
			late = fmt.Errorf("code: %w", refusal.Expired)
			if err := move(tx, aCode, hash, verbExpire); err != nil {
				return err
			}
			return b.tell(tx, event{verb: verbExpire, subject: familyID, client: client, code: refusal.Expired})
		}
		// A crash right after this commit leaves tokens that nobody knows: the
		// client asks again, which burns the family, and the person connects anew.
		if err := move(tx, aCode, hash, verbRedeem); err != nil {
			return err
		}
		f, err := b.live(tx, familyID)
		if err != nil {
			return err
		}
		return b.give(tx, f, verbRedeem, f.scopes, &t)
	})
	if err = errors.Join(err, late); err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// replay records that a spent code was shown again and burns its family.
func (b *Book) replay(tx *tx, hash string, state State, familyID string) error {
	if state == Redeemed {
		if err := move(tx, aCode, hash, verbReplay); err != nil {
			return err
		}
	}
	return b.burn(tx, familyID, "code")
}

// burn ends a family of which a spent secret was shown again. It is told each
// time; only the first time ends anything.
func (b *Book) burn(tx *tx, familyID, what string) error {
	f, err := b.family(tx, familyID)
	if err != nil {
		return err
	}
	if err := b.tell(tx, event{verb: verbReplay, actor: f.actor, subject: f.id, client: f.client, code: refusal.Replayed,
		public: []audit.Field{audit.Word("secret", what)}}); err != nil {
		return err
	}
	if f.state != Live {
		return nil
	}
	return b.end(tx, f, verbBurn, refusal.Replayed)
}

// give mints an access token and a refresh token of a live family.
func (b *Book) give(tx *tx, f family, v verb, scopes string, t *Tokens) error {
	now := time.Now()
	access, refresh := min(now.Add(AccessLife).UnixMilli(), f.ends), min(now.Add(RefreshLife).UnixMilli(), f.ends)
	if err := b.mint(tx, f, t.Access, "access", v, scopes, now, access); err != nil {
		return err
	}
	if err := b.mint(tx, f, t.Refresh, "refresh", v, f.scopes, now, refresh); err != nil {
		return err
	}
	t.Scopes, t.Expires, t.Connection = strings.Fields(scopes), time.UnixMilli(access), f.connection
	return b.tell(tx, event{verb: v, actor: f.actor, subject: f.id, client: f.client, public: []audit.Field{audit.Count("expires_ms", access)}})
}

func (b *Book) mint(tx *tx, f family, token, kind string, v verb, scopes string, now time.Time, expires int64) error {
	_, err := tx.Exec(`insert into oauth_token (hash, tenant, family, kind, state, scopes, issued_ms, expires_ms, moved_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$7)`, digest(token), b.tenant, f.id, kind, born(aToken, v), scopes, now.UnixMilli(), expires)
	return err
}
