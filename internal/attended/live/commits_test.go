package live_test

import (
	"database/sql"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestCommitsAsTheEngineCounts: what a governed read and a mutation cost in durable
// commits, by the engine's own count: two and three.
func TestCommitsAsTheEngineCounts(t *testing.T) {
	const each = 8
	calls := func(w *world) (commits func(name string, want int64, count func() int64)) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		return func(name string, want int64, count func() int64) {
			before := count()
			for range each {
				got := a.call(ctx, a.request(name))
				if name == "save" {
					ask := next[controlv1.ConfirmationRequest](p)
					p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
				}
				p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
				if r := <-got; r.err != nil || r.receipt.Status != controlv1.StatusSucceeded {
					t.Fatalf("%+v", r)
				}
			}
			if n := count() - before; n != want*each {
				t.Errorf("%d of %s took %d commits, want %d each", each, name, n, want)
			}
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		var n atomic.Int64
		w := openWith(t, storetest.SQLite(t), store.Options{Commit: func(commit func() error) error { n.Add(1); return commit() }}, nil)
		commits := calls(w)
		commits("read_page", 2, n.Load)
		commits("save", 3, n.Load)
	})
	t.Run("postgres", func(t *testing.T) {
		url := storetest.Postgres(t)
		w := open(t, url, nil)
		commits := calls(w)
		side, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer side.Close()
		// Each transaction that writes has the next number; one that only reads has none,
		// and neither has the pool's own look whether a connection is up, which
		// pg_stat_database counts as a commit.
		count := func() (next int64) {
			if err := side.QueryRow(`select pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&next); err != nil {
				t.Fatal(err)
			}
			return next
		}
		commits("read_page", 2, count)
		commits("save", 3, count)
	})
}
