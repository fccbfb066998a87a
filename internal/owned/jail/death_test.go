package jail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/owned/jail"
)

// TestHostIsKilled kills the host of a browser, also when the browser is frozen
// and couldn't see its pipe end.
func TestHostIsKilled(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen %v", frozen), func(t *testing.T) {
			host, _, pid := startHost(t, nil, "chromium")
			pids := tree(pid)
			if len(pids) < 5 {
				t.Fatalf("a tree of %v", pids)
			}
			if frozen {
				for _, p := range pids[1:] { // all but the box's init
					syscall.Kill(p, syscall.SIGSTOP)
				}
			}
			host.Process.Kill()
			if took := waitGone(t, pids); took > 5*time.Second {
				t.Errorf("tree of %d gone after %v", len(pids), took)
			} else {
				t.Logf("tree of %d gone after %v", len(pids), took)
			}
		})
	}
}

// TestHostIsKilledWhileLaunching kills hosts at every stage of a launch, and looks
// for any process that still runs their program.
func TestHostIsKilledWhileLaunching(t *testing.T) {
	rounds := 12
	if os.Getenv("CHAPERONE_TORTURE") != "" {
		rounds = 200
	}
	program := publicCopy(t)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		cmd := exec.Command(program, "host", "helper", program)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 30 * time.Millisecond / time.Duration(rounds))
		cmd.Process.Kill()
		cmd.Wait()
		waitGone(t, running(info))
	}
	if left := running(info); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
}

// running answers the pids whose executable is that file.
func running(program os.FileInfo) []int {
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		if info, err := os.Stat(link); err == nil && os.SameFile(info, program) {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			found = append(found, pid)
		}
	}
	return found
}

// TestThreadChurn ends hundreds of threads while a box lives: the death signal
// follows a thread, and it must be one that lives as long as the box.
func TestThreadChurn(t *testing.T) {
	var boxes []boxed
	for range 3 {
		boxes = append(boxes, startHelper(t, jail.Limits{}))
	}
	until := time.Now().Add(3 * time.Second)
	for time.Now().Before(until) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				runtime.LockOSThread() // never unlocked: the thread ends here
				time.Sleep(time.Millisecond)
			})
		}
		wg.Wait()
	}
	for _, b := range boxes {
		if err := b.Err(); err != nil {
			t.Error(err)
		}
		b.ask(t, "env")
	}
}

// TestCancelledAtAnyMoment cancels and closes launches at every stage.
func TestCancelledAtAnyMoment(t *testing.T) {
	engine, err := jail.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	rounds := 15
	if os.Getenv("CHAPERONE_TORTURE") != "" {
		rounds = 200
	}
	for i := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*15*time.Millisecond/time.Duration(rounds))
		b, err := jail.Start(ctx, jail.Config{Engine: engine, Args: flags})
		switch {
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			t.Error(err)
		case err == nil:
			pids := tree(b.PID())
			time.Sleep(time.Duration(i) * time.Millisecond * 500 / time.Duration(rounds))
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if left := alive(pids); len(left) > 0 {
				t.Errorf("%v live on", left)
			}
		}
		cancel()
	}
}

// TestNothingIsLeft starts and ends boxes, and counts what the machine had and
// has: descriptors, children, mounts, files.
func TestNothingIsLeft(t *testing.T) {
	engine := publicCopy(t)
	count := func() string {
		fds, _ := os.ReadDir("/proc/self/fd")
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		return fmt.Sprintf("%d descriptors, %d children, %d mounts", len(fds), len(tree(os.Getpid()))-1, strings.Count(string(mounts), "\n"))
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	round := func() {
		b, err := jail.Start(t.Context(), jail.Config{Engine: engine, Args: []string{"engine"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.WriteFile("x", strings.NewReader("x")); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	round()
	before := count()
	for range 20 {
		round()
	}
	if after := count(); after != before {
		t.Errorf("before %s; after %s", before, after)
	}
	if left, _ := filepath.Glob(tmp + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestAsOrdinaryUser runs this package's tests again as nobody, who can neither
// choose uids nor read root's folders.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // this is that run
	}
	cmd := exec.Command(publicCopy(t), "-test.run", "^Test(Every|Engine|Filter|Listener|Browser|Endings|Upload|Hostile|FileSizes|TreeMemory|ForkBomb|Probe$|HostIsKilled|Guardian|ThreadChurn|Cancelled|Nothing|Mounted)", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=/nonexistent", "TMPDIR=/tmp", "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") < 15 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestProbeNamesTheCause breaks the machine, for one child process, as others do.
func TestProbeNamesTheCause(t *testing.T) {
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	for _, c := range []struct {
		how  string
		want []string
	}{
		{"limit", []string{"user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces="}},
		{"mask", []string{"/proc", "masked", "containers"}},
		{"filter", []string{"seccomp", "containers"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			cmd := exec.Command(publicCopy(t), "host", "probe", c.how)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: root, GidMappings: group,
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "true ") {
				t.Fatalf("%v %s", err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q isn't in: %s", want, out)
				}
			}
		})
	}
}

// TestReleaseHasNoLeakyBuild looks for the leaky start in what is built without
// its tag, which this binary is.
func TestReleaseHasNoLeakyBuild(t *testing.T) {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	warning := strings.Join([]string{"THIS", "BUILD", "HAS", "NO", "BOX"}, " ") // not whole in this binary
	if strings.Contains(string(data), warning) {
		t.Error("this build can start an engine without a box")
	}
}
