package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/identity"
	"chaperone/internal/node"
	"chaperone/internal/policy"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
	"chaperone/internal/surface/guard"
)

// seat is a person's armed page that a Go client plays, and an agent with a lease
// over it.
type seat struct {
	*page
	who   live.Caller
	lease controlv1.LeaseReceipt
	over  chan struct{} // closed with the page's socket
}

// play answers every frame at once, as a page with a person who always says yes.
func (s *seat) play() {
	defer close(s.over)
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		s.t.Error(err)
		return
	}
	for {
		_, data, err := s.ws.Read(context.Background())
		if err != nil {
			return
		}
		f, err := controlv1.DecodeAuthority(data)
		if err != nil {
			s.t.Error(err)
			return
		}
		switch f := f.(type) {
		case controlv1.ConfirmationRequest:
			s.say(controlv1.Confirm{Call: f.Call, Confirmation: f.Confirmation})
		case controlv1.Call:
			s.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Success{Value: value}})
		}
	}
}

// seats are so many people with a page each.
func (s *server) seats(t testing.TB, n int) []*seat {
	t.Helper()
	_, sessions, _ := s.node.Parts()
	a, _, _ := s.node.Attended()
	var all []*seat
	for i := range n {
		if i > 3 {
			time.Sleep(1300 * time.Millisecond) // who isn't signed in yet may ask twenty times a second
		}
		var o *owner
		name := fmt.Sprintf("P%d", i)
		if i == 0 {
			o = s.settle(name)
		} else {
			secret, err := s.node.Invite(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o = s.settleBy(secret, name)
		}
		p := o.page()
		p.arm()
		p.open()
		found, err := sessions.Find(t.Context(), o.agent.Cookie(guard.Cookie))
		if err != nil {
			t.Fatal(err)
		}
		who, err := identity.New(identity.Claims{Tenant: node.Tenant, Actor: found.Actor, Agent: "bench", Scopes: []string{"control:write"}, Roles: found.Roles})
		if err != nil {
			t.Fatal(err)
		}
		q := &seat{page: p, who: live.Caller{Who: who, Generation: 1}, over: make(chan struct{})}
		docs, err := a.Dispatch(t.Context(), q.who, controlv1.ListDocuments{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Dispatch(t.Context(), q.who, controlv1.IssueLease{Document: docs.(controlv1.Documents).All[0].Ref,
			Tools: []controlv1.ID{ident(t, "look"), ident(t, "write")}, TTLSeconds: 900})
		if err != nil {
			t.Fatal(err)
		}
		q.lease = got.(controlv1.LeaseReceipt)
		go q.play()
		all = append(all, q)
	}
	return all
}

// times are how long each of many things took.
type times []time.Duration

func (t times) at(q float64) float64 {
	slices.Sort(t)
	return float64(t[min(len(t)-1, int(q*float64(len(t))))].Microseconds()) / 1000
}

// together runs do n times by so many callers, and reports the middle, the 99th
// percentile and the rate.
func together(b *testing.B, callers, n int, do func(caller, i int) error) {
	var mu sync.Mutex
	var all times
	var next atomic.Int64
	var tasks sync.WaitGroup
	start := time.Now()
	for c := range callers {
		tasks.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				begin := time.Now()
				if err := do(c, i); err != nil {
					b.Error(err)
					return
				}
				took := time.Since(begin)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
		})
	}
	tasks.Wait()
	took := time.Since(start)
	if len(all) == 0 {
		return
	}
	b.ReportMetric(all.at(0.5), "p50-ms")
	b.ReportMetric(all.at(0.99), "p99-ms")
	b.ReportMetric(float64(n)/took.Seconds(), "per-s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAttended measures governed calls over real sockets, with the built-in
// provider asked for each look, beside what they can't cost less than: a durable
// commit, a round trip over a bare WebSocket, and the same transactions without a
// channel. Run it with -benchtime 1x: each case counts for itself.
func BenchmarkAttended(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			s := stand(b, func(c *node.Config) {
				if engine == "postgres" {
					c.Database = storetest.Postgres(b)
				}
			})
			all := s.seats(b, 64)
			a, book, db := s.node.Attended()
			bare(b, s, db)
			for _, callers := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("transactions/%d", callers), func(b *testing.B) { transactions(b, a, book, all, callers) })
				b.Run(fmt.Sprintf("read/%d", callers), func(b *testing.B) {
					time.Sleep(2500 * time.Millisecond) // the buckets fill again
					together(b, callers, 20*len(all), func(c, i int) error { return all[i%len(all)].run(a, "look", fmt.Sprintf("r-%d-%d", callers, i)) })
				})
			}
			// Ten prompts a person in five minutes: each case has people of its own.
			for _, c := range []struct{ callers, from, to int }{{1, 0, 10}, {16, 10, 26}, {64, 26, 64}} {
				b.Run(fmt.Sprintf("mutation/%d", c.callers), func(b *testing.B) {
					time.Sleep(2500 * time.Millisecond)
					people := all[c.from:c.to]
					together(b, c.callers, 10*len(people), func(_, i int) error {
						return people[i%len(people)].run(a, "write", fmt.Sprintf("m-%d-%d", c.callers, i))
					})
				})
			}
			b.Run("revocation", func(b *testing.B) {
				together(b, 64, 64, func(_, i int) error {
					p := all[i]
					p.do("POST", "/auth/logout", nil, nil)
					<-p.over
					return nil
				})
			})
		})
	}
}

func (s *seat) run(a *live.Authority, tool, name string) error {
	got, err := a.Dispatch(context.Background(), s.who, s.called(s.lease, tool, name))
	if err != nil {
		return err
	}
	if r := got.(controlv1.Receipt); r.Status != controlv1.StatusSucceeded {
		return fmt.Errorf("%s: %s %s", tool, r.Status, r.Code)
	}
	return nil
}

// bare measures a commit of one row, and a round trip.
func bare(b *testing.B, s *server, db *store.DB) {
	ctx := context.Background()
	err := db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(`create table bench (n bigint)`); return err })
	if err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("commit/%d", callers), func(b *testing.B) {
			together(b, callers, 640, func(_, i int) error {
				return db.Update(ctx, func(tx *store.Tx) error { _, err := tx.Exec(`insert into bench (n) values ($1)`, i); return err })
			})
		})
	}
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return
		}
		for {
			kind, data, err := c.Read(ctx)
			if err != nil || c.Write(ctx, kind, data) != nil {
				return
			}
		}
	}))
	b.Cleanup(echo.Close)
	c, _, err := websocket.Dial(ctx, strings.Replace(echo.URL, "http", "ws", 1), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.CloseNow() })
	b.Run("socket", func(b *testing.B) {
		together(b, 1, 2000, func(int, int) error {
			if err := c.Write(ctx, websocket.MessageText, make([]byte, 500)); err != nil {
				return err
			}
			_, _, err := c.Read(ctx)
			return err
		})
	})
}

// transactions are those of a read, T1 and its end, against the ledger alone.
func transactions(b *testing.B, a *live.Authority, book *attended.Book, all []*seat, callers int) {
	ctx := context.Background()
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		b.Fatal(err)
	}
	together(b, callers, 20*len(all), func(_, i int) error {
		s := all[i%len(all)]
		who := attended.Caller{Principal: a.Principal(s.who.Who), Agent: controlv1.MaskAgent(a.Key, "bench"), Roles: s.who.Who.Roles(), PolicyVersion: a.Terms(), GrantGeneration: 1}
		l, err := book.ShowLease(ctx, who, s.lease.Lease)
		if err != nil {
			return err
		}
		x := s.called(s.lease, "look", fmt.Sprintf("t-%d-%d", callers, i))
		resource, err := policy.OwnTool("look", a.Origin, "portal")
		if err != nil {
			return err
		}
		c, _, err := book.Admit(ctx, attended.Admission{Caller: who, Timeout: 30 * time.Second, Reference: attended.NewReference(),
			Request: controlv1.Request{Binding: l.Binding, Lease: x.Lease, ID: x.Request, Tool: x.Tool, Schemas: x.Schemas, Arguments: x.Arguments},
			Ruling:  attended.Ruling{Set: a.Policy, Who: s.who.Who, Resource: resource}})
		if err == nil {
			_, err = book.Settle(ctx, c.ID, controlv1.Success{Value: value}, "")
		}
		return err
	})
}
