package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	graph "chaperone/examples/agent"
	"chaperone/internal/owned/engagement"
)

// lane is one JavaScript server with a registrations directory, and a page that its
// browsers may reach.
type lane struct {
	server             string // package and version
	dir, registrations string
	api, site, self    string
	environment        []string
	end                func() error
	node               *exec.Cmd
	stdin              io.Closer
	said               tail
}

// javaScript runs the scenarios of `chaperone run` at the npm server.
func (q *turnsQualified) javaScript(ctx context.Context, modules string) (err error) {
	l, err := newLane(ctx, modules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var all sync.WaitGroup
	for _, s := range l.scenarios() {
		if !q.wanted(s.name) {
			continue
		}
		if s.long {
			all.Go(func() { q.try(ctx, l, s) })
		} else {
			q.try(ctx, l, s)
		}
	}
	all.Wait()
	if q.wanted("nothing is left") {
		began := time.Now()
		q.row(l.server, "nothing is left", began, l.empty())
	}
	return ctx.Err()
}

// scenario is one row; a long one runs beside the others.
type scenario struct {
	name string
	long bool
	run  func(context.Context) error
}

func (q *turnsQualified) try(ctx context.Context, l *lane, s scenario) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	began := time.Now()
	q.row(l.server, s.name, began, s.run(ctx))
}

func (l *lane) scenarios() []scenario {
	return []scenario{
		{"acts 65 seconds after the handshake", true, func(ctx context.Context) error {
			return l.turn(ctx, `["open",{"sleep":65000},{"action":"list_tabs"}]`).is(0, engagement.Success, 2)
		}},
		{"registration expired before the handshake", true, func(ctx context.Context) error {
			r := l.turn(ctx, `[{"sleep":65000},"open"]`)
			if !strings.Contains(r.said, "expired") {
				return fmt.Errorf("%v; said %q", r.is(exitFailed, engagement.Interrupted, -1), r.said)
			}
			return r.is(exitFailed, engagement.Interrupted, -1)
		}},
		{"a turn acts in its browser", false, func(ctx context.Context) error {
			r := l.turn(ctx, `["open",{"action":"goto","params":{"url":"`+l.site+`/one"}},{"action":"eval_js","params":{"expression":"document.title"}},"config"]`)
			if err := r.is(0, engagement.Success, 4); err != nil {
				return err
			}
			return errors.Join(r.has(2, `"one"`), r.has(3, `"run_id":"`+r.RunID+`"`), r.has(3, `"desktop_engagement_id":"qualify"`))
		}},
		{"the next turn of a thread has a registration of its own", false, l.twice},
		{"a failing graph is told as failed", false, func(ctx context.Context) error { return l.turn(ctx, `["open","fail"]`).is(exitFailed, "error", -1) }},
		{"out of scope is refused in the graph", false, func(ctx context.Context) error {
			r := l.turn(ctx, `["open",{"action":"goto","params":{"url":"http://192.0.2.1/"}}]`)
			return errors.Join(r.is(0, engagement.Success, 2), r.has(1, "BROWSER_SCOPE_DENIED"))
		}},
		{"a browser that can't start cancels the run", false, func(ctx context.Context) error {
			return l.turn(ctx, `["open"]`, "--database", "/proc/none/chaperone.db").is(exitFailed, engagement.Interrupted, -1)
		}},
		{"Ctrl-C cancels the run", false, func(ctx context.Context) error { return l.ended(ctx, syscall.SIGINT) }},
		{"SIGTERM cancels the run", false, func(ctx context.Context) error { return l.ended(ctx, syscall.SIGTERM) }},
		{"a killed caller's run is cancelled by the server", false, l.killed},
		{"ten runs at once never mix", false, l.ten},
	}
}

// newLane starts a server, in a folder that goes with it.
func newLane(ctx context.Context, modules string) (l *lane, err error) {
	l = &lane{}
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if modules, err = filepath.Abs(modules); err != nil {
		return nil, err
	}
	var told struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	data, err := os.ReadFile(filepath.Join(modules, "@langchain", "langgraph-api", "package.json"))
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		return nil, err
	}
	l.server = told.Name + " " + told.Version
	if l.dir, err = os.MkdirTemp("", "chaperone-turns"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	l.registrations = filepath.Join(l.dir, "browser-runs")
	err = errors.Join(os.Mkdir(l.registrations, 0o700), os.CopyFS(l.dir, graph.Files), os.Symlink(modules, filepath.Join(l.dir, "node_modules")))
	if err == nil {
		err = l.serve()
	}
	if err != nil {
		return nil, err
	}
	scope := "engagement: qualify\nallow:\n  - host: 127.0.0.1\n    ports: [\"" + l.site[strings.LastIndexByte(l.site, ':')+1:] + "\"]\n"
	if err := os.WriteFile(filepath.Join(l.dir, "scope.yaml"), []byte(scope), 0o600); err != nil {
		return nil, err
	}
	return l, l.start(ctx)
}

// serve serves the pages: each says its own name.
func (l *lane) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s</title>", strings.Trim(r.URL.EscapedPath(), "/"))
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	l.site = "http://" + listener.Addr().String()
	l.end = func() error {
		err := server.Close()
		<-served
		return err
	}
	return nil
}

// start starts the server, and waits for its address.
func (l *lane) start(ctx context.Context) error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	cmd := exec.CommandContext(ctx, "node", "serve.mjs")
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "AGENT_REGISTRATIONS="+l.registrations, "LANGSMITH_TRACING=false", "NO_COLOR=1")
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{to}, &l.said, &l.said
	if l.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	to.Close()
	if err != nil {
		return err
	}
	l.node = cmd
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the agent server didn't start: %s", l.said.String())
	}
	l.api = "http://" + strings.TrimSpace(line)
	return nil
}

// close ends the server and the pages, and removes the folder.
func (l *lane) close() error {
	var errs []error
	if l.node != nil {
		l.stdin.Close() // which is how it is told to end
		done := make(chan error, 1)
		go func() { done <- l.node.Wait() }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			errs = append(errs, l.node.Process.Kill())
			<-done
		}
	}
	if l.end != nil {
		errs = append(errs, l.end())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// ran is what `chaperone run --json` printed, and how it ended.
type ran struct {
	RunID  string `json:"run_id"`
	Thread string `json:"thread_id"`
	Status string `json:"status"`
	Values struct {
		Seen []json.RawMessage `json:"seen"`
	} `json:"values"`

	code int
	said string
	err  error
}

// command is one turn's, with a home of its own.
func (l *lane) command(ctx context.Context, steps string, more ...string) (*exec.Cmd, error) {
	home, err := os.MkdirTemp(l.dir, "home")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(home, "input.json")
	if err := os.WriteFile(file, []byte(`{"steps":`+steps+`}`), 0o600); err != nil {
		return nil, err
	}
	args := []string{"run", "--json", "--home", home, "--api", l.api, "--assistant", "steps", "--engagement", "qualify",
		"--scope", filepath.Join(l.dir, "scope.yaml"), "--input", file, "--registrations", l.registrations}
	return exec.CommandContext(ctx, l.self, append(args, more...)...), nil
}

func (l *lane) turn(ctx context.Context, steps string, more ...string) ran {
	cmd, err := l.command(ctx, steps, more...)
	if err != nil {
		return ran{err: err}
	}
	return finished(cmd, cmd.Run)
}

// finished runs or waits for a turn and reads what it told.
func finished(cmd *exec.Cmd, run func() error) ran {
	var out, said bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &out, &said
	}
	err := run()
	r := ran{said: strings.TrimSpace(said.String())}
	if cmd.ProcessState == nil {
		return ran{err: err}
	}
	r.code = cmd.ProcessState.ExitCode()
	if out.Len() > 0 {
		r.err = json.Unmarshal(out.Bytes(), &r)
	}
	return r
}

// is nil where a turn ended so; seen is how many steps were done, -1 for any.
func (r ran) is(code int, status string, seen int) error {
	if r.err != nil || r.code != code || r.Status != status || seen >= 0 && len(r.Values.Seen) != seen {
		return fmt.Errorf("exit %d, status %q, %d steps, %v: %s", r.code, r.Status, len(r.Values.Seen), r.err, r.said)
	}
	return nil
}

func (r ran) has(step int, text string) error {
	if step >= len(r.Values.Seen) || !strings.Contains(string(r.Values.Seen[step]), text) {
		return fmt.Errorf("step %d doesn't say %s", step+1, text)
	}
	return nil
}

func (l *lane) twice(ctx context.Context) error {
	first := l.turn(ctx, `["open","config"]`)
	if err := first.is(0, engagement.Success, 2); err != nil {
		return err
	}
	second := l.turn(ctx, `["open","config"]`, "--thread", first.Thread)
	if second.RunID == first.RunID {
		return errors.New("both turns have one run id")
	}
	return errors.Join(second.is(0, engagement.Success, 2), second.has(1, `"run_id":"`+second.RunID+`"`))
}

// begun starts a turn that sleeps, and waits for its registration.
func (l *lane) begun(ctx context.Context) (cmd *exec.Cmd, out, said *bytes.Buffer, run string, err error) {
	if cmd, err = l.command(ctx, `["open",{"sleep":300000}]`); err != nil {
		return nil, nil, nil, "", err
	}
	before := l.published()
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, "", err
	}
	for ctx.Err() == nil {
		for id := range l.published() {
			if !before[id] {
				time.Sleep(500 * time.Millisecond) // for the graph to have it
				return cmd, out, said, id, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, nil, nil, "", errors.Join(errors.New("no registration appeared"), cmd.Process.Kill(), cmd.Wait())
}

func (l *lane) published() map[string]bool {
	found, _ := filepath.Glob(filepath.Join(l.registrations, "*", "browser.json")) // our own pattern
	ids := map[string]bool{}
	for _, path := range found {
		ids[filepath.Base(filepath.Dir(path))] = true
	}
	return ids
}

func (l *lane) ended(ctx context.Context, by syscall.Signal) error {
	cmd, out, said, run, err := l.begun(ctx)
	if err != nil {
		return err
	}
	if err := cmd.Process.Signal(by); err != nil {
		return err
	}
	_ = cmd.Wait() // its code is looked at
	r := ran{code: cmd.ProcessState.ExitCode(), said: said.String()}
	r.err = json.Unmarshal(out.Bytes(), &r)
	if r.RunID != run {
		return fmt.Errorf("told of run %s", r.RunID)
	}
	return r.is(exitFailed, engagement.Interrupted, -1)
}

func (l *lane) killed(ctx context.Context) error {
	cmd, _, _, run, err := l.begun(ctx)
	if err != nil {
		return err
	}
	_ = cmd.Process.Kill() // it may just have ended, which is seen below
	_ = cmd.Wait()
	for ctx.Err() == nil {
		status, err := l.status(ctx, run)
		if err != nil {
			return err
		}
		if status == engagement.Interrupted && !l.published()[run] {
			return nil
		}
		if status == engagement.Success {
			return errors.New("the run went on to its end")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the run goes on, or its registration is left")
}

// status asks the server for a run of any thread.
func (l *lane) status(ctx context.Context, run string) (string, error) {
	var threads []struct {
		ID string `json:"thread_id"`
	}
	if err := l.ask(ctx, "POST", "/threads/search", `{"limit":1000}`, &threads); err != nil {
		return "", err
	}
	for _, t := range threads {
		var runs []struct {
			ID     string `json:"run_id"`
			Status string `json:"status"`
		}
		if err := l.ask(ctx, "GET", "/threads/"+t.ID+"/runs?limit=100", "", &runs); err != nil {
			return "", err
		}
		for _, r := range runs {
			if r.ID == run {
				return r.Status, nil
			}
		}
	}
	return "", errors.New("the server knows no such run")
}

func (l *lane) ask(ctx context.Context, method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, l.api+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

func (l *lane) ten(ctx context.Context) error {
	results := make(chan error, 10)
	for i := range 10 {
		go func() {
			page := fmt.Sprintf("page-%d", i)
			r := l.turn(ctx, `["open",{"action":"goto","params":{"url":"`+l.site+"/"+page+`"}},{"sleep":500},{"action":"eval_js","params":{"expression":"document.title"}},"config"]`, "--wait", "2m")
			results <- errors.Join(r.is(0, engagement.Success, 4), r.has(2, `"`+page+`"`), r.has(3, `"run_id":"`+r.RunID+`"`))
		}()
	}
	var errs []error
	for range 10 {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// empty waits until no registration is left.
func (l *lane) empty() error {
	var left []os.DirEntry
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		var err error
		if left, err = os.ReadDir(l.registrations); err != nil || len(left) == 0 {
			return err
		}
	}
	return fmt.Errorf("left in the registrations directory: %v", left)
}
