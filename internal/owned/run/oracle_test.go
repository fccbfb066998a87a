package run_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// oracle is what a run should be, kept by the simplest means.
type oracle struct {
	state    run.State
	sequence int64
	outcomes map[int64]run.Outcome
	ids      map[string]int64
	rides    map[int64]run.Outcome
	hosts    map[string]int64
}

// land writes what rides; every commit does.
func (o *oracle) land() {
	for n, outcome := range o.rides {
		if o.outcomes[n] == run.Running || o.outcomes[n] == "" {
			o.outcomes[n] = outcome
		}
		delete(o.rides, n)
	}
}

// machine drives one run and its oracle alike. Commits are lost at times, and
// then the caller does what a host does.
type machine struct {
	l        *ledger
	r        *run.Run
	token    string
	o        oracle
	id       string
	settling []int64 // began and not settled
}

// TestRunAgainstOracle does verbs in any order and compares the ledger with what
// the oracle says after each.
func TestRunAgainstOracle(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		l := open(t, url, store.Options{})
		rapid.Check(t, func(rt *rapid.T) {
			m := begin(rt, l)
			rt.Repeat(map[string]func(*rapid.T){
				"open":   m.open,
				"burn":   m.burn,
				"begin":  m.begin,
				"settle": m.settle,
				"bury":   m.bury,
				"record": m.record,
				"flush":  m.flush,
				"end":    m.end,
				"expire": m.expire,
				"":       func(rt *rapid.T) { m.compare(rt) },
			})
		})
		l.check(t)
	})
}

func begin(rt *rapid.T, l *ledger) *machine {
	reg := registration("oracle-" + run.NewToken()[:12])
	m := &machine{l: l, id: reg.RunID, token: reg.Bootstrap, o: oracle{
		state: run.Registered, outcomes: map[int64]run.Outcome{}, ids: map[string]int64{},
		rides: map[int64]run.Outcome{}, hosts: map[string]int64{},
	}}
	var err error
	if m.r, err = l.Register(context.Background(), reg); err != nil {
		rt.Fatal(err)
	}
	return m
}

// expect compares a verb's answer with the oracle's.
func (m *machine) expect(rt *rapid.T, verb string, err error, want refusal.Code) {
	if got := word(err); got != want {
		rt.Fatalf("%s of a run that is %s: %s, want %s", verb, m.o.state, got, want)
	}
	if err == nil {
		m.o.land()
	}
}

// spendable is what a right token gets.
func (m *machine) spendable() refusal.Code {
	if m.o.state == run.Registered {
		return "ok"
	}
	return refusal.Replayed
}

func (m *machine) open(rt *rapid.T) {
	token, want := m.token, m.spendable()
	if rapid.Bool().Draw(rt, "wrong") {
		token, want = run.NewToken(), refusal.UnauthorizedAdapter
	}
	m.expect(rt, "open", m.r.Open(context.Background(), token, run.NewToken(), time.Now().Add(time.Hour)), want)
	if want == "ok" {
		m.o.state = run.Open
	}
}

func (m *machine) burn(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
		rt.Skip("most runs should get further")
	}
	want := m.spendable()
	m.expect(rt, "burn", m.r.Burn(context.Background(), m.token), want)
	if want == "ok" {
		m.o.state = run.Burned
	}
}

func (m *machine) begin(rt *rapid.T) {
	if len(m.settling) > 0 {
		rt.Skip("a host begins one action at a time")
	}
	a := action(rapid.Int64Range(1, 30).Draw(rt, "sequence"))
	if rapid.Bool().Draw(rt, "other id") {
		a.RequestID = request(rapid.IntRange(1, 30).Draw(rt, "id"))
	}
	want := refusal.Code("ok")
	_, used := m.o.ids[a.RequestID]
	_, taken := m.o.outcomes[a.Sequence]
	_, rides := m.o.rides[a.Sequence]
	switch {
	case m.o.state != run.Open:
		want = refusal.Conflict
	case a.Sequence <= m.o.sequence || used || taken || rides:
		want = refusal.Replayed
	}
	m.expect(rt, "begin", m.r.Begin(context.Background(), a), want)
	if want == "ok" {
		m.o.sequence, m.o.outcomes[a.Sequence], m.o.ids[a.RequestID] = a.Sequence, run.Running, a.Sequence
		m.settling = append(m.settling, a.Sequence)
	}
}

func (m *machine) settle(rt *rapid.T) {
	if len(m.settling) == 0 {
		rt.Skip("nothing runs")
	}
	outcome := rapid.SampledFrom([]run.Outcome{run.Done, run.Failed, run.NotSent, run.Unconfirmed}).Draw(rt, "outcome")
	n := m.settling[0]
	m.settling = nil
	a := action(n)
	for id, sequence := range m.o.ids {
		if sequence == n {
			a.RequestID = id
		}
	}
	m.r.Settle(a, outcome)
	m.o.rides[n] = outcome
}

func (m *machine) bury(rt *rapid.T) {
	a := action(rapid.Int64Range(1, 30).Draw(rt, "sequence"))
	_, taken := m.o.outcomes[a.Sequence]
	owner, used := m.o.ids[a.RequestID]
	want := refusal.Code("ok")
	if taken != used || used && owner != a.Sequence {
		want = refusal.Conflict
	}
	m.expect(rt, "bury", m.r.Bury(context.Background(), a), want)
	if want == "ok" && !taken {
		m.o.outcomes[a.Sequence], m.o.ids[a.RequestID] = run.Tombstone, a.Sequence
	}
}

func (m *machine) record(rt *rapid.T) {
	host := fmt.Sprintf("h%d.example.com", rapid.IntRange(0, 5).Draw(rt, "host"))
	m.r.Record(decision(host, 0))
	m.o.hosts[host]++
}

func (m *machine) flush(rt *rapid.T) {
	m.expect(rt, "flush", m.r.Flush(context.Background()), "ok")
	all, err := m.l.Decisions(context.Background(), m.id)
	if err != nil {
		rt.Fatal(err)
	}
	got := map[string]int64{}
	for _, d := range all {
		got[d.Host] += d.Count
	}
	if diff := cmp.Diff(m.o.hosts, got); diff != "" {
		rt.Fatalf("decisions (-oracle +ledger):\n%s", diff)
	}
}

func (m *machine) end(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
		rt.Skip("most runs should get further")
	}
	m.expect(rt, "end", m.r.End(context.Background(), refusal.Ended), "ok")
	if m.o.state.Over() {
		return
	}
	m.o.state = run.Ended
	m.unknown()
}

func (m *machine) expire(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
		rt.Skip("most runs should get further")
	}
	want := refusal.Code("ok")
	if m.o.state != run.Registered {
		want = refusal.Conflict
	}
	m.expect(rt, "expire", m.r.Expire(context.Background()), want)
	if want == "ok" {
		m.o.state = run.Expired
	}
}

// unknown is what an end makes of an action that still runs.
func (m *machine) unknown() {
	for n, outcome := range m.o.outcomes {
		if outcome == run.Running {
			m.o.outcomes[n] = run.Unknown
		}
	}
}

func (m *machine) compare(rt *rapid.T) {
	a, err := m.l.Account(context.Background(), m.id)
	if err != nil {
		rt.Fatal(err)
	}
	got := map[int64]run.Outcome{}
	for _, d := range a.Actions {
		got[d.Sequence] = d.Outcome
	}
	if diff := cmp.Diff(m.o.outcomes, got); diff != "" || a.State != m.o.state || a.Sequence != m.o.sequence {
		rt.Fatalf("run is %s at %d, oracle says %s at %d; outcomes (-oracle +ledger):\n%s", a.State, a.Sequence, m.o.state, m.o.sequence, diff)
	}
}
