// Package oauth is the durable authority over who may act by bearer token: the
// clients, what a person was asked and answered, and every code and token that
// came of it (spec/portal-tools.md, section 3; OAuth 2.1, RFC 7591, 7009, 8252,
// 8707).
//
// It contains
//
//	oauth.go     the book, what it is made with, Find
//	state.go     the states of each record, the one table of moves, move
//	client.go    clients: registered ones, capped and expiring, and documents
//	metadata.go  what a client may say of itself; the matcher of redirect URIs
//	document.go  fetches a client-id metadata document: public addresses only
//	request.go   what a client asked: Begin, Request, Approve, Deny
//	family.go    families: how they are born, told and ended
//	code.go      Redeem, where a code becomes the first two tokens
//	token.go     Refresh, Issue for scripts, Revoke and RevokeConnection
//	scope.go     the scopes that there are
//	sweep.go     what time has ended
//	event.go     the audit's words
//	check.go     the invariants, for audit verify and for every fault test
//	history.go   holds families to what the log tells of them
//
// A family is one answer of a person: one connection, one client, and all codes
// and tokens that descend from it. It is born with the approval, so that a
// revocation between approval and redemption is a revocation like any other.
// Everything below it is dead as soon as it isn't live, without a write of its
// own: Find joins the two.
//
// A code and a refresh token are used once, by compare-and-swap. The second use
// is refused, recorded as a replay, and burns the family: of two holders of one
// secret nobody can tell which is the thief.
//
// Codes, tokens and secrets stand here as SHA-256 alone. Audit rows, in the
// transaction of the change, hold neither a token nor a URL nor a client's text
// in clear. The package holds no HTTP handler and makes no connection to an
// account: who approves names the connection that was made.
//
// Floor: durable authority.
package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// How long what is given lives. Each is bounded by its family's end as well.
const (
	AccessLife   = 10 * time.Minute
	RefreshLife  = 30 * 24 * time.Hour
	CodeLife     = time.Minute
	RequestLife  = 10 * time.Minute
	MaxLife      = 365 * 24 * time.Hour // of a family
	unusedLife   = 24 * time.Hour       // of a registration that nobody consented to
	consentLife  = 90 * 24 * time.Hour  // of one that somebody did, from the last consent
	documentLife = 10 * time.Minute     // how long a fetched document is believed
)

// Options of NewBook.
type Options struct {
	Origin     string   // the public origin, the issuer; "" where no client comes (a command)
	MaxClients int      // registered clients without consent, and unused documents; default 1,000
	Documents  *Fetcher // nil: the real network
}

// Book is a tenant's authority; safe for concurrent use, in any number of
// processes over one database.
type Book struct {
	db       *store.DB
	log      *audit.Log
	tenant   string
	resource string
	most     int
	fetch    *Fetcher
}

// NewBook answers the tenant's book. The caller closes db and log.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	b := &Book{db: db, log: log, tenant: tenant, most: opts.MaxClients, fetch: opts.Documents}
	if opts.Origin != "" {
		b.resource = opts.Origin + "/mcp"
	}
	if b.most == 0 {
		b.most = 1000
	}
	if b.fetch == nil {
		b.fetch = &Fetcher{}
	}
	return b, nil
}

// Resource answers the one resource that tokens are for, "" without an origin.
func (b *Book) Resource() string { return b.resource }

type tx = store.Tx

// Grant is what a bearer token proves.
type Grant struct {
	Principal  identity.Principal // Agent() is the client's id
	Connection string             // the account's connection that it acts through
	Client     string
	Family     string
	Scopes     []string
	Expires    time.Time // the token's, which is never past the family's
}

// Find is the one look-up of a bearer token. A token that was never given, was
// spent, or whose family is over is [refusal.Unknown]; one past its expiry is
// [refusal.Expired]. It writes nothing.
func (b *Book) Find(ctx context.Context, bearer string) (Grant, error) {
	if !wellFormed(bearer, accessPrefix) && !wellFormed(bearer, scriptPrefix) {
		return Grant{}, unknown("token")
	}
	var g Grant
	err := b.db.View(ctx, func(tx *tx) error {
		var f family
		var state State
		var expires int64
		known, err := tx.One(`select t.state, t.expires_ms, t.scopes, f.id, f.state, f.client, f.actor, f.roles, f.connection, f.resource, f.ends_ms
			from oauth_token t join oauth_family f on f.id=t.family
			where t.hash=$1 and t.tenant=$2 and t.kind in ('access','script')`, []any{digest(bearer), b.tenant},
			&state, &expires, &f.scopes, &f.id, &f.state, &f.client, &f.actor, &f.roles, &f.connection, &f.resource, &f.ends)
		switch {
		case err != nil:
			return err
		case !known, state != Live, f.state != Live, f.resource != "" && f.resource != b.resource:
			return unknown("token")
		case time.Now().UnixMilli() >= min(expires, f.ends):
			return fmt.Errorf("token: %w", refusal.Expired)
		}
		g, err = b.grant(f, min(expires, f.ends))
		return err
	})
	return g, err
}

// grant makes the principal of a family's token.
func (b *Book) grant(f family, expires int64) (Grant, error) {
	roles, err := readList(f.roles)
	if err != nil {
		return Grant{}, err
	}
	scopes := strings.Fields(f.scopes)
	p, err := identity.New(identity.Claims{Tenant: b.tenant, Actor: f.actor, Roles: roles, Scopes: scopes, Agent: f.client})
	return Grant{p, f.connection, f.client, f.id, scopes, time.UnixMilli(expires)}, err
}

// Prefixes tell people and scanners what a leaked secret is.
const (
	accessPrefix  = "chap_at_"
	refreshPrefix = "chap_rt_"
	scriptPrefix  = "chap_pat_"
	codePrefix    = "chap_ac_"
	clientPrefix  = "client_"
	scriptClient  = "script_"
)

// secret mints 256 random bits behind a prefix.
func secret(prefix string) string {
	var b [32]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return prefix + hex.EncodeToString(b[:])
}

// handle mints 128 random bits: an id that is no secret.
func handle(prefix string) string { return secret(prefix)[:len(prefix)+32] }

// digest is how a secret is stored. A plain SHA-256 is enough for 256 random bits.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// wellFormed tells a secret of ours by its form, before the database is asked.
func wellFormed(text, prefix string) bool {
	rest, ok := strings.CutPrefix(text, prefix)
	return ok && len(rest) == 64 && strings.Trim(rest, "0123456789abcdef") == ""
}

// WellFormed tells whether text has the form of a bearer token of ours.
func WellFormed(text string) bool {
	return wellFormed(text, accessPrefix) || wellFormed(text, scriptPrefix)
}

func unknown(what string) error { return fmt.Errorf("no such %s: %w", what, refusal.Unknown) }
