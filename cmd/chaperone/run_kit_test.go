package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// turned is what `chaperone run --json` printed, and how it ended.
type turned struct {
	RunID  string `json:"run_id"`
	Thread string `json:"thread_id"`
	Status string `json:"status"`
	Values struct {
		Seen []json.RawMessage `json:"seen"`
	} `json:"values"`
	Failure struct {
		Message string `json:"message"`
	} `json:"error"`

	exit int
	said string // standard error
	out  string
}

// turnArgs are the arguments of a turn of steps (a JSON array); more come last.
func turnArgs(t testing.TB, api, regs, steps string, more ...string) []string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	scope := write("scope.yaml", "engagement: acme-2026\nallow:\n  - host: 127.0.0.1\n    ports: [\"*\"]\n")
	args := []string{"run", "--json", "--api", api, "--assistant", "steps", "--engagement", "acme-2026", "--scope", scope,
		"--input", write("input.json", `{"steps":`+steps+`}`)}
	if regs != "" {
		args = append(args, "--registrations", regs)
	}
	return append(args, more...)
}

// ended waits for a started turn and reads what it told.
func ended(t testing.TB, cmd *exec.Cmd, out, said *bytes.Buffer) turned {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(3 * patience):
		cmd.Process.Kill()
		<-done
		t.Fatalf("the turn goes on; said: %s", said.String())
	}
	r := turned{exit: cmd.ProcessState.ExitCode(), said: said.String(), out: out.String()}
	if len(r.out) > 0 {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Errorf("%v: %q", err, r.out)
		}
	}
	return r
}

// begin starts a turn without waiting for it.
func begin(t testing.TB, args []string) (cmd *exec.Cmd, out, said *bytes.Buffer) {
	t.Helper()
	cmd, out, said = command(t, args...), &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, said
}

// turn runs a turn to its end.
func turn(t testing.TB, args []string) turned {
	t.Helper()
	cmd, out, said := begin(t, args)
	return ended(t, cmd, out, said)
}

// appears waits for a run's descriptor in dir, and answers the run's id.
func appears(t testing.TB, dir string) string {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(10 * time.Millisecond) {
		found, err := filepath.Glob(dir + "/*/browser.json")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return filepath.Base(filepath.Dir(found[0]))
		}
	}
	t.Fatal("no registration appeared")
	return ""
}

// descendants lists the living processes below pid, oldest first.
func descendants(pid int) (pids []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// After the name, which may hold anything: state and parent.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(fields[1])
		if fields[0] != "Z" {
			children[parent] = append(children[parent], child)
		}
	}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		pids = append(pids, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return pids
}

// gone wants processes to be gone, soon.
func gone(t testing.TB, pids []int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for _, pid := range pids {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
				left = append(left, fmt.Sprintf("%d %s", pid, strings.TrimSpace(string(name))))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > patience/2 {
			t.Fatalf("processes left: %v", left)
		}
	}
}
