package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

var errLost = errors.New("the commit's answer was lost")

// TestEachDurableStepFailsTwice fails every commit of a run's life once before it
// is applied and once after, does what a host does then, and walks the ledger.
func TestEachDurableStepFailsTwice(t *testing.T) {
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var countdown atomic.Int64
			l := open(t, url, store.Options{Commit: func(commit func() error) error {
				if countdown.Add(-1) != 0 {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return errLost
			}})
			for at := int64(1); at <= 9; at++ {
				countdown.Store(0)
				t.Run(fmt.Sprintf("applied=%v,commit=%d", applied, at), func(t *testing.T) { failAt(t, l, &countdown, at, applied) })
			}
		})
	}
}

// failAt lives one run whose commit number at is lost. Each verb is asked again
// after a failure, as a host's next verb would be, and the ledger must say what
// was really done.
func failAt(t *testing.T, l *ledger, countdown *atomic.Int64, at int64, applied bool) {
	ctx := context.Background()
	reg := registration(fmt.Sprintf("fault-%v-%d", applied, at))
	countdown.Store(at)
	r, err := l.Register(ctx, reg)
	if err != nil { // nothing was started, so nobody may use the id until the holder has gone or the row is seen
		if at != 1 || !errors.Is(err, errLost) {
			t.Fatalf("Register: %v", err)
		}
		l.check(t)
		return
	}
	opened := r.Open(ctx, reg.Bootstrap, run.NewToken(), time.Now().Add(time.Hour))
	if opened != nil && !errors.Is(opened, errLost) {
		t.Fatalf("Open: %v", opened)
	}
	want := map[int64]run.Outcome{}
	if opened == nil {
		for n := int64(1); n <= 3; n++ {
			r.Record(decision(fmt.Sprintf("h%d.example.com", n), 0))
			r.Record(decision("same.example.com", 0))
			if err := r.Begin(ctx, action(n)); err != nil {
				if !errors.Is(err, errLost) {
					t.Fatalf("Begin: %v", err)
				}
				r.Settle(action(n), run.NotSent)
				want[n] = run.NotSent
				continue
			}
			r.Settle(action(n), run.Done)
			want[n] = run.Done
		}
		for range 2 {
			if err := r.Bury(ctx, action(10)); err != nil && !errors.Is(err, errLost) {
				t.Fatalf("Bury: %v", err)
			}
		}
		want[10] = run.Tombstone
	}
	for range 2 {
		r.Settle(action(11), run.NotSent)
		if err := r.Flush(ctx); err != nil && !errors.Is(err, errLost) {
			t.Fatalf("Flush: %v", err)
		}
	}
	want[11] = run.NotSent
	for range 2 {
		if err := r.End(ctx, refusal.Ended); err != nil && !errors.Is(err, errLost) {
			t.Fatalf("End: %v", err)
		}
	}
	a := l.account(t, reg.RunID)
	got := map[int64]run.Outcome{}
	for _, d := range a.Actions {
		got[d.Sequence] = d.Outcome
	}
	if diff := cmp.Diff(want, got); diff != "" || a.State != run.Ended {
		t.Errorf("run is %s, outcomes (-want +got):\n%s", a.State, diff)
	}
	if opened == nil {
		all, err := l.Decisions(ctx, reg.RunID)
		if err != nil {
			t.Fatal(err)
		}
		var total int64
		for _, d := range all {
			total += d.Count
		}
		if len(all) != 4 || total != 6 {
			t.Errorf("%d decisions made %d times, want 4 and 6", len(all), total)
		}
	}
	l.check(t)
}
