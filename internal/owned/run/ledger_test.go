package run_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
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

// Rows that are edited or dropped behind the ledger's back are found: the log
// tells how each run began and what it came to.
func TestCheckHoldsRowsToTheLog(t *testing.T) {
	for _, edit := range []string{
		`update owned_run set started_by='uid:0'`, `update owned_run set scope_digest='` + strings.Replace(digest, "a", "b", 1) + `'`,
		`update owned_run set run_id='other'`, `update owned_run set engagement='other'`, `update owned_run set surface='other'`,
		`update owned_run set tenant='other'`, `update owned_run set started_ms=1`, `update owned_run set reason='failed'`,
		`update owned_run set state='lost'`,
		`delete from owned_action where sequence=1`, `delete from owned_decision`, `update owned_decision set seen=seen-1`,
		`update owned_decision set code='allowed'`,
		`delete from owned_action; delete from owned_decision; delete from owned_run`,
		`insert into owned_run select 'f00d', tenant, 'more', engagement, surface, started_by, scope_digest, state, reason, holder,
			bootstrap_hash, bootstrap_ms, session_hash, session_ms, 0, started_ms, moved_ms from owned_run`,
	} {
		l := open(t, filepath.Join(t.TempDir(), "chaperone.db"), store.Options{})
		ctx := context.Background()
		reg := registration("r1")
		reg.Bootstrap, reg.BootstrapUntil = "", time.Time{}
		r, err := l.Start(ctx, reg)
		if err != nil {
			t.Fatal(err)
		}
		for n := range int64(2) {
			a := run.Action{Sequence: n + 1, RequestID: run.NewToken()[:32], Name: "list_tabs"}
			if err := r.Begin(ctx, a); err != nil {
				t.Fatal(err)
			}
			r.Settle(a, run.Done)
		}
		r.Record(scope.Record{At: time.Now(), Layer: "proxy", Host: "evil.example", Port: 80, Scheme: "http", Method: "GET", Decision: scope.Decision{Code: refusal.NoRule, Rule: "no rule"}})
		if err := r.End(ctx, refusal.Ended); err != nil {
			t.Fatal(err)
		}
		l.check(t)
		for _, statement := range strings.Split(edit, "; ") {
			if err := l.db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(statement); return err }); err != nil {
				t.Fatal(err)
			}
		}
		err = l.db.View(ctx, func(tx *store.Tx) error { return run.Check(tx) })
		if !errors.Is(err, refusal.Tampered) {
			t.Errorf("after %q: got %v, want tampered", edit, err)
		}
	}
}
