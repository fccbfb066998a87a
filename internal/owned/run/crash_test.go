package run_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestMain lets the test binary be the child that holds a run until it is killed.
func TestMain(m *testing.M) {
	if url, ok := os.LookupEnv("RUN_TEST_HOLD"); ok {
		hold(url)
	}
	os.Exit(leaktest.Check(m.Run()))
}

// hold begins and settles actions for ever, and tells each step once it is done.
func hold(url string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	db, err := store.Open(ctx, url, store.Options{})
	check(err)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	check(err)
	book, err := run.NewBook(db, log, "local")
	check(err)
	reg := registration("held")
	r, err := book.Register(ctx, reg)
	check(err)
	fmt.Println("registered", r.Epoch())
	check(r.Open(ctx, reg.Bootstrap, run.NewToken(), time.Now().Add(time.Hour)))
	fmt.Println("opened", r.Epoch())
	for n := int64(1); ; n++ {
		check(r.Begin(ctx, action(n)))
		fmt.Println("began", n)
		r.Record(decision(fmt.Sprintf("h%d.example.com", n%7), 0))
		r.Settle(action(n), run.Done)
	}
}

// TestKilledHolder kills the holder at a moment of chance, again and again. What
// it was told as committed must be there; the run must be lost, the last action
// unknown, and the id free for the next holder, which is the next child.
func TestKilledHolder(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		l := open(t, url, store.Options{})
		for round := range 15 {
			epoch, began := killed(t, url, time.Duration(rand.IntN(120))*time.Millisecond)
			lost, err := l.Recover(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if epoch == "" {
				continue // killed before its first row was told
			}
			a := l.account(t, "held")
			if a.Epoch != epoch || a.State != run.Lost || a.Reason != refusal.Unknown {
				t.Fatalf("round %d: run %.8s is %s (%s) after %v, want %.8s lost (unknown)", round, a.Epoch, a.State, a.Reason, lost, epoch)
			}
			if a.Sequence < began {
				t.Errorf("round %d: %d actions are written, %d were told", round, a.Sequence, began)
			}
			for i, d := range a.Actions {
				want := run.Done
				if i == len(a.Actions)-1 {
					want = run.Unknown
				}
				if d.Outcome != want {
					t.Errorf("round %d: action %d of %d is %s, want %s", round, d.Sequence, len(a.Actions), d.Outcome, want)
				}
			}
			l.check(t)
		}
	})
}

// killed runs a holder for a while, kills it, and answers what it told.
func killed(t *testing.T, url string, after time.Duration) (epoch string, began int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "RUN_TEST_HOLD="+url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		what, value, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "error":
			t.Errorf("holder: %s", value)
		case "registered":
			epoch = value
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		case "began":
			began, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	return epoch, began
}

func TestHolderIsGone(t *testing.T) {
	self, err := run.Self()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*run.Holder)) run.Holder {
		h := self
		change(&h)
		return h
	}
	cases := map[string]struct {
		holder run.Holder
		gone   bool
	}{
		"myself":                    {self, false},
		"my pid, started elsewhen":  {with(func(h *run.Holder) { h.Start = "1" }), true},
		"a pid that nobody has":     {with(func(h *run.Holder) { h.PID = 1<<22 + 1 }), true},
		"before this boot":          {with(func(h *run.Holder) { h.Boot = "0" }), true},
		"another machine":           {with(func(h *run.Holder) { h.Machine, h.PID = "other@host", 1<<22+1 }), false},
		"another container's":       {with(func(h *run.Holder) { h.Namespace, h.PID = "pid:[1]", 1<<22+1 }), false},
		"another boot and machine":  {with(func(h *run.Holder) { h.Machine, h.Boot = "other@host", "0" }), false},
		"another boot's containers": {with(func(h *run.Holder) { h.Namespace, h.Boot = "pid:[1]", "0" }), true},
	}
	for name, c := range cases {
		if got := c.holder.Gone(self); got != c.gone {
			t.Errorf("%s: gone %v, want %v", name, got, c.gone)
		}
	}
}

// FuzzHolder: what is read back is what was written, and nothing else is read.
func FuzzHolder(f *testing.F) {
	self, err := run.Self()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self.String())
	f.Fuzz(func(t *testing.T, text string) {
		h, err := run.ParseHolder(text)
		if err != nil {
			return
		}
		again, err := run.ParseHolder(h.String())
		if err != nil || again != h {
			t.Errorf("%q was read as %+v, and that as %+v (%v)", text, h, again, err)
		}
	})
}
