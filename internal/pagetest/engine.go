package pagetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// engines are looked for in this order.
var engines = []string{"/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium"}

// answerWithin bounds every single command: what takes longer is a fault.
const answerWithin = 30 * time.Second

// Engine is one Chromium, for one test.
type Engine struct {
	t    testing.TB
	wire *wire
}

// Start starts a Chromium with native WebMCP that ends with the test. flags are
// added to its command line; "-WebMCP" leaves the feature out.
func Start(t testing.TB, flags ...string) *Engine {
	t.Helper()
	program := ""
	for _, e := range engines {
		if _, err := os.Stat(e); err == nil && program == "" {
			program = e
		}
	}
	if program == "" {
		t.Fatal("no Chromium is installed: apt-get install -y chromium-headless-shell")
	}
	profile := t.TempDir()
	args := []string{
		"--remote-debugging-pipe", "--user-data-dir=" + profile, "--headless", "--no-sandbox", "--no-first-run", "--no-startup-window",
		"--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
		"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--hide-scrollbars", "--mute-audio", "--disable-dev-shm-usage",
		"--disable-renderer-backgrounding", "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1", "--force-color-profile=srgb",
	}
	webmcp := true
	for _, f := range flags {
		if f == "-WebMCP" {
			webmcp = false
			continue
		}
		args = append(args, f)
	}
	if webmcp {
		args = append(args, "--enable-features=WebMCP")
	}
	return run(t, exec.Command(program, args...), filepath.Join(profile, "log"))
}

// run starts the engine on descriptors 3 (it reads) and 4 (it writes).
func run(t testing.TB, cmd *exec.Cmd, log string) *Engine {
	t.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended := make(chan struct{})
	err = startHeld(cmd, ended)
	theirIn.Close()
	theirOut.Close()
	said.Close()
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, wire: newWire(ourIn, ourOut)}
	t.Cleanup(func() {
		e.stop(cmd, ourOut, ourIn)
		close(ended)
	})
	return e
}

// startHeld starts a process that dies with this one. The kernel ties that to the
// thread that forked, and threads of Go come and go, so one is held until ended.
func startHeld(cmd *exec.Cmd, ended <-chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-ended
		}
	}()
	return <-started
}

// stop asks the engine to end, and ends its own process group where it doesn't.
func (e *Engine) stop(cmd *exec.Cmd, out, in *os.File) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = e.wire.call(ctx, "", "Browser.close", nil, nil) // it may go before it answers
	out.Close()
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-gone
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its helpers, where any is left
	in.Close()
	<-e.wire.done
}

// call runs a command, in a page's session or ("") the browser's.
func (e *Engine) call(session, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), answerWithin, errors.New("no answer in time"))
	defer cancel()
	return e.wire.call(ctx, session, method, params, result)
}
