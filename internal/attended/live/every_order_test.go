package live_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/identity"
	"chaperone/internal/refusal"
)

// orders is how many rounds TestEveryOrder goes; ORDERS asks for more.
func orders() int {
	if n, err := strconv.Atoi(os.Getenv("ORDERS")); err == nil {
		return n
	}
	return 24
}

// Whatever ends a change that waits for its person, and in whichever order those
// arrive: it is sent once at most, whoever waited is told the same, and nobody is told
// that nothing happened of what was sent.
func TestEveryOrder(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var lanes sync.WaitGroup
		rounds := make(chan uint64)
		for range 4 {
			lanes.Go(func() {
				for n := range rounds {
					round(t, w, n)
				}
			})
		}
		for n := range orders() {
			rounds <- uint64(n)
		}
		close(rounds)
		lanes.Wait()
		w.check()
	})
}

func round(t *testing.T, w *world, n uint64) {
	dice := rand.New(rand.NewPCG(n, 1))
	p := w.person(catalog).ready(catalog)
	a := p.agent("agent").leased(catalog)
	x := a.request("save")
	x.TimeoutSeconds = 20
	if n%8 == 7 {
		x.TimeoutSeconds = 1
	}
	var waiting []<-chan answered
	for range 2 {
		waiting = append(waiting, a.call(ctx, x)) // as MCP and REST may both deliver it
	}
	ask := next[controlv1.ConfirmationRequest](p)
	waiting = append(waiting, a.call(ctx, x))

	// A page does either: what it was told to deny it doesn't do any more.
	var mu sync.Mutex
	denied, calls := false, 0

	page := make(chan struct{})
	go func() { // it does what it is sent, and never takes anything back
		defer close(page)
		for {
			select {
			case data := <-p.pipe.Down:
				f, err := controlv1.DecodeAuthority(data)
				if err != nil {
					t.Error(err)
				}
				if c, is := f.(controlv1.Call); is && c.Call == ask.Call {
					mu.Lock()
					ignored := denied
					if !ignored {
						calls++
					}
					mu.Unlock()
					if ignored {
						continue
					}
					time.Sleep(time.Duration(n%5) * time.Millisecond)
					p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
				}
			case <-p.pipe.Gone:
				if len(p.pipe.Down) == 0 {
					return
				}
			}
		}
	}()

	reason := sure(controlv1.ParseWord("stop"))
	own := w.a.Principal(sure(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor})))
	acts := []func(){
		func() { p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}) },
		func() { p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}) },
		func() {
			mu.Lock()
			defer mu.Unlock()
			if denied = calls == 0; denied {
				p.say(controlv1.Cancelled{Call: ask.Call, Effect: controlv1.NoEffect})
			}
		},
		func() { a.do(controlv1.CancelCall{Call: ask.Call, Reason: reason}) },
		func() { a.do(controlv1.RevokeLease{Lease: a.lease.Lease, Reason: reason}) },
		func() { w.book.Kill(ctx, ledger.KillCall, ask.Call.String(), own) },
		func() { w.book.Kill(ctx, ledger.KillLease, a.lease.Lease.String(), own) },
		func() { w.a.Revoke(ctx, p.who, p.arm.Ref, p.place, refusal.Revoked) },
		func() { p.pipe.Close(1000, "") },
		func() {
			w.a.Decide(ctx, sure(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor})), ask.Call, nil)
		},
		func() {
			w.a.Decide(ctx, sure(identity.New(identity.Claims{Tenant: "local", Actor: p.who.Actor})), ask.Call, &controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		},
	}
	at := time.Now()
	if x.TimeoutSeconds == 1 {
		at = time.UnixMilli(ask.ExpiresMS).Add(-3 * time.Millisecond)
	}
	var all sync.WaitGroup
	for i, act := range acts {
		if i > 1 && dice.IntN(3) > 0 { // some of them, and the yes in each round
			continue
		}
		wait := time.Until(at) + time.Duration(dice.IntN(8000))*time.Microsecond
		all.Go(func() { time.Sleep(wait); act() })
	}
	all.Wait()
	var told []answered
	for _, c := range waiting {
		told = append(told, <-c)
	}
	p.pipe.Close(1000, "")
	<-p.served
	<-page
	call := sure(w.book.Call(ctx, ask.Call))
	if calls > 1 || calls == 1 && call.Receipt().Effect == controlv1.NoEffect || calls == 0 && call.Receipt().Effect != controlv1.NoEffect && call.State == ledger.CallSucceeded {
		t.Errorf("round %d: sent %d times, and the record says %s %s %s", n, calls, call.State, call.Receipt().Effect, call.Code)
	}
	for i, r := range told {
		if r.err != nil {
			if code := refusal.Of(r.err); i > 1 && code != "" { // asked when it was over
				continue
			}
			t.Errorf("round %d, waiter %d: %v", n, i, r.err)
			continue
		}
		if got, want := r.receipt, call.Receipt(); got.Effect != want.Effect || got.Status != want.Status {
			t.Errorf("round %d, waiter %d: told %s %s %s, and the record says %s %s %s", n, i, got.Status, got.Effect, got.Code, want.Status, want.Effect, want.Code)
		}
	}
}
