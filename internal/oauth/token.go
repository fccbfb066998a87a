package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Renewal is a client's claim to the next two tokens.
type Renewal struct {
	Token, Client string
	Scopes        []string // nil is all that were given
	Resource      string
}

// Refresh spends a refresh token and makes the next two, once. Another client's
// token, or one of a family that is over, is [refusal.Unknown]; one past its
// expiry [refusal.Expired]; more scopes than were given [refusal.BadDocument].
// A token that was spent before is [refusal.Replayed] and burns its family.
func (b *Book) Refresh(ctx context.Context, r Renewal) (Tokens, error) {
	if !wellFormed(r.Token, refreshPrefix) {
		return Tokens{}, unknown("token")
	}
	if r.Resource != "" && r.Resource != b.resource {
		return Tokens{}, fmt.Errorf("token: %w", refusal.BadResource)
	}
	t := Tokens{Access: secret(accessPrefix), Refresh: secret(refreshPrefix)}
	var late error
	err := b.db.Update(ctx, func(tx *tx) error {
		late = nil
		hash := digest(r.Token)
		var familyID string
		var state State
		var expires int64
		known, err := tx.One(`select family, state, expires_ms from oauth_token where tenant=$1 and hash=$2 and kind='refresh'`,
			[]any{b.tenant, hash}, &familyID, &state, &expires)
		if err != nil {
			return err
		}
		if !known {
			return unknown("token")
		}
		f, err := b.family(tx, familyID)
		switch {
		case err != nil:
			return err
		case f.client != r.Client:
			return unknown("token")
		case state == Rotated:
			late = fmt.Errorf("the token was used before: %w", refusal.Replayed)
			return b.burn(tx, familyID, "refresh")
		case f.state != Live:
			return unknown("token")
		case time.Now().UnixMilli() >= min(expires, f.ends):
			return fmt.Errorf("token: %w", refusal.Expired)
		}
		scopes := f.scopes
		if r.Scopes != nil {
			if scopes = strings.Join(r.Scopes, " "); scopes == "" || !among(r.Scopes, strings.Fields(f.scopes)) {
				return fmt.Errorf("more scopes than were given: %w", refusal.BadDocument)
			}
		}
		// As with a code: a crash right after this commit costs the family.
		if err := move(tx, aToken, hash, verbRefresh); err != nil {
			return err
		}
		return b.give(tx, f, verbRefresh, scopes, &t)
	})
	if err = errors.Join(err, late); err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// Script is a token that a person makes for a program of theirs.
type Script struct {
	Client     string // of NewScript
	Actor      string
	Name       string // 1..100 bytes that can be seen
	Roles      []string
	Scopes     []string
	Connection string
	Ends       time.Time
}

// NewScript answers the id of a script that a token is to be made for.
func NewScript() string { return handle(scriptClient) }

// Issue makes a token for a script: one that isn't refreshed and lives as long as
// its family. It is answered here and nowhere again.
func (b *Book) Issue(ctx context.Context, s Script) (string, error) {
	now := time.Now()
	if !strings.HasPrefix(s.Client, scriptClient) || s.Actor == "" || s.Connection == "" || !ValidName(s.Name) || len(s.Scopes) == 0 || !within(s.Scopes, Scopes) ||
		!s.Ends.After(now) || s.Ends.After(now.Add(MaxLife)) {
		return "", fmt.Errorf("script token: %w", refusal.BadDocument)
	}
	token := secret(scriptPrefix)
	err := b.db.Update(ctx, func(tx *tx) error {
		f := family{id: handle(""), kind: "script", client: s.Client, name: s.Name, actor: s.Actor, roles: list(s.Roles),
			scopes: strings.Join(s.Scopes, " "), resource: b.resource, connection: s.Connection, ends: s.Ends.UnixMilli()}
		if err := b.found(tx, f, verbIssue, now); err != nil {
			return err
		}
		return b.mint(tx, f, token, "script", verbIssue, f.scopes, now, f.ends)
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// ValidName tells whether a script's token can be called so.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName && tool.Plain(name) && strings.TrimSpace(name) == name
}

// Revoke ends the family of a token that its client gives back (RFC 7009):
// whichever token it is, all of the family's. It answers what was ended, nil for
// a token that isn't known or whose family was over. Another client's token is
// [refusal.Conflict], with no effect.
func (b *Book) Revoke(ctx context.Context, client, token string) (*Family, error) {
	var ended *Family
	err := b.db.Update(ctx, func(tx *tx) error {
		ended = nil
		var id string
		known, err := tx.One(`select family from oauth_token where tenant=$1 and hash=$2`, []any{b.tenant, digest(token)}, &id)
		if err != nil || !known {
			return err
		}
		f, err := b.family(tx, id)
		switch {
		case err != nil:
			return err
		case f.client != client:
			return fmt.Errorf("another client's token: %w", refusal.Conflict)
		case f.state != Live:
			return nil
		}
		told := f.tell()
		ended = &told
		return b.end(tx, f, verbRevoke, refusal.Cancelled)
	})
	return ended, err
}
