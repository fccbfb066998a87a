package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"write": write})
}

// write is a process whose writers append events, each beside a row of its own,
// and tell each event once it is acknowledged: URL, directory, writers, events.
func write(args []string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, args[0], store.Options{})
	if err != nil {
		return err
	}
	log, err := audit.Open(db, audit.Options{
		CheckpointDir: filepath.Join(args[1], "checkpoints"), KeyFile: filepath.Join(args[1], "audit.key"), CheckpointEvery: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	writers, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	events, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	log.Start(ctx)
	errs := make([]error, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; i < events && errs[w] == nil; i++ {
				errs[w] = db.Update(ctx, func(tx *store.Tx) error {
					if _, err := tx.Exec("insert into change (id) values ($1)", rand.Int64()); err != nil {
						return err
					}
					return log.Append(tx, event(i))
				})
				if errs[w] == nil {
					fmt.Println("ok")
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errors.Join(errs...), log.Close(ctx), db.Close())
}

func (l *fixture) changeTable(t *testing.T) {
	t.Helper()
	if err := l.db.Update(context.Background(), func(tx *store.Tx) error {
		_, err := tx.Exec("create table change (id bigint primary key)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// paired counts what was changed and what was recorded in one snapshot; they
// must be as many, since each change has its event in its own transaction.
func (l *fixture) paired(t *testing.T) (changes int64) {
	t.Helper()
	var leaves int64
	if err := l.db.View(context.Background(), func(tx *store.Tx) error {
		if err := tx.QueryRow("select count(*) from change").Scan(&changes); err != nil {
			return err
		}
		return tx.QueryRow("select count(*) from audit_leaf").Scan(&leaves)
	}); err != nil {
		t.Fatal(err)
	}
	if changes != leaves {
		t.Errorf("%d changes and %d events", changes, leaves)
	}
	return changes
}

// 64 writers in four processes, each of which integrates and signs: one chain.
func TestManyWritersMakeOneChain(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		l := over(t, storetest.Open(t, url, store.Options{}))
		l.changeTable(t)
		const processes, writers, events = 4, 16, 10
		var all []*storetest.Process
		for range processes {
			all = append(all, storetest.Start(t, "write", url, filepath.Dir(l.opts.KeyFile), strconv.Itoa(writers), strconv.Itoa(events)))
		}
		for _, p := range all {
			p.End(t)
		}
		l.close(t)
		r := l.verify(t)
		want := int64(processes * writers * events)
		if r.Err() != nil || r.Tenants[0].Records != want || r.Tenants[0].Covered != want || l.paired(t) != want {
			t.Errorf("got %v, %+v, want %d records", r.Err(), r.Tenants, want)
		}
	})
}

// A writer that is killed at any point leaves what it acknowledged, each change
// with its event, and a log that verifies and goes on.
func TestCrashKeepsChangeAndEventTogether(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		l := over(t, storetest.Open(t, url, store.Options{}))
		l.changeTable(t)
		acknowledged := int64(0)
		for seed := range storetest.Rounds(20, 500) {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			p := storetest.Start(t, "write", url, filepath.Dir(l.opts.KeyFile), "4", "1000000")
			for range random.IntN(60) {
				if p.Lines.Scan() {
					acknowledged++
				}
			}
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond / 4)
			acknowledged += int64(len(p.Crash(t)))
			if seed%5 == 4 {
				l.close(t) // integrates what the dead left
			}
			// Four writers may each have committed once without telling.
			if got := l.paired(t); got < acknowledged || got > acknowledged+int64(4*(seed+1)) {
				t.Fatalf("seed %d: %d acknowledged, %d found", seed, acknowledged, got)
			}
			if err := l.verify(t).Err(); err != nil && !errors.Is(err, refusal.NothingVerified) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		l.close(t)
		if r := l.verify(t); r.Err() != nil || r.Tenants[0].Records != l.paired(t) {
			t.Errorf("got %v, %+v", r.Err(), r.Tenants)
		}
	})
}

var errLost = errors.New("lost")

// Each durable step (the change's commit, the batch's commit, the checkpoint's
// link) fails in two ways at each of its turns; afterwards the log verifies and
// has each change's event exactly once.
func TestEachDurableStepFailsTwice(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for turn := range 6 {
			t.Run(fmt.Sprintf("step %d, applied %v", turn, applied), func(t *testing.T) {
				storetest.EachURL(t, func(t *testing.T, url string) { failAt(t, url, int64(turn), applied) })
			})
		}
	}
}

// failAt makes the step of that turn fail among: two changes, a batch, a
// checkpoint, a change, a batch with its checkpoint.
func failAt(t *testing.T, url string, turn int64, applied bool) {
	var steps atomic.Int64
	steps.Store(-1 << 40) // until the table is there
	fail := func(step func() error) error {
		if steps.Add(1)-1 != turn {
			return step()
		}
		if applied {
			if err := step(); err != nil {
				return err
			}
		}
		return errLost
	}
	db := storetest.Open(t, url, store.Options{Commit: fail})
	l := over(t, db)
	l.opts.Publish = fail
	var err error
	if l.log, err = audit.Open(db, l.opts); err != nil {
		t.Fatal(err)
	}
	l.changeTable(t)
	steps.Store(0)
	lost := 0
	change := func() {
		err := db.Update(context.Background(), func(tx *store.Tx) error {
			if _, err := tx.Exec("insert into change (id) values ($1)", rand.Int64()); err != nil {
				return err
			}
			return l.log.Append(tx, event(0))
		})
		if err != nil && errors.Is(err, errLost) {
			lost++
		} else if err != nil {
			t.Error(err)
		}
	}
	end := func() {
		if err := l.log.Close(context.Background()); errors.Is(err, errLost) {
			lost++
		} else if err != nil {
			t.Error(err)
		}
	}
	change()
	change()
	end()
	change()
	end()
	if lost != 1 {
		t.Fatalf("%d steps failed, want one", lost)
	}
	l.close(t) // the next one repairs it by the ordinary way
	r := l.verify(t)
	if r.Err() != nil || r.Tenants[0].Records != l.paired(t) || r.Tenants[0].Covered != r.Tenants[0].Records {
		t.Errorf("got %v, %+v", r.Err(), r.Tenants)
	}
}
