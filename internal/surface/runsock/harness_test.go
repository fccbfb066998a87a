package runsock_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/leaktest"
	"chaperone/internal/owned/ownedv1"
)

// workshop is the test process's own folder, with the binary that every test
// here runs; see TestMain.
var workshop string

func TestMain(m *testing.M) {
	code, err := inWorkshop(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(leaktest.Check(code))
}

func inWorkshop(m *testing.M) (_ int, err error) {
	if workshop, err = os.MkdirTemp("", "chrs"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(workshop)) }()
	return m.Run(), nil
}

// build builds chaperone once, at first use.
var build = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(workshop, "chaperone")
	args := []string{"build", "-o", binary}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race") // a race is as likely in the process as in the test
	}
	out, err := exec.Command("go", append(args, "chaperone/cmd/chaperone")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building chaperone: %w\n%s", err, out)
	}
	return binary, nil
})

// hosted is a `chaperone host` process.
type hosted struct {
	t        testing.TB
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	home     string
	dir, id  string
	ready    string // its line on standard output
	stderr   *bytes.Buffer
	exited   chan struct{} // closed once it was waited for
	killed   atomic.Bool
	waitErr  error
	registry string // the run's folder
}

// options of a hosted run; the zero value is a unix one with a scope that allows
// 127.0.0.1.
type options struct {
	home, dir, id, scope string
	args                 []string
}

// start starts a host and waits until it is ready. It ends with the test, and
// must then have left nothing.
func start(t testing.TB, o options) *hosted {
	t.Helper()
	h := spawn(t, o)
	select {
	case <-h.exited:
		t.Fatalf("host ended before it was ready: %v\n%s", h.waitErr, h.stderr)
	case <-h.waitReady():
	case <-time.After(time.Minute):
		t.Fatal("host isn't ready after a minute")
	}
	return h
}

// spawn starts a host and doesn't wait.
func spawn(t testing.TB, o options) *hosted {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	h := &hosted{t: t, home: o.home, dir: o.dir, id: o.id, stderr: &bytes.Buffer{}, exited: make(chan struct{})}
	if h.home == "" {
		h.home = filepath.Join(base, "home")
	}
	if h.dir == "" {
		h.dir = filepath.Join(base, "browser-runs")
		if err := os.Mkdir(h.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if h.id == "" {
		h.id = "run-" + newHex(8)
	}
	h.registry = filepath.Join(h.dir, h.id)
	if o.scope == "" {
		o.scope = filepath.Join(base, "scope.yaml")
		text := "engagement: acme-2026\nallow:\n  - host: 127.0.0.1\n    ports: [\"*\"]\n"
		if err := os.WriteFile(o.scope, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"host", "--home", h.home, "--engagement", "acme-2026", "--run-id", h.id, "--dir", h.dir, "--scope", o.scope}, o.args...)
	h.cmd = exec.Command(binary, args...)
	h.cmd.Stderr = h.stderr
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- line
		io.Copy(io.Discard, out)
		h.waitErr = h.cmd.Wait()
		close(h.exited)
	}()
	h.ready = ""
	readyLines.Store(h, lines)
	t.Cleanup(func() { h.stop(); readyLines.Delete(h) })
	return h
}

var readyLines sync.Map // *hosted -> chan string

// waitReady is closed once the ready line came.
func (h *hosted) waitReady() <-chan struct{} {
	lines, _ := readyLines.Load(h)
	ready := make(chan struct{})
	go func() {
		if line := <-lines.(chan string); line != "" {
			h.ready = line
			close(ready)
		}
	}()
	return ready
}

// stop ends the host by the end of its standard input and answers its exit code.
func (h *hosted) stop() int {
	h.stdin.Close()
	select {
	case <-h.exited:
	case <-time.After(30 * time.Second):
		h.t.Errorf("host doesn't end")
		h.cmd.Process.Kill()
		<-h.exited
	}
	return h.cmd.ProcessState.ExitCode()
}

// kill ends it as nothing should have to end.
func (h *hosted) kill() {
	h.killed.Store(true)
	h.cmd.Process.Kill()
	<-h.exited
}

// descriptor reads the registration.
func (h *hosted) descriptor() ownedv1.Descriptor {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.registry, "browser.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := ownedv1.DecodeDescriptor(data, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// conform runs the second client.
func conform(t testing.TB, mode string, args ...string) error {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-I", "-B", "testdata/conform.py", mode}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func newHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func mustJSON(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return m
}
