package session

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// tombstone is how long a logout is remembered: longer than any flow that it
// could meet and any token that could be played again.
const tombstone = 24 * time.Hour

// LogoutToken is what a verified back-channel logout token tells.
type LogoutToken struct {
	Issuer, Subject, SID string // at least one of Subject and SID
	JTI                  string
	IssuedAt             time.Time
}

// Logout ends what the provider's word names: the sessions of that provider
// session, or all of the subject's where it names none. It is remembered, so a
// sign-in that is still on its way back is refused at Begin. A token that was
// taken before is [refusal.Replayed].
func (b *Book) Logout(ctx context.Context, t LogoutToken) (ended int, err error) {
	if t.Issuer == "" || t.JTI == "" || t.Subject == "" && t.SID == "" || t.IssuedAt.IsZero() {
		return 0, fmt.Errorf("a logout that names nobody: %w", refusal.BadToken)
	}
	err = b.db.Update(ctx, func(tx *tx) error {
		rows, err := tx.Exec(`insert into session_logout (tenant, issuer, jti_hash, subject, sid, issued_ms, taken_ms)
			values ($1,$2,$3,$4,$5,$6,$7) on conflict do nothing`,
			b.tenant, t.Issuer, hash(t.JTI), t.Subject, t.SID, t.IssuedAt.UnixMilli(), time.Now().UnixMilli())
		if err != nil {
			return err
		}
		if rows == 0 {
			return fmt.Errorf("this logout token was taken before: %w", refusal.Replayed)
		}
		all, err := b.named(tx, t)
		if err != nil {
			return err
		}
		ended = len(all)
		if err := b.log.Append(tx, audit.Event{
			Tenant: b.tenant, Kind: "session.logout_told", Public: []audit.Field{audit.Count("ended", ended)},
			Sealed: []audit.Sealed{audit.Seal("issuer", t.Issuer)},
		}); err != nil {
			return err
		}
		return b.each(tx, all, refusal.LoggedOut)
	})
	if err != nil {
		return 0, err
	}
	return ended, nil
}

// named answers the sessions that a logout token means. A token that names both
// means only what is both.
func (b *Book) named(tx *tx, t LogoutToken) ([]Session, error) {
	return b.of(tx, `tenant=$1 and issuer=$2 and state=$3 and ($4='' or subject=$4) and ($5='' or sid=$5)`,
		b.tenant, t.Issuer, string(Active), t.Subject, t.SID)
}

// notLoggedOut refuses a sign-in that the provider has ended meanwhile: its
// session was logged out, or the person was, at or after the moment at which
// its token was issued (in whole seconds, as tokens tell it).
func (b *Book) notLoggedOut(tx *tx, f Facts) error {
	issued := f.Issued
	if issued.IsZero() {
		issued = f.AuthTime
	}
	var dead int64
	err := tx.QueryRow(`select count(*) from session_logout where tenant=$1 and issuer=$2
		and ((sid<>'' and sid=$3 and (subject='' or subject=$4)) or (sid='' and subject=$4 and issued_ms>=$5))`,
		b.tenant, f.Issuer, f.SID, f.Subject, millis(issued.Truncate(time.Second))).Scan(&dead)
	if err == nil && dead > 0 {
		err = fmt.Errorf("the provider has logged this sign-in out: %w", refusal.SessionExpired)
	}
	return err
}
