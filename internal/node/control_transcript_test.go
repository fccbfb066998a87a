package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rogpeppe/go-internal/txtar"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/node"
	"chaperone/internal/surface/guard"
	"chaperone/spec"
)

// player plays one conversation of spec/transcripts/control against a real server.
type player struct {
	*page
	names   spec.Names
	bearer  string
	asked   map[string]chan answered
	flood   chan answered
	pending *answered // of the page's last request
	upgrade *http.Response

	stepping *sync.Mutex // one of them steps up at a time
}

type answered struct {
	status int
	body   []byte
}

// TestControlTranscripts plays every conversation of attended control, each with a
// person, a page and an agent of its own, over real sockets.
func TestControlTranscripts(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policy.cedar")
	err := os.WriteFile(policies, []byte(`@id("reads") permit (principal, action == Action::"observe", resource);
@id("writes") permit (principal, action in Action::"mutate", resource is Tool);
@id("closed") forbid (principal, action, resource == Tool::"item_delete");
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := stand(t, func(c *node.Config) { c.Policy = policies })
	files, err := fs.Glob(spec.Files, "transcripts/control/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var stepping sync.Mutex
	for i, file := range files {
		data, err := spec.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("P%d", i)
		var o *owner
		if i == 0 {
			o = s.settle(name)
		} else {
			time.Sleep(600 * time.Millisecond) // who isn't signed in yet may ask twenty times a second
			secret, err := s.node.Invite(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o = s.settleBy(secret, name)
		}
		t.Run(path.Base(file), func(t *testing.T) {
			t.Parallel()
			own := *o
			own.t = t
			p := newPlayer(t, &own)
			p.stepping = &stepping
			p.play(txtar.Parse(data))
		})
	}
}

func newPlayer(t *testing.T, o *owner) *player {
	schema := []byte(`{"type":"object"}`)
	fact := func(id string, class controlv1.Class, roles ...string) controlv1.Facts {
		return controlv1.Facts{ID: id, Version: "1", Class: class, Confirmation: class.Confirmation(), SourceRef: "test", Input: schema, Output: schema, Roles: roles}
	}
	strict := fact("strict", controlv1.Read)
	strict.Input = []byte(`{"additionalProperties":false,"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}`)
	strict.Output = []byte(`{"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"}`)
	p := &player{page: o.page(fact("clerk", controlv1.Read, "clerk"), fact("item_delete", controlv1.AccountMutation), fact("look", controlv1.Read), strict, fact("write", controlv1.AccountMutation)),
		names: spec.Names{"origin": o.s.origin}, asked: map[string]chan answered{}}
	register, err := controlv1.EncodePage(controlv1.Register{Route: p.route, Generation: generation(t, 1), Catalog: p.catalog})
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Tools json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(register, &told); err != nil {
		t.Fatal(err)
	}
	offer, err := json.Marshal(p.offer())
	if err != nil {
		t.Fatal(err)
	}
	p.names["tools"], p.names["offer"] = string(told.Tools), string(offer)
	p.names["catalog_digest"], p.names["scope_digest"] = p.catalog.Digest().String(), p.catalog.Scope().String()
	for _, tool := range p.catalog.Tools() {
		p.names["SCHEMAS of "+tool.ID().String()] = tool.Schemas().String()
	}
	var made struct {
		Token string `json:"token"`
	}
	o.do("POST", "/api/tokens", map[string]any{"name": "agent", "scopes": []string{"control:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
	p.bearer = made.Token
	return p
}

func generation(t testing.TB, n int64) controlv1.Generation {
	t.Helper()
	g, err := controlv1.NewGeneration(n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var (
	isAgent  = regexp.MustCompile(`^(agent|stranger) ([0-9]+)$`)
	isAnswer = regexp.MustCompile(`^answer ([0-9]+) ([0-9]{3})$`)
	isPage   = regexp.MustCompile(`^page > (GET|POST|DELETE) (/\S*)$`)
	isStatus = regexp.MustCompile(`^(page|upgrade) < ([0-9]{3})$`)
	isClose  = regexp.MustCompile(`^closed ([0-9]{4}) ?([a-z_]*)$`)
	isTimes  = regexp.MustCompile(`^page ([0-9]+) times$`)
	isFlood  = regexp.MustCompile(`^agent ([0-9]+) times$`)
	isSome   = regexp.MustCompile(`^some answer ([0-9]{3})$`)
	isPause  = regexp.MustCompile(`^pause ([0-9]+)$`)
)

func (p *player) play(a *txtar.Archive) {
	for i, f := range a.Files {
		if p.t.Failed() {
			return
		}
		p.step(fmt.Sprintf("section %d, %q", i+1, f.Name), f.Name, bytes.TrimSuffix(f.Data, []byte("\n")))
	}
	for n := range p.asked {
		p.t.Errorf("the answer to agent %s is nowhere", n)
	}
}

func (p *player) step(at, name string, body []byte) {
	switch name {
	case "steps up and arms":
		func() {
			p.stepping.Lock() // who isn't signed in yet may ask twenty times a second
			defer p.stepping.Unlock()
			p.arm()
			time.Sleep(400 * time.Millisecond)
		}()
		p.names["nonce"] = p.nonce.String()
	case "opens":
		p.dial(at, nil)
	case "ready":
		p.say(controlv1.Open{Nonce: p.nonce, Route: p.route, Generation: generation(p.t, 1)})
		p.say(controlv1.Register{Route: p.route, Generation: generation(p.t, 1), Catalog: p.catalog})
		if f, ready := p.hear().(controlv1.Ready); !ready || f.Catalog != p.catalog.Digest() {
			p.t.Fatalf("%s: not ready: %v", at, f)
		}
	case "lease":
		p.leaseAll(at)
	case "page":
		p.write(at, p.expand(at, body), 1)
	case "authority":
		p.frame(at, body)
	case "upgrade":
		p.dial(at, strings.Split(string(p.expand(at, body)), "\n"))
	case "person signs out":
		if status, text := p.call("POST", "/auth/logout", map[string]any{}); status != http.StatusOK {
			p.t.Fatalf("%s: %d %s", at, status, text)
		}
	default:
		p.numbered(at, name, body)
	}
}

func (p *player) numbered(at, name string, body []byte) {
	match := func(r *regexp.Regexp) []string { return r.FindStringSubmatch(name) }
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	switch {
	case match(isPage) != nil:
		m := match(isPage)
		var sent any
		if len(body) > 0 {
			sent = json.RawMessage(p.expand(at, body))
		}
		status, text := p.call(m[1], m[2], sent)
		p.pending = &answered{status, text}
	case match(isStatus) != nil:
		m := match(isStatus)
		got := p.pending
		if m[1] == "upgrade" {
			got = &answered{p.upgrade.StatusCode, readAll(p.t, p.upgrade)}
		}
		p.compare(at, *got, number(m[2]), body)
	case match(isTimes) != nil:
		p.write(at, p.expand(at, body), number(match(isTimes)[1]))
	case match(isFlood) != nil:
		p.flood = make(chan answered, number(match(isFlood)[1]))
		for n := range cap(p.flood) {
			p.names["i"] = strconv.Itoa(n)
			sent := p.expand(at, body)
			go func() { p.flood <- p.act(sent, p.bearer) }()
		}
	case match(isSome) != nil:
		for got := range p.flood {
			if got.status == number(match(isSome)[1]) {
				p.compare(at, got, got.status, body)
				return
			}
		}
	case match(isClose) != nil:
		m := match(isClose)
		p.closed(at, controlv1.Close(number(m[1])), m[2])
	case match(isAgent) != nil:
		m := match(isAgent)
		out := make(chan answered, 1)
		p.asked[m[2]] = out
		sent, bearer := p.expand(at, body), p.bearer
		if m[1] == "stranger" {
			bearer = ""
		}
		go func() { out <- p.act(sent, bearer) }()
	case match(isAnswer) != nil:
		m := match(isAnswer)
		select {
		case got := <-p.asked[m[1]]:
			p.compare(at, got, number(m[2]), body)
		case <-time.After(2 * time.Minute):
			p.t.Fatalf("%s: no answer", at)
		}
		delete(p.asked, m[1])
	case match(isPause) != nil:
		time.Sleep(time.Duration(number(match(isPause)[1])) * time.Millisecond)
	default:
		p.t.Fatalf("%s: no such section", at)
	}
}

func (p *player) expand(at string, body []byte) []byte {
	p.t.Helper()
	out, err := p.names.Expand(body, time.Now())
	if err != nil {
		p.t.Fatalf("%s: %v", at, err)
	}
	return out
}

func (p *player) compare(at string, got answered, status int, body []byte) {
	p.t.Helper()
	if got.status != status {
		p.t.Fatalf("%s: %d %s", at, got.status, got.body)
	}
	if len(body) > 0 {
		if err := p.names.Match(body, got.body, time.Now()); err != nil {
			p.t.Fatalf("%s: %v in %s", at, err, got.body)
		}
	}
}

// dial opens the socket, where it may be; lines are header lines that differ.
func (p *player) dial(at string, lines []string) {
	h := http.Header{"Origin": {p.s.origin}}
	for _, name := range append([]string{guard.Cookie}, attendedCookies...) {
		if c := p.agent.Cookie(name); c != "" && !slices.Contains(lines, "-"+name) {
			h.Add("Cookie", name+"="+c)
		}
	}
	options := &websocket.DialOptions{HTTPHeader: h}
	for _, line := range lines {
		if name, left := strings.CutPrefix(line, "-"); left {
			h.Del(name)
		} else if name, value, _ := strings.Cut(line, ": "); name == "Host" {
			options.Host = value
		} else if name != "" {
			h.Set(name, value)
		}
	}
	ws, resp, err := websocket.Dial(p.t.Context(), strings.Replace(p.s.origin, "http", "ws", 1)+"/ws/browser-control", options)
	p.upgrade = resp
	if err != nil {
		if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
			p.t.Fatalf("%s: %v", at, err)
		}
		return
	}
	p.t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(controlv1.MaxFrame)
	p.keep(resp)
	p.ws = ws
}

// write may fail where the server has hung up already; what is read tells.
func (p *player) write(at string, frame []byte, times int) {
	for range times {
		if err := p.ws.Write(p.t.Context(), websocket.MessageText, frame); err != nil && times == 1 {
			p.t.Fatalf("%s: %v", at, err)
		}
	}
}

func (p *player) frame(at string, body []byte) {
	_, data, err := p.ws.Read(p.t.Context())
	if err != nil {
		p.t.Fatalf("%s: %v", at, err)
	}
	if err := p.names.Match(body, data, time.Now()); err != nil {
		p.t.Fatalf("%s: %v in %s", at, err, data)
	}
}

// act is one POST /browser/control.
func (p *player) act(body []byte, bearer string) answered {
	r, err := http.NewRequest("POST", p.s.origin+"/browser/control", bytes.NewReader(body))
	if err != nil {
		return answered{0, []byte(err.Error())}
	}
	r.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return answered{0, []byte(err.Error())}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answered{0, []byte(err.Error())}
	}
	return answered{resp.StatusCode, data}
}

func (p *player) leaseAll(at string) {
	p.t.Helper()
	var docs struct {
		Result struct {
			Documents []struct {
				Ref string `json:"document_ref"`
			} `json:"documents"`
		} `json:"result"`
	}
	got := p.act([]byte(`{"action":"list_documents"}`), p.bearer)
	if err := json.Unmarshal(got.body, &docs); err != nil || len(docs.Result.Documents) != 1 {
		p.t.Fatalf("%s: %d %s", at, got.status, got.body)
	}
	p.names["document"] = docs.Result.Documents[0].Ref
	var lease struct {
		Result struct {
			Lease string `json:"lease_id"`
		} `json:"result"`
	}
	got = p.act(p.expand(at, []byte(`{"action":"issue_lease","document_ref":"{{document}}","tool_ids":["look","strict","write"]}`)), p.bearer)
	if err := json.Unmarshal(got.body, &lease); err != nil || lease.Result.Lease == "" {
		p.t.Fatalf("%s: %d %s", at, got.status, got.body)
	}
	p.names["lease"] = lease.Result.Lease
}

// TestControlTranscriptsTellEveryCode holds the conversations to the contract: each
// code that a caller can be answered, and each close, is played in one, or by the test
// that is named here, which injects what a conversation can't.
func TestControlTranscriptsTellEveryCode(t *testing.T) {
	// Where the fault that provokes it is injected: the file, its test, and how the code
	// is written there. Which of the first two it is depends on the moment.
	elsewhere := map[string][3]string{
		"dispatch_fence_unavailable":      {"attended_full_test.go", "TestNothingIsWritten", "refusal.FenceUnavailable"},
		"audit_unavailable":               {"attended_full_test.go", "TestNothingIsWritten", "refusal.AuditUnavailable"},
		"durable_outcome_unavailable":     {"../relay/relay_test.go", "TestLosing", "relay.ErrLost"},
		"policy_unavailable":              {"../attended/live/governance_test.go", "TestPolicyCantJudge", "refusal.PolicyUnavailable"},
		"stale_generation":                {"../attended/ledger/admit_test.go", "TestAdmitRefuses", "refusal.StaleGeneration"},
		"browser_channel_unavailable":     {"../attended/live/two_nodes_test.go", "TestTwoNodes", "refusal.ChannelUnavailable"},
		"closed 1011":                     {"frames_test.go", "TestFrames", "1011 browser_channel_unavailable"},
		"closed 1013":                     {"attended_test.go", "TestAttended", "controlv1.CloseGoingAway"},
		"closed 4403 revalidation_failed": {"../attended/live/channel_test.go", "TestSilence", "refusal.RevalidationFailed"},
		"closed 4403 arm_expired":         {"../attended/live/call_test.go", "TestTime", "refusal.ArmExpired"},
	}
	for code, at := range elsewhere {
		text, err := os.ReadFile(at[0])
		_, body, there := strings.Cut(string(text), "\nfunc "+at[1]+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if err != nil || !there || !strings.Contains(body, at[2]) {
			t.Errorf("%s isn't told by %s in %s: %v", code, at[1], at[0], err)
		}
	}
	var all strings.Builder
	files, err := fs.Glob(spec.Files, "transcripts/control/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := spec.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	said := all.String()
	want := strings.Fields(`arguments_invalid result_invalid invalid_request unauthenticated policy_denied authority_lost lease_expired lease_revoked killed forbidden
		unknown_tool unknown_document unknown_call request_conflict stale_generation catalog_stale too_large rate_limited attention_budget busy
		browser_channel_unavailable dispatch_fence_unavailable durable_outcome_unavailable audit_unavailable policy_unavailable
		user_denied confirmation_expired browser_call_cancelled browser_call_not_dispatched browser_execution_failed reconciliation_window_expired`)
	for _, c := range controlv1.TrustReasons {
		want = append(want, "closed 4403 "+string(c))
	}
	want = append(want, "closed 1009", "closed 1011", "closed 1013", "closed 4400", "closed 4408", "closed 4429")
	for _, w := range want {
		quoted := w
		if !strings.HasPrefix(w, "closed") {
			quoted = `"` + w + `"`
		}
		if at, named := elsewhere[w]; strings.Contains(said, quoted) == named {
			t.Errorf("%s: told in a conversation: %v, and elsewhere by %q", w, strings.Contains(said, quoted), at[1])
		}
	}
}
