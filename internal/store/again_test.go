package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestHeldCommitHoldsUpNobody holds the commit of a transaction that runs again:
// others that collide meanwhile end all the same.
func TestHeldCommitHoldsUpNobody(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	db := storetest.Open(t, storetest.Postgres(t), store.Options{Commit: func(commit func() error) error {
		if hold.CompareAndSwap(true, false) {
			close(held)
			<-release
		}
		return commit()
	}})
	table(t, db)
	update(t, db, func(tx *store.Tx) error {
		_, err := tx.Exec("insert into probe values (1, 0), (2, 0), (3, 0), (4, 0)")
		return err
	})
	// skew reads one row and writes the other; two at once can't both be first. again
	// is called where it runs a second time.
	skew := func(read, write int, both func(), again func()) error {
		runs := 0
		return db.Update(context.Background(), func(tx *store.Tx) error {
			if runs++; runs == 2 {
				again()
			}
			var v int
			if err := tx.QueryRow("select v from probe where k=$1", read).Scan(&v); err != nil {
				return err
			}
			if runs == 1 {
				both()
			}
			_, err := tx.Exec("update probe set v=$1 where k=$2", v+1, write)
			return err
		})
	}
	// collide lets two meet, one of which has to run again.
	collide := func(a, b int, again func()) <-chan error {
		var there atomic.Int64
		meet := make(chan struct{})
		both := func() {
			if there.Add(1) == 2 {
				close(meet)
			}
			<-meet
		}
		ended := make(chan error, 2)
		go func() { ended <- skew(a, b, both, again) }()
		go func() { ended <- skew(b, a, both, again) }()
		return ended
	}
	first := collide(1, 2, func() { hold.Store(true) })
	select {
	case <-held:
	case <-time.After(30 * time.Second):
		t.Fatal("the two didn't collide")
	}
	ran := make(chan struct{}, 2)
	second := collide(3, 4, func() { ran <- struct{}{} })
	var errs []error
	for range 2 {
		select {
		case err := <-second:
			errs = append(errs, err)
		case <-time.After(30 * time.Second):
			t.Error("a commit that is held holds up others")
		}
	}
	close(release)
	errs = append(errs, <-first, <-first)
	if err := errors.Join(errs...); err != nil || len(ran) == 0 {
		t.Errorf("%v; %d ran again", err, len(ran))
	}
}
