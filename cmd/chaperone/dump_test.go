package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A server that greets leaves nothing in a core file.
func TestServeLeavesNoDump(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "chaperone.yaml"), []byte("listen: 127.0.0.1:0\npublic_origin: http://localhost:7080\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "serve", "--home", home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Error("the server said nothing")
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(limits)) {
		if rest, is := strings.CutPrefix(line, "Max core file size"); is && strings.Join(strings.Fields(rest), " ") != "0 0 bytes" {
			t.Error(line)
		}
	}
	filter, err := os.ReadFile(fmt.Sprintf("/proc/%d/coredump_filter", cmd.Process.Pid))
	if err != nil || strings.Trim(string(filter), "0\n") != "" {
		t.Errorf("coredump_filter: %q %v", filter, err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
