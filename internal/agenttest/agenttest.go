// Package agenttest runs a LangGraph API server that isn't ours for tests, with a
// graph that does the steps of its input, without a model, in a real contained
// browser. The graph speaks owned-browser-v1 in plain Node.
//
// It is the npm server, which scripts/install-agent-servers.sh installs.
//
// Floor: test kit.
package agenttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chaperone/examples/agent"
)

// Graph is the graph's name.
const Graph = "steps"

// patience is a generous bound: five times what a busy machine needs.
const patience = 60 * time.Second

// Server is one server, in one process.
type Server struct {
	URL           string
	Registrations string // where its graph looks

	t     testing.TB
	dir   string
	cmd   *exec.Cmd
	in    io.Closer
	log   bytes.Buffer
	ended chan struct{}
}

// Start starts a server with registrations in a directory ("": a private one of
// its own), which ends with the test. more are the port and the number of workers.
func Start(t testing.TB, registrations string, more ...string) *Server {
	t.Helper()
	modules := filepath.Join(root(t), ".cache", "agent-servers", "npm", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@langchain", "langgraph-api")); err != nil {
		t.Fatalf("%v\nInstall the servers: scripts/install-agent-servers.sh", err)
	}
	s := &Server{t: t, dir: t.TempDir(), Registrations: registrations}
	if err := os.CopyFS(s.dir, agent.Files); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(s.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if registrations == "" {
		s.Registrations = Private(t)
	}
	s.run(more...)
	t.Cleanup(s.Stop)
	return s
}

// At is a server that somebody else started: it can be asked, and isn't ours to end.
func At(t testing.TB, url, registrations string) *Server {
	return &Server{t: t, URL: url, Registrations: registrations}
}

// root is the checkout that the test is in.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test")
	return ""
}

// Private is an empty registrations directory.
func Private(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "browser-runs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *Server) run(more ...string) {
	s.t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer from.Close()
	s.cmd = exec.Command("node", append([]string{"serve.mjs"}, more...)...)
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "AGENT_REGISTRATIONS="+s.Registrations, "LANGSMITH_TRACING=false", "NO_COLOR=1")
	s.cmd.ExtraFiles = []*os.File{to}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	to.Close()
	s.ended = make(chan struct{})
	go func() {
		s.cmd.Wait()
		close(s.ended)
	}()
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		s.Stop()
		s.t.Fatalf("the agent server didn't start: %s", s.log.String())
	}
	s.URL = "http://" + strings.TrimSpace(line)
}

// Stop ends the server, and waits. It may be called often.
func (s *Server) Stop() {
	s.in.Close()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.Kill()
	}
}

// Kill ends it with SIGKILL.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// Restart starts a server that ended again, at its old address. What it kept in
// its folder it has, as far as it had written it.
func (s *Server) Restart() {
	s.t.Helper()
	s.run(s.URL[strings.LastIndexByte(s.URL, ':')+1:])
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the server has said; only of one that ended.
func (s *Server) Log() string {
	<-s.ended
	return s.log.String()
}

// Run is a run as the server knows it.
type Run struct {
	ID     string `json:"run_id"`
	Thread string `json:"thread_id"`
	Status string `json:"status"`
}

// ask asks the server and decodes its answer.
func (s *Server) ask(method, path, body string, into any) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// Threads answers the ids of all threads.
func (s *Server) Threads() (ids []string) {
	s.t.Helper()
	var threads []Run
	s.ask("POST", "/threads/search", `{"limit":1000}`, &threads)
	for _, thread := range threads {
		ids = append(ids, thread.Thread)
	}
	return ids
}

// Runs answers every run of every thread.
func (s *Server) Runs() (list []Run) {
	s.t.Helper()
	for _, thread := range s.Threads() {
		var runs []Run
		s.ask("GET", "/threads/"+thread+"/runs?limit=1000", "", &runs)
		list = append(list, runs...)
	}
	return list
}

// Settled waits until no run is under way, and answers all.
func (s *Server) Settled() []Run {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		runs, busy := s.Runs(), 0
		for _, r := range runs {
			if r.Status == "pending" || r.Status == "running" {
				busy++
			}
		}
		if busy == 0 {
			return runs
		}
		if time.Since(begun) > patience {
			s.t.Fatalf("%d runs go on at the server: %+v", busy, runs)
		}
	}
}

// Status is the status of one run at the server.
func (s *Server) Status(thread, run string) string {
	s.t.Helper()
	var r Run
	s.ask("GET", "/threads/"+thread+"/runs/"+run, "", &r)
	return r.Status
}

// Empty waits until a registrations directory is empty, and wants it to be.
func Empty(t testing.TB, dir string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > patience/4 {
			t.Fatalf("left in the registrations directory: %v", left)
		}
	}
}
