// Package credential is the durable authority of the built-in provider: its
// people, what they prove themselves with, and what the provider has promised
// to whom (spec/product.md, spec/attended-control.md section 4). Where another
// provider signs people in it keeps the passkeys with which they confirm (section
// 6), and nothing else of them.
//
// It contains
//
//	credential.go  the book and what every verb shares
//	state.go       the states of people, links, codes, requests; their tables of moves
//	person.go      who there is; disabling
//	foreign.go     people of another provider, who have passkeys alone
//	enrol.go       one-use links: a name, a first passkey, ten recovery codes
//	passkey.go     more passkeys, and fewer
//	challenge.go   WebAuthn challenges, each spent in the transaction that verifies
//	recovery.go    recovery codes
//	login.go       proving oneself for one authorization request
//	request.go     authorization requests and their one-use codes
//	token.go       access tokens, introspected and revoked
//	key.go         the provider's signing keys, sealed
//	check.go       the invariants
//
// Whatever a person can prove themselves with is used once (links, recovery
// codes, challenges) or counts forward (passkeys). A challenge is spent by the
// first answer that carries it, good or bad, in the transaction that judges it.
// Every condition of a request's start is looked at again when its code is
// exchanged: a person who was disabled meanwhile gets nothing.
//
// Secrets stand as SHA-256 alone; what must be read again (signing keys, the
// state of a request) is sealed under a key that isn't in the database.
//
// It never holds a password, never sees a private key of a person, and decides
// nobody's rights beyond their roles.
//
// Floor: durable authority.
package credential

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

type tx = store.Tx

// Options of NewBook. All are required.
type Options struct {
	// Origin is the public origin, e.g. "http://localhost:7080". Its host is the
	// passkeys' RP ID, so it is a name and no address.
	Origin string
	// Key seals what must be read again: at least 32 secret bytes, kept apart from
	// the database and the same for all nodes.
	Key []byte
}

// Book is where a tenant's people stand. Any number of processes may hold one
// over the same database.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	origin string
	key    []byte
	rp     *webauthn.WebAuthn

	mu    sync.Mutex // over swept
	swept time.Time
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	u, err := url.Parse(opts.Origin)
	if err != nil || u.Host == "" || u.Path != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("credentials need a public origin: %w", refusal.BadDocument)
	}
	if len(opts.Key) < sha256.Size {
		return nil, fmt.Errorf("credentials need a key of at least %d bytes: %w", sha256.Size, refusal.BadDocument)
	}
	if tenant == "" {
		return nil, fmt.Errorf("credentials need a tenant: %w", refusal.BadDocument)
	}
	resident := true
	rp, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "Chaperone", RPOrigins: []string{opts.Origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: &resident, ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("passkeys can't be bound to this origin: %w", refusal.BadDocument)
	}
	return &Book{db: db, log: log, tenant: tenant, origin: opts.Origin, key: append([]byte(nil), opts.Key...), rp: rp}, nil
}

// NewSecret answers 256 random bits as 64 lower hex.
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return hex.EncodeToString(b[:])
}

// hash is how a secret is stored. A plain SHA-256 is enough for the 80 random
// bits and more that each has.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Derive computes a secret of the provider's own from the key, for one purpose.
func (b *Book) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte("chaperone credential v1 " + purpose))
	return mac.Sum(nil)
}

// seal encrypts text under the key, for one purpose and one row.
func (b *Book) seal(purpose, row, text string) string {
	aead := b.cipher(purpose)
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return hex.EncodeToString(aead.Seal(nonce, nonce, []byte(text), []byte(row)))
}

// open is the reverse of seal; what was sealed elsewhere is [refusal.Tampered].
func (b *Book) open(purpose, row, sealed string) (string, error) {
	aead := b.cipher(purpose)
	data, err := hex.DecodeString(sealed)
	if n := aead.NonceSize(); err == nil && len(data) >= n {
		if data, err = aead.Open(nil, data[:n], data[n:], []byte(row)); err == nil {
			return string(data), nil
		}
	}
	return "", fmt.Errorf("a sealed row doesn't open with this key: %w", refusal.Tampered)
}

func (b *Book) cipher(purpose string) cipher.AEAD {
	block, err := aes.NewCipher(b.Derive("seal " + purpose)) // 32 bytes: no error
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// audit tells what happened to a person, by whom.
func (b *Book) audit(tx *tx, kind, actor, subject string, code refusal.Code, public ...audit.Field) error {
	return b.log.Append(tx, audit.Event{Tenant: b.tenant, Kind: "credential." + kind, Actor: actor, Subject: subject, Code: code, Public: public})
}

// judged runs fn as one transaction that commits although it refuses: fn answers
// what it refuses, beside its error. A one-use thing is spent by a bad answer too.
func (b *Book) judged(ctx context.Context, fn func(*tx) (refused, err error)) error {
	var refused error
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		refused, err = fn(tx)
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// denied is the one answer to a proof that isn't accepted, whatever was wrong
// with it.
func denied() error { return fmt.Errorf("that isn't accepted: %w", refusal.BadCredential) }

// sweepNow keeps what anybody may begin from gathering: once a minute the caller
// that comes first clears up. A failure is the next one's.
func (b *Book) sweepNow(ctx context.Context) {
	now := time.Now()
	b.mu.Lock()
	due := now.Sub(b.swept) >= time.Minute
	if due {
		b.swept = now
	}
	b.mu.Unlock()
	if due {
		_ = b.Sweep(ctx)
	}
}

// Sweep drops what nobody can use any more: challenges, links, requests and
// tokens past their time.
func (b *Book) Sweep(ctx context.Context) error {
	return b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		for _, s := range []struct {
			query string
			age   time.Duration
		}{
			{`delete from webauthn_challenge where tenant=$1 and until_ms<$2`, 0},
			{`delete from enrolment where tenant=$1 and created_ms<$2`, 24 * time.Hour},
			{`delete from idp_request where tenant=$1 and created_ms<$2`, 2 * time.Hour},
			{`delete from idp_token where tenant=$1 and until_ms<$2`, time.Hour},
		} {
			if _, err := tx.Exec(s.query, b.tenant, now.Add(-s.age).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}
