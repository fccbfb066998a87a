package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/agenttest"
)

// A turn against the real server: the graph finds the registration of its own
// run, acts in the browser, and its status and values are told.
func TestRunOfAnAgent(t *testing.T) {
	t.Parallel()
	a, site := agenttest.Start(t, ""), workbench(t)
	config := filepath.Join(t.TempDir(), "config.json")
	given := `{"tags":["kept"],"configurable":{"own":{"n":12345678901234567890},"run_id":"invented","desktop_engagement_id":"another"}}`
	if err := os.WriteFile(config, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := fmt.Sprintf(`["open",{"action":"goto","params":{"url":%q}},"config"]`, site.URL("/sent"))
	first := turn(t, turnArgs(t, a.URL, a.Registrations, steps, "--config", config))
	if first.exit != 0 || first.Status != "success" || len(first.Values.Seen) != 3 {
		t.Fatalf("exit %d: %s%s\n%s", first.exit, first.out, first.said, a.Log())
	}
	want(t, "launch", string(first.Values.Seen[0]), `"tabs":\["main"\]`)
	want(t, "goto", string(first.Values.Seen[1]), `"status":200`)
	var c map[string]any
	if err := json.Unmarshal(first.Values.Seen[2], &c); err != nil {
		t.Fatal(err)
	}
	if c["run_id"] != first.RunID || c["desktop_engagement_id"] != "acme-2026" || c["own"] == nil || c["user-agent"] != nil {
		t.Errorf("the graph's configurable: %v", c)
	}
	if got := a.Status(first.Thread, first.RunID); got != "success" {
		t.Errorf("the server says %s", got)
	}
	agenttest.Empty(t, a.Registrations)

	// The next turn of the thread is a run and a registration of its own, though
	// the server merges what the first one configured.
	second := turn(t, turnArgs(t, a.URL, a.Registrations, `["open","config"]`, "--thread", first.Thread))
	if second.exit != 0 || second.RunID == first.RunID || second.Thread != first.Thread {
		t.Fatalf("exit %d: %s%s", second.exit, second.out, second.said)
	}
	want(t, "second turn", string(second.Values.Seen[1]), `"run_id":"`+second.RunID+`"`)
	want(t, "second turn", string(second.Values.Seen[1]), `"desktop_engagement_id":"acme-2026"`)
	agenttest.Empty(t, a.Registrations)
}

// What a run did is told by its true status, and nothing is left of any.
func TestRunsThatDontSucceed(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	t.Run("fails", func(t *testing.T) {
		r := turn(t, turnArgs(t, a.URL, a.Registrations, `["open","fail"]`))
		if r.exit != exitFailed || r.Status != "error" || r.Failure.Message != "failed on purpose" || a.Status(r.Thread, r.RunID) != "error" {
			t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
		}
		want(t, "said", r.said, `^chaperone: the run's status is error, not success\n$`)
	})
	t.Run("ends before its browser is there", func(t *testing.T) {
		r := turn(t, turnArgs(t, a.URL, a.Registrations, `[]`))
		if r.exit != exitFailed || r.Status != "success" || a.Status(r.Thread, r.RunID) != "success" {
			t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
		}
		want(t, "said", r.said, `ended \(success\) before its browser was ready: the graph must wait`)
	})
	t.Run("asks somebody", func(t *testing.T) {
		r := turn(t, turnArgs(t, a.URL, a.Registrations, `["open","ask"]`))
		want(t, "values", r.out, `may I\?`)
		if r.Status != a.Status(r.Thread, r.RunID) {
			t.Errorf("told %s, the server says %s", r.Status, a.Status(r.Thread, r.RunID))
		}
	})
	t.Run("has much to tell", func(t *testing.T) {
		r := turn(t, turnArgs(t, a.URL, a.Registrations, `["open",{"large":20000000}]`))
		if r.exit != 0 || len(r.Values.Seen) != 2 || len(r.Values.Seen[1]) != 20000002 {
			t.Errorf("exit %d, %d bytes: %.300s", r.exit, len(r.out), r.said)
		}
	})
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			cmd, out, said := begin(t, turnArgs(t, a.URL, a.Registrations, `["open",{"sleep":300000}]`))
			run := appears(t, a.Registrations)
			time.Sleep(500 * time.Millisecond)
			below := descendants(cmd.Process.Pid)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			r := ended(t, cmd, out, said)
			if r.exit != exitFailed || r.RunID != run || r.Status != "interrupted" || a.Status(r.Thread, r.RunID) != "interrupted" {
				t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
			}
			want(t, "said", r.said, `^chaperone: told to end: cancelled\n$`)
			gone(t, below)
			agenttest.Empty(t, a.Registrations)
			if got := told(t, homeOf(cmd)); got != "ended" {
				t.Errorf("the ledger's run is %s, want ended", got)
			}
		})
	}
	// A graph that asks just as its host dies fails by itself, which is another end: these
	// end while it sleeps, well after its last request.
	site, asked := workbench(t), 0
	quiet := func() string {
		asked++
		return fmt.Sprintf(`["open",{"action":"goto","params":{"url":%q}},{"sleep":300000}]`, site.URL(fmt.Sprint("/asked-", asked)))
	}
	asleep := func() {
		t.Helper()
		for begun := time.Now(); site.Hits(fmt.Sprint("/asked-", asked)) == 0; time.Sleep(20 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatal("the graph didn't come to its page")
			}
		}
		time.Sleep(2 * time.Second)
	}
	t.Run("host is killed", func(t *testing.T) {
		cmd, out, said := begin(t, turnArgs(t, a.URL, a.Registrations, quiet()))
		asleep()
		below := descendants(cmd.Process.Pid)
		syscall.Kill(below[0], syscall.SIGKILL) // the host is the first child
		r := ended(t, cmd, out, said)
		if r.exit != exitFailed || r.Status != "interrupted" || a.Status(r.Thread, r.RunID) != "interrupted" {
			t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
		}
		want(t, "said", r.said, `the browser's host ended while the run went on`)
		gone(t, below)
	})
	t.Run("browser is killed", func(t *testing.T) {
		cmd, out, said := begin(t, turnArgs(t, a.URL, a.Registrations, quiet()))
		asleep()
		below := descendants(cmd.Process.Pid)
		syscall.Kill(find("browser", cmd.Process.Pid), syscall.SIGKILL)
		r := ended(t, cmd, out, said)
		if r.exit != exitFailed || r.Status != "interrupted" || a.Status(r.Thread, r.RunID) != "interrupted" {
			t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
		}
		want(t, "said", r.said, `the browser's host ended while the run went on: .*engine_exited`)
		gone(t, below)
	})
	t.Run("caller is killed", func(t *testing.T) {
		cmd, _, _ := begin(t, turnArgs(t, a.URL, a.Registrations, `["open",{"sleep":300000}]`))
		run := appears(t, a.Registrations)
		below := descendants(cmd.Process.Pid)
		cmd.Process.Kill()
		cmd.Wait()
		gone(t, below)
		for _, r := range a.Settled() {
			if r.ID == run && r.Status != "interrupted" {
				t.Errorf("the run whose caller was killed is %s", r.Status)
			}
		}
	})
	a.Settled()
	agenttest.Empty(t, a.Registrations)
}

// A session outlives the 60 seconds of its bootstrap. No server waits so long for
// a handshake, though: what comes too late is refused by the host.
func TestRunActsAfterItsBootstrap(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	late := make(chan turned, 1)
	go func() {
		late <- turn(t, turnArgs(t, a.URL, a.Registrations, `[{"sleep":65000},"open"]`))
	}()
	r := turn(t, turnArgs(t, a.URL, a.Registrations, `["open",{"sleep":65000},{"action":"list_tabs"}]`))
	if r.exit != 0 || r.Status != "success" || len(r.Values.Seen) != 2 {
		t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
	}
	if r := <-late; r.exit != exitFailed || r.Status != "interrupted" || a.Status(r.Thread, r.RunID) != "interrupted" || !strings.Contains(r.said, "expired") {
		t.Errorf("late: exit %d: %s%s", r.exit, r.out, r.said)
	}
	agenttest.Empty(t, a.Registrations)
}

// Two callers want one thread: one gets it, the other is told.
func TestTwoRunsOfOneThread(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	first := turn(t, turnArgs(t, a.URL, a.Registrations, `["open"]`))
	answers := make(chan turned, 2)
	for range 2 {
		go func() {
			answers <- turn(t, turnArgs(t, a.URL, a.Registrations, `["open",{"sleep":4000}]`, "--thread", first.Thread))
		}()
	}
	one, two := <-answers, <-answers
	if one.exit == 0 {
		one, two = two, one
	}
	if one.exit != exitFailed || two.exit != 0 || two.Status != "success" || one.out != "" {
		t.Errorf("exits %d and %d: %s %s", one.exit, two.exit, one.said, two.said)
	}
	want(t, "said", one.said, `refused with 409: another run is under way in this thread`)
	agenttest.Empty(t, a.Registrations)
}

// A home whose path is too long for a socket works, and the directory that is
// the default is made.
func TestRunInALongHome(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), strings.Repeat("long-", 30))
	a := agenttest.Start(t, filepath.Join(home, "run", "browser-runs"))
	r := turn(t, turnArgs(t, a.URL, "", `["open"]`, "--home", home))
	if r.exit != 0 || r.Status != "success" {
		t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
	}
	agenttest.Empty(t, a.Registrations)
}
