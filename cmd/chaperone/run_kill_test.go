package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/agenttest"
	"chaperone/internal/owned/run"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// killed is what happened in one round.
type killed struct {
	Victim  string `json:"victim"`
	Reached string `json:"reached"` // of the registration, at the kill
	Told    string `json:"told"`    // the status that the caller told; "" of one that told none
	Server  string `json:"server"`  // the server's own; "gone" of one that was killed
	Ledger  string `json:"ledger"`  // the run's state; "" where none was written
	CleanM  int64  `json:"clean_ms"`
}

// TestKilledRuns kills the caller, its host, the browser, the guardian or the
// agent server at a moment of chance. No process, socket, folder or run of the API may be left,
// the ledger must stand, and no status that is told may be another than the
// server's. CHAPERONE_TORTURE=1 makes it 200 rounds; CHAPERONE_EVIDENCE=DIR keeps
// what happened.
func TestKilledRuns(t *testing.T) {
	t.Parallel()
	const lanes = 2
	rounds := storetest.Rounds(20, 200)
	began, commit := time.Now().UTC(), builtFrom(t)
	var mu sync.Mutex
	var all []killed
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				a := agenttest.Start(t, "")
				for round := lane; round < rounds && !t.Failed(); round += lanes {
					victim := []string{"caller", "host", "browser", "guardian", "caller", "host", "browser", "server"}[round/lanes%8]
					k := kill(t, a, victim)
					mu.Lock()
					all = append(all, k)
					mu.Unlock()
					if victim == "server" {
						a = agenttest.Start(t, a.Registrations)
					}
				}
			})
		}
	})
	counts := map[string]int{}
	for _, k := range all {
		counts[fmt.Sprintf("%s, %s: told %q, server %s, ledger %q", k.Victim, k.Reached, k.Told, k.Server, k.Ledger)]++
	}
	for what, n := range counts {
		t.Logf("%3d %s", n, what)
	}
	keepKilled(t, commit, began, counts, all)
}

// kill runs one round.
func kill(t *testing.T, a *agenttest.Server, victim string) killed {
	t.Helper()
	before := len(a.Runs())
	cmd, out, said := begin(t, turnArgs(t, a.URL, a.Registrations, `["open",{"action":"list_tabs"},{"sleep":1000},{"action":"list_tabs"}]`))
	caller := cmd.Process.Pid
	begun := time.Now()
	moment := time.Duration(rand.IntN(2200)) * time.Millisecond
	known := map[int]bool{}
	for time.Since(begun) < moment {
		for _, pid := range descendants(caller) {
			known[pid] = true
		}
		time.Sleep(5 * time.Millisecond)
	}
	k := killed{Victim: victim, Reached: reached(a.Registrations)}
	pid := find(victim, caller)
	for _, pid := range descendants(caller) {
		known[pid] = true
	}
	struck := time.Now()
	switch {
	case victim == "server":
		a.Kill()
	case pid == 0: // not there yet, or not any more
		k.Victim = "nobody (" + victim + ")"
	default:
		syscall.Kill(pid, syscall.SIGKILL)
	}
	// What a dying tree still starts belongs to it.
	for pid := range known {
		for _, below := range descendants(pid) {
			known[below] = true
		}
	}
	r := ended(t, cmd, out, said)
	if victim != "guardian" { // which its host replaces, unless the turn is over
		var pids []int
		for pid := range known {
			pids = append(pids, pid)
		}
		gone(t, pids)
	}
	agenttest.Empty(t, a.Registrations)
	k.CleanM, k.Told, k.Server = time.Since(struck).Milliseconds(), r.Status, "gone"
	if victim != "server" {
		settled := a.Settled()
		k.Server = "no run"
		if len(settled) > before {
			k.Server = youngest(settled).Status
		}
		if r.RunID != "" {
			if got := a.Status(r.Thread, r.RunID); got != r.Status {
				t.Errorf("%s after %v: told %s, the server says %s; %s", victim, moment, r.Status, got, r.said)
			}
		}
	} else if r.Status == "success" != (r.exit == 0) {
		t.Errorf("%s after %v: exit %d of %q", victim, moment, r.exit, r.Status)
	}
	k.Ledger = ledgerOf(t, homeOf(cmd))
	return k
}

// reached tells how far the one registration in dir has come.
func reached(dir string) string {
	how := "no registration"
	for _, step := range [][2]string{{"", "folder"}, {"browser.sock", "socket"}, {"browser.json", "published"}} {
		if found, _ := filepath.Glob(filepath.Join(dir, "*", step[0])); len(found) > 0 {
			how = step[1]
		}
	}
	return how
}

// youngest is the run that was made last: ids grow with time.
func youngest(runs []agenttest.Run) (last agenttest.Run) {
	for _, r := range runs {
		if r.ID > last.ID {
			last = r
		}
	}
	return last
}

// find answers the victim's pid, 0 where there is none now.
func find(victim string, caller int) int {
	if victim == "caller" {
		return caller
	}
	for _, pid := range descendants(caller) {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(cmdline), "\x00")
		switch {
		case victim == "host" && len(args) > 1 && args[1] == "host",
			victim == "guardian" && args[0] == "chaperone-guardian",
			victim == "browser" && strings.Contains(args[0], "headless-shell"):
			return pid
		}
	}
	return 0
}

// ledgerOf recovers a home's ledger as the next command does, wants it to stand,
// and answers the state of its run.
func ledgerOf(t *testing.T, home string) (state string) {
	t.Helper()
	if noFile(filepath.Join(home, "chaperone.db")) {
		return ""
	}
	ctx := context.Background()
	l, err := (&app{home: home}).openLedger(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(ctx)
	book, err := l.book()
	if err == nil {
		_, err = book.Recover(ctx)
	}
	if err == nil {
		err = l.db.View(ctx, run.Check)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = l.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query("select state from owned_run")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&state); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if state != "" && !run.State(state).Over() {
		t.Errorf("the ledger's run is %s", state)
	}
	return state
}

// builtFrom is the commit at the beginning, which is what the test was built
// from; "" where no evidence is kept.
func builtFrom(t *testing.T) string {
	t.Helper()
	if os.Getenv("CHAPERONE_EVIDENCE") == "" {
		return ""
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("evidence needs the commit: %v", err)
	}
	return string(bytes.TrimSpace(commit))
}

// keepKilled writes what happened where the environment says.
func keepKilled(t *testing.T, commit string, began time.Time, counts map[string]int, all []killed) {
	t.Helper()
	dir := os.Getenv("CHAPERONE_EVIDENCE")
	if dir == "" {
		return
	}
	slowest := map[string]int64{}
	for _, k := range all {
		slowest[k.Victim] = max(slowest[k.Victim], k.CleanM)
	}
	data, err := json.MarshalIndent(map[string]any{
		"commit": commit, "began": began, "rounds": len(all), "histogram": counts, "slowest_ms": slowest,
	}, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "torture-run.json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
