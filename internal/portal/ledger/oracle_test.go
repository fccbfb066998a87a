package ledger_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// oracle is what a session's grant, its receipts and its requests should be, kept
// by the simplest means.
type oracle struct {
	state      string // of the session's latest grant, "" for none
	generation int64
	reviews    map[string]*paper
	requests   map[string]*deed // by request id and connection
}

type paper struct {
	state      string
	digest     string
	generation int64
	connection string
}

type deed struct {
	request              ledger.Request
	state, digest, grant string
	passing              bool
}

// machine drives a ledger and its oracle alike.
type machine struct {
	b              *book
	actor, session string
	connection     string
	o              oracle
}

// TestAgainstOracle does verbs in any order and compares the ledger with what the
// oracle says after each.
func TestAgainstOracle(t *testing.T) {
	steps := flag.Lookup("rapid.steps")
	before := steps.Value.String()
	ok(t, flag.Set(steps.Name, "120")) // a change needs four of them to get anywhere
	defer flag.Set(steps.Name, before)
	storetest.EachURL(t, func(t *testing.T, url string) {
		b := open(t, url, store.Options{})
		rapid.Check(t, func(rt *rapid.T) {
			m := &machine{b: b, actor: fresh("actor"), session: fresh("session"),
				o: oracle{reviews: map[string]*paper{}, requests: map[string]*deed{}}}
			if err := b.EnsureAccount(ctx, m.actor); err != nil {
				rt.Fatal(err)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"enable": m.enable, "select": m.choose, "disable": m.disable, "revoke": m.revoke, "end": m.end,
				"prepare": m.prepare, "confirm": m.confirm, "confirm more": m.confirm, "claim more": m.claim, "decline": m.decline, "claim": m.claim, "finish": m.finish,
				"": m.compare,
			})
		})
		b.check(t)
	})
}

func (m *machine) caller() ledger.Caller {
	return ledger.Caller{Actor: m.actor, Transport: ledger.Browser, Session: m.session}
}

func (m *machine) expect(rt *rapid.T, verb string, err error, want refusal.Code) {
	if got := word(err); got != want {
		rt.Fatalf("%s with the grant %q: %s, want %s", verb, m.o.state, got, want)
	}
}

// moved is another generation: what was open is cancelled.
func (m *machine) moved(state string) {
	m.o.state = state
	m.o.generation++
	for _, p := range m.o.reviews {
		if p.state == "prepared" || p.state == "confirmed" {
			p.state = "cancelled"
		}
	}
}

// stale draws a generation that may be an old one.
func (m *machine) stale(rt *rapid.T) int64 {
	return m.o.generation + rapid.Int64Range(0, 1).Draw(rt, "off")
}

func (m *machine) enable(rt *rapid.T) {
	if m.o.state == "live" && !seldom(rt) {
		return
	}
	g := m.stale(rt)
	c, err := m.b.Enable(ctx, m.session, m.actor, all(), g)
	switch {
	case m.o.state == "ended":
		m.expect(rt, "enable", err, tool.SessionExpired)
	case g != m.o.generation && (m.o.state == "live" || g != 0):
		m.expect(rt, "enable", err, refusal.Conflict)
	default:
		m.expect(rt, "enable", err, "ok")
		m.moved("live")
		m.connection = c.ID
	}
}

func (m *machine) choose(rt *rapid.T) {
	if !seldom(rt) {
		return
	}
	g := m.stale(rt)
	_, err := m.b.Select(ctx, m.session, m.actor, all(), g)
	switch {
	case m.o.state == "ended":
		m.expect(rt, "select", err, tool.SessionExpired)
	case g != m.o.generation && (m.o.state == "live" || g != 0):
		m.expect(rt, "select", err, refusal.Conflict)
	case m.o.state != "live":
		m.expect(rt, "select", err, tool.Disabled)
	default:
		m.expect(rt, "select", err, "ok")
		m.moved("live")
	}
}

// seldom lets most sessions get further.
func seldom(rt *rapid.T) bool { return rapid.IntRange(0, 19).Draw(rt, "seldom") == 0 }

func (m *machine) disable(rt *rapid.T) {
	if !seldom(rt) {
		return
	}
	m.expect(rt, "disable", m.b.Disable(ctx, m.session), "ok")
	if m.o.state == "live" {
		m.moved("disabled")
	}
}

func (m *machine) revoke(rt *rapid.T) {
	if m.connection == "" || !seldom(rt) {
		return
	}
	m.expect(rt, "revoke", m.b.Revoke(ctx, m.actor, m.connection), "ok")
	if m.o.state == "live" || m.o.state == "disabled" {
		m.moved("revoked")
	}
}

func (m *machine) end(rt *rapid.T) {
	if !seldom(rt) {
		return
	}
	m.expect(rt, "end", m.b.EndSession(ctx, m.session), "ok")
	if m.o.state == "live" || m.o.state == "disabled" {
		m.moved("ended")
	}
}

// grant is what the caller's grant answers, "" where it is good.
func (m *machine) grant() refusal.Code {
	return map[string]refusal.Code{"": tool.Disabled, "disabled": tool.Disabled, "ended": tool.SessionExpired, "revoked": tool.GrantRevoked}[m.o.state]
}

var digests = []string{digest, digest[:len(digest)-1] + "b"}

func (m *machine) prepare(rt *rapid.T) {
	d := rapid.SampledFrom(digests).Draw(rt, "digest")
	r, err := m.b.Prepare(ctx, m.caller(), tool.WriteItem, d)
	open := 0
	for _, p := range m.o.reviews {
		if p.connection == m.connection && (p.state == "prepared" || p.state == "confirmed") {
			open++
		}
	}
	switch why := m.grant(); {
	case m.o.state != "live":
		m.expect(rt, "prepare", err, why)
	case open >= ledger.MaxReviews:
		m.expect(rt, "prepare", err, tool.Busy)
	default:
		m.expect(rt, "prepare", err, "ok")
		m.o.reviews[r.Receipt] = &paper{"prepared", d, m.o.generation, m.connection}
	}
}

// paper draws one of the receipts there are, most often one that could be used.
func (m *machine) paper(rt *rapid.T) (string, *paper) {
	if len(m.o.reviews) == 0 {
		return "", nil
	}
	if rapid.IntRange(0, 3).Draw(rt, "good") > 0 {
		for _, receipt := range slices.Sorted(maps.Keys(m.o.reviews)) {
			if p := m.o.reviews[receipt]; m.open(p) == "" {
				return receipt, p
			}
		}
	}
	receipt := rapid.SampledFrom(slices.Sorted(maps.Keys(m.o.reviews))).Draw(rt, "receipt")
	return receipt, m.o.reviews[receipt]
}

// open is what a receipt answers that isn't open, "" where it is.
func (m *machine) open(p *paper) refusal.Code {
	switch {
	case m.o.state != "live":
		return m.grant()
	case p.connection != m.connection:
		return tool.ReceiptExpired
	}
	return map[string]refusal.Code{"used": tool.ReceiptUsed, "cancelled": tool.Cancelled}[p.state]
}

// right draws a receipt's own digest, or seldom another.
func right(rt *rapid.T, p *paper) string {
	return rapid.SampledFrom([]string{p.digest, p.digest, p.digest, digests[0], digests[1]}).Draw(rt, "digest")
}

func (m *machine) confirm(rt *rapid.T) {
	receipt, p := m.paper(rt)
	if p == nil {
		return
	}
	d := right(rt, p)
	err := m.b.Confirm(ctx, m.caller(), receipt, d)
	switch why := m.open(p); {
	case why != "":
		m.expect(rt, "confirm", err, why)
	case d != p.digest:
		m.expect(rt, "confirm", err, tool.ReviewDeclined)
	default:
		m.expect(rt, "confirm", err, "ok")
		p.state = "confirmed"
	}
}

func (m *machine) decline(rt *rapid.T) {
	receipt, p := m.paper(rt)
	if p == nil {
		return
	}
	err := m.b.Decline(ctx, m.caller(), receipt)
	if why := m.open(p); why != "" {
		m.expect(rt, "decline", err, why)
		return
	}
	m.expect(rt, "decline", err, "ok")
	p.state = "cancelled"
}

var requestIDs = []string{"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"}

func (m *machine) claim(rt *rapid.T) {
	receipt, p := m.paper(rt)
	if p == nil {
		return
	}
	c := claim(m.caller())
	c.Review, c.Digest = receipt, right(rt, p)
	c.RequestID = rapid.SampledFrom(requestIDs).Draw(rt, "request")
	c.Items, c.Bytes = 0, 0
	r, fresh, err := m.b.Claim(ctx, c)
	key := m.connection + c.RequestID
	was := m.o.requests[key]
	switch why := m.open(p); {
	case why != "":
		m.expect(rt, "claim", err, why)
		return
	case c.Digest != p.digest || p.state != "confirmed":
		m.expect(rt, "claim", err, tool.ReviewDeclined)
		return
	case was != nil && was.digest != c.Digest:
		m.expect(rt, "claim", err, tool.RequestConflict)
		return
	}
	m.expect(rt, "claim", err, "ok")
	p.state = "used"
	if want := was == nil || was.state == "refused" && was.passing; fresh != want {
		rt.Fatalf("claim is fresh: %v, want %v", fresh, want)
	}
	if fresh {
		m.o.requests[key] = &deed{r, "begun", c.Digest, m.connection, false}
	}
}

func (m *machine) finish(rt *rapid.T) {
	if len(m.o.requests) == 0 {
		return
	}
	q := m.o.requests[rapid.SampledFrom(slices.Sorted(maps.Keys(m.o.requests))).Draw(rt, "request")]
	o := rapid.SampledFrom([]ledger.Outcome{written, {State: ledger.Refused, Code: tool.NotFound},
		{State: ledger.Refused, Code: tool.SourceUnavailable}, {State: ledger.Unknown, Code: tool.UnknownOutcome}}).Draw(rt, "outcome")
	err := m.b.Finish(ctx, q.request, o)
	passing := o.Code == tool.SourceUnavailable
	switch {
	case q.state == "begun":
		m.expect(rt, "finish", err, "ok")
		q.state, q.passing = string(o.State), passing
	case q.state == string(o.State) && q.passing == passing:
		m.expect(rt, "finish the same", err, "ok")
	default:
		m.expect(rt, "finish otherwise", err, refusal.Conflict)
	}
}

func (m *machine) compare(rt *rapid.T) {
	c, err := m.b.Selection(ctx, m.session)
	if want := m.o.state == "live"; want != (err == nil) || err != nil && word(err) != refusal.Unknown {
		rt.Fatalf("selection of a grant that is %q: %v", m.o.state, err)
	}
	got := map[string]string{"grant": string(c.State)}
	want := map[string]string{"grant": m.o.state}
	if c.Generation != m.o.generation {
		rt.Fatalf("generation %d, want %d", c.Generation, m.o.generation)
	}
	err = m.b.db.View(ctx, func(tx *store.Tx) error {
		for receipt, p := range m.o.reviews {
			var state string
			if err := tx.QueryRow(`select state from portal_review where receipt=$1`, receipt).Scan(&state); err != nil {
				return err
			}
			got[receipt], want[receipt] = state, p.state
		}
		for key, q := range m.o.requests {
			var state string
			if err := tx.QueryRow(`select state from portal_request where receipt=$1`, q.request.Receipt).Scan(&state); err != nil {
				return err
			}
			got[key], want[key] = state, q.state
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("(-want +got):\n%s", diff)
	}
}
