package run_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// ledger is a book with what a test needs to look behind it.
type ledger struct {
	*run.Book
	db *store.DB
}

// open opens the ledger at url as one process would.
func open(t testing.TB, url string, opts store.Options) *ledger {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	book, err := run.NewBook(db, log, "local")
	if err != nil {
		t.Fatal(err)
	}
	return &ledger{book, db}
}

// each runs f on both engines.
func each(t *testing.T, f func(t *testing.T, l *ledger)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, store.Options{})) })
}

// check walks the ledger's invariants.
func (l *ledger) check(t testing.TB) {
	t.Helper()
	if err := l.db.View(context.Background(), func(tx *store.Tx) error { return run.Check(tx) }); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// account answers what is written of a run.
func (l *ledger) account(t testing.TB, id string) run.Account {
	t.Helper()
	a, err := l.Account(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// count answers a statement's one number.
func (l *ledger) count(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	err := l.db.View(context.Background(), func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func registration(id string) run.Registration {
	return run.Registration{
		RunID: id, Engagement: "acme-2026", Surface: "host", StartedBy: "uid:1000", ScopeDigest: digest,
		Bootstrap: run.NewToken(), BootstrapUntil: time.Now().Add(time.Minute),
	}
}

// request makes the id of the nth request.
func request(n int) string { return fmt.Sprintf("%032x", n) }

func action(sequence int64) run.Action {
	return run.Action{Sequence: sequence, RequestID: request(int(sequence)), Name: "click"}
}

// word answers an error's code, "ok" where there is none.
func word(err error) refusal.Code {
	var code refusal.Code
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &code):
		return code
	}
	return refusal.Code("no code: " + err.Error())
}
