package session

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Options of NewBook. There are none yet; the zero value is right.
type Options struct{}

// Book is where a tenant's sessions stand: one database and its audit log. Any
// number of processes may hold one over the same database.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string

	mu    sync.Mutex // over onEnd and swept; never held while the database is awaited
	onEnd []func(Session)
	swept time.Time
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string, _ Options) (*Book, error) {
	if tenant == "" {
		return nil, fmt.Errorf("sessions need a tenant: %w", refusal.BadDocument)
	}
	return &Book{db: db, log: log, tenant: tenant}, nil
}

// Tenant answers whose sessions these are.
func (b *Book) Tenant() string { return b.tenant }

// Begin signs a person in. A sign-in that the provider has logged out in the
// meantime is [refusal.SessionExpired]; facts that no principal can be made of
// are [refusal.BadDocument].
func (b *Book) Begin(ctx context.Context, f Facts) (Session, Secrets, error) {
	secrets := Secrets{Cookie: NewSecret(), Key: NewSecret()}
	now := time.Now()
	s := Session{
		ID: NewSecret()[:32], Tenant: b.tenant, Browser: ref.Mint[ref.BrowserKind](), Generation: 1, Agent: label(f.Agent), Origin: f.Origin,
		Created: now, Used: now, End: now.Add(Absolute), keyHash: hash(secrets.Key),
	}
	s.take(f, secrets.Cookie, now)
	if _, err := s.Principal(); err != nil {
		return Session{}, Secrets{}, err
	}
	err := b.db.Update(ctx, func(tx *tx) error {
		if err := b.notLoggedOut(tx, f); err != nil {
			return err
		}
		if err := b.replace(tx, f.Replaces, now); err != nil {
			return err
		}
		if err := insert(tx, s, f.Tokens, secrets.Cookie); err != nil {
			return err
		}
		return b.audit(tx, verbBegin, s, "", audit.Count("generation", s.Generation), audit.Count("at_ms", now.UnixMilli()))
	})
	if err != nil {
		return Session{}, Secrets{}, err
	}
	return s, secrets, nil
}

// replace ends the session that a browser had before a new sign-in, so that a
// cookie which somebody planted, or kept, is dead (session fixation).
func (b *Book) replace(tx *tx, cookie string, now time.Time) error {
	old, err := b.live(tx, cookie, now)
	switch {
	case err == nil:
		return b.end(tx, old, refusal.Replaced)
	case errors.Is(err, refusal.SessionExpired):
		return nil
	}
	return err
}

// take puts what a sign-in or step-up tells into s.
func (s *Session) take(f Facts, cookie string, now time.Time) {
	s.Actor, s.Name, s.Issuer, s.Subject, s.SID = f.Actor, f.Name, f.Issuer, f.Subject, f.SID
	s.ACR, s.Recovery, s.Roles, s.AccessUntil = f.ACR, f.Recovery, roles(f.Roles), f.AccessUntil
	// Milliseconds are what is kept; and a provider's clock that is ahead must not
	// make a session fresh for longer than ours would.
	s.AuthTime = f.AuthTime
	if s.AuthTime.After(now) {
		s.AuthTime = now
	}
	s.Login, s.Used, s.IdleEnd = ref.Mint[ref.LoginKind](), now, idleEnd(now, s.End)
	s.cookieHash, s.tokens = hash(cookie), f.Tokens
}

// Find is the one look-up: the session of a cookie. A cookie that is unknown,
// renewed, ended, idle or over is [refusal.SessionExpired], always alike.
func (b *Book) Find(ctx context.Context, cookie string) (Session, error) {
	for range 2 {
		var s Session
		err := b.db.View(ctx, func(tx *tx) (err error) {
			s, err = b.live(tx, cookie, time.Now())
			return err
		})
		if err != nil {
			return Session{}, err
		}
		touched, err := b.touch(ctx, &s)
		if err != nil || touched {
			return s, err
		}
		// Somebody else changed the row in between: read it again.
	}
	return Session{}, expired()
}

// Stands tells whether the session of a cookie still stands, as Find does, but is
// no use of it: what looks again for as long as a page is open, and nobody does
// anything, must not keep a session from ending idle.
func (b *Book) Stands(ctx context.Context, cookie string) error {
	return b.db.View(ctx, func(tx *tx) error {
		_, err := b.live(tx, cookie, time.Now())
		return err
	})
}

// Holds tells whether the session of a public handle still stands. It asks for no
// secret, which a step-up would have renewed meanwhile, and is no use of it either:
// it is for what was begun in that session and looks again. One that has ended is
// the code of why; one that the clock ended, or that isn't there, is
// [refusal.SessionExpired].
func (b *Book) Holds(ctx context.Context, id string) error {
	return b.db.Look(ctx, func(tx *tx) error {
		var state State
		var why refusal.Code
		var used, end int64
		err := tx.QueryRow(`select state, reason, used_ms, end_ms from session where id=$1 and tenant=$2`, id, b.tenant).Scan(&state, &why, &used, &end)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return expired()
		case err != nil:
			return err
		case state != Active:
			return fmt.Errorf("the session has ended: %w", why)
		}
		s := Session{End: time.UnixMilli(end)}
		if s.IdleEnd = idleEnd(time.UnixMilli(used), s.End); s.over(time.Now()) {
			return expired()
		}
		return nil
	})
}

// live reads the session of a cookie within a transaction.
func (b *Book) live(tx *tx, cookie string, now time.Time) (Session, error) {
	if len(cookie) != 64 {
		return Session{}, expired()
	}
	s, sealed, err := one(tx, `cookie_hash=$1 and tenant=$2 and state=$3`, hash(cookie), b.tenant, string(Active))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Session{}, expired()
	case err != nil:
		return Session{}, err
	case s.over(now):
		return Session{}, expired()
	}
	s.tokens, err = openTokens(cookie, sealed)
	return s, err
}

// touch writes a use, at most once a minute. It answers false where the row
// isn't what was read.
func (b *Book) touch(ctx context.Context, s *Session) (bool, error) {
	now := time.Now()
	if now.Sub(s.Used) < touch {
		return true, nil
	}
	var rows int64
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		rows, err = tx.Exec(`update session set used_ms=$1 where id=$2 and cookie_hash=$3 and state=$4 and used_ms=$5`,
			now.UnixMilli(), s.ID, s.cookieHash, string(Active), s.Used.UnixMilli())
		return err
	})
	if err != nil || rows == 0 {
		return false, err
	}
	s.Used = time.UnixMilli(now.UnixMilli())
	s.IdleEnd = idleEnd(s.Used, s.End)
	return true, nil
}

// CheckKey tells whether key is the session's other secret, in a time that
// doesn't depend on it; a wrong one is [refusal.SessionExpired].
func (b *Book) CheckKey(_ context.Context, s Session, key string) error {
	if len(key) != 64 || subtle.ConstantTimeCompare([]byte(hash(key)), []byte(s.keyHash)) != 1 {
		return expired()
	}
	return nil
}

// StepUp takes a fresh sign-in of the same person. The cookie is renewed and the
// old one dead; key and handle stay. Another issuer or subject than the
// session's is [refusal.OtherPerson]; a session that has ended meanwhile is
// [refusal.SessionExpired]. Its end doesn't move.
func (b *Book) StepUp(ctx context.Context, cookie string, f Facts) (Session, string, error) {
	renewed := NewSecret()
	var s Session
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		now := time.Now()
		if s, err = b.live(tx, cookie, now); err != nil {
			return err
		}
		if f.Issuer != s.Issuer || f.Subject != s.Subject || f.Actor != s.Actor {
			return fmt.Errorf("the step-up answered for somebody else: %w", refusal.OtherPerson)
		}
		if err := b.notLoggedOut(tx, f); err != nil {
			return err
		}
		old := s.cookieHash
		s.take(f, renewed, now)
		s.Generation++
		if _, err := s.Principal(); err != nil {
			return err
		}
		if err := move(tx, s.ID, verbStepUp, "", now); err != nil {
			return err
		}
		if err := rewrite(tx, s, old, renewed); err != nil {
			return err
		}
		return b.audit(tx, verbStepUp, s, "", audit.Count("generation", s.Generation), audit.Count("at_ms", now.UnixMilli()))
	})
	if err != nil {
		return Session{}, "", err
	}
	return s, renewed, nil
}

// List answers a person's sessions that stand, the latest used first.
func (b *Book) List(ctx context.Context, actor string) ([]Session, error) {
	var all []Session
	err := b.db.View(ctx, func(tx *tx) (err error) {
		all, err = b.of(tx, `tenant=$1 and actor=$2 and state=$3 order by used_ms desc, id`, b.tenant, actor, string(Active))
		return err
	})
	return all, err
}

// of reads those sessions that a condition names and the clock hasn't ended.
func (b *Book) of(tx *tx, where string, args ...any) ([]Session, error) {
	rows, err := tx.Query(`select `+columns+` from session where `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Session
	for now := time.Now(); rows.Next(); {
		s, _, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		if !s.over(now) {
			all = append(all, s)
		}
	}
	return all, rows.Err()
}

// expired is the one answer to a session that isn't there, whatever the reason.
func expired() error { return fmt.Errorf("no session: %w", refusal.SessionExpired) }

// audit tells what happened to a session. Who it is at the provider is sealed.
func (b *Book) audit(tx *tx, v verb, s Session, why refusal.Code, public ...audit.Field) error {
	return b.log.Append(tx, audit.Event{
		Tenant: b.tenant, Kind: "session." + string(v), Actor: s.Actor, Subject: s.ID, Code: why, Public: public,
		Sealed: []audit.Sealed{audit.Seal("issuer", s.Issuer), audit.Seal("acr", s.ACR)},
	})
}

// openTokens reads the sealed tokens of a row.
func openTokens(cookie, sealed string) (t Tokens, err error) {
	if sealed == "" {
		return t, nil
	}
	text, err := open(cookie, "tokens", sealed)
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}
