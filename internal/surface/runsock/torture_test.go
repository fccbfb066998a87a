package runsock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/store"
)

// A victim is what a round kills, and what must follow.
type victim struct {
	name  string
	kill  func(h *hosted, client *os.Process, tr traces)
	state run.State // of the run afterwards; "" where the host lives on
	code  int       // the host's exit code
}

var victims = []victim{
	{"host", func(h *hosted, _ *os.Process, _ traces) { h.kill() }, run.Lost, -1},
	{"host with a frozen browser", func(h *hosted, _ *os.Process, tr traces) {
		signal(tr.boxed(), syscall.SIGSTOP)
		h.kill()
	}, run.Lost, -1},
	{"browser", func(_ *hosted, _ *os.Process, tr traces) { signal(tr.engine(), syscall.SIGKILL) }, run.Ended, 1},
	{"frozen browser", func(_ *hosted, _ *os.Process, tr traces) {
		signal(tr.boxed(), syscall.SIGSTOP)
		signal(tr.engine(), syscall.SIGKILL)
	}, run.Ended, 1},
	{"box's init", func(_ *hosted, _ *os.Process, tr traces) { signal(tr.boxed()[:1], syscall.SIGKILL) }, run.Ended, 1},
	{"host told to end, with a frozen browser", func(_ *hosted, _ *os.Process, tr traces) { signal(tr.boxed(), syscall.SIGSTOP) }, "", 0},
	{"guardian", func(_ *hosted, _ *os.Process, tr traces) { signal(tr.guardian(), syscall.SIGKILL) }, "", 0},
	{"client", func(_ *hosted, client *os.Process, _ traces) { client.Kill() }, "", 0},
	{"host and client", func(h *hosted, client *os.Process, _ traces) { client.Kill(); h.kill() }, run.Lost, -1},
	{"host, guardian, browser and client", func(h *hosted, client *os.Process, tr traces) {
		signal(tr.guardian(), syscall.SIGKILL)
		signal(tr.engine(), syscall.SIGKILL)
		client.Kill()
		h.kill()
	}, run.Lost, -1},
}

// signal signals processes that still are those that were seen.
func signal(list []proc, s syscall.Signal) {
	for _, p := range list {
		if now, ok := readProc(p.pid); ok && now.start == p.start {
			syscall.Kill(p.pid, s)
		}
	}
}

// boxed are the processes in the run's own network, its init first.
func (tr traces) boxed() []proc {
	mine := network(os.Getpid())
	return named(tr.family, func(p proc) bool { ns := network(p.pid); return ns != "" && ns != mine })
}

// engine is the browser's first process: the init's child.
func (tr traces) engine() []proc {
	boxed := tr.boxed()
	return named(boxed, func(p proc) bool { return p.parent == boxed[0].pid })
}

// guardian is the host's child outside of the box.
func (tr traces) guardian() []proc {
	boxed := tr.boxed()
	return named(tr.family, func(p proc) bool { return p.parent == tr.family[0].pid && p.pid != boxed[0].pid })
}

// TestKillTorture kills one or several parts of a run at a moment of chance, with
// an action in flight, again and again over one home, one directory and one run
// id: nothing may be left, the next host never honours the old descriptor or
// session, the last action is told as unknown, and the ledger verifies.
// CHAPERONE_TORTURE=1 makes it 200 rounds; CHAPERONE_EVIDENCE=DIR keeps what
// happened.
func TestKillTorture(t *testing.T) {
	t.Parallel()
	rounds := 12
	if os.Getenv("CHAPERONE_TORTURE") == "1" {
		rounds = 200
	}
	base := t.TempDir()
	o := options{home: filepath.Join(base, "home"), dir: filepath.Join(base, "browser-runs"), id: "tortured"}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	web := newSite(t)
	ev := newEvidence(t, rounds)
	var before *session
	for round := range rounds {
		v := victims[round%len(victims)]
		name := fmt.Sprintf("round %d, %s", round, v.name)
		before = torture(t, o, web, v, name, before, &ev)
		if t.Failed() {
			t.Fatalf("stopped in %s", name)
		}
	}
	ev.keep(t, "torture-host.json")
}

// TestKilledWhileStarting kills a host at a moment of chance between its first
// instruction and its first answer. No process may be left, no descriptor may
// outlive its host, and the next host of the same run starts as if nothing had
// been.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	rounds := 8
	if os.Getenv("CHAPERONE_TORTURE") == "1" {
		rounds = 100
	}
	base := t.TempDir()
	o := options{home: filepath.Join(base, "home"), dir: filepath.Join(base, "browser-runs"), id: "starting"}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ev := newEvidence(t, rounds)
	for round := range rounds {
		h := spawn(t, o)
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		tr := h.traces()
		reached := "no folder"
		for _, step := range [][2]string{{"", "folder"}, {"browser.sock", "socket"}, {"browser.json", "published"}} {
			if _, err := os.Lstat(filepath.Join(h.registry, step[0])); err == nil {
				reached = step[1]
			}
		}
		killed := time.Now()
		h.kill()
		// Before its guardian stands, a host can leave its folder and its socket,
		// which nobody listens at. The next round's host takes them away.
		tr.folder = ""
		tr.gone(t)
		if reached == "published" {
			(traces{folder: h.registry}).gone(t)
		}
		if _, err := os.Lstat(filepath.Join(h.registry, "browser.json")); err == nil {
			t.Errorf("round %d: a descriptor outlives its host, which had reached: %s", round, reached)
		}
		ev.Slowest[reached] = max(ev.Slowest[reached], time.Since(killed).Milliseconds())
		ev.Histogram[fmt.Sprintf("%s, %d processes", reached, len(tr.family))]++
	}
	h := start(t, o)
	h.open().must("list_tabs", "{}")
	tr := h.traces()
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d after %d killed hosts\n%s", code, rounds, h.stderr)
	}
	tr.gone(t)
	if out, err := exec.Command(filepath.Join(workshop, "chaperone"), "audit", "verify", "--home", o.home).CombinedOutput(); err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
	ev.keep(t, "torture-host-start.json")
}

// torture is one round. It answers the session that the next round's host must
// not honour.
func torture(t *testing.T, o options, web *site, v victim, name string, old *session, ev *evidence) *session {
	h := start(t, o)
	if old != nil {
		h.refuses(old, name)
	}
	client := h.holder(web)
	s := &session{hosted: h, http: h.client(), d: h.descriptor()}
	time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
	tr := h.traces()
	if len(tr.boxed()) < 3 || len(tr.engine()) != 1 || len(tr.guardian()) != 1 {
		t.Errorf("%s: %d boxed, %d engines, %d guardians: the test sees too little", name, len(tr.boxed()), len(tr.engine()), len(tr.guardian()))
	}
	killed := time.Now()
	v.kill(h, client.Process, tr)
	if v.state == "" {
		time.Sleep(100 * time.Millisecond)
		if _, err := os.Lstat(filepath.Join(h.registry, "browser.json")); err != nil {
			t.Errorf("%s: the registration went with it: %v", name, err)
		}
		h.stdin.Close()
	}
	select {
	case <-h.exited:
	case <-time.After(30 * time.Second):
		t.Errorf("%s: the host lives on", name)
		h.kill()
	}
	if code := h.cmd.ProcessState.ExitCode(); code != v.code {
		t.Errorf("%s: host's exit code %d, want %d\n%s", name, code, v.code, h.stderr)
	}
	if strings.Contains(v.name, "guardian, ") {
		tr.folder = "" // host and guardian died at once: the next host takes its folder away
	}
	tr.gone(t)
	ev.Slowest[v.name] = max(ev.Slowest[v.name], time.Since(killed).Milliseconds())
	client.Process.Kill()
	client.Wait()
	told(t, o, v, name, s.d.Epoch, ev)
	return s
}

// holder starts a client that acts for ever, and waits until it does. The
// descriptor's own token is spent by it.
func (h *hosted) holder(web *site) *exec.Cmd {
	h.t.Helper()
	cmd := exec.Command("python3", "-I", "-B", "testdata/conform.py", "hold", h.registry, web.URL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		h.t.Fatalf("client: %q %v", line, err)
	}
	return cmd
}

// refuses asks the new host to honour an older run's descriptor.
func (h *hosted) refuses(old *session, name string) {
	h.t.Helper()
	s := &session{hosted: h, http: h.client(), d: old.d}
	body := ownedv1.HandshakeRequest{Identity: old.d.Identity, ClientNonce: newHex(32)}.Encode()
	status, answer, err := s.post(context.Background(), ownedv1.Handshake, old.d.BootstrapToken, body)
	if status != http.StatusUnauthorized || err != nil {
		h.t.Errorf("%s: the old descriptor got %d %s %v, want 401", name, status, answer, err)
	}
}

// told reads the ledger as the next holder would, and verifies it.
func told(t *testing.T, o options, v victim, name, epoch string, ev *evidence) {
	t.Helper()
	ctx := context.Background()
	db, err := store.Open(ctx, filepath.Join(o.home, "chaperone.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(db, audit.Options{Tenant: "local", CheckpointDir: filepath.Join(o.home, "checkpoints"), KeyFile: filepath.Join(o.home, "audit.key")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(log.Close(ctx), db.Close()); err != nil {
			t.Error(err)
		}
	}()
	book, err := run.NewBook(db, log, "local")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Recover(ctx); err != nil {
		t.Fatal(err)
	}
	a, err := book.Account(ctx, o.id)
	if err != nil {
		t.Fatal(err)
	}
	want := v.state
	if want == "" {
		want = run.Ended
	}
	if a.Epoch != epoch || a.State != want || len(a.Actions) == 0 {
		t.Errorf("%s: run is %s of epoch %.8s with %d actions, want %s of %.8s", name, a.State, a.Epoch, len(a.Actions), want, epoch)
		return
	}
	last := a.Actions[len(a.Actions)-1]
	for _, d := range a.Actions[:len(a.Actions)-1] {
		if d.Outcome != run.Done {
			t.Errorf("%s: action %d is %s, and it isn't the last", name, d.Sequence, d.Outcome)
		}
	}
	if v.state == run.Lost && last.Outcome != run.Unknown {
		t.Errorf("%s: the last action is %s, want unknown", name, last.Outcome)
	}
	if v.state != run.Lost && slices.Contains([]run.Outcome{run.Running, run.Unknown}, last.Outcome) {
		t.Errorf("%s: the last action is %s, though its host lived to tell", name, last.Outcome)
	}
	if out, err := exec.Command(filepath.Join(workshop, "chaperone"), "audit", "verify", "--home", o.home).CombinedOutput(); err != nil {
		t.Errorf("%s: audit verify: %v\n%s", name, err, out)
	}
	ev.Histogram[fmt.Sprintf("%s: %s, last action %s %s", v.name, a.State, last.Name, last.Outcome)]++
}
