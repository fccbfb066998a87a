package live_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/attended/live"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestOutOfTurn: the order of a channel's first frames, and what closes it.
func TestOutOfTurn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		register := func(p *page) controlv1.Register {
			return controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog}
		}
		other := tools("read_page:read")
		for name, c := range map[string]struct {
			say    func(p *page)
			code   controlv1.Close
			reason refusal.Code
		}{
			"no JSON":               {func(p *page) { p.raw([]byte(`{`)) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"a result first":        {func(p *page) { p.say(controlv1.Result{Call: id("call_1"), Outcome: ok()}) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"the catalog first":     {func(p *page) { p.say(register(p)) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"open twice":            {func(p *page) { p.say(p.open()); p.say(p.open()) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"a result before ready": {func(p *page) { p.say(p.open()); p.say(controlv1.Result{Call: id("call_1"), Outcome: ok()}) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"register twice":        {func(p *page) { p.say(p.open()); p.say(register(p)); p.say(register(p)) }, controlv1.CloseInvalid, refusal.InvalidRequest},
			"too large":             {func(p *page) { p.raw([]byte(`{"type":"` + strings.Repeat("x", controlv1.MaxFrame) + `"}`)) }, controlv1.CloseTooLarge, refusal.TooLarge},
			"another nonce":         {func(p *page) { p.nonce = sure(controlv1.ParseNonce(strings.Repeat("0", 64))); p.say(p.open()) }, controlv1.CloseTrust, refusal.ArmMismatch},
			"another route": {func(p *page) {
				p.say(controlv1.Open{Nonce: p.nonce, Route: id("other"), Generation: p.place.Generation})
			}, controlv1.CloseTrust, refusal.ArmMismatch},
			"another generation": {func(p *page) {
				p.say(controlv1.Open{Nonce: p.nonce, Route: p.place.Route, Generation: sure(controlv1.NewGeneration(8))})
			}, controlv1.CloseTrust, refusal.ArmMismatch},
			"another catalog":     {func(p *page) { p.say(p.open()); r := register(p); r.Catalog = other; p.say(r) }, controlv1.CloseTrust, refusal.ArmMismatch},
			"another route later": {func(p *page) { p.say(p.open()); r := register(p); r.Route = id("other"); p.say(r) }, controlv1.CloseTrust, refusal.ArmMismatch},
			"another generation then": {func(p *page) {
				p.say(p.open())
				r := register(p)
				r.Generation = sure(controlv1.NewGeneration(8))
				p.say(r)
			}, controlv1.CloseTrust, refusal.ArmMismatch},
		} {
			p := w.person(catalog).armed().dial()
			c.say(p)
			p.closed(c.code, c.reason)
			if t.Failed() {
				t.Fatalf("at: %s", name)
			}
		}
	})
}

// TestDrift: the binding is exact. Any other fact than those that were finalized
// opens nothing, and leaves the arm to its own page.
func TestDrift(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(p *page){
			"tenant":   func(p *page) { p.who.Tenant = "other" },
			"actor":    func(p *page) { p.who.Actor += "x" },
			"login":    func(p *page) { p.who.Login = ref.Mint[ref.LoginKind]() },
			"browser":  func(p *page) { p.who.Browser = ref.Mint[ref.BrowserKind]() },
			"issuer":   func(p *page) { p.who.Issuer += "/" },
			"acr":      func(p *page) { p.who.ACR = "urn:other" },
			"auth":     func(p *page) { p.who.AuthMS++ },
			"token":    func(p *page) { p.who.CredentialUntilMS++ },
			"policy":   func(p *page) { p.who.PolicyVersion = id("other") },
			"origin":   func(p *page) { p.place.Origin = sure(controlv1.ParseOrigin("https://app.example")) },
			"document": func(p *page) { p.place.Document = ref.Mint[ref.DocumentKind]() },
			"catalog":  func(p *page) { p.place.Catalog = catalog.Scope() },
			"scope":    func(p *page) { p.place.Scope = catalog.Digest() },
		} {
			p := w.person(catalog).armed()
			who, place := p.who, p.place
			change(p)
			p.dial()
			p.say(p.open())
			p.closed(controlv1.CloseTrust, refusal.ArmMismatch)
			if a := must[ledger.Arm](t)(w.book.Find(ctx, p.arm.Ref)); a.State != ledger.ArmActive {
				t.Errorf("%s: the arm is %s", name, a.State)
			}
			p.who, p.place = who, place
			p.dial()
			p.say(p.open())
			p.say(controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog})
			next[controlv1.Ready](p)
		}
	})
}

// TestOneUse: an arm opens one channel, and its end ends the arm.
func TestOneUse(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		second := &page{w: w, who: p.who, place: p.place, arm: p.arm, nonce: p.nonce}
		second.dial()
		second.say(second.open())
		second.closed(controlv1.CloseTrust, refusal.ArmReplayed)
		a := p.agent("agent").leased(catalog)
		got := a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "beside the second socket", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		p.pipe.Close(1000, "")
		<-p.served
		if arm := must[ledger.Arm](t)(w.book.Find(ctx, p.arm.Ref)); arm.State != ledger.ArmRevoked {
			t.Errorf("after the socket the arm is %s", arm.State)
		}
		want(t, "a call without a page", a.do(a.request("read_page")).err, refusal.LeaseRevoked)
		third := &page{w: w, who: p.who, place: p.place, arm: p.arm, nonce: p.nonce}
		third.dial()
		third.say(third.open())
		third.closed(controlv1.CloseTrust, refusal.Revoked)
	})
}

// TestRevokedUnderAnotherPolicy: an arm from before the policy changed opens nothing
// any more, and can still be taken back.
func TestRevokedUnderAnotherPolicy(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := open(t, url, nil)
		p := w.person(catalog).armed()
		other := must[*policy.Set](t)(policy.Parse("test.cedar", []byte(`@id("reads") permit (principal, action == Action::"observe", resource);`)))
		v := open(t, url, func(c *live.Config) { c.Policy = other })
		q := &page{w: v, who: p.who, place: p.place, arm: p.arm, nonce: p.nonce}
		q.dial()
		q.say(q.open())
		q.closed(controlv1.CloseTrust, refusal.ArmMismatch)
		if err := v.a.Revoke(ctx, p.who, p.arm.Ref, p.place, refusal.Revoked); err != nil {
			t.Error(err)
		}
		if a := must[ledger.Arm](t)(v.book.Find(ctx, p.arm.Ref)); a.State != ledger.ArmRevoked {
			t.Errorf("the arm is %s", a.State)
		}
	})
}

// TestEnds: whatever ends an arm closes its socket at once with its reason, ends
// what is under way honestly, and lets nothing new be sent.
func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			end    func(p *page)
			reason refusal.Code
		}{
			"signed out":  {func(p *page) { sure(0, w.book.EndBrowser(ctx, p.who.Browser, refusal.SignedOut)) }, refusal.SignedOut},
			"logged out":  {func(p *page) { sure(0, w.book.EndLogin(ctx, p.who.Login, refusal.LoggedOut)) }, refusal.SignedOut},
			"revoked":     {func(p *page) { sure(0, w.a.Revoke(ctx, p.who, p.arm.Ref, p.place, refusal.Revoked)) }, refusal.Revoked},
			"newest wins": {func(p *page) { q := w.page(p.who.Actor, origin, catalog); q.who.Browser = p.who.Browser; q.armed() }, refusal.Revoked},
			"another no": {func(p *page) {
				p.refuse(refusal.SessionExpired)
				p.say(controlv1.Result{Call: id("call_1"), Outcome: ok()})
			}, refusal.SignedOut},
			"the provider's no": {func(p *page) {
				p.refuse(refusal.Inactive)
				p.say(controlv1.Result{Call: id("call_1"), Outcome: ok()})
			}, refusal.RevalidationFailed},
		} {
			p := w.person(catalog).ready(catalog)
			a := p.agent("agent").leased(catalog)
			read := a.call(ctx, a.request("read_page"))
			next[controlv1.Call](p)
			save := a.call(ctx, a.request("save"))
			ask := next[controlv1.ConfirmationRequest](p)
			c.end(p)
			p.closed(controlv1.CloseTrust, c.reason)
			r := <-read
			if r.err != nil || r.receipt.Status != controlv1.StatusUnknown && r.receipt.Status != controlv1.StatusFailed || r.receipt.Code == "" {
				t.Errorf("%s: the read %+v", name, r)
			}
			if r = <-save; r.err != nil || r.receipt.Effect != controlv1.NoEffect {
				t.Errorf("%s: the unconfirmed %+v", name, r)
			}
			p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
			if err := a.do(a.request("read_page")).err; err == nil {
				t.Errorf("%s: a call went through", name)
			}
			w.check()
		}
	})
}

func TestKill(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		read := a.call(ctx, a.request("read_page"))
		c := next[controlv1.Call](p)
		k := must[ledger.Kill](t)(w.book.Kill(ctx, ledger.KillCall, c.Call.String(), p.w.a.Principal(a.c.Who)))
		if told := next[controlv1.Cancel](p); told.Call != c.Call || len(k.InFlight) != 1 {
			t.Errorf("told %+v, in flight %v", told, k.InFlight)
		}
		p.say(controlv1.Cancelled{Call: c.Call, Effect: controlv1.NoEffect})
		(<-read).is(t, "killed", controlv1.StatusCancelled, controlv1.NoEffect, refusal.Killed)
		must[ledger.Kill](t)(w.book.Kill(ctx, ledger.KillPrincipal, p.w.a.Principal(a.c.Who).String(), p.w.a.Principal(a.c.Who)))
		p.closed(controlv1.CloseTrust, refusal.Killed)
	})
}

// TestStrangers: a caller of another person, tenant or scope learns nothing and
// disturbs nobody.
func TestStrangers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p, q := w.person(catalog).ready(catalog), w.person(catalog).ready(catalog)
		a, b := p.agent("agent").leased(catalog), q.agent("agent").leased(catalog)
		x := a.request("read_page")
		want(t, "another's lease", b.do(x).err, refusal.Forbidden)
		_, err := w.a.Dispatch(ctx, b.c, controlv1.IssueLease{Document: p.place.Document, Tools: []controlv1.ID{id("read_page")}, TTLSeconds: 60})
		want(t, "another's document", err, refusal.UnknownDocument)
		got := a.call(ctx, x)
		c := next[controlv1.Call](p)
		want(t, "another's call", b.do(controlv1.AskCall{Call: c.Call}).err, refusal.UnknownCall)
		want(t, "another's call to cancel", b.do(controlv1.CancelCall{Call: c.Call, Reason: sure(controlv1.ParseWord("x"))}).err, refusal.UnknownCall)
		other := p.agent("second-agent")
		want(t, "another agent of the same person", other.do(controlv1.AskCall{Call: c.Call}).err, refusal.UnknownCall)
		q.say(controlv1.Result{Call: c.Call, Outcome: ok()}) // another page's word
		p.quiet()
		p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
		(<-got).is(t, "its own", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		docs := must[live.Answer](t)(w.a.Dispatch(ctx, b.c, controlv1.ListDocuments{})).(controlv1.Documents)
		if len(docs.All) != 1 || docs.All[0].Ref != q.place.Document {
			t.Errorf("lists %+v", docs)
		}
		_, err = w.a.Dispatch(ctx, live.Caller{}, controlv1.ListDocuments{})
		want(t, "nobody", err, refusal.Unauthenticated)
	})
}

func TestPressure(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// Eight prompts wait; the ninth call is refused and loses none of them.
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		var waiting []<-chan answered
		var asks []controlv1.ConfirmationRequest
		for range 8 {
			waiting = append(waiting, a.call(ctx, a.request("save")))
			asks = append(asks, next[controlv1.ConfirmationRequest](p))
		}
		want(t, "a ninth", a.do(a.request("save")).err, refusal.Busy)
		for _, ask := range asks {
			p.say(controlv1.Cancelled{Call: ask.Call, Effect: controlv1.NoEffect})
		}
		for _, c := range waiting {
			(<-c).is(t, "denied", controlv1.StatusDenied, controlv1.NoEffect, refusal.UserDenied)
		}
		for range 2 {
			got := a.call(ctx, a.request("save"))
			p.say(controlv1.Cancelled{Call: next[controlv1.ConfirmationRequest](p).Call, Effect: controlv1.NoEffect})
			<-got
		}
		want(t, "an eleventh in five minutes", a.do(a.request("save")).err, refusal.AttentionBudget)
		got := a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "a read beside it", controlv1.StatusSucceeded, controlv1.NoEffect, "")

		// A page that floods is closed, and harms only itself.
		q := w.person(catalog).ready(catalog)
		for range 100 {
			q.say(controlv1.Result{Call: id("call_nobodys"), Outcome: ok()})
		}
		q.closed(controlv1.CloseRate, refusal.RateLimited)
		got = a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "a read beside the flood", controlv1.StatusSucceeded, controlv1.NoEffect, "")
	})
}

// TestForeignClasses: on a page that isn't ours every tool changes an account, unless
// the operator says that it reads.
func TestForeignClasses(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := open(t, url, func(c *live.Config) { c.Reads = map[string][]string{"https://app.example": {"look"}} })
		for name, c := range map[string]struct {
			tools string
			fine  bool
		}{"listed": {"look:read", true}, "unlisted": {"peek:read", false}, "local": {"look:local-ui-mutation", false}, "account": {"peek:account-mutation", true}} {
			catalog := tools(c.tools)
			p := w.page(fresh("person-"), "https://app.example", catalog)
			if c.fine {
				p.ready(catalog)
				continue
			}
			p.armed().dial()
			p.say(p.open())
			p.say(controlv1.Register{Route: p.place.Route, Generation: p.place.Generation, Catalog: catalog})
			p.closed(controlv1.CloseInvalid, refusal.InvalidRequest)
			if t.Failed() {
				t.Fatal(name)
			}
		}
	})
}

// TestSilence: without the provider's word only what needs it is refused; ten seconds
// of that end the channel. A slow provider delays its own calls alone.
func TestSilence(t *testing.T) {
	path := storetest.SQLite(t)
	store.Open(ctx, path, store.Options{Migrate: true})
	synctest.Test(t, func(t *testing.T) {
		w := open(t, path, nil)
		p, q := w.person(catalog).ready(catalog), w.person(catalog).ready(catalog)
		a, b := p.agent("agent").leased(catalog), q.agent("agent").leased(catalog)
		p.refuse(errors.New("the provider is away"))
		want(t, "a call in silence", a.do(a.request("read_page")).err, refusal.AuthorityLost)
		got := b.call(ctx, b.request("read_page"))
		q.say(controlv1.Result{Call: next[controlv1.Call](q).Call, Outcome: ok()})
		(<-got).is(t, "another person's", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		time.Sleep(5 * time.Second)
		p.no.Store(nil)
		time.Sleep(2 * time.Second)
		got = a.call(ctx, a.request("read_page"))
		p.say(controlv1.Result{Call: next[controlv1.Call](p).Call, Outcome: ok()})
		(<-got).is(t, "after a hiccup", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		p.refuse(errors.New("the provider is away"))
		start := time.Now()
		a.do(a.request("read_page"))
		p.closed(controlv1.CloseTrust, refusal.RevalidationFailed)
		if d := time.Since(start); d < 9*time.Second || d > 12*time.Second {
			t.Errorf("closed after %s", d)
		}
		// An idle page whose sign-in ended where nobody told its arm; one whose provider
		// merely doesn't answer stays.
		idle, away := w.person(catalog).ready(catalog), w.person(catalog).ready(catalog)
		away.refuse(errors.New("the provider is away"))
		idle.refuse(refusal.SessionExpired)
		idle.closed(controlv1.CloseTrust, refusal.SignedOut)
		time.Sleep(20 * time.Second)
		away.no.Store(nil)
		other := away.agent("agent").leased(catalog)
		got = other.call(ctx, other.request("read_page"))
		away.say(controlv1.Result{Call: next[controlv1.Call](away).Call, Outcome: ok()})
		(<-got).is(t, "after a long silence without a need", controlv1.StatusSucceeded, controlv1.NoEffect, "")
		// A page that never says its first word.
		late := w.person(catalog).armed().dial()
		late.closed(controlv1.CloseTimeout, refusal.TimedOut)
		if arm := must[ledger.Arm](t)(w.book.Find(ctx, late.arm.Ref)); arm.State != ledger.ArmRevoked {
			t.Errorf("the unopened arm is %s", arm.State)
		}
		half := w.person(catalog).armed().dial()
		half.say(half.open())
		half.closed(controlv1.CloseTimeout, refusal.TimedOut)
	})
}

// TestNoYesIsKept: each check that begins after a round was sent gets another round.
func TestNoYesIsKept(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		for range 3 {
			before := p.asked.Load()
			got := a.call(ctx, a.request("read_page"))
			c := next[controlv1.Call](p)
			if n := p.asked.Load() - before; n < 2 { // at the look-up, and right before the frame
				t.Errorf("asked %d times before the frame", n)
			}
			before = p.asked.Load()
			p.say(controlv1.Result{Call: c.Call, Outcome: ok()})
			<-got
			if n := p.asked.Load() - before; n < 1 {
				t.Error("a frame was taken unasked")
			}
		}
		// What is gone between the claim and the frame isn't sent: no effect.
		x := a.request("save")
		got := a.call(ctx, x)
		ask := next[controlv1.ConfirmationRequest](p)
		p.w.a.Principal(a.c.Who)
		p.slow = make(chan struct{})
		p.say(controlv1.Confirm{Call: ask.Call, Confirmation: ask.Confirmation})
		p.slow <- struct{}{} // the frame itself
		p.refuse(refusal.Inactive)
		close(p.slow)
		p.closed(controlv1.CloseTrust, refusal.RevalidationFailed)
		(<-got).is(t, "gone before the frame", controlv1.StatusFailed, controlv1.NoEffect, refusal.NotDispatched)
	})
}

// TestNodeEnds: the end of a node closes its channels as going away, and leaves no
// call that claims more than is known.
func TestNodeEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.person(catalog).ready(catalog)
		a := p.agent("agent").leased(catalog)
		sent := a.call(ctx, a.request("read_page"))
		next[controlv1.Call](p)
		asked := a.call(ctx, a.request("save"))
		next[controlv1.ConfirmationRequest](p)
		if err := w.a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		p.closed(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
		if r := <-sent; r.err == nil && r.receipt.Status != controlv1.StatusUnknown && r.receipt.Status != controlv1.StatusFailed {
			t.Errorf("the read: %+v", r)
		}
		if r := <-asked; r.err == nil && r.receipt.Effect != controlv1.NoEffect {
			t.Errorf("the unconfirmed: %+v", r)
		}
		q := w.person(catalog).armed().dial()
		q.closed(controlv1.CloseGoingAway, refusal.ChannelUnavailable)
	})
}
