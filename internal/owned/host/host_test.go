package host_test

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/host"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	jail.Init()
	os.Exit(leaktest.Check(m.Run()))
}

// world is a site, a scope that allows it, and a ledger.
type world struct {
	t    *testing.T
	site *httptest.Server
	book *run.Book
	db   *store.DB
	hits sync.Map // path -> true
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: storetest.Open(t, storetest.SQLite(t), store.Options{})}
	w.site = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Store(r.URL.Path, true)
		if name := r.URL.Query().Get("save"); name != "" {
			rw.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
			fmt.Fprint(rw, "content")
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, "<!doctype html><title>page</title><button onclick=\"document.title='clicked'\">go</button>")
	}))
	t.Cleanup(w.site.Close)
	log, err := audit.Open(w.db, audit.Options{Tenant: "local", KeyFile: t.TempDir() + "/audit.key"})
	if err != nil {
		t.Fatal(err)
	}
	log.Start(context.Background())
	t.Cleanup(func() { log.Close(context.Background()) })
	if w.book, err = run.NewBook(w.db, log, "local"); err != nil {
		t.Fatal(err)
	}
	return w
}

// config is a Config that runs; change makes it a case's own.
func (w *world) config(id, more string) host.Config {
	w.t.Helper()
	s, err := scope.Parse("scope.yaml", []byte("engagement: acme-2026\nallow:\n  - host: 127.0.0.1\n    ports: [\"*\"]\n"+more))
	if err != nil {
		w.t.Fatal(err)
	}
	engine, err := jail.FindEngine("")
	if err != nil {
		w.t.Fatal(err)
	}
	return host.Config{
		Engagement: "acme-2026", RunID: id, StartedBy: "uid:0", Surface: "browse", Scope: s, Engine: engine,
		Open: func(context.Context) (*run.Book, error) { return w.book, nil },
	}
}

// start starts a host that is closed with the test.
func (w *world) start(c host.Config) *host.Host {
	w.t.Helper()
	h, err := host.Start(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := h.Close(context.Background(), refusal.Ended); err != nil {
			w.t.Errorf("Close: %v", err)
		}
		if err := w.db.View(context.Background(), run.Check); err != nil {
			w.t.Errorf("Check: %v", err)
		}
	})
	return h
}

// do does one action and answers its failure's reason, "ok" where there is none.
func do(ctx context.Context, h *host.Host, a ownedv1.Action) refusal.Code {
	_, err := h.Do(ctx, a)
	var f *browser.Failure
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &f):
		return f.Reason
	}
	return refusal.Code("not a Failure: " + err.Error())
}

// outcomes answers what the ledger says of a run's actions.
func (w *world) outcomes(id string) (list []string) {
	w.t.Helper()
	a, err := w.book.Account(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range a.Actions {
		list = append(list, d.Name+" "+string(d.Outcome))
	}
	return list
}

// TestRun is one local run from start to end, as the ledger tells it.
func TestRun(t *testing.T) {
	w := newWorld(t)
	h := w.start(w.config("whole", ""))
	ctx := context.Background()
	steps := []struct {
		action ownedv1.Action
		want   refusal.Code
	}{
		{ownedv1.Launch{Headless: true}, "ok"},
		{ownedv1.Goto{URL: w.site.URL + "/a"}, "ok"},
		{ownedv1.Click{Selector: "button"}, "ok"},
		{ownedv1.Click{Selector: "#none", TimeoutMS: 100}, refusal.TimedOut},
		{ownedv1.Goto{URL: "http://out.example.com/"}, refusal.ScopeDenied},
	}
	for _, s := range steps {
		if got := do(ctx, h, s.action); got != s.want && !(s.want == refusal.TimedOut && got == refusal.NotFound) {
			t.Errorf("%s: %s, want %s", s.action.Name(), got, s.want)
		}
	}
	if err := h.Close(ctx, refusal.Ended); err != nil {
		t.Fatal(err)
	}
	got := w.outcomes("whole")
	want := []string{"launch done", "goto done", "click done", "click not_sent", "goto not_sent"}
	// A denied goto may have stopped the page before it was denied.
	if diff := cmp.Diff(want[:4], got[:4]); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if a, err := w.book.Account(ctx, "whole"); err != nil || a.State != run.Ended || a.Reason != refusal.Ended {
		t.Errorf("run is %s (%s), %v; want ended", a.State, a.Reason, err)
	}
	lines, err := w.book.Suggest(ctx, "whole")
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], "out.example.com") {
		t.Errorf("suggestion %q, %v; want one line for out.example.com", lines, err)
	}
	if got := do(ctx, h, ownedv1.ListTabs{}); got != refusal.NoBrowser {
		t.Errorf("action after the end: %s, want %s", got, refusal.NoBrowser)
	}
}

func TestScopeActions(t *testing.T) {
	w := newWorld(t)
	h := w.start(w.config("narrow", "actions: [goto]\n"))
	ctx := context.Background()
	got := []refusal.Code{
		do(ctx, h, ownedv1.Launch{Headless: true}), do(ctx, h, ownedv1.Goto{URL: w.site.URL + "/n"}),
		do(ctx, h, ownedv1.EvalJS{Expression: "fetch('/evaluated')"}),
	}
	if diff := cmp.Diff([]refusal.Code{"ok", "ok", refusal.ScopeDenied}, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if _, hit := w.hits.Load("/evaluated"); hit {
		t.Error("a left-out action ran")
	}
}

// TestOwnListenersAreDenied: what the scope allows isn't reached where this node
// itself listens.
func TestOwnListenersAreDenied(t *testing.T) {
	w := newWorld(t)
	c := w.config("own", "")
	own := netip.MustParseAddrPort(w.site.Listener.Addr().(*net.TCPAddr).AddrPort().String())
	c.Own = func() []netip.AddrPort { return []netip.AddrPort{own} }
	h := w.start(c)
	ctx := context.Background()
	do(ctx, h, ownedv1.Launch{Headless: true})
	if got := do(ctx, h, ownedv1.Goto{URL: w.site.URL + "/own"}); got != refusal.ScopeDenied {
		t.Errorf("goto to the node's own listener: %s, want %s", got, refusal.ScopeDenied)
	}
	if _, hit := w.hits.Load("/own"); hit {
		t.Error("the node's own listener was reached")
	}
}

// TestOneAtATime: a later action waits for its turn, gives up at its own deadline
// without having been sent, and doesn't disturb the one before it.
func TestOneAtATime(t *testing.T) {
	w := newWorld(t)
	h := w.start(w.config("queue", ""))
	ctx := context.Background()
	do(ctx, h, ownedv1.Launch{Headless: true})
	first := make(chan refusal.Code)
	go func() {
		first <- do(ctx, h, ownedv1.EvalJS{Expression: "new Promise(done => setTimeout(done, 1500))"})
	}()
	time.Sleep(200 * time.Millisecond)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if got := do(short, h, ownedv1.ListTabs{}); got != refusal.TimedOut {
		t.Errorf("queued action at its deadline: %s, want %s", got, refusal.TimedOut)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if got := do(gone, h, ownedv1.ListTabs{}); got != refusal.Cancelled {
		t.Errorf("queued action of a caller who left: %s, want %s", got, refusal.Cancelled)
	}
	if got := do(ctx, h, ownedv1.ListTabs{}); got != "ok" {
		t.Errorf("queued action in its turn: %s", got)
	}
	if got := <-first; got != "ok" {
		t.Errorf("the action before them: %s", got)
	}
	if err := h.Close(ctx, refusal.Ended); err != nil {
		t.Fatal(err)
	}
	want := []string{"launch done", "eval_js done", "list_tabs not_sent", "list_tabs not_sent", "list_tabs done"}
	if diff := cmp.Diff(want, w.outcomes("queue")); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// TestOverLimitDiesAlone: a page that eats the run's memory ends its own run with
// a stable code, and no other.
func TestOverLimitDiesAlone(t *testing.T) {
	w := newWorld(t)
	c := w.config("greedy", "")
	c.Limits = jail.Limits{TreeBytes: 400 << 20}
	greedy, other := w.start(c), w.start(w.config("modest", ""))
	ctx := context.Background()
	do(ctx, greedy, ownedv1.Launch{Headless: true})
	do(ctx, greedy, ownedv1.EvalJS{Expression: "self.kept=[]; for(;;) kept.push(new Uint8Array(8<<20).fill(1))"})
	select {
	case <-greedy.Done():
	case <-time.After(time.Minute):
		t.Fatal("the run over its limit lives on")
	}
	if got := refusal.Of(greedy.Err()); got != refusal.OverLimit {
		t.Errorf("it ended with %v, want %s", greedy.Err(), refusal.OverLimit)
	}
	if a, err := w.book.Account(ctx, "greedy"); err != nil || a.State != run.Ended || a.Reason != refusal.OverLimit {
		t.Errorf("ledger says %s (%s), %v", a.State, a.Reason, err)
	}
	if got := do(ctx, other, ownedv1.Launch{Headless: true}); got != "ok" {
		t.Errorf("the other run: %s", got)
	}
}

// TestCloseAtAnyMoment closes during the start and soon after it; nothing hangs,
// and the ledger's invariants hold.
func TestCloseAtAnyMoment(t *testing.T) {
	w := newWorld(t)
	for i := range 24 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*15*time.Millisecond)
		h, err := host.Start(ctx, w.config(fmt.Sprintf("moment-%d", i), ""))
		cancel()
		if err != nil {
			continue
		}
		go do(context.Background(), h, ownedv1.Launch{Headless: true})
		if err := h.Close(context.Background(), refusal.Ended); err != nil {
			t.Errorf("moment %d: %v", i, err)
		}
	}
	if err := w.db.View(context.Background(), run.Check); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestJournalBeforeEffect(t *testing.T) {
	w := newWorld(t)
	h := w.start(w.config("busy", ""))
	ctx := context.Background()
	do(ctx, h, ownedv1.Launch{Headless: true})
	// A caller whose time is over before the commit sends nothing.
	short, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	if got := do(short, h, ownedv1.Goto{URL: w.site.URL + "/never"}); got != refusal.TimedOut {
		t.Errorf("goto without time: %s", got)
	}
	if _, hit := w.hits.Load("/never"); hit {
		t.Error("an action without a commit had an effect")
	}
}

func TestConfigIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*host.Config){
		"another engagement": func(c *host.Config) { c.Engagement = "other" },
		"run id with a dot":  func(c *host.Config) { c.RunID = "../x" },
	} {
		c := w.config("refused", "")
		change(&c)
		if h, err := host.Start(context.Background(), c); !errors.Is(err, refusal.BadDocument) {
			t.Errorf("%s: %v, %v; want bad_document", name, h, err)
		}
	}
}

// TestSessionEndsItsRun: when the session expires the run is over, with its code.
func TestSessionEndsItsRun(t *testing.T) {
	w := newWorld(t)
	c := w.config("short", "")
	c.Surface, c.Handshake, c.Session = "host", true, time.Second
	h := w.start(c)
	d := h.Descriptor(ownedv1.UnixEndpoint, ownedv1.TransportUnix)
	req := ownedv1.HandshakeRequest{Identity: h.Identity(), ClientNonce: run.NewToken()}
	if err := h.Admit(ownedv1.Handshake, d.BootstrapToken); err != nil {
		t.Fatal(err)
	}
	res, err := h.Handshake(context.Background(), d.BootstrapToken, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Admit(ownedv1.DoAction, res.SessionToken); err != nil {
		t.Errorf("a living session: %v", err)
	}
	select {
	case <-h.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the run outlives its session")
	}
	if err := h.Admit(ownedv1.DoAction, res.SessionToken); refusal.Of(err) != refusal.UnauthorizedAdapter {
		t.Errorf("an expired session: %v", err)
	}
	a, err := w.book.Account(context.Background(), "short")
	if err != nil || a.State != run.Ended || a.Reason != refusal.Expired || refusal.Of(h.Err()) != refusal.Expired {
		t.Errorf("run is %s (%s), %v, %v; want ended (expired)", a.State, a.Reason, h.Err(), err)
	}
}

// TestDownloadsStayInTheirFolder: the site suggests names, the host chooses them.
func TestDownloadsStayInTheirFolder(t *testing.T) {
	w := newWorld(t)
	c := w.config("downloads", "")
	c.DownloadsDir = t.TempDir()
	h := w.start(c)
	ctx := context.Background()
	do(ctx, h, ownedv1.Launch{Headless: true})
	names := []string{"report.pdf", "report.pdf", "../../escape.sh", ".profile", "-rf", "a b;c.txt", strings.Repeat("long", 60) + ".zip"}
	for _, name := range names {
		do(ctx, h, ownedv1.Goto{URL: w.site.URL + "/file?save=" + url.QueryEscape(name)})
		for i := 1; ; i++ {
			answer, err := h.Do(ctx, browser.Downloads{})
			if err != nil {
				t.Fatal(err)
			}
			if list, ok := answer.Result.(browser.DownloadsResult); ok && len(list.Downloads) > 0 && list.Downloads[len(list.Downloads)-1].State == "saved" {
				break
			}
			if i > 200 {
				t.Fatalf("%q isn't saved: %+v", name, answer.Result)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var got []string
	filepath.WalkDir(filepath.Dir(c.DownloadsDir), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(filepath.Base(path), "chaperone.db") && !strings.HasPrefix(filepath.Base(path), "audit.key") {
			rel, _ := filepath.Rel(c.DownloadsDir, path)
			got = append(got, rel)
		}
		return nil
	})
	slices.Sort(got)
	for _, name := range got {
		if strings.ContainsAny(name, "/ ;") || name[0] == '.' || name[0] == '-' || len(name) > 130 {
			t.Errorf("a download is called %q", name)
		}
	}
	if len(got) != len(names) {
		t.Errorf("%d files for %d downloads: %q", len(got), len(names), got)
	}
}

// TestDialogIsSettledBesideTheQueue: what settles a dialog is never queued behind
// what the dialog holds up.
func TestDialogIsSettledBesideTheQueue(t *testing.T) {
	w := newWorld(t)
	c := w.config("dialog", "")
	c.Dialogs = browser.DialogsHold
	h := w.start(c)
	ctx := context.Background()
	do(ctx, h, ownedv1.Launch{Headless: true})
	do(ctx, h, ownedv1.Goto{URL: w.site.URL + "/d"})
	evaluated := make(chan refusal.Code, 1)
	go func() { evaluated <- do(ctx, h, ownedv1.EvalJS{Expression: "confirm('sure?')"}) }()
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	if got := do(ctx, h, browser.AnswerDialog{Accept: true}); got != "ok" {
		t.Errorf("answering the dialog: %s", got)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("answering the dialog took %v", took)
	}
	<-evaluated
	if got := do(ctx, h, ownedv1.EvalJS{Expression: "1"}); got != "ok" {
		t.Errorf("after the dialog: %s", got)
	}
}
