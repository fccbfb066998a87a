package run_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// in makes a run that stands in a state, and answers it with its bootstrap.
func in(t *testing.T, l *ledger, s run.State) (*run.Run, string) {
	t.Helper()
	ctx := context.Background()
	reg := registration(fmt.Sprintf("in-%s-%s", s, run.NewToken()[:8]))
	r, err := l.Register(ctx, reg)
	if err != nil {
		t.Fatal(err)
	}
	switch s {
	case run.Open:
		err = r.Open(ctx, reg.Bootstrap, run.NewToken(), time.Now().Add(time.Hour))
	case run.Burned:
		err = r.Burn(ctx, reg.Bootstrap)
	case run.Expired:
		err = r.Expire(ctx)
	case run.Ended:
		err = r.End(ctx, refusal.Ended)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := l.account(t, reg.RunID).State; got != s {
		t.Fatalf("run is %q, want %q", got, s)
	}
	return r, reg.Bootstrap
}

// TestEveryVerbFromEveryState walks the table of moves: each verb from each
// state, what it answers and where the run stands then.
func TestEveryVerbFromEveryState(t *testing.T) {
	ctx := context.Background()
	verbs := []struct {
		name string
		do   func(r *run.Run, token string) error
	}{
		{"open", func(r *run.Run, token string) error {
			return r.Open(ctx, token, run.NewToken(), time.Now().Add(time.Hour))
		}},
		{"open with another token", func(r *run.Run, token string) error {
			return r.Open(ctx, run.NewToken(), run.NewToken(), time.Now().Add(time.Hour))
		}},
		{"burn", func(r *run.Run, token string) error { return r.Burn(ctx, token) }},
		{"burn with another token", func(r *run.Run, token string) error { return r.Burn(ctx, run.NewToken()) }},
		{"expire", func(r *run.Run, token string) error { return r.Expire(ctx) }},
		{"end", func(r *run.Run, token string) error { return r.End(ctx, refusal.OverLimit) }},
		{"begin", func(r *run.Run, token string) error { return r.Begin(ctx, action(1)) }},
		{"bury", func(r *run.Run, token string) error { return r.Bury(ctx, action(1)) }},
		{"flush", func(r *run.Run, token string) error { return r.Flush(ctx) }},
	}
	type row struct {
		Code refusal.Code
		Then run.State
	}
	no, ok := refusal.UnauthorizedAdapter, refusal.Code("ok")
	want := map[run.State][]row{
		run.Registered: {{ok, run.Open}, {no, run.Registered}, {ok, run.Burned}, {no, run.Registered}, {ok, run.Expired}, {ok, run.Ended},
			{refusal.Conflict, run.Registered}, {ok, run.Registered}, {ok, run.Registered}},
		run.Open: {{refusal.Replayed, run.Open}, {no, run.Open}, {refusal.Replayed, run.Open}, {no, run.Open}, {refusal.Conflict, run.Open}, {ok, run.Ended},
			{ok, run.Open}, {ok, run.Open}, {ok, run.Open}},
	}
	for _, s := range []run.State{run.Burned, run.Expired, run.Ended} {
		want[s] = []row{{refusal.Replayed, s}, {no, s}, {refusal.Replayed, s}, {no, s}, {refusal.Conflict, s}, {ok, s},
			{refusal.Conflict, s}, {ok, s}, {ok, s}}
	}
	each(t, func(t *testing.T, l *ledger) {
		for _, state := range []run.State{run.Registered, run.Open, run.Burned, run.Expired, run.Ended} {
			for i, verb := range verbs {
				r, token := in(t, l, state)
				code := word(verb.do(r, token))
				got := row{code, l.account(t, r.RunID()).State}
				if diff := cmp.Diff(want[state][i], got); diff != "" {
					t.Errorf("%s from %s (-want +got):\n%s", verb.name, state, diff)
				}
			}
		}
		l.check(t)
	})
}

func TestExpiredBootstrapBurns(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		reg := registration("late")
		reg.BootstrapUntil = time.Now().Add(-time.Second)
		r, err := l.Register(ctx, reg)
		if err != nil {
			t.Fatal(err)
		}
		open := func() refusal.Code {
			return word(r.Open(ctx, reg.Bootstrap, run.NewToken(), time.Now().Add(time.Hour)))
		}
		if got := [2]refusal.Code{open(), open()}; got != [2]refusal.Code{refusal.Expired, refusal.Replayed} {
			t.Errorf("two openings of an expired bootstrap: %v", got)
		}
		if got := l.account(t, "late"); got.State != run.Burned || got.Reason != refusal.Expired {
			t.Errorf("run is %s (%s), want burned (expired)", got.State, got.Reason)
		}
		l.check(t)
	})
}

func TestRunIDIsHeldOnce(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		first, err := l.Register(ctx, registration("one"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Register(ctx, registration("one")); word(err) != refusal.Conflict {
			t.Errorf("second holder: %v, want conflict", err)
		}
		if err := first.End(ctx, refusal.Ended); err != nil {
			t.Fatal(err)
		}
		again, err := l.Start(ctx, registration("one"))
		if err != nil {
			t.Fatal(err)
		}
		if again.Epoch() == first.Epoch() {
			t.Error("an epoch was used twice")
		}
		if got := l.account(t, "one"); got.State != run.Open || got.Epoch != again.Epoch() {
			t.Errorf("latest is %s of epoch %.8s, want open of %.8s", got.State, got.Epoch, again.Epoch())
		}
		l.check(t)
	})
}

// TestOneOfManyOpens races the one-use token over two handles of the database,
// as two processes would.
func TestOneOfManyOpens(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		reg := registration("raced")
		r, err := l.Register(ctx, reg)
		if err != nil {
			t.Fatal(err)
		}
		codes := make(chan refusal.Code, 64)
		for range cap(codes) {
			go func() { codes <- word(r.Open(ctx, reg.Bootstrap, run.NewToken(), time.Now().Add(time.Hour))) }()
		}
		got := map[refusal.Code]int{}
		for range cap(codes) {
			got[<-codes]++
		}
		if diff := cmp.Diff(map[refusal.Code]int{"ok": 1, refusal.Replayed: 63}, got); diff != "" {
			t.Errorf("64 openings (-want +got):\n%s", diff)
		}
		if n := l.count(t, `select count(*) from owned_run where session_hash<>''`); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
		l.check(t)
	})
}

func TestSequencesAndRequestIDsAreUsedOnce(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		r, _ := in(t, l, run.Open)
		steps := []struct {
			name string
			do   func() error
			want refusal.Code
		}{
			{"first", func() error { return r.Begin(ctx, action(1)) }, "ok"},
			{"same again", func() error { return r.Begin(ctx, action(1)) }, refusal.Replayed},
			{"settle rides with a gap", func() error {
				r.Settle(action(1), run.Done)
				return r.Begin(ctx, action(5))
			}, "ok"},
			{"stale", func() error { r.Settle(action(5), run.Failed); return r.Begin(ctx, action(4)) }, refusal.Replayed},
			{"used id", func() error {
				return r.Begin(ctx, run.Action{Sequence: 6, RequestID: request(5), Name: "click"})
			}, refusal.Replayed},
			{"a refused one consumed nothing", func() error { return r.Begin(ctx, action(6)) }, "ok"},
			{"tombstone ahead", func() error { r.Settle(action(6), run.Unconfirmed); return r.Bury(ctx, action(9)) }, "ok"},
			{"tombstone again", func() error { return r.Bury(ctx, action(9)) }, "ok"},
			{"half a pair", func() error { return r.Bury(ctx, run.Action{Sequence: 9, RequestID: request(1)}) }, refusal.Conflict},
			{"buried", func() error { return r.Begin(ctx, action(9)) }, refusal.Replayed},
			{"under the tombstone", func() error { return r.Begin(ctx, action(7)) }, "ok"},
			{"end", func() error { r.Settle(action(7), run.NotSent); return r.End(ctx, refusal.Ended) }, "ok"},
		}
		for _, s := range steps {
			if got := word(s.do()); got != s.want {
				t.Errorf("%s: %s, want %s", s.name, got, s.want)
			}
		}
		got := map[int64]run.Outcome{}
		for _, d := range l.account(t, r.RunID()).Actions {
			got[d.Sequence] = d.Outcome
		}
		want := map[int64]run.Outcome{1: run.Done, 5: run.Failed, 6: run.Unconfirmed, 7: run.NotSent, 9: run.Tombstone}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		l.check(t)
	})
}

func TestOneCommitBeforeEachEffect(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		r, _ := in(t, l, run.Open)
		before := l.db.Commits()
		for n := int64(1); n <= 20; n++ {
			if err := r.Begin(ctx, action(n)); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				r.Record(decision("a.example.com", n))
			}
			r.Settle(action(n), run.Done)
		}
		if got := l.db.Commits() - before; got != 20 {
			t.Errorf("20 actions cost %d commits, want 20", got)
		}
	})
}
