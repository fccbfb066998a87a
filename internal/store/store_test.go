package store_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// table makes a table of the test's own.
func table(t testing.TB, db *store.DB) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		_, err := tx.Exec("create table probe (k integer primary key, v integer not null)")
		return err
	})
}

func update(t testing.TB, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *store.DB) (n int) {
	t.Helper()
	if err := db.View(context.Background(), func(tx *store.Tx) error {
		return tx.QueryRow("select count(*) from probe").Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUpdateKeepsAllOrNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		table(t, db)
		boom := errors.New("boom")
		err := db.Update(context.Background(), func(tx *store.Tx) error {
			if _, err := tx.Exec("insert into probe values ($1, $2)", 1, 1); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) || count(t, db) != 0 {
			t.Errorf("got %v with %d rows, want boom with none", err, count(t, db))
		}
		update(t, db, func(tx *store.Tx) error {
			n, err := tx.Exec("insert into probe values ($1, $2) on conflict do nothing", 1, 1)
			if err == nil && n != 1 {
				t.Errorf("got %d rows inserted, want 1", n)
			}
			return err
		})
		var v int
		err = db.View(context.Background(), func(tx *store.Tx) error {
			return tx.QueryRow("select v from probe where k=$1", 2).Scan(&v)
		})
		if !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("got %v, want no rows", err)
		}
		if err := db.View(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Exec("delete from probe")
			return err
		}); err == nil || count(t, db) != 1 {
			t.Errorf("a view wrote")
		}
	})
}

// A check that a write leans on must hold until the commit: of 64 that read the
// same balance, each sees what the one before it left.
func TestUpdateIsSerialisable(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		table(t, db)
		update(t, db, func(tx *store.Tx) error {
			_, err := tx.Exec("insert into probe values (1, 0)")
			return err
		})
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if err := db.Update(context.Background(), func(tx *store.Tx) error {
					var v int
					if err := tx.QueryRow("select v from probe where k=$1", 1).Scan(&v); err != nil {
						return err
					}
					_, err := tx.Exec("update probe set v=$1 where k=$2", v+1, 1)
					return err
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var v int
		if err := db.View(context.Background(), func(tx *store.Tx) error {
			return tx.QueryRow("select v from probe where k=$1", 1).Scan(&v)
		}); err != nil || v != 64 {
			t.Errorf("got %d (%v), want 64", v, err)
		}
	})
}

func TestOpenIsQuick(t *testing.T) {
	path := storetest.SQLite(t)
	storetest.Open(t, path, store.Options{})
	best := time.Hour
	for range 10 {
		start := time.Now()
		db, err := store.Open(context.Background(), path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("opening an up-to-date database: %v", best)
	if best > 50*time.Millisecond {
		t.Errorf("opening took %v, want under 10 ms on an idle machine", best)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v (%v), want 0600", info.Mode(), err)
	}
}

// Text that an engine can't keep is the caller's fault, told by its code and
// without the text.
func TestTextThatCantBeKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, text := range []string{"canary\x00", "canary\xff"} {
			err := db.View(t.Context(), func(tx *store.Tx) error {
				var n int
				return tx.QueryRow(`select count(*) from store_migration where name=$1`, text).Scan(&n)
			})
			if err != nil && (!errors.Is(err, refusal.BadDocument) || strings.Contains(err.Error(), "canary")) {
				t.Errorf("%q: %v", text, err)
			}
			if db.Engine() == store.Postgres && err == nil {
				t.Errorf("%q was looked up", text)
			}
		}
	})
}

// TestLookReadsOnce holds Look to one statement that reads, and shows that it sees
// what is committed, also where it is repeated by many at once.
func TestLookReadsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		table(t, db)
		look := func() (n int) {
			err := db.Look(t.Context(), func(tx *store.Tx) error { return tx.QueryRow("select count(*) from probe").Scan(&n) })
			if err != nil {
				t.Error(err)
			}
			return n
		}
		for i := range 3 {
			if n := look(); n != i {
				t.Errorf("got %d rows, want %d", n, i)
			}
			update(t, db, func(tx *store.Tx) error { _, err := tx.Exec("insert into probe values ($1, $2)", i, i); return err })
		}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 20 {
					err := db.Look(t.Context(), func(tx *store.Tx) error {
						return tx.Each("select k from probe order by k", nil, func(r store.Scanner) error { var id int; return r.Scan(&id) })
					})
					if err != nil || look() != 3 {
						t.Errorf("among others: %v", err)
					}
				}
			})
		}
		all.Wait()
		for name, fn := range map[string]func(tx *store.Tx) error{
			"two statements": func(tx *store.Tx) error {
				var n int
				if err := tx.QueryRow("select count(*) from probe").Scan(&n); err != nil {
					return nil
				}
				return tx.QueryRow("select count(*) from probe").Scan(&n)
			},
			"a write":              func(tx *store.Tx) error { _, err := tx.Exec("delete from probe"); return err },
			"a write that answers": func(tx *store.Tx) error { var id int; return tx.QueryRow("delete from probe returning k").Scan(&id) },
			"a write within a query": func(tx *store.Tx) error {
				_, err := tx.Query("insert into probe values (9, 9) returning k")
				return err
			},
		} {
			if err := db.Look(t.Context(), fn); err == nil || look() != 3 {
				t.Errorf("%s: done", name)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := db.Look(ended, func(tx *store.Tx) error { var n int; return tx.QueryRow("select count(*) from probe").Scan(&n) }); !errors.Is(err, context.Canceled) {
			t.Errorf("after its caller left: %v", err)
		}
	})
}
