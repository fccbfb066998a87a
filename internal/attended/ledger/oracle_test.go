package ledger_test

import (
	"testing"

	"pgregory.net/rapid"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// oracle is what one person's work should be, kept by the simplest means.
type oracle struct {
	arm      string // "", granted, active, consumed, over
	step     string // of the publication: "", pending, pointed, published, retired
	lease    string // "", active, revoked
	killed   bool
	prompts  int
	calls    map[controlv1.ID]ledger.CallState
	attempts map[controlv1.ID]int64
}

// world drives one person's work and its oracle alike.
type world struct {
	*stage
	o    oracle
	kill ledger.Kill
	asks map[controlv1.ID]ledger.Confirmed
	ms   map[controlv1.ID]ledger.Admission
	ids  []controlv1.ID
}

// TestAgainstOracle does verbs in any order and compares the ledger with what the
// oracle says after each.
func TestAgainstOracle(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		rapid.Check(t, func(rt *rapid.T) {
			w := &world{stage: b.person(t), asks: map[controlv1.ID]ledger.Confirmed{}, ms: map[controlv1.ID]ledger.Admission{},
				o: oracle{calls: map[controlv1.ID]ledger.CallState{}, attempts: map[controlv1.ID]int64{}}}
			rt.Repeat(map[string]func(*rapid.T){
				"arm": w.arming, "publish": w.publishing, "issue": w.issue, "admit": w.admits, "admit more": w.admits, "call": w.move, "call more": w.move,
				"revoke lease": seldom(w.revokeLease), "end": seldom(w.over), "kill": seldom(w.kills), "": w.compare,
			})
			if w.o.killed {
				ok(t, b.Lift(ctx, w.kill.ID, w.caller.Principal))
			}
		})
		b.check(t)
	})
}

func seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(rt *rapid.T) {
		if rapid.IntRange(0, 7).Draw(rt, "seldom") > 0 {
			rt.Skip("most work should get further")
		}
		f(rt)
	}
}

// expect compares a verb's answer with the oracle's.
func (w *world) expect(rt *rapid.T, verb string, err error, code refusal.Code) bool {
	if got := word(err); got != code {
		rt.Fatalf("%s (arm %s, step %s, lease %s, killed %v): %s, want %s", verb, w.o.arm, w.o.step, w.o.lease, w.o.killed, got, code)
	}
	return err == nil
}

// arming takes the arm a step on, from wherever it stands.
func (w *world) arming(rt *rapid.T) {
	switch w.o.arm {
	case "", "over":
		code := refusal.Code("ok")
		if w.o.killed {
			code = refusal.Killed
		}
		a, err := w.b.Grant(ctx, w.evidence)
		if w.expect(rt, "grant", err, code) {
			w.load()
			w.arm, w.o.arm, w.o.step, w.o.lease = a, "granted", "", ""
		}
	case "granted":
		a, nonce, err := w.b.Finalize(ctx, w.arm.Ref, w.evidence, w.page)
		w.expect(rt, "finalize", err, "ok")
		w.arm, w.nonce, w.o.arm = a, nonce, "active"
	case "active":
		a, err := w.b.Open(ctx, w.arm.Ref, w.evidence, w.page, w.nonce)
		w.expect(rt, "open", err, "ok")
		w.arm, w.o.arm = a, "consumed"
	case "consumed":
		_, err := w.b.Open(ctx, w.arm.Ref, w.evidence, w.page, w.nonce)
		w.expect(rt, "open again", err, refusal.ArmReplayed)
	}
}

// publishing takes the publication a step on.
func (w *world) publishing(rt *rapid.T) {
	if w.o.arm != "consumed" {
		rt.Skip("there is no channel")
	}
	switch w.o.step {
	case "":
		r, err := w.b.Register(ctx, w.arm.Ref, w.arm.Binding, catalog)
		w.expect(rt, "register", err, "ok")
		w.reg, w.o.step = r, "pending"
	case "pending":
		_, err := w.b.Publish(ctx, w.reg.ID)
		w.expect(rt, "publish too soon", err, refusal.Conflict)
		w.expect(rt, "point", w.b.Point(ctx, w.reg.ID), "ok")
		w.o.step = "pointed"
	default:
		_, err := w.b.Publish(ctx, w.reg.ID)
		w.expect(rt, "publish", err, "ok")
		w.o.step = "published"
	}
}

func (w *world) issue(rt *rapid.T) {
	code := refusal.Code("ok")
	if w.o.arm != "consumed" || w.o.step != "published" {
		code = refusal.UnknownDocument
	}
	if w.o.lease == "active" {
		rt.Skip("one lease at a time")
	}
	l, err := w.b.Issue(ctx, w.caller, w.ask())
	if w.expect(rt, "issue", err, code) {
		w.lease, w.o.lease = l, "active"
	}
}

func (w *world) waiting() (n int) {
	for _, s := range w.o.calls {
		if s == ledger.CallPending {
			n++
		}
	}
	return n
}

func (w *world) admits(rt *rapid.T) {
	if w.o.lease == "" {
		rt.Skip("there was no lease yet")
	}
	tool := rapid.SampledFrom([]string{"read_page", "pay"}).Draw(rt, "tool")
	m := w.admission(tool)
	code := refusal.Code("ok")
	switch {
	case w.o.lease != "active":
		code = refusal.LeaseRevoked
	case tool == "read_page":
	case w.waiting() >= ledger.MaxPrompts:
		code = refusal.Busy
	case w.o.prompts >= ledger.BudgetPrompt:
		code = refusal.AttentionBudget
	}
	c, isFresh, err := w.b.Admit(ctx, m)
	if !w.expect(rt, "admit "+tool, err, code) {
		return
	}
	again, twice, err := w.b.Admit(ctx, m)
	if !isFresh || twice || err != nil || again.ID != c.ID {
		rt.Fatalf("fresh %v, then %v, %v", isFresh, twice, err)
	}
	w.o.calls[c.ID], w.o.attempts[c.ID] = ledger.CallPending, 0
	if tool == "read_page" {
		w.o.calls[c.ID], w.o.attempts[c.ID] = ledger.CallDispatched, 1
	} else {
		w.o.prompts++
	}
	w.ids, w.asks[c.ID], w.ms[c.ID] = append(w.ids, c.ID), w.confirmed(c), m
}

// moves are the oracle's own table: what a verb makes of a call.
var callMoves = map[string]map[ledger.CallState]ledger.CallState{
	"confirm":           {ledger.CallPending: ledger.CallDispatched},
	"deny":              {ledger.CallPending: ledger.CallDenied},
	"cancel":            {ledger.CallPending: ledger.CallCancelled, ledger.CallDispatched: ledger.CallCancelling},
	"succeed":           {ledger.CallDispatched: ledger.CallSucceeded, ledger.CallCancelling: ledger.CallSucceeded},
	"fail":              {ledger.CallDispatched: ledger.CallFailed, ledger.CallCancelling: ledger.CallFailed},
	"stopped none":      {ledger.CallCancelling: ledger.CallCancelled},
	"stopped committed": {ledger.CallCancelling: ledger.CallSucceeded},
	"lose":              {ledger.CallDispatched: ledger.CallUnknown, ledger.CallCancelling: ledger.CallUnknown},
	"withhold":          {ledger.CallDispatched: ledger.CallFailed, ledger.CallCancelling: ledger.CallFailed},
}

func (w *world) move(rt *rapid.T) {
	if len(w.ids) == 0 {
		rt.Skip("there is no call")
	}
	id := rapid.SampledFrom(w.ids).Draw(rt, "call")
	verb := rapid.SampledFrom([]string{"confirm", "confirm", "deny", "cancel", "succeed", "fail", "stopped none", "stopped committed", "lose", "withhold"}).Draw(rt, "verb")
	state, k := w.o.calls[id], w.asks[id]
	if state == ledger.CallUnknown || verb == "confirm" && k.Confirmation.IsZero() || verb == "withhold" && k.Confirmation.IsZero() {
		rt.Skip("the walk of every state covers it")
	}
	to, moves := callMoves[verb][state]
	c := must[ledger.Call](w.t)(w.b.Show(ctx, w.caller, id))
	got := w.do(c, k, w.ms[id], verb)
	if moves != (got == "ok") && !(verb == "cancel" && got == "ok") {
		rt.Fatalf("%s of a call that is %s: %s", verb, state, got)
	}
	if moves {
		w.o.calls[id] = to
		if verb == "confirm" {
			w.o.attempts[id] = 1
		}
	}
}

// ends is what the end of what a call stands under makes of it.
func (w *world) ends(socket bool) {
	for id, s := range w.o.calls {
		switch {
		case s == ledger.CallPending:
			w.o.calls[id] = ledger.CallCancelled
		case s == ledger.CallDispatched && socket:
			w.o.calls[id] = ledger.CallCancelling
		case (s == ledger.CallDispatched || s == ledger.CallCancelling) && !socket:
			w.o.calls[id] = ledger.CallUnknown
		}
	}
	if w.o.lease == "active" {
		w.o.lease = "revoked"
	}
}

func (w *world) revokeLease(rt *rapid.T) {
	if w.o.lease != "active" {
		rt.Skip("there is no lease")
	}
	_, err := w.b.RevokeLease(ctx, w.caller, w.lease.LeaseReceipt.Lease, refusal.Cancelled)
	w.expect(rt, "revoke lease", err, "ok")
	w.ends(true)
}

func (w *world) over(rt *rapid.T) {
	var err error
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		err = w.b.EndLogin(ctx, w.evidence.Login, refusal.SignedOut)
	case 1:
		err = w.b.EndPrincipal(ctx, w.caller.Principal, refusal.Disabled)
	case 2:
		if w.o.arm == "" {
			return
		}
		err = w.b.Disconnect(ctx, w.arm.Ref, refusal.ChannelUnavailable)
	}
	w.expect(rt, "end", err, "ok")
	w.ended()
}

func (w *world) ended() {
	if w.o.arm == "consumed" {
		w.ends(false)
		if w.o.step != "" {
			w.o.step = "retired"
		}
	}
	if w.o.arm != "" {
		w.o.arm = "over"
	}
}

func (w *world) kills(rt *rapid.T) {
	if w.o.killed {
		w.expect(rt, "lift", w.b.Lift(ctx, w.kill.ID, w.caller.Principal), "ok")
		w.o.killed = false
		return
	}
	k, err := w.b.Kill(ctx, ledger.KillPrincipal, w.caller.Principal.String(), w.caller.Principal)
	w.expect(rt, "kill", err, "ok")
	w.kill, w.o.killed = k, true
	w.ended()
}

func (w *world) compare(rt *rapid.T) {
	for id, state := range w.o.calls {
		c, err := w.b.Show(ctx, w.caller, id)
		if err != nil || c.State != state || c.Attempts != w.o.attempts[id] {
			rt.Fatalf("a call is %s after %d attempts (%v), oracle says %s after %d", c.State, c.Attempts, err, state, w.o.attempts[id])
		}
	}
	docs, err := w.b.Documents(ctx, w.caller.Principal)
	if live := w.o.arm == "consumed" && w.o.step == "published"; err != nil || live != (len(docs) == 1) {
		rt.Fatalf("%d documents are live (%v), oracle says arm %s, step %s", len(docs), err, w.o.arm, w.o.step)
	}
	if w.o.arm != "" {
		a, err := w.b.Find(ctx, w.arm.Ref)
		is := map[ledger.ArmState]string{ledger.ArmGranted: "granted", ledger.ArmActive: "active", ledger.ArmConsumed: "consumed", ledger.ArmRevoked: "over"}[a.State]
		if err != nil || is != w.o.arm {
			rt.Fatalf("the arm is %s (%v), oracle says %s", a.State, err, w.o.arm)
		}
	}
}
