package jail_test

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/owned/jail"

	"github.com/google/go-cmp/cmp"
)

// registrations makes a directory with one run to guard and things beside it.
func registrations(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"run-1/browser.json", "run-1/browser.sock", "run-2/browser.json", "other"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func contents(dir string) []string {
	var names []string
	filepath.Walk(dir, func(path string, _ os.FileInfo, _ error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return nil
	})
	sort.Strings(names)
	return names
}

var whole = []string{"other", "run-1", "run-1/browser.json", "run-1/browser.sock", "run-2", "run-2/browser.json"}

func TestGuardianRemovesAfterTheHost(t *testing.T) {
	dir := registrations(t)
	host, _, guardian := startHost(t, nil, "guardian", dir, "run-1/browser.json", "run-1/browser.sock", "run-1", "missing")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		syscall.Kill(guardian, sig) // it outlives what stops a host
	}
	command, _ := os.ReadFile("/proc/" + status(guardian)["Pid"] + "/cmdline")
	if got := string(command); got != "chaperone-guardian\x00" {
		t.Errorf("argv %q", got)
	}
	if diff := cmp.Diff(whole, contents(dir)); diff != "" {
		t.Errorf("removed too early (-want +got):\n%s", diff)
	}
	host.Process.Kill()
	waitGone(t, []int{guardian})
	if diff := cmp.Diff([]string{"other", "run-2", "run-2/browser.json"}, contents(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGuardianFollowsNoLink(t *testing.T) {
	dir, elsewhere := registrations(t), registrations(t)
	os.RemoveAll(filepath.Join(dir, "run-1"))
	os.Symlink(filepath.Join(elsewhere, "run-1"), filepath.Join(dir, "run-1"))
	host, _, guardian := startHost(t, nil, "guardian", dir, "run-1/browser.json", "run-2")
	host.Process.Kill()
	waitGone(t, []int{guardian})
	if diff := cmp.Diff(whole, contents(elsewhere)); diff != "" {
		t.Errorf("followed a link (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"other", "run-1", "run-2", "run-2/browser.json"}, contents(dir)); diff != "" {
		t.Errorf("a folder that isn't empty was removed (-want +got):\n%s", diff)
	}
}

// TestGuardianLeavesASuccessorAlone wakes a guardian only when another host has a
// folder of the same name already.
func TestGuardianLeavesASuccessorAlone(t *testing.T) {
	dir := registrations(t)
	host, _, guardian := startHost(t, nil, "guardian", dir, "run-1/browser.json", "run-1/browser.sock", "run-1")
	syscall.Kill(guardian, syscall.SIGSTOP)
	host.Process.Kill()
	if err := os.RemoveAll(filepath.Join(dir, "run-1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run-1", "browser.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(guardian, syscall.SIGCONT)
	waitGone(t, []int{guardian})
	if diff := cmp.Diff([]string{"other", "run-1", "run-1/browser.json", "run-2", "run-2/browser.json"}, contents(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGuardianIsReleased(t *testing.T) {
	dir := registrations(t)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := jail.Guard(t.Context(), f, "run-1/browser.json", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Release(); err != nil {
			t.Error(err)
		}
	}
	if len(alive([]int{g.PID()})) > 0 {
		t.Error("it lives on")
	}
	if diff := cmp.Diff(whole, contents(dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGuardianIsKilled(t *testing.T) {
	dir := registrations(t)
	_, out, guardian := startHost(t, nil, "guardian", dir, "run-1/browser.json")
	syscall.Kill(guardian, syscall.SIGKILL)
	line := make(chan string, 1)
	go func() {
		text, _ := out.ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case got := <-line:
		if got != "guardian gone" {
			t.Error(got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the host didn't notice")
	}
}

func TestGuardianRefusesNames(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/b/c", "a//b", "a/../b", "a/"} {
		if g, err := jail.Guard(t.Context(), f, name); err == nil {
			t.Errorf("%q is guarded", name)
			g.Release()
		}
	}
}
