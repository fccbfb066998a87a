package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/node"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// crash is where a server is killed: around the commit of a step of the attended
// ledger, by how often that step had been taken, or as its frame arrives.
type crash struct {
	Step  string        `json:"step"` // a verb of ledger.Book's, or "" for a frame
	Nth   int           `json:"nth"`
	Phase string        `json:"phase"` // before, after, or soon: a little after
	Wait  time.Duration `json:"wait"`
}

func (c crash) String() string {
	if c.Step == "" {
		return fmt.Sprintf("as %s arrives", c.Phase)
	}
	return fmt.Sprintf("%s %s %d", c.Phase, c.Step, c.Nth)
}

// crashes are all of them, in the order of one conversation (see killed.talk).
func crashes() (all []crash) {
	for _, s := range []struct {
		step string
		nth  int
	}{{"Grant", 1}, {"Finalize", 1}, {"Open", 1}, {"Register", 1}, {"Point", 1}, {"Publish", 1}, {"Issue", 1},
		{"Admit", 1}, {"Settle", 1}, {"Admit", 2}, {"Confirm", 1}, {"Settle", 2}, {"Deny", 1}, {"Cancel", 1}, {"Cancel", 2}, {"Stopped", 1}, {"Disconnect", 1}, {"Reap", 1}} {
		all = append(all, crash{Step: s.step, Nth: s.nth, Phase: "before"}, crash{Step: s.step, Nth: s.nth, Phase: "after"})
	}
	return append(all, crash{Phase: frameOfRead}, crash{Step: "Admit", Nth: 1, Phase: "soon"}, crash{Phase: frameOfMutation}, crash{Step: "Confirm", Nth: 1, Phase: "soon"})
}

const (
	frameOfRead     = "the frame of a read"
	frameOfMutation = "the frame of a mutation"
)

// suicide kills this process where the file says, once. Another step may share the
// commit; what the file says afterwards is what stood there.
func suicide(path string) func(commit func() error) error {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(commit func() error) error {
		var at crash
		data, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(data, &at) != nil || at.Step == "" || !committing(at.Step) {
			return commit()
		}
		mu.Lock()
		seen[at.Step]++
		now := seen[at.Step] == at.Nth
		mu.Unlock()
		if !now {
			return commit()
		}
		os.WriteFile(path+"-here", data, 0o600)
		if at.Phase == "before" {
			die()
		}
		err = commit()
		if at.Phase == "after" {
			die()
		}
		time.AfterFunc(at.Wait, die)
		return err
	}
}

func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// committing tells whether a verb of the attended ledger stands at the commit that
// this goroutine is about to make: on PostgreSQL it is this one's, on SQLite those of
// the members that wait for the group's.
func committing(verb string) bool {
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	name := "attended/ledger.(*Book)." + verb + "("
	for i, g := range strings.Split(string(buffer), "\n\n") {
		waits := strings.Contains(g, "store.(*writer).join(") && !strings.Contains(g[:strings.IndexByte(g, '\n')], "[select")
		if strings.Contains(g, name) && (i == 0 || waits) {
			return true
		}
	}
	return false
}

// mortalRole is a server in a process of its own that kills itself as a file in its
// home says.
func mortalRole(args []string) error {
	node.AroundCommits(suicide(filepath.Join(args[0], "crash")))
	return serveRole(args)
}

// soft makes the helpers of owners and pages end a conversation, and not the test:
// in the middle of it their server dies.
type soft struct{ testing.TB }

type cut string

func (soft) Helper()                      {}
func (soft) Fatal(args ...any)            { panic(cut(fmt.Sprint(args...))) }
func (soft) Fatalf(f string, args ...any) { panic(cut(fmt.Sprintf(f, args...))) }
func (soft) Errorf(f string, args ...any) { panic(cut(fmt.Sprintf(f, args...))) }
func (soft) Error(args ...any)            { panic(cut(fmt.Sprint(args...))) }

// killed is what a conversation with a server that dies left.
type killed struct {
	at      crash
	o       *owner
	c       *client.Client
	cut     string // where the conversation ended
	reached bool   // the server died where it was to
	asked   []controlv1.ExecuteCall

	mu     sync.Mutex          // guards what follows
	told   []controlv1.Receipt // by the server that died
	frames []controlv1.Call
	none   map[controlv1.ID]bool // calls of which the page said that nothing was done
}

// hears keeps a receipt of the server that is about to die.
func (k *killed) hears(r controlv1.Receipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = append(k.told, r)
}

// mortal is a server over a database, and how it is started again.
type mortal struct {
	*server
	port, database string
	process        *storetest.Process
	people         *credential.Book
	db             *store.DB
	log            *audit.Log
}

func newMortal(t *testing.T, url string) *mortal {
	home, port := t.TempDir(), fmt.Sprint(free(t))
	m := &mortal{server: &server{t: t, home: home, origin: "http://localhost:" + port}, port: port, database: url}
	m.config = node.DefaultConfig(home)
	m.config.PublicOrigin, m.config.Database = m.origin, url
	m.up(t)
	m.db = storetest.Open(t, url, store.Options{})
	var err error
	if m.log, err = audit.Open(m.db, audit.Options{Tenant: node.Tenant}); err != nil {
		t.Fatal(err)
	}
	if m.people, err = node.OpenPeople(home, m.config, m.db, m.log); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mortal) up(t *testing.T) { m.process, _ = apartAs(t, "mortal", m.home, m.port, m.database) }

// kill has a conversation with the server until it dies, and starts it again.
func (m *mortal) kill(t *testing.T, at crash) *killed {
	t.Helper()
	k := &killed{at: at, none: map[controlv1.ID]bool{}}
	secret, err := m.people.Enrolment(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	k.o = m.settleBy(secret, fmt.Sprintf("Person %x", time.Now().UnixNano()))
	k.c, _ = k.o.workflow("agent")
	path := filepath.Join(m.home, "crash")
	data, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.talk(ctx, m)
	}()
	dead := make(chan struct{})
	go func() { defer close(dead); m.process.Cmd.Wait() }()
	select {
	case <-dead:
	case <-done: // a frame's arrival kills it from outside; anything else kills itself
		select {
		case <-dead:
		case <-time.After(20 * time.Second):
		}
	}
	stop() // what still waits for an answer gets none
	select {
	case <-dead:
	default:
		if at.Step != "Reap" || k.cut != "" { // which repair may have done instead
			t.Errorf("%s: the server lives; the conversation ended with %q", at, k.cut)
		}
		m.process.Process.Kill()
		<-dead
		k.at = crash{Phase: "the conversation's end"}
	}
	<-done
	_, err = os.Stat(path + "-here")
	k.reached = err == nil || k.at.Step == ""
	os.Remove(path)
	os.Remove(path + "-here")
	m.up(t)
	return k
}

// talk goes through every step of attended control once, and ends where the server
// does.
func (k *killed) talk(ctx context.Context, m *mortal) {
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(cut)
			if !ok {
				panic(r)
			}
			k.cut = string(c)
		}
	}()
	o := *k.o
	o.t = soft{k.o.t}
	p := o.page()
	p.arm()
	p.open()
	frames := k.listen(p.ws, func(f controlv1.Call) {
		_, read := f.Authorization.(controlv1.AsRead)
		if k.at.Step == "" && read == (k.at.Phase == frameOfRead) {
			m.process.Process.Kill()
		}
	})
	lease := p.lease(k.c)
	value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
	if err != nil {
		panic(err)
	}
	n := 0
	ask := func(tool string) <-chan controlv1.Receipt {
		n++
		e := p.called(lease, tool, fmt.Sprintf("r%d", n))
		k.asked = append(k.asked, e)
		out := make(chan controlv1.Receipt, 1)
		go func() {
			defer close(out)
			if r, err := k.c.Call(ctx, e); err == nil {
				out <- r
			}
		}()
		return out
	}
	hear := func() controlv1.AuthorityFrame {
		select {
		case f, ok := <-frames:
			if ok {
				return f
			}
			panic(cut("the socket's end"))
		case <-ctx.Done():
			panic(cut("the end"))
		}
	}
	told := func(got <-chan controlv1.Receipt) {
		r, ok := <-got
		if !ok {
			panic(cut("no receipt"))
		}
		k.hears(r)
	}
	confirmed := func(got <-chan controlv1.Receipt) controlv1.Call {
		q := expect[controlv1.ConfirmationRequest](hear())
		p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
		return expect[controlv1.Call](hear())
	}
	reason, _ := controlv1.ParseWord("changed_mind")
	cancel := func(call controlv1.ID) {
		if r, err := k.c.Cancel(ctx, call, reason); err == nil {
			k.hears(r)
		}
	}

	got := ask("look")
	f := expect[controlv1.Call](hear())
	p.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Success{Value: value}})
	told(got)

	got = ask("write")
	f = confirmed(got)
	p.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Success{Value: value}})
	told(got)

	got = ask("write")
	q := expect[controlv1.ConfirmationRequest](hear())
	p.say(controlv1.Cancelled{Call: q.Call, Effect: controlv1.NoEffect})
	told(got)

	got = ask("write")
	q = expect[controlv1.ConfirmationRequest](hear())
	cancel(q.Call)
	expect[controlv1.Cancel](hear())
	told(got)

	got = ask("write")
	f = confirmed(got)
	cancelled := make(chan struct{})
	go func() { defer close(cancelled); cancel(f.Call) }()
	expect[controlv1.Cancel](hear())
	k.mu.Lock()
	k.none[f.Call] = true
	k.mu.Unlock()
	p.say(controlv1.Cancelled{Call: f.Call, Effect: controlv1.NoEffect})
	told(got)
	<-cancelled

	got = ask("write")
	confirmed(got)
	p.ws.CloseNow()
	told(got)
}

// expect is a frame of that kind.
func expect[F controlv1.AuthorityFrame](f controlv1.AuthorityFrame) F {
	x, ok := f.(F)
	if !ok {
		panic(cut(fmt.Sprintf("%T came", f)))
	}
	return x
}

// listen takes every frame off a socket until its end, so that none that left is
// missed, and counts those that let the page act.
func (k *killed) listen(ws *websocket.Conn, act func(controlv1.Call)) <-chan controlv1.AuthorityFrame {
	out := make(chan controlv1.AuthorityFrame, 256)
	go func() {
		defer close(out)
		for {
			_, data, err := ws.Read(context.Background())
			if err != nil {
				return
			}
			f, err := controlv1.DecodeAuthority(data)
			if err != nil {
				k.o.t.Errorf("a frame that doesn't decode: %v", err)
				return
			}
			if c, ok := f.(controlv1.Call); ok {
				k.mu.Lock()
				k.frames = append(k.frames, c)
				k.mu.Unlock()
				act(c)
			}
			out <- f
		}
	}()
	return out
}

// TestKilledAttended kills a real server before and after each durable step of
// attended control, and as its frames arrive. The page, in another process, counts
// the frames that came over its socket. Whatever the moment: no frame is sent twice,
// also where the agent asks again; each has its record; nothing that was sent is told
// as if it hadn't been, and what wasn't isn't told as done; what another process finds
// afterwards it ends by the book, within the time that a node is missed.
func TestKilledAttended(t *testing.T) {
	all := histograms{store.SQLite: {}, store.Postgres: {}}
	keep := all.keeper(t)
	t.Run("engines", func(t *testing.T) { // ends when both have
		for i, engine := range []string{store.SQLite, store.Postgres} {
			t.Run(engine, func(t *testing.T) {
				t.Parallel() // each waits for what a dead node leaves
				url := ""
				if engine == store.SQLite {
					url = storetest.SQLite(t)
				} else {
					url = storetest.Postgres(t)
				}
				newMortal(t, url).killAll(t, i, all[engine])
			})
		}
	})
	keep()
}

// histograms tell of each engine how often a server was killed where.
type histograms map[string]map[string]int

// killAll kills a server at every second step, beginning with the given one, and in
// a long run at every one, again and again.
func (m *mortal) killAll(t *testing.T, first int, histogram map[string]int) {
	all := crashes()
	rounds := storetest.Rounds(len(all)/2, 1000)
	for done := 0; done < rounds && !t.Failed(); {
		var batch []*killed
		for ; done < rounds && len(batch) < 100; done++ {
			at := all[(first+2*done+2*done/len(all))%len(all)]
			if at.Phase == "soon" {
				at.Wait = time.Duration(done%8) * 500 * time.Microsecond
			}
			k := m.kill(t, at)
			histogram[k.at.String()]++
			if !k.reached {
				t.Errorf("%s was never reached: %s", at, k.cut)
			}
			batch = append(batch, k)
		}
		m.settle(t, batch)
	}
	m.process.Process.Signal(syscall.SIGTERM)
	m.process.End(t)
	m.intact(t)
}

// settle waits until what the dead left is over, as it is within NodeTime and a beat,
// and holds all of it to what the pages saw.
func (m *mortal) settle(t *testing.T, batch []*killed) {
	t.Helper()
	var open string
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(250 * time.Millisecond) {
		open = m.open(t)
		if open == "0 0 0" {
			break
		}
		if time.Now().After(end) {
			m.process.Crash(t)
			t.Fatalf("calls, registrations and leases that are still open: %s; the server said %s", open, m.process.Cmd.Stderr)
		}
	}
	wire := map[controlv1.ID]int{}
	for _, k := range batch {
		// The same requests again are the same calls, and reach no page.
		receipts := map[controlv1.ID]controlv1.Receipt{}
		for _, e := range k.asked {
			r, err := k.c.Call(t.Context(), e)
			for refusal.Of(err) == refusal.RateLimited {
				time.Sleep(200 * time.Millisecond)
				r, err = k.c.Call(t.Context(), e)
			}
			if err != nil {
				var no *client.Refused
				if !errors.As(err, &no) {
					t.Errorf("%s: asking again: %v", k.at, err)
				}
				continue // it was never admitted
			}
			receipts[r.Call] = r
		}
		k.mu.Lock()
		for _, f := range k.frames {
			wire[f.Call]++
			r, known := receipts[f.Call]
			_, read := f.Authorization.(controlv1.AsRead)
			if !known || !read && r.Effect == controlv1.NoEffect && !k.none[f.Call] {
				t.Errorf("%s: a frame left, and its receipt is %+v", k.at, r)
			}
		}
		for call, r := range receipts {
			if !client.Over(r) {
				t.Errorf("%s: a call is %s", k.at, r.Status)
			}
			if wire[call] == 0 && r.Effect == controlv1.Committed {
				t.Errorf("%s: no frame left, and the receipt says %s", k.at, r.Effect)
			}
		}
		for _, before := range k.told {
			after := receipts[before.Call]
			if client.Over(before) && (after.Status != before.Status || after.Effect != before.Effect || after.Code != before.Code || after.ResultDigest != before.ResultDigest) {
				t.Errorf("%s: told %s %s %s, and later %s %s %s", k.at, before.Status, before.Effect, before.Code, after.Status, after.Effect, after.Code)
			}
		}
		k.mu.Unlock()
	}
	claims := map[string]int{}
	for _, kind := range []string{"attended.call_dispatched", "attended.call_confirmed"} {
		if err := audit.Records(t.Context(), m.db, audit.Filter{Kind: kind}, func(r audit.Record) error { claims[r.Subject]++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for call, n := range wire {
		if n != 1 || claims[call.String()] != 1 {
			t.Errorf("%s was sent %d times with %d records of its dispatch", call, n, claims[call.String()])
		}
	}
}

// open counts what isn't over: calls, registrations, leases.
func (m *mortal) open(t *testing.T) (counts string) {
	t.Helper()
	err := m.db.View(t.Context(), func(tx *store.Tx) error {
		var calls, registrations, leases int
		if err := tx.QueryRow(`select (select count(*) from attended_call where state in ('pending_confirmation','dispatched','cancelling','unknown')),
			(select count(*) from attended_registration where state<>'retired'), (select count(*) from attended_lease where state='active')`).Scan(&calls, &registrations, &leases); err != nil {
			return err
		}
		counts = fmt.Sprint(calls, registrations, leases)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// intact verifies the log and every invariant.
func (m *mortal) intact(t *testing.T) {
	t.Helper()
	var checks []audit.Check
	for _, c := range node.Invariants() {
		checks = append(checks, c)
	}
	r, err := audit.Verify(t.Context(), m.db, audit.VerifyOptions{CheckpointDir: m.config.Audit.Checkpoints, KeyFile: m.config.Audit.Key, Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 || r.More > 0 {
		t.Errorf("the log: %+v", r.Problems)
	}
	for _, tenant := range r.Tenants {
		if tenant.Unsequenced > 0 {
			t.Errorf("%d leaves aren't in the tree", tenant.Unsequenced)
		}
	}
}

// keeper answers what writes down where the servers of a long run died, where
// CHAPERONE_EVIDENCE names a directory (make torture). The commit is that of the
// beginning, which the program was built from.
func (h histograms) keeper(t *testing.T) (keep func()) {
	t.Helper()
	dir, began := os.Getenv("CHAPERONE_EVIDENCE"), time.Now()
	if dir == "" {
		return func() {}
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("evidence needs the commit: %v", err)
	}
	return func() {
		if t.Failed() {
			return
		}
		var text strings.Builder
		fmt.Fprintf(&text, "Servers killed with SIGKILL at the durable steps of attended control, and as its frames reach the page\n(TestKilledAttended in internal/node). No violation was found.\ncommit %sbegan  %s\nended  %s\n",
			commit, began.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
		for _, engine := range []string{store.SQLite, store.Postgres} {
			all, lines := 0, []string{}
			for at, n := range h[engine] {
				all += n
				lines = append(lines, fmt.Sprintf("%6d  %s", n, at))
			}
			slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[8:], b[8:]) })
			fmt.Fprintf(&text, "\n%s: %d killed\n%s\n", engine, all, strings.Join(lines, "\n"))
		}
		if err := os.WriteFile(filepath.Join(dir, "attended-kill.txt"), []byte(text.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}
