package live_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/idptest"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func ok() controlv1.Outcome { return controlv1.Success{Value: value(`{"ok":true}`)} }

func TestRead(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		docs := must[live.Answer](t)(w.a.Dispatch(ctx, a.c, controlv1.ListDocuments{})).(controlv1.Documents)
		if len(docs.All) != 1 || docs.All[0].Ref != p.place.Document || docs.All[0].Catalog.Digest() != catalog.Digest() || docs.All[0].Origin.String() != origin {
			t.Errorf("documents: %+v", docs)
		}
		x := a.request("read_page")
		before := w.db.Commits()
		got := a.call(ctx, x)
		c := next[controlv1.Call](p)
		if _, read := c.Authorization.(controlv1.AsRead); !read || c.Tool != x.Tool || string(c.Arguments.Bytes()) != string(x.Arguments.Bytes()) || c.Lease != x.Lease {
			t.Errorf("sent %+v", c)
		}
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		r := <-got
		r.is(t, "a read", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		if string(r.receipt.Result.Bytes()) != `{"ok":true}` || r.receipt.ResultDigest != controlv1.ResultDigest(r.receipt.Result) || r.receipt.Level != "" {
			t.Errorf("receipt %+v", r.receipt)
		}
		if n := w.db.Commits() - before; n != 2 {
			t.Errorf("a read took %d commits", n)
		}
		// The same request again is that call; its result is told once.
		again := a.do(x)
		again.is(t, "again", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		if again.receipt.Call != r.receipt.Call || !again.receipt.Result.IsZero() {
			t.Errorf("again: %+v", again.receipt)
		}
		p.quiet()
	})
}

func TestMutation(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		before := w.db.Commits()
		got := a.call(ctx, a.request("save"))
		ask := next[controlv1.ConfirmationRequest](p)
		if _, click := ask.Level.(controlv1.AskClick); !click {
			t.Errorf("asked at %T", ask.Level)
		}
		p.quiet() // nothing to execute before the confirmation
		p.say(controlv1.Result{Call: ask.Call, Outcome: ok()})
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Schemas}) // another digest
		p.quiet()
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		c := next[controlv1.Call](p)
		if as, isConfirmed := c.Authorization.(controlv1.AsConfirmed); !isConfirmed || as.Confirmation != ask.Confirmation {
			t.Errorf("sent %+v", c)
		}
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}) // again is nothing
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		r := <-got
		r.is(t, "a mutation", controlv1.StatusSucceeded, controlv1.Committed, "")
		if r.receipt.Level != controlv1.VisibleClick {
			t.Errorf("level %q", r.receipt.Level)
		}
		if n := w.db.Commits() - before; n != 3 {
			t.Errorf("a mutation took %d commits", n)
		}
		p.quiet()

		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Result{Call: ask.Call, Outcome: controlv1.Failure{Code: sure(controlv1.ParseWord("not_started"))}})
		(<-got).is(t, "a page that can't ask", controlv1.StatusFailed, controlv1.NoEffect, refusal.NotDispatched)
		if c := next[controlv1.Cancel](p); c.Call != ask.Call {
			t.Errorf("cancels %s", c.Call)
		}

		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Cancelled{Call: ask.Call, Effect: controlv1.NoEffect})
		(<-got).is(t, "denied", controlv1.StatusDenied, controlv1.NoEffect, refusal.UserDenied)

		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		c = next[controlv1.Call](p)
		p.say(controlv1.Result{Call: c.Call, Outcome: controlv1.Failure{Code: sure(controlv1.ParseWord("broke"))}})
		(<-got).is(t, "failed", controlv1.StatusFailed, controlv1.UnknownEffect, refusal.ExecutionFailed)

		got = a.call(ctx, a.request("save"))
		ask = next[controlv1.ConfirmationRequest](p)
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		c = next[controlv1.Call](p)
		p.say(controlv1.Result{Call: c.Call, Outcome: controlv1.Failure{Code: sure(controlv1.ParseWord("not_started"))}})
		(<-got).is(t, "not begun", controlv1.StatusFailed, controlv1.NoEffect, refusal.NotDispatched)
	})
}

// TestBadResults: what is wrong with one call fails that call, and the channel stays.
func TestBadResults(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		for name, outcome := range map[string]func(controlv1.ID) []byte{
			"not its schema": func(c controlv1.ID) []byte {
				return sure(controlv1.EncodePage(controlv1.Result{Call: c, Outcome: controlv1.Success{Value: value(`{"ok":1}`)}}))
			},
			"too large": func(c controlv1.ID) []byte {
				return fmt.Appendf(nil, `{"protocol":"webmcp.control.v1","type":"control.result","call_id":%q,"status":"succeeded","result":{"ok":true,"pad":%q}}`, c, strings.Repeat("x", 1500))
			},
			"a float": func(c controlv1.ID) []byte {
				return fmt.Appendf(nil, `{"protocol":"webmcp.control.v1","type":"control.result","call_id":%q,"status":"succeeded","result":{"ok":true,"n":1.5}}`, c)
			},
		} {
			got := a.call(ctx, a.request("read_page"))
			p.raw(outcome(next[controlv1.Call](p).Call))
			(<-got).is(t, name, controlv1.StatusFailed, controlv1.NoEffect, refusal.ResultInvalid)
		}
		// A stranger's call is nobody's.
		p.say(controlv1.Result{Call: id("call_nobodys"), Outcome: ok()})
		p.say(controlv1.Confirm{Call: id("call_nobodys"), Confirmation: catalog.Digest()})
		got := a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "afterwards", controlv1.StatusSucceeded, controlv1.NoEffect, "")
	})
}

func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		reason := sure(controlv1.ParseWord("changed-its-mind"))

		got := a.call(ctx, a.request("save"))
		ask := next[controlv1.ConfirmationRequest](p)
		a.do(controlv1.CancelCall{Call: ask.Call, Reason: reason}).is(t, "before", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		(<-got).is(t, "before, to its caller", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
		if c, told := p.hear().(controlv1.Cancel); !told || c.Call != ask.Call {
			t.Errorf("the page keeps its prompt: %+v", c)
		}
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		p.quiet()

		for effect, then := range map[controlv1.Effect]func(answered){
			controlv1.NoEffect: func(r answered) {
				r.is(t, "stopped", controlv1.StatusCancelled, controlv1.NoEffect, refusal.CallCancelled)
			},
			controlv1.Committed: func(r answered) {
				r.is(t, "done", controlv1.StatusSucceeded, controlv1.Committed, "")
			},
			controlv1.UnknownEffect: func(r answered) {
				r.is(t, "who knows", controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.CallCancelled)
			},
		} {
			got := a.call(ctx, a.request("save"))
			ask := next[controlv1.ConfirmationRequest](p)
			p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
			c := next[controlv1.Call](p)
			cancelled := a.call(ctx, controlv1.CancelCall{Call: c.Call, Reason: reason})
			if k := next[controlv1.Cancel](p); k.Call != c.Call {
				t.Errorf("cancels %s", k.Call)
			}
			p.say(controlv1.Cancelled{Call: c.Call, Effect: effect})
			then(<-cancelled)
			then(<-got)
		}

		// A caller that leaves cancels; a result that comes first wins.
		leaving, leave := context.WithCancel(ctx)
		got = a.call(leaving, a.request("read_page"))
		c := next[controlv1.Call](p)
		leave()
		if r := <-got; r.err == nil {
			t.Errorf("who left was answered %+v", r.receipt)
		}
		if k := next[controlv1.Cancel](p); k.Call != c.Call {
			t.Errorf("cancels %s", k.Call)
		}
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		a.do(controlv1.AskCall{Call: c.Call, WaitSeconds: 5}).is(t, "a result in time", controlv1.StatusSucceeded, controlv1.NoEffect, "")
	})
}

// TestTime lets the windows pass: silence is unknown, a late result reconciles, and
// after thirty seconds the call is failed for good.
func TestTime(t *testing.T) {
	path := storetest.SQLite(t)
	store.Open(ctx, path, store.Options{Migrate: true})
	synctest.Test(t, func(t *testing.T) {
		w := open(t, path, nil)
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		lost := func() (controlv1.ID, answered) {
			x := a.request("save")
			x.TimeoutSeconds = 5
			got := a.call(ctx, x)
			ask := next[controlv1.ConfirmationRequest](p)
			p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
			c := next[controlv1.Call](p)
			next[controlv1.Cancel](p)
			return c.Call, <-got
		}
		call, r := lost()
		r.is(t, "silence", controlv1.StatusUnknown, controlv1.UnknownEffect, refusal.TimedOut)
		wait := a.call(ctx, controlv1.AskCall{Call: call, WaitSeconds: 20})
		time.Sleep(10 * time.Second)
		p.say(controlv1.Result{Call: call, Outcome: ok()})
		r = <-wait
		r.is(t, "a late result", controlv1.StatusSucceeded, controlv1.Committed, "")
		if r.receipt.Result.IsZero() {
			t.Error("the late result wasn't told")
		}

		call, _ = lost()
		time.Sleep(31 * time.Second)
		p.say(controlv1.Result{Call: call, Outcome: ok()})
		time.Sleep(time.Second)
		a.do(controlv1.ReconcileCall{Call: call}).is(t, "after the window", controlv1.StatusFailed, controlv1.UnknownEffect, refusal.WindowExpired)

		// A mutation that waits for the person is answered after twenty seconds, and
		// lapses at its deadline; a client's retry makes no second prompt.
		x := a.request("save")
		start := time.Now()
		r = a.do(x)
		r.is(t, "pending", controlv1.StatusPending, controlv1.NoEffect, "")
		if d := time.Since(start); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("answered after %s", d)
		}
		next[controlv1.ConfirmationRequest](p)
		retry := x
		retry.Request = id(fresh("request-"))
		again := a.call(ctx, retry)
		time.Sleep(time.Second)
		p.quiet()
		wait = a.call(ctx, controlv1.AskCall{Call: r.receipt.Call, WaitSeconds: 50})
		(<-wait).is(t, "still pending", controlv1.StatusPending, controlv1.NoEffect, "")
		if same := <-again; same.receipt.Call != r.receipt.Call {
			t.Errorf("the retry is another call: %+v", same)
		}
		time.Sleep(60 * time.Second)
		a.do(controlv1.AskCall{Call: r.receipt.Call}).is(t, "nobody answered", controlv1.StatusDenied, controlv1.NoEffect, refusal.ConfirmExpired)
		// The end of the arm is the end of the channel.
		time.Sleep(15 * time.Minute)
		p.closed(controlv1.CloseTrust, refusal.ArmExpired)
	})
}

func TestPasskey(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		secret := must[string](t)(w.people.Enrolment(ctx, "Ann"))
		device := &idptest.Authenticator{Origin: origin, RPID: "localhost", Counting: true}
		options := must[[]byte](t)(w.people.BeginEnrol(ctx, secret, "Ann"))
		ann, _, err := w.people.FinishEnrol(ctx, secret, "Ann", must[[]byte](t)(device.Create(options)))
		if err != nil {
			t.Fatal(err)
		}
		p := w.page(ann.ID, origin, catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		got := a.call(ctx, a.request("item_delete"))
		ask := next[controlv1.ConfirmationRequest](p)
		key, isKey := ask.Level.(controlv1.AskPasskey)
		if !isKey || key.RPID.String() != "localhost" || len(key.Keys) != 1 {
			t.Fatalf("asked %+v", ask.Level)
		}
		assertion := func(challenge string) controlv1.Value {
			return value(string(must[[]byte](t)(device.Get(fmt.Appendf(nil, `{"publicKey":{"challenge":%q}}`, challenge)))))
		}
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation}) // a click isn't enough
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation, Assertion: assertion(base64.RawURLEncoding.EncodeToString(make([]byte, 32)))})
		p.quiet()
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation, Assertion: assertion(key.Challenge.String())})
		c := next[controlv1.Call](p)
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		r := <-got
		r.is(t, "by passkey", controlv1.StatusSucceeded, controlv1.Committed, "")
		if r.receipt.Level != controlv1.Passkey {
			t.Errorf("level %q", r.receipt.Level)
		}
		// Who has no passkey is never asked for one.
		q := w.person(catalog).ready(catalog)
		want(t, "no passkey", q.agent("agent").leased(catalog).do(controlv1.ExecuteCall{}).err, refusal.Forbidden)
		b := q.agent("agent").leased(catalog)
		want(t, "no passkey", b.do(b.request("item_delete")).err, refusal.PolicyUnavailable)
	})
}
