package runsock_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEndings: the host ends when it is told to, each way, and leaves nothing.
func TestEndings(t *testing.T) {
	t.Parallel()
	endings := map[string]func(h *hosted){
		"end of standard input": func(h *hosted) { h.stdin.Close() },
		"SIGTERM":               func(h *hosted) { h.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":                func(h *hosted) { h.cmd.Process.Signal(syscall.SIGINT) },
		"end while an action runs": func(h *hosted) {
			s := h.open()
			s.must("launch", "{}")
			go s.act(context.Background(), "eval_js", `{"expression":"new Promise(() => {})"}`)
			time.Sleep(200 * time.Millisecond)
			h.stdin.Close()
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			h := start(t, options{})
			got := mustJSON(t, h.ready)
			if diff := cmp.Diff(map[string]any{"ready": true, "engine": got["engine"]}, got); diff != "" || got["engine"] == "" {
				t.Errorf("ready line (-want +got):\n%s", diff)
			}
			tr := h.traces()
			if len(tr.family) < 4 || len(tr.networks) == 0 {
				t.Fatalf("a run of %d processes in %d networks: the test sees nothing", len(tr.family), len(tr.networks))
			}
			end(h)
			if code := h.stop(); code != 0 {
				t.Errorf("exit code %d\n%s", code, h.stderr)
			}
			tr.gone(t)
			if h.stderr.Len() > 0 {
				t.Errorf("said %q", h.stderr)
			}
		})
	}
}

// TestRefusedToStart: what is wrong is told with the exit code of its kind, and
// nothing was started.
func TestRefusedToStart(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(base, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	folder := func(name string, mode os.FileMode) string {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := folder("private", 0o700)
	link := filepath.Join(base, "link")
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	foreign := folder("foreign", 0o700)
	taken := start(t, options{})
	full := folder("full", 0o700)
	if err := os.MkdirAll(filepath.Join(full, "run-1", "keep"), 0o700); err != nil {
		t.Fatal(err)
	}
	odd := folder("odd", 0o700)
	if err := os.MkdirAll(filepath.Join(odd, "run-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(odd, "run-1", "browser.sock"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		options
		code int
		says string
	}{
		{"no such directory", options{dir: filepath.Join(base, "none")}, 2, "mkdir -p -m 700"},
		{"open directory", options{dir: folder("open", 0o755)}, 2, "chmod 700"},
		{"symlink", options{dir: link}, 2, "symlink"},
		{"bad scope", options{scope: file("bad.yaml", "engagement: acme-2026\nalow: []\n")}, 2, "bad.yaml:2:1"},
		{"no scope file", options{scope: filepath.Join(base, "none.yaml")}, 2, "scope file"},
		{"another engagement", options{scope: file("other.yaml", "engagement: other\nallow: []\n")}, 2, `"other"`},
		{"bad run id", options{id: "a.b"}, 2, "--run-id"},
		{"bad transport", options{args: []string{"--transport", "tcp"}}, 2, "--transport"},
		{"no such flag", options{args: []string{"--nope"}}, 2, "nope"},
		{"held by a living host", options{dir: taken.dir, id: taken.id, home: taken.home}, 1, "living host"},
		{"held in the database", options{id: taken.id, home: taken.home}, 1, "is held by process"},
		{"folder with something else", options{dir: full, id: "run-1"}, 1, "look at it"},
		{"file in the socket's place", options{dir: odd, id: "run-1"}, 1, "look at it"},
	}
	if os.Getuid() == 0 {
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		h := start(t, options{dir: foreign}) // root may check anybody's directory
		h.stop()
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := spawn(t, c.options)
			<-h.exited
			if code := h.cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(h.stderr.String(), c.says) {
				t.Errorf("exit code %d, want %d; it must say %q:\n%s", code, c.code, c.says, h.stderr)
			}
		})
	}
	if data, err := os.ReadFile(filepath.Join(odd, "run-1", "browser.sock")); err != nil || string(data) != "mine" {
		t.Errorf("the file in the socket's place: %q, %v", data, err)
	}
	if s := taken.open(); s.must("list_tabs", "{}") == "" {
		t.Error("the living host was disturbed")
	}
}

// TestStaleRegistration: what a dead host left is taken away, and only that.
func TestStaleRegistration(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "browser-runs")
	stale := filepath.Join(dir, "run-1")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(stale, "browser.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, name := range []string{"browser.json", "browser.json.new"} {
		if err := os.WriteFile(filepath.Join(stale, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "another"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := start(t, options{dir: dir, id: "run-1"})
	if got := h.open().must("list_tabs", "{}"); got == "" {
		t.Error("the new host doesn't answer")
	}
	h.stop()
	left, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "another")}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestLongPath: a registrations directory whose socket's path is over 107 bytes.
func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "browser-runs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := conform(t, "race", start(t, options{dir: dir}).registry, "2"); err != nil {
		t.Error(err)
	}
}

// TestExpiries takes a minute: a bootstrap that nobody uses ends its host with
// exit code 1, and a session lives on after its bootstrap's expiry.
func TestExpiries(t *testing.T) {
	t.Parallel()
	unused, used, burned := start(t, options{}), start(t, options{}), start(t, options{})
	s := used.open()
	s.must("launch", "{}")
	wrong := burned.descriptor().BootstrapToken
	b := &session{hosted: burned, http: burned.client(), d: burned.descriptor()}
	other := fmt.Sprintf(`{"protocol":"owned-browser-v1","engagement_id":"acme-2026","run_id":"other","epoch":%q,"client_nonce":%q}`, b.d.Epoch, newHex(32))
	if status, _, err := b.post(context.Background(), "handshake", wrong, []byte(other)); status != 403 || err != nil {
		t.Errorf("handshake with another binding: %d %v, want 403", status, err)
	}
	tr, late := unused.traces(), time.NewTimer(65*time.Second)
	for name, h := range map[string]*hosted{"unused": unused, "burned": burned} {
		select {
		case <-h.exited:
			if code := h.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(h.stderr.String(), "expired") {
				t.Errorf("%s: exit code %d, %q; want 1 and the reason", name, code, h.stderr)
			}
		case <-time.After(90 * time.Second):
			t.Errorf("%s: a host whose bootstrap expired lives on", name)
		}
	}
	tr.gone(t)
	<-late.C
	if got := s.must("list_tabs", "{}"); got != `{"tabs":["main"],"active":"main"}` {
		t.Errorf("65 s later: %s", got)
	}
}
