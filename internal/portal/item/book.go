package item

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Defaults of Options, and how long traces stay.
const (
	MaxItems = 10_000
	MaxBytes = 1 << 30
	Grace    = time.Hour           // an unused blob's
	Kept     = 31 * 24 * time.Hour // a change's line; request ids are kept a day less
)

// Options of NewBook; a zero field is its default.
type Options struct {
	MaxItems int64 // of an account
	MaxBytes int64 // of an account's content
}

// Book is where a tenant's hosted items stand. Safe for concurrent use.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	opts   Options
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it is used.
func NewBook(db *store.DB, log *audit.Log, tenant string, opts Options) (*Book, error) {
	if tenant == "" {
		return nil, errors.New("item: a book needs its tenant")
	}
	if opts.MaxItems == 0 {
		opts.MaxItems = MaxItems
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = MaxBytes
	}
	if opts.MaxItems < 0 || opts.MaxBytes < 0 {
		return nil, errors.New("item: a quota can't be negative")
	}
	return &Book{db, log, tenant, opts}, nil
}

// Tenant answers whose items they are.
func (b *Book) Tenant() string { return b.tenant }

// Place is one incarnation of a collection of an account.
type Place struct{ Account, Collection, Incarnation string }

// Item is one row.
type Item struct {
	Item, Version string
	Size          int64
	MediaType     string
	Metadata      map[string]any
	Digest        string // SHA-256 of the content, 64 hex digits
	Mark          string // of the change that made this version
	Modified      time.Time
}

// Outcomes of a change.
const (
	Created  = "created"
	Replaced = "replaced"
	Updated  = "metadata_updated"
	Deleted  = "deleted"
	Never    = "never" // it was settled before it came
)

// Written tells what a change did; Before is "" where there was nothing.
type Written struct{ Item, Version, Before, Outcome string }

// drawVersion draws what no item had before: 128 bits in hex.
func drawVersion() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return hex.EncodeToString(b[:])
}

// update runs fn and tells three ends apart: fn refused (its *tool.Error),
// nothing happened (source_unavailable), and nobody knows (unknown_outcome). fn
// runs on this goroutine.
func (b *Book) update(ctx context.Context, fn func(*store.Tx) error) error {
	var kept bool // the last run of fn was content, so the commit decides
	err := b.db.Update(ctx, func(tx *store.Tx) error {
		kept = false
		if err := fn(tx); err != nil {
			return err
		}
		kept = true
		return nil
	})
	if refused, ok := errors.AsType[*tool.Error](err); ok {
		return refused
	}
	switch {
	case err == nil:
		return nil
	case kept:
		return tool.Fail(tool.UnknownOutcome)
	}
	return unavailable(err)
}

// unavailable hides a database's own text, and keeps a code that tells more.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*tool.Error](err); ok {
		return refused
	}
	if code := refusal.Of(err); code != "" {
		return tool.Fail(tool.SourceUnavailable, "cause", string(code))
	}
	return tool.Fail(tool.SourceUnavailable)
}
