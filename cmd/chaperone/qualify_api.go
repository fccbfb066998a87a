package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chaperone/internal/owned/corpus"
)

// turnsQualified asks real agent servers what becomes of runs that have browsers
// (`chaperone qualify --api`). It starts the servers, and ends them.
type turnsQualified struct {
	app           *app
	servers, only string
	engine        string

	mu   sync.Mutex // guards rows
	rows []turnRow
}

// turnRow is one scenario at one server.
type turnRow struct {
	Server   string  `json:"server"` // package and version
	Scenario string  `json:"scenario"`
	Status   string  `json:"status"` // passed or failed
	Seconds  float64 `json:"seconds"`
	Detail   string  `json:"detail,omitempty"` // what was seen where it failed
}

// turnReport is the whole run, of this platform and engine.
type turnReport struct {
	Platform string    `json:"platform"`
	UID      int       `json:"uid"`
	Engine   string    `json:"engine"`
	Version  string    `json:"engine_version"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Rows     []turnRow `json:"rows"`
}

func (r turnReport) passed() (n int) {
	for _, row := range r.Rows {
		if row.Status == "passed" {
			n++
		}
	}
	return n
}

// The section of qualification.md that --api writes stands between these.
const (
	turnsBegin = "<!-- turns -->"
	turnsEnd   = "<!-- /turns -->"
)

func (q *turnsQualified) do(ctx context.Context, evidence, pages string, write bool) error {
	report := turnReport{Platform: corpus.Kernel(), UID: os.Getuid(), Engine: filepath.Base(q.engine), Version: engineVersion(ctx, q.engine), Started: time.Now().UTC().Truncate(time.Second)}
	node, python := filepath.Join(q.servers, "npm", "node_modules"), filepath.Join(q.servers, "pypi", "bin", "python")
	for _, path := range []string{filepath.Join(node, "@langchain", "langgraph-api"), python} {
		if _, err := os.Stat(path); err != nil {
			return exit(exitPrerequisite, fmt.Errorf("there is no agent server at %s: in a checkout of Chaperone run scripts/install-agent-servers.sh, or say --servers DIR", path))
		}
	}
	// The two at once: each waits most of the time, for its 65 seconds.
	both, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	for _, run := range []func() error{func() error { return q.javaScript(both, node) }, func() error { return q.python(both, python) }} {
		go func() {
			err := run()
			if err != nil {
				stop() // a qualification that can't be done isn't half done
			}
			failed <- err
		}()
	}
	if first, second := <-failed, <-failed; first != nil || second != nil {
		return cmp.Or(first, second)
	}
	report.Rows, report.Seconds = q.rows, time.Since(report.Started).Seconds()
	if evidence != "" {
		if err := os.MkdirAll(evidence, 0o755); err != nil {
			return err
		}
		if err := writeJSON(filepath.Join(evidence, "turns.json"), report); err != nil {
			return err
		}
	}
	if write {
		var section bytes.Buffer
		report.markdown(&section)
		if err := writeSection(filepath.Join(pages, "qualification.md"), "Runs of an agent server", turnsBegin, turnsEnd, section.Bytes()); err != nil {
			return err
		}
	}
	return q.tell(report)
}

func (q *turnsQualified) tell(report turnReport) error {
	if q.app.json {
		encoder := json.NewEncoder(q.app.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"revision": revision(), "model_free": true, "release_claim": false, "only": q.only, "turns": report}); err != nil {
			return err
		}
	} else {
		for _, row := range report.Rows {
			fmt.Fprintf(q.app.stdout, "%-6s  %-34s  %s  %.1f s\n", row.Status, row.Server, row.Scenario, row.Seconds)
			if row.Detail != "" {
				fmt.Fprintf(q.app.stdout, "        %s\n", printable(row.Detail))
			}
		}
		fmt.Fprintf(q.app.stdout, "\n%d of %d scenarios passed; %s; %s\nrevision %s; model-free; says what this run did on this machine, and is no claim about a release\n",
			report.passed(), len(report.Rows), report.Platform, report.Version, revision())
	}
	if report.passed() < len(report.Rows) || len(report.Rows) == 0 {
		return exit(exitVerification, errors.New("not qualified: see the scenarios above"))
	}
	return nil
}

func (r turnReport) markdown(w io.Writer) {
	fmt.Fprintf(w, "Written by `chaperone qualify --api --write`, revision `%s`. It is free of any model, says only what that run did on that machine, and is no claim about a release.\n\n", revision())
	fmt.Fprintf(w, "%s, uid %d; %s; %s: %d of %d passed.\n\n| agent server | scenario | status | seconds |\n|---|---|---|---|\n", r.Platform, r.UID, r.Version, r.Started.Format(time.DateOnly), r.passed(), len(r.Rows))
	for _, row := range r.Rows {
		fmt.Fprintf(w, "| %s | %s | %s | %.1f |\n", row.Server, row.Scenario, row.Status, row.Seconds)
	}
	fmt.Fprintf(w, "| any, on Windows or behind Docker Desktop | any | rejected | |\n| any, with desktop Chromium | any | not qualified: not run | |\n")
}

// row keeps what a scenario came to.
func (q *turnsQualified) row(server, scenario string, began time.Time, err error) {
	row := turnRow{Server: server, Scenario: scenario, Status: "passed", Seconds: float64(time.Since(began).Milliseconds()) / 1000}
	if err != nil {
		row.Status, row.Detail = "failed", err.Error()
	}
	q.keep(row)
}

func (q *turnsQualified) keep(row turnRow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rows = append(q.rows, row)
	if tell := q.app.progress(); tell != nil {
		tell(row.Status + "  " + row.Server + ": " + row.Scenario)
	}
}

// wanted tells whether a scenario is to be run.
func (q *turnsQualified) wanted(scenario string) bool {
	return strings.HasPrefix(scenario, q.only)
}

// python runs the scenarios of the package chaperone-browser, which has a driver of
// its own, at the PyPI server. That is started by `chaperone launch`, with the
// registrations where the package looks for them.
func (q *turnsQualified) python(ctx context.Context, python string) (err error) {
	names, version, err := q.scenarios(ctx, python)
	if err != nil || len(names) == 0 {
		return err
	}
	s := &pythonServer{}
	if err := s.start(ctx, python); err != nil {
		return errors.Join(err, s.close())
	}
	defer func() { err = errors.Join(err, s.close()) }()
	args := []string{"-m", "chaperone_browser.qualify", "--json", "--api", s.api, "--registrations", s.registrations, "--binary", s.self, "--search", s.dir}
	for _, name := range names {
		args = append(args, "--only", name)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		row := turnRow{Server: "langgraph-api " + version}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil || row.Scenario == "" || row.Status != "passed" && row.Status != "failed" {
			_ = cmd.Cancel() // what it then says is of no interest
			return errors.Join(errors.New("chaperone_browser.qualify printed a line that is no row"), cmd.Wait())
		}
		row.Scenario = strings.ReplaceAll(row.Scenario, "_", " ")
		q.keep(row)
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != exitVerification {
		return fmt.Errorf("chaperone_browser.qualify: %w: %s", err, said.String())
	}
	return nil
}

// scenarios asks the driver what it can do, and the server's version.
func (q *turnsQualified) scenarios(ctx context.Context, python string) (names []string, version string, err error) {
	const ask = "from importlib.metadata import version; from chaperone_browser.qualify.scenarios import SCENARIOS; print(version('langgraph-api'), *SCENARIOS)"
	out, err := exec.CommandContext(ctx, python, "-c", ask).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		return nil, "", exit(exitPrerequisite, fmt.Errorf("%s has no chaperone-browser beside its agent server: pip install it there, or run scripts/install-agent-servers.sh in a checkout", python))
	}
	for _, name := range words[1:] {
		if q.wanted(strings.ReplaceAll(name, "_", " ")) {
			names = append(names, name)
		}
	}
	return names, words[0], nil
}
