package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// fixture is a log over a fresh database.
type fixture struct {
	db   *store.DB
	log  *audit.Log
	opts audit.Options
}

func each(t *testing.T, f func(t *testing.T, l *fixture)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { f(t, over(t, db)) })
}

func over(t testing.TB, db *store.DB) *fixture {
	t.Helper()
	dir := t.TempDir()
	opts := audit.Options{CheckpointDir: filepath.Join(dir, "checkpoints"), KeyFile: filepath.Join(dir, "audit.key")}
	log, err := audit.Open(db, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{db, log, opts}
}

// add commits n events, one to a transaction.
func (l *fixture) add(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		err := l.db.Update(context.Background(), func(tx *store.Tx) error { return l.log.Append(tx, event(i)) })
		if err != nil {
			t.Fatal(err)
		}
	}
}

func event(i int) audit.Event {
	e := audit.Event{
		Kind: "owned_run.decided", Actor: "uid:0", Subject: fmt.Sprintf("run-%d", i%3), Code: refusal.Allowed,
		Public: []audit.Field{audit.Count("port", 443), audit.Word("layer", "proxy")},
	}
	if i%2 == 0 {
		e.Sealed = []audit.Sealed{audit.Seal("host", "example.com"), audit.Seal("rule", `allow[0] "*.example.com"`)}
	}
	return e
}

func (l *fixture) close(t testing.TB) {
	t.Helper()
	if err := l.log.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (l *fixture) verify(t testing.TB) *audit.Report {
	t.Helper()
	r, err := audit.Verify(context.Background(), l.db, audit.VerifyOptions{CheckpointDir: l.opts.CheckpointDir, KeyFile: l.opts.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerifyTellsWhatStands(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		if err := l.verify(t).Err(); !errors.Is(err, refusal.NothingVerified) {
			t.Errorf("empty log: got %v, want nothing_verified", err)
		}
		l.add(t, 3)
		r := l.verify(t)
		if err := r.Err(); !errors.Is(err, refusal.NothingVerified) || r.Tenants[0].Unsequenced != 3 {
			t.Errorf("unsequenced log: got %v with %+v, want nothing_verified with 3", err, r.Tenants)
		}
		l.close(t)
		for range 3 {
			l.add(t, 300)
			l.close(t)
		}
		l.add(t, 1)
		r = l.verify(t)
		got := r.Tenants[0]
		if r.Err() != nil || got.Records != 903 || got.Covered != 903 || got.Checkpoints != 4 || got.Unsequenced != 1 || !got.SameOwner {
			t.Errorf("got %v, %+v", r.Err(), got)
		}
		t.Logf("%q", r.Notes)
	})
}

func TestStartIntegratesInTime(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		l.log.Start(context.Background())
		defer l.close(t)
		for range 3 {
			l.add(t, 1)
			time.Sleep(5 * audit.Delay)
			if r := l.verify(t); r.Err() != nil || r.Tenants[0].Unsequenced != 0 {
				t.Errorf("got %v, %+v, want all integrated", r.Err(), r.Tenants)
			}
		}
	})
}

// A process that is killed between a checkpoint's link and the removal of its other
// name leaves both; the next checkpoint doesn't write into the published one.
func TestPublishedCheckpointStays(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		l.add(t, 3)
		l.close(t) // integrates and signs
		files, err := filepath.Glob(filepath.Join(l.opts.CheckpointDir, "*", "*.checkpoint"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		before, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Link(files[0], filepath.Join(filepath.Dir(files[0]), "next.tmp")); err != nil {
			t.Fatal(err)
		}
		again, err := audit.Open(l.db, l.opts)
		if err != nil {
			t.Fatal(err)
		}
		l.log = again
		l.add(t, 2)
		l.close(t)
		if after, err := os.ReadFile(files[0]); err != nil || string(after) != string(before) {
			t.Errorf("the published checkpoint is now %q, %v", after, err)
		}
		if r := l.verify(t); r.Err() != nil {
			t.Error(r.Err())
		}
	})
}
