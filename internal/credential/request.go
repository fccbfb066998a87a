package credential

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// How long a request waits for a person, and its code for its exchange.
const (
	RequestLife = 10 * time.Minute
	CodeLife    = time.Minute
)

// Request is an authorization request as a client made it.
type Request struct {
	Client    string   `json:"client"`
	Redirect  string   `json:"redirect"`
	Scopes    []string `json:"scopes"`
	State     string   `json:"state"`
	Nonce     string   `json:"nonce"`
	Challenge string   `json:"challenge"` // PKCE, S256
	ACR       []string `json:"acr"`       // demanded levels; none: any
}

// Pending is a request and what has come of it.
type Pending struct {
	Request
	ID       string
	Step     State
	Person   string // "" while it waits
	Level    string // at which they proved themselves
	AuthTime time.Time
}

// BeginRequest keeps a request of a browser and answers its id, which is no
// secret: nobody can answer or fetch it without that browser's own secret.
func (b *Book) BeginRequest(ctx context.Context, browser string, r Request) (string, error) {
	if len(browser) != 64 {
		return "", fmt.Errorf("a request without its browser: %w", refusal.BadState)
	}
	b.sweepNow(ctx)
	id := NewSecret()[:32]
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	err = b.db.Update(ctx, func(tx *tx) error {
		now := time.Now().UnixMilli()
		_, err := tx.Exec(`insert into idp_request (id, tenant, browser_hash, sealed, state, code_hash, person, acr, auth_ms, created_ms, moved_ms)
			values ($1,$2,$3,$4,$5,'','','',0,$6,$6)`, id, b.tenant, hash(browser), b.seal("request", id, string(body)), string(Waiting), now)
		return err
	})
	return id, err
}

// Request answers a request to the browser that began it, while it isn't too
// old; to anybody else it is [refusal.BadState].
func (b *Book) Request(ctx context.Context, id, browser string) (p Pending, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		p, err = b.request(tx, `id=$1 and browser_hash=$2`, id, hash(browser))
		return err
	})
	return p, err
}

// pending answers a request that still waits for its person.
func (b *Book) pending(tx *tx, id, browser string) (Pending, error) {
	p, err := b.request(tx, `id=$1 and browser_hash=$2`, id, hash(browser))
	if err == nil && p.Step != Waiting {
		err = fmt.Errorf("this request was answered before: %w", refusal.Replayed)
	}
	return p, err
}

// request reads one request; where takes two values.
func (b *Book) request(tx *tx, where, one, two string) (p Pending, err error) {
	var sealed string
	var auth, created int64
	err = tx.QueryRow(`select id, sealed, state, person, acr, auth_ms, created_ms from idp_request where `+where+` and tenant=$3`,
		one, two, b.tenant).Scan(&p.ID, &sealed, &p.Step, &p.Person, &p.Level, &auth, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("no such request: %w", refusal.BadState)
	}
	if err != nil {
		return p, err
	}
	if !time.Now().Before(time.UnixMilli(created).Add(RequestLife)) {
		return p, fmt.Errorf("this request took too long: %w", refusal.Expired)
	}
	if auth > 0 {
		p.AuthTime = time.UnixMilli(auth)
	}
	body, err := b.open("request", p.ID, sealed)
	if err == nil {
		err = json.Unmarshal([]byte(body), &p.Request)
	}
	return p, err
}

// answer gives a waiting request its person.
func (b *Book) answer(tx *tx, id, person, level string) error {
	won, err := move(tx, "idp_request", id, Waiting, Answered)
	if err != nil {
		return err
	}
	if !won {
		return fmt.Errorf("this request was answered before: %w", refusal.Replayed)
	}
	now := time.Now().UnixMilli()
	if _, err := tx.Exec(`update idp_request set person=$1, acr=$2, auth_ms=$3, moved_ms=$3 where id=$4`, person, level, now, id); err != nil {
		return err
	}
	return b.audit(tx, "signed_in", person, person, "", audit.Word("acr", level), audit.ID("request", id))
}

// GiveCode hands out an answered request's one code, to its own browser.
func (b *Book) GiveCode(ctx context.Context, id, browser, code string) error {
	return b.db.Update(ctx, func(tx *tx) error {
		if _, err := b.request(tx, `id=$1 and browser_hash=$2`, id, hash(browser)); err != nil {
			return err
		}
		won, err := move(tx, "idp_request", id, Answered, Coded)
		if err == nil && !won {
			err = fmt.Errorf("this request's code was handed out before: %w", refusal.Replayed)
		}
		if err == nil {
			_, err = tx.Exec(`update idp_request set code_hash=$1, moved_ms=$2 where id=$3`, hash(code), time.Now().UnixMilli(), id)
		}
		return err
	})
}

// ClaimCode exchanges a code: the first of any number of callers wins. A code
// that is shown again is [refusal.Replayed], is told in the audit, and revokes
// what it was exchanged for. The person is looked at again.
func (b *Book) ClaimCode(ctx context.Context, code string) (p Pending, err error) {
	err = b.judged(ctx, func(tx *tx) (refused, err error) {
		if p, err = b.request(tx, `code_hash=$1 and code_hash<>$2`, hash(code), ""); err != nil {
			return nil, err
		}
		var given int64
		if err := tx.QueryRow(`select moved_ms from idp_request where id=$1`, p.ID).Scan(&given); err != nil {
			return nil, err
		}
		won, err := move(tx, "idp_request", p.ID, Coded, Spent)
		switch {
		case err != nil:
			return nil, err
		case !won:
			return fmt.Errorf("this code was used before: %w", refusal.Replayed), b.replay(tx, p)
		case !time.Now().Before(time.UnixMilli(given).Add(CodeLife)):
			return fmt.Errorf("this code is too old: %w", refusal.Expired), nil
		}
		_, err = b.active(tx, p.Person)
		if errors.Is(err, refusal.Disabled) {
			return err, nil
		}
		return nil, err
	})
	return p, err
}

// replay revokes what a code was exchanged for (RFC 6749, section 4.1.2), and
// tells of it once.
func (b *Book) replay(tx *tx, p Pending) error {
	first, err := move(tx, "idp_request", p.ID, Spent, Replayed)
	if err != nil || !first {
		return err
	}
	if err := b.revoke(tx, `request=$1`, p.ID); err != nil {
		return err
	}
	return b.audit(tx, "code_replayed", p.Person, p.Person, refusal.Replayed, audit.ID("request", p.ID))
}
