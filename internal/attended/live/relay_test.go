package live_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/refusal"
	"chaperone/internal/relay"
	"chaperone/internal/relaytest"
	"chaperone/internal/storetest"
)

// joined is a node that reaches the others over a NATS server.
func joined(t *testing.T, url string, s *relaytest.Server) *world {
	t.Helper()
	return open(t, url, func(c *live.Config) {
		bus, err := relay.Dial(ctx, relay.Options{Address: s.Address(), Node: c.Book.Node(), Key: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			end, done := context.WithTimeout(ctx, 20*time.Second)
			defer done()
			if err := bus.Close(end); err != nil {
				t.Error(err)
			}
		})
		c.Bus = bus
		c.Grants = func(_ context.Context, g live.Grant) (int64, error) {
			if g != grant {
				return 0, refusal.AuthorityLost
			}
			return 1, nil
		}
	})
}

var grant = live.Grant{Family: "family", Connection: "connection"}

// A page at one node, its agent and its person at another: everything that can be
// asked for goes there and comes back, as if there were one node.
func TestRelayed(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		s := relaytest.Start(t, relaytest.Options{})
		w, v := joined(t, url, s), joined(t, url, s)
		p := w.person(catalog).ready(catalog)
		mine := p.agent("agent")
		b := mine.at(v)
		b.p.place = p.place
		b.c.Grant = grant
		b.c.Look = func(context.Context) (int64, error) { return 1, nil }
		docs := must[live.Answer](t)(v.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})).(controlv1.Documents)
		here := must[live.Answer](t)(w.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})).(controlv1.Documents)
		if x, y := string(sure(docs.Encode())), string(sure(here.Encode())); x != y || len(docs.All) != 1 {
			t.Errorf("the other node lists\n%s\nand this one\n%s", x, y)
		}
		b.leased(catalog)
		stranger := v.person(catalog).agent("agent")
		if _, err := v.a.Dispatch(ctx, stranger.c, controlv1.IssueLease{Document: p.place.Document, Tools: []controlv1.ID{id("save")}, TTLSeconds: 10}); refusal.Of(err) != refusal.UnknownDocument {
			t.Errorf("a stranger's lease: %v", err)
		}

		// A read, with as many arguments as there may be, and its result.
		x := b.request("read_page")
		x.Arguments = value(`{"n":"` + strings.Repeat("a", controlv1.MaxArguments-len(`{"n":""}`)) + `"}`)
		got := b.call(ctx, x)
		call := next[controlv1.Call](p)
		if call.Arguments.Digest() != x.Arguments.Digest() {
			t.Error("other arguments arrive")
		}
		p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value(`{"ok":true}`)}})
		r := <-got
		r.is(t, "a read", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		if string(r.receipt.Result.Bytes()) != `{"ok":true}` {
			t.Errorf("its result is %s", r.receipt.Result.Bytes())
		}
		want(t, "bad arguments", b.do(func() controlv1.Action { x := b.request("read_page"); x.Arguments = value(`{"m":1}`); return x }()).err, refusal.ArgumentsInvalid)

		// A mutation that the page confirms, followed from the other node.
		got = b.call(ctx, b.request("save"))
		ask := next[controlv1.ConfirmationRequest](p)
		follow := b.call(ctx, controlv1.AskCall{Call: ask.Call, WaitSeconds: 20})
		time.Sleep(50 * time.Millisecond)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		next[controlv1.Call](p)
		(<-follow).is(t, "followed", controlv1.StatusDispatched, controlv1.UnknownEffect, "")
		p.say(controlv1.Result{Call: ask.Call, Outcome: controlv1.Success{Value: value(`{"ok":true}`)}})
		(<-got).is(t, "confirmed in the page", controlv1.StatusSucceeded, controlv1.Committed, "")
		b.do(controlv1.ReconcileCall{Call: ask.Call}).is(t, "reconciled", controlv1.StatusSucceeded, controlv1.Committed, "")

		// One that the person confirms, and one that they deny, at the other node.
		for _, yes := range []bool{true, false} {
			got = b.call(ctx, b.request("save"))
			ask = next[controlv1.ConfirmationRequest](p)
			prompts := v.a.Prompts(ctx, b.c.Who)
			if len(prompts) != 1 || prompts[0].Call != ask.Call || prompts[0].Arguments.Digest() != ask.Arguments.Digest() || prompts[0].Agent != "agent" || prompts[0].Route != p.place.Route {
				t.Fatalf("asked there: %+v", prompts)
			}
			if n := len(v.a.Prompts(ctx, stranger.c.Who)); n != 0 {
				t.Errorf("a stranger is asked %d times", n)
			}
			k := &controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}
			if _, err := v.a.Decide(ctx, stranger.c.Who, ask.Call, k); refusal.Of(err) != refusal.UnknownCall {
				t.Errorf("a stranger decides: %v", err)
			}
			bad := *k
			bad.Confirmation = ask.Schemas
			if _, err := v.a.Decide(ctx, b.c.Who, ask.Call, &bad); refusal.Of(err) != refusal.RequestConflict {
				t.Errorf("another digest: %v", err)
			}
			if !yes {
				k = nil
			}
			done, err := v.a.Decide(ctx, b.c.Who, ask.Call, k)
			if err != nil || yes && done.State != ledger.CallDispatched || !yes && done.State != ledger.CallDenied {
				t.Fatalf("decided %v: %s, %v", yes, done.State, err)
			}
			if !yes {
				(<-got).is(t, "denied", controlv1.StatusDenied, controlv1.NoEffect, refusal.UserDenied)
				continue
			}
			next[controlv1.Call](p)
			p.say(controlv1.Result{Call: ask.Call, Outcome: controlv1.Success{Value: value(`{"ok":true}`)}})
			(<-got).is(t, "confirmed there", controlv1.StatusSucceeded, controlv1.Committed, "")
		}

		// Cancelled at the other node, before and after it was sent; and by leaving.
		stop := sure(controlv1.ParseWord("stop"))
		got = b.call(ctx, b.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		b.do(controlv1.CancelCall{Call: ask.Call, Reason: stop}).is(t, "cancelled before", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		(<-got).is(t, "who waited", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		next[controlv1.Cancel](p)
		got = b.call(ctx, b.request("read_page"))
		call = next[controlv1.Call](p)
		cancelled := b.call(ctx, controlv1.CancelCall{Call: call.Call, Reason: stop})
		next[controlv1.Cancel](p)
		p.say(controlv1.Cancelled{Call: call.Call, Effect: controlv1.NoEffect})
		(<-cancelled).is(t, "cancelled after", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		<-got
		leaving, leave := context.WithCancel(ctx)
		got = b.call(leaving, b.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		leave()
		<-got
		if c := next[controlv1.Cancel](p); c.Call != ask.Call {
			t.Errorf("the page is told of %s", c.Call)
		}

		// The lease ended there is over here.
		if lease := b.do(controlv1.RevokeLease{Lease: b.lease.Lease, Reason: stop}); lease.err != nil {
			t.Error(lease.err)
		}
		want(t, "after its end", b.do(b.request("save")).err, refusal.LeaseRevoked)

		// A grant that is over at the node that looks.
		b.c.Grant.Family = "another"
		if _, err := v.a.Dispatch(ctx, b.c, controlv1.IssueLease{Document: p.place.Document, Tools: []controlv1.ID{id("save")}, TTLSeconds: 10}); refusal.Of(err) != refusal.AuthorityLost {
			t.Errorf("another grant: %v", err)
		}

		// An end there closes the socket here, at once.
		start := time.Now()
		if err := v.book.EndLogin(ctx, p.who.Login, refusal.SignedOut); err != nil {
			t.Fatal(err)
		}
		p.closed(controlv1.CloseTrust, refusal.SignedOut)
		t.Logf("closed after %v", time.Since(start))
	})
}

// What an agent read by way of one node counts at the other, where the rules ask.
func TestTaintTravels(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		s := relaytest.Start(t, relaytest.Options{})
		w, v := joined(t, url, s), joined(t, url, s)
		p := w.person(catalog).ready(catalog)
		q := v.page(p.who.Actor, origin, catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		if heard(v, a) {
			t.Error("before it read anything")
		}
		got := a.call(ctx, a.request("item_read"))
		call := next[controlv1.Call](p)
		p.say(controlv1.Result{Call: call.Call, Outcome: controlv1.Success{Value: value(`{"ok":true}`)}})
		<-got
		if !heard(v, a) || heard(v, p.agent("another")) {
			t.Error("what was read here isn't known there, or of another agent")
		}
		q.quiet()
	})
}

func heard(w *world, a *agent) bool { return w.a.Tainted(ctx, a.c.Who) }

// The relay is down, or the page's node is: what wasn't asked is unavailable, and what
// was sent is told from the record.
func TestRelayLost(t *testing.T) {
	url := storetest.Postgres(t)
	s := relaytest.Start(t, relaytest.Options{})
	w, v := joined(t, url, s), joined(t, url, s)
	p := w.person(catalog).ready(catalog)
	b := p.agent("agent").leased(catalog).at(v)
	got := b.call(ctx, b.request("save"))
	ask := next[controlv1.ConfirmationRequest](p)
	s.Down()
	for end := time.Now().Add(10 * time.Second); v.a.Bus.Err() == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	want(t, "a new call", b.do(b.request("read_page")).err, refusal.ChannelUnavailable)
	_, err := v.a.Dispatch(ctx, b.c, controlv1.IssueLease{Document: p.place.Document, Tools: []controlv1.ID{id("save")}, TTLSeconds: 10})
	want(t, "a lease", err, refusal.ChannelUnavailable)
	_, err = v.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})
	want(t, "a list", err, refusal.ChannelUnavailable)
	b.do(controlv1.AskCall{Call: ask.Call}).is(t, "get_call", controlv1.StatusPending, controlv1.NoEffect, "")
	p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
	next[controlv1.Call](p)
	p.say(controlv1.Result{Call: ask.Call, Outcome: controlv1.Success{Value: value(`{"ok":true}`)}})
	r := <-got
	r.is(t, "what was under way", controlv1.StatusSucceeded, controlv1.Committed, "")
	p.quiet()
	s.Up()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		docs, err := v.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})
		if err == nil && len(docs.(controlv1.Documents).All) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not up again: %v", err)
		}
	}
}

// What comes over the bus decodes strictly, or is refused; and what does encodes again.
func FuzzPassed(f *testing.F) {
	for _, s := range []string{
		`{"terms":"v1","tenant":"local","actor":"a","roles":[],"scopes":["control:write"],"agent":"b","family":"f","connection":"c","generation":1,"action":{"action":"list_documents"}}`,
		`{"terms":"v1","tenant":"local","actor":"a","roles":[],"scopes":[],"agent":"","family":"","connection":"","generation":0,"call":"call_1"}`, `{}`, ``, `null`,
	} {
		for _, topic := range []string{"dispatch", "document", "prompt", "decide", "other"} {
			f.Add(topic, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, topic string, body []byte) { live.Passed(topic, body) })
}
