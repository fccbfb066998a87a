package live_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/audit"
	"chaperone/internal/controltest"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/storetest"
)

// tap is a page's socket that keeps which calls left over it.
type tap struct {
	*controltest.Pipe
	mu   sync.Mutex
	sent map[controlv1.ID]int
}

func (s *tap) Write(ctx context.Context, data []byte) error {
	f, err := controlv1.DecodeAuthority(data)
	if err != nil {
		panic(err)
	}
	if err := s.Pipe.Write(ctx, data); err != nil {
		return err
	}
	if c, ok := f.(controlv1.Call); ok {
		s.mu.Lock()
		s.sent[c.Call]++
		s.mu.Unlock()
	}
	return nil
}

// wait waits until so many calls have left.
func (s *tap) wait(n int) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		left := len(s.sent)
		s.mu.Unlock()
		if left >= n {
			return
		}
	}
}

// eager arms a page that confirms whatever it is asked at once, and answers every
// second call.
func (w *world) eager() (*page, *tap) {
	w.t.Helper()
	p := w.person(catalog).armed()
	p.pipe = controltest.NewPipe()
	p.served = make(chan struct{})
	s := &tap{Pipe: p.pipe, sent: map[controlv1.ID]int{}}
	go func() {
		defer close(p.served)
		w.a.Channel(ctx, p.trust(), p.arm.Ref, p.place, s)
	}()
	p.say(p.open())
	p.say(controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog})
	next[controlv1.Ready](p)
	go func() {
		for n := 0; ; n++ {
			select {
			case data := <-p.pipe.Down:
				switch f := sure(controlv1.DecodeAuthority(data)).(type) {
				case controlv1.ConfirmationRequest:
					p.say(controlv1.Confirm{Call: f.Call, Confirmation: f.Confirmation})
				case controlv1.Call:
					if n%2 == 0 {
						p.say(controlv1.Result{Call: f.Call, Outcome: ok()})
					}
				}
			case <-p.pipe.Gone:
				return
			}
		}
	}()
	return p, s
}

// TestClaimsRaceRevocations lets calls of an armed page race each way in which its
// authority ends. By the log's own order no call is claimed after the arm's end;
// nothing leaves without its claim, and never twice; the socket is closed with its
// reason, and what was queued for it is dropped.
func TestClaimsRaceRevocations(t *testing.T) {
	type end struct {
		name   string
		reason refusal.Code
		do     func(w *world, p *page) error
	}
	kill := func(scope ledger.KillScope, target func(p *page) string) func(w *world, p *page) error {
		return func(w *world, p *page) error {
			k, err := w.book.Kill(ctx, scope, target(p), ref.Principal{})
			if err == nil {
				err = w.book.Lift(ctx, k.ID, ref.Principal{})
			}
			return err
		}
	}
	principal := func(w *world, p *page) ref.Principal { return p.who.Principal(key) }
	ends := []end{
		{"Revoke", refusal.Revoked, func(w *world, p *page) error {
			return w.a.Revoke(ctx, p.who, p.arm.Ref, p.place, refusal.Revoked)
		}},
		{"EndBrowser", refusal.SignedOut, func(w *world, p *page) error { return w.book.EndBrowser(ctx, p.who.Browser, refusal.SignedOut) }},
		{"EndLogin", refusal.SignedOut, func(w *world, p *page) error { return w.book.EndLogin(ctx, p.who.Login, refusal.SignedOut) }},
		{"EndPrincipal", refusal.Revoked, func(w *world, p *page) error { return w.book.EndPrincipal(ctx, principal(w, p), refusal.Revoked) }},
		{"Kill arm", refusal.Killed, kill(ledger.KillArm, func(p *page) string { return p.arm.Ref.String() })},
		{"Kill principal", refusal.Killed, kill(ledger.KillPrincipal, func(p *page) string { return p.who.Principal(key).String() })},
		{"Kill all", refusal.Killed, kill(ledger.KillAll, func(*page) string { return "" })},
	}
	each(t, func(t *testing.T, w *world) {
		sent := 0
		for round := range storetest.Rounds(2*len(ends), 100*len(ends)) {
			e, calls := ends[round%len(ends)], 6
			if round%3 == 0 {
				calls = 44 // more than may leave at once: some are queued
			}
			random := rand.New(rand.NewPCG(uint64(round), 1))
			p, s := w.eager()
			a := p.agent("agent").leased(catalog)
			var all sync.WaitGroup
			receipts := make([]answered, calls)
			for n := range calls {
				pause := time.Duration(random.IntN(20)) * time.Millisecond
				tool := "read_page"
				if n%6 == 1 {
					tool = "save"
				}
				all.Go(func() {
					time.Sleep(pause)
					receipts[n] = a.do(a.request(tool))
				})
			}
			s.wait(round % 4) // among the calls, however slow the machine is
			time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
			if err := e.do(w, p); err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			p.closed(controlv1.CloseTrust, e.reason)
			all.Wait()
			for _, r := range receipts {
				s.mu.Lock()
				left := s.sent[r.receipt.Call]
				s.mu.Unlock()
				switch {
				case r.err != nil:
				case left > 1, left == 0 && (r.receipt.Status == controlv1.StatusSucceeded || r.receipt.Effect == controlv1.Committed):
					t.Errorf("%s: left %d times, told %s %s", e.name, left, r.receipt.Status, r.receipt.Effect)
				case r.receipt.Status == controlv1.StatusPending, r.receipt.Status == controlv1.StatusDispatched:
					t.Errorf("%s: told %s after the end", e.name, r.receipt.Status)
				}
			}
			s.mu.Lock()
			sent += len(s.sent)
			w.ordered(p, s.sent)
			s.mu.Unlock()
			if t.Failed() {
				t.Fatalf("round %d, %s", round, e.name)
			}
		}
		if sent == 0 {
			t.Error("no call ever left: nothing raced")
		}
	})
}

// ordered holds the claims under a page's arm to the arm's end, by the log.
func (w *world) ordered(p *page, sent map[controlv1.ID]int) {
	w.t.Helper()
	calls := map[string]bool{}
	for _, c := range must[[]ledger.Call](w.t)(w.book.OfDocument(ctx, p.place.Document)) {
		calls[c.ID.String()] = true
	}
	claims, ended, late := map[string]int{}, 0, []string{}
	must[int](w.t)(0, audit.Records(ctx, w.db, audit.Filter{}, func(r audit.Record) error {
		switch {
		case r.Kind == "attended.arm_revoked" && r.Subject == p.arm.Ref.String():
			ended++
		case (r.Kind == "attended.call_dispatched" || r.Kind == "attended.call_confirmed") && calls[r.Subject]:
			claims[r.Subject]++
			if ended > 0 {
				late = append(late, r.Subject)
			}
		}
		return nil
	}))
	if ended != 1 || len(late) > 0 {
		w.t.Errorf("the arm ended %d times, and these were claimed after it: %v", ended, late)
	}
	for call, n := range sent {
		if n != 1 || claims[call.String()] != 1 {
			w.t.Errorf("%s left %d times with %d claims", call, n, claims[call.String()])
		}
	}
}

// TestOwnerGone: where the owner's sign-in is over, the caller is told that the
// authority is lost, and not that something of ours didn't answer.
func TestOwnerGone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, no := range []refusal.Code{refusal.SignedOut, refusal.Revoked, refusal.RevalidationFailed} {
			p := w.person(catalog).ready(catalog)
			a := p.agent("agent").leased(catalog)
			p.refuse(no)
			want(t, string(no), a.do(a.request("read_page")).err, refusal.AuthorityLost)
			<-p.served
		}
	})
}
