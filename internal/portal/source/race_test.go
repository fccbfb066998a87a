package source_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

const racers = 64

// race runs fn that often at once and counts how each ended.
func race(t *testing.T, fn func(n int) error) map[refusal.Code]int {
	t.Helper()
	var begin, done sync.WaitGroup
	errs := make([]error, racers)
	begin.Add(1)
	for n := range racers {
		done.Go(func() {
			begin.Wait()
			errs[n] = fn(n)
		})
	}
	begin.Done()
	done.Wait()
	ends := map[refusal.Code]int{}
	for _, err := range errs {
		ends[code(t, err)]++
	}
	return ends
}

// one fails the test unless exactly one won and the others were told why not.
func one(t *testing.T, what string, ends map[refusal.Code]int, lost ...refusal.Code) {
	t.Helper()
	sum := ends[""]
	for _, c := range lost {
		sum += ends[c]
	}
	if ends[""] != 1 || sum != racers {
		t.Errorf("%s: %v, want one winner and else %v", what, ends, lost)
	}
}

func TestRacingWriters(t *testing.T) {
	storages(t, func(t *testing.T, r rig) {
		p := r.place(t)
		write := func(w source.Write) error {
			w.Item, w.Mark = "raced", mark()
			_, err := r.Write(within(t, time.Minute), p, w)
			return err
		}
		now := func() string {
			i, err := r.Stat(usual(t), p, "raced")
			want(t, err, "")
			return i.Version
		}
		one(t, "create", race(t, func(n int) error {
			return write(source.Write{HasContent: true, Content: fmt.Append(nil, n), IfAbsent: true})
		}), tool.AlreadyExists)
		v := now()
		one(t, "replace", race(t, func(n int) error {
			return write(source.Write{HasContent: true, Content: fmt.Append(nil, n), IfVersion: v})
		}), tool.VersionConflict)
		v = now()
		one(t, "replace by the same", race(t, func(int) error {
			return write(source.Write{HasContent: true, Content: []byte("same"), IfVersion: v})
		}), tool.VersionConflict)
		v = now()
		one(t, "metadata", race(t, func(int) error {
			return write(source.Write{Metadata: map[string]any{"n": int64(1)}, IfVersion: v})
		}), tool.VersionConflict)
		v = now()
		one(t, "delete", race(t, func(int) error { return r.Delete(within(t, time.Minute), p, "raced", v, mark()) }), tool.VersionConflict, tool.NotFound)
	})
}

func TestRacingReaders(t *testing.T) {
	mailboxes(t, func(t *testing.T, r rig) {
		p := r.place(t)
		r.seed(t, p, "raced")
		all, _ := list(t, r, p, 10, source.Query{})
		id, v := all[0].Item, all[0].Version
		one(t, "keywords", race(t, func(n int) error {
			_, err := r.Write(within(t, time.Minute), p, source.Write{Item: id, Metadata: map[string]any{"keywords": []any{fmt.Sprintf("k%d", n%20)}, "seen": true}, IfVersion: v, Mark: mark()})
			return err
		}), tool.VersionConflict)
		i, err := r.Stat(usual(t), p, id)
		want(t, err, "")
		v = i.Version
		one(t, "move", race(t, func(n int) error {
			_, err := r.Write(within(t, time.Minute), p, source.Write{Item: id, Metadata: map[string]any{"folder": "Archive"}, IfVersion: v, Mark: mark()})
			return err
		}), tool.VersionConflict, tool.NotFound)
		if all, _ := list(t, r, p, 10, source.Query{}); len(all) != 1 {
			t.Errorf("after the moves there are %v", ids(all))
		}
	})
}
