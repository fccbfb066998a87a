package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var errBoom = errors.New("boom")

// Members of one group fail alone: by an error, by a broken statement, by a
// panic, by a cancelled context.
func TestMembersOfAGroupFailAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		table(t, db)
		update(t, db, func(tx *store.Tx) error {
			_, err := tx.Exec("insert into probe values (-1, 0)")
			return err
		})
		const members = 200
		var all sync.WaitGroup
		var after atomic.Int64
		for k := range members {
			all.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				defer func() {
					if r := recover(); (r != nil) != (k%5 == 3) {
						t.Errorf("member %d: recovered %v", k, r)
					}
				}()
				err := db.Update(ctx, func(tx *store.Tx) error {
					if _, err := tx.Exec("insert into probe values ($1, $2)", k, k); err != nil {
						return err
					}
					tx.InsertLater("probe (k, v)", 1000+k, 0)
					tx.AfterCommit(func() { after.Add(1) })
					switch k % 5 {
					case 1:
						return errBoom
					case 2:
						_, err := tx.Exec("insert into probe values (-1, 0)") // a duplicate
						if err == nil {
							t.Error("a duplicate was inserted")
						}
						return err
					case 3:
						panic("fault of the caller")
					case 4:
						cancel()
						_, err := tx.Exec("insert into probe values ($1, $2)", k+members, k)
						return err
					}
					return nil
				})
				if (err == nil) != (k%5 == 0) || k%5 == 3 {
					t.Errorf("member %d: got %v", k, err)
				}
			})
		}
		all.Wait()
		if got, want := count(t, db), 1+2*members/5; got != want || after.Load() != members/5 {
			t.Errorf("got %d rows and %d hooks, want %d and %d", got, after.Load(), want, members/5)
		}
	})
}

// A row that is put off and can't go in fails its own transaction alone.
func TestLateRowFailsItsOwnTransaction(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		table(t, db)
		var all sync.WaitGroup
		for k := range 50 {
			all.Go(func() {
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					tx.InsertLater("probe (k, v)", max(k, 1), 0) // 0 and 1 collide
					_, err := tx.Exec("insert into probe values ($1, $2)", 1000+k, 0)
					return err
				})
				if err != nil && k > 1 {
					t.Errorf("member %d: %v", k, err)
				}
			})
		}
		all.Wait()
		if got := count(t, db); got != 2*49 {
			t.Errorf("got %d rows, want %d", got, 2*49)
		}
	})
}

// The commit is the one durable step. It fails in two ways, and the caller is
// told apart neither: state is read again.
func TestLostCommit(t *testing.T) {
	for name, test := range map[string]struct {
		apply bool
		rows  int
	}{"not applied": {false, 0}, "applied but told as failed": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			storetest.EachURL(t, func(t *testing.T, url string) {
				var armed atomic.Bool
				db := storetest.Open(t, url, store.Options{Commit: func(commit func() error) error {
					if !armed.Load() {
						return commit()
					}
					if test.apply {
						if err := commit(); err != nil {
							return err
						}
					}
					return errBoom
				}})
				table(t, db)
				armed.Store(true)
				hooked := false
				err := db.Update(context.Background(), func(tx *store.Tx) error {
					tx.AfterCommit(func() { hooked = true })
					_, err := tx.Exec("insert into probe values (1, 1)")
					return err
				})
				armed.Store(false)
				if !errors.Is(err, errBoom) || hooked {
					t.Errorf("got %v (hook ran: %v), want boom", err, hooked)
				}
				if got := count(t, db); got != test.rows {
					t.Errorf("got %d rows, want %d", got, test.rows)
				}
				update(t, db, func(tx *store.Tx) error {
					_, err := tx.Exec("insert into probe values (2, 2)")
					return err
				})
			})
		})
	}
}

func TestClosedDatabase(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		db, err := store.Open(context.Background(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.Update(context.Background(), func(*store.Tx) error { return nil }); err == nil {
			t.Error("a closed database took an update")
		}
		if err := db.View(context.Background(), func(*store.Tx) error { return nil }); err == nil {
			t.Error("a closed database showed a view")
		}
	})
}

// Group commit is what makes many writers cheap: far fewer syncs than commits.
func TestConcurrentUpdatesShareSyncs(t *testing.T) {
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	table(t, db)
	before := db.Commits()
	var all sync.WaitGroup
	const callers, each = 16, 50
	for c := range callers {
		all.Go(func() {
			for i := range each {
				if err := db.Update(context.Background(), func(tx *store.Tx) error {
					_, err := tx.Exec("insert into probe values ($1, 0)", c*each+i)
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := db.Commits() - before; got > callers*each/2 {
		t.Errorf("%d syncs for %d commits, want far fewer", got, callers*each)
	}
	if got := count(t, db); got != callers*each {
		t.Error(fmt.Errorf("got %d rows, want %d", got, callers*each))
	}
}
