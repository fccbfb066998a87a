package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// agentServers is where scripts/install-agent-servers.sh puts what isn't ours.
const agentServers = "../../.cache/agent-servers"

// agentServer is a real LangGraph API server whose graph does the steps of its input.
type agentServer struct {
	t     testing.TB
	url   string
	regs  string // the registrations directory that its graph looks in
	dir   string // its own
	cmd   *exec.Cmd
	in    io.Closer
	log   bytes.Buffer
	ended chan struct{}
}

// newAgent starts a server with registrations in regs ("": one of its own).
func newAgent(t testing.TB, regs string, args ...string) *agentServer {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join(agentServers, "npm", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "@langchain/langgraph-api")); err != nil {
		t.Fatalf("%v\nInstall the servers: scripts/install-agent-servers.sh", err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/agent")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if regs == "" {
		regs = private(t)
	}
	a := &agentServer{t: t, regs: regs, dir: dir}
	a.start(args...)
	t.Cleanup(a.stop)
	return a
}

// private is an empty registrations directory.
func private(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "browser-runs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start starts the server's process.
func (a *agentServer) start(args ...string) {
	a.t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		a.t.Fatal(err)
	}
	defer from.Close()
	a.cmd = exec.Command("node", append([]string{"serve.mjs"}, args...)...)
	a.cmd.Dir = a.dir
	a.cmd.Env = append(os.Environ(), "AGENT_REGISTRATIONS="+a.regs, "LANGSMITH_TRACING=false", "NO_COLOR=1")
	a.cmd.ExtraFiles = []*os.File{to}
	a.cmd.Stdout, a.cmd.Stderr = &a.log, &a.log
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	to.Close()
	a.ended = make(chan struct{})
	go func() { a.cmd.Wait(); close(a.ended) }()
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		a.stop()
		a.t.Fatalf("the agent server didn't start: %s", a.log.String())
	}
	a.url = "http://" + strings.TrimSpace(line)
}

// stop ends the server, and waits.
func (a *agentServer) stop() {
	a.in.Close()
	select {
	case <-a.ended:
	case <-time.After(patience):
		a.cmd.Process.Kill()
		<-a.ended
	}
}

// kill is what the name says.
func (a *agentServer) kill() {
	a.cmd.Process.Kill()
	<-a.ended
}

// ask asks the server itself, past any proxy.
func (a *agentServer) ask(path string, into any) int {
	a.t.Helper()
	resp, err := http.Get(a.url + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			a.t.Fatalf("%s: %v", path, err)
		}
	}
	return resp.StatusCode
}

// apiRun is a run as the server knows it.
type apiRun struct {
	RunID  string `json:"run_id"`
	Thread string `json:"thread_id"`
	Status string `json:"status"`
}

// runs answers every run of every thread.
func (a *agentServer) runs() (list []apiRun) {
	a.t.Helper()
	resp, err := http.Post(a.url+"/threads/search", "application/json", strings.NewReader(`{"limit":1000}`))
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	var threads []struct {
		ID string `json:"thread_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&threads); err != nil {
		a.t.Fatal(err)
	}
	for _, thread := range threads {
		var of []apiRun
		a.ask("/threads/"+thread.ID+"/runs?limit=1000", &of)
		list = append(list, of...)
	}
	return list
}

// settled waits until no run is under way, and answers all.
func (a *agentServer) settled() []apiRun {
	a.t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		runs, busy := a.runs(), 0
		for _, r := range runs {
			if r.Status == "pending" || r.Status == "running" {
				busy++
			}
		}
		if busy == 0 {
			return runs
		}
		if time.Since(begun) > patience {
			a.t.Fatalf("%d runs go on at the server: %+v", busy, runs)
		}
	}
}

// status is one run's status at the server.
func (a *agentServer) status(r turned) string {
	a.t.Helper()
	var run apiRun
	a.ask("/threads/"+r.Thread+"/runs/"+r.RunID, &run)
	return run.Status
}

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

// empty wants a registrations directory to be empty, and waits a while for it.
func empty(t testing.TB, dir string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("left in the registrations directory: %v", left)
		}
	}
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
