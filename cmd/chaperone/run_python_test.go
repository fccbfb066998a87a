package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/agenttest"
)

// The turn is the same at the server for Python graphs, which is another program
// with the same API: it stamps the run's id, tells a true status, refuses a second
// run of a thread, and ends a run whose caller was killed.
func TestRunAtAServerForPython(t *testing.T) {
	t.Parallel()
	a := pythonAgents(t)
	args := func(steps string, more ...string) []string {
		return turnArgs(t, a.URL, a.Registrations, steps, append([]string{"--assistant", "chaperone-qualify"}, more...)...)
	}
	const short, long = `[{"action":"launch","params":{}},{"action":"list_tabs","params":{}}]`, `[{"action":"launch","params":{}},{"sleep":300}]`
	first := turn(t, args(short))
	if first.exit != 0 || first.Status != "success" || a.Status(first.Thread, first.RunID) != "success" {
		t.Fatalf("exit %d: %s%s", first.exit, first.out, first.said)
	}
	want(t, "values", first.out, `"results":\[\{"tabs":\["main"\],"active":"main"\},\{"tabs"`)
	if next := turn(t, args(short, "--thread", first.Thread)); next.exit != 0 || next.RunID == first.RunID || next.Thread != first.Thread {
		t.Errorf("the next turn: exit %d: %s%s", next.exit, next.out, next.said)
	}
	agenttest.Empty(t, a.Registrations)

	// While a turn of the thread goes on, a second one is refused; then it is told to end.
	cmd, out, said := begin(t, args(long, "--thread", first.Thread))
	appears(t, a.Registrations)
	second := turn(t, args(short, "--thread", first.Thread))
	if second.exit != exitFailed || second.out != "" {
		t.Errorf("a second turn: exit %d: %s%s", second.exit, second.out, second.said)
	}
	want(t, "a second turn", second.said, `refused with 409: another run is under way in this thread`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := ended(t, cmd, out, said); r.exit != exitFailed || r.Status != "interrupted" || a.Status(r.Thread, r.RunID) != "interrupted" {
		t.Errorf("told to end: exit %d: %s%s", r.exit, r.out, r.said)
	}
	agenttest.Empty(t, a.Registrations)

	cmd, _, _ = begin(t, args(long))
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
	agenttest.Empty(t, a.Registrations)
}

// pythonAgents starts the PyPI server with the package's own graph, around which
// `chaperone launch` mounts its registrations.
func pythonAgents(t *testing.T) *agenttest.Server {
	t.Helper()
	langgraph, err := filepath.Abs("../../.cache/agent-servers/pypi/bin/langgraph")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(langgraph); err != nil {
		t.Fatalf("%v\nInstall the servers: scripts/install-agent-servers.sh", err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	a, work := agenttest.At(t, "http://127.0.0.1:"+port, agenttest.Private(t)), t.TempDir()
	graphs := `{"dependencies": ["."], "graphs": {"chaperone-qualify": "chaperone_browser.qualify.graph:graph"}}`
	if err := os.WriteFile(filepath.Join(work, "langgraph.json"), []byte(graphs), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "launch", "--engagement", "acme-2026", "--browser-registrations", a.Registrations, "--",
		langgraph, "dev", "--host", "127.0.0.1", "--port", port, "--no-browser", "--no-reload", "--n-jobs-per-worker", "4")
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, log, log
	cmd.Env = append(cmd.Env, "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1", "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		cmd.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		defer log.Close()
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-over:
		case <-time.After(patience):
			cmd.Process.Kill()
			<-over
		}
	})
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if resp, err := http.Get(a.URL + "/ok"); err == nil {
			resp.Body.Close()
			return a
		}
		select {
		case <-over:
		default:
			if time.Since(begun) < 2*patience {
				continue
			}
		}
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the server for Python graphs doesn't answer: %s", text)
	}
}
