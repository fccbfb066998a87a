package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// pythonServer is the PyPI agent server with the package's own graph, around which
// `chaperone launch` mounts a registrations directory.
type pythonServer struct {
	dir, registrations, api, self string
	cmd                           *exec.Cmd
	log                           *os.File
	over                          chan struct{}
}

// start starts it in a folder of its own, and waits until it answers.
func (s *pythonServer) start(ctx context.Context, python string) (err error) {
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if python, err = filepath.Abs(python); err != nil {
		return err
	}
	// Not below the home of anybody: registrations mustn't lie in a workspace.
	if s.dir, err = os.MkdirTemp("", "chaperone-turns"); err != nil {
		return err
	}
	s.registrations = filepath.Join(s.dir, "browser-runs")
	work := filepath.Join(s.dir, "server")
	err = errors.Join(os.Mkdir(s.registrations, 0o700), os.Mkdir(work, 0o700))
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "langgraph.json"), []byte(`{"dependencies": ["."], "graphs": {"chaperone-qualify": "chaperone_browser.qualify.graph:graph"}}`), 0o600)
	}
	if err == nil {
		s.log, err = os.Create(filepath.Join(s.dir, "server.log"))
	}
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.api = "http://127.0.0.1:" + port
	s.cmd = exec.Command(s.self, "launch", "--engagement", "chaperone-qualify", "--browser-registrations", s.registrations, "--",
		filepath.Join(filepath.Dir(python), "langgraph"), "dev", "--host", "127.0.0.1", "--port", port, "--no-browser", "--no-reload", "--n-jobs-per-worker", "12")
	s.cmd.Dir = work
	s.cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1", "NO_COLOR=1")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which ends the server in order
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.over = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.over)
	}()
	return s.answers(ctx)
}

// answers waits for the server, a minute at most.
func (s *pythonServer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, "GET", s.api+"/ok", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.over:
			return fmt.Errorf("the agent server didn't start: %s", s.said())
		case <-ctx.Done():
			return fmt.Errorf("the agent server doesn't answer: %s", s.said())
		}
	}
}

// said is the end of the server's log.
func (s *pythonServer) said() string {
	var end tail
	f, err := os.Open(s.log.Name())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	_, _ = io.Copy(&end, f) // as much as can be read
	return end.String()
}

// close ends the server and removes its folder.
func (s *pythonServer) close() error {
	var errs []error
	if s.over != nil {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			_ = s.cmd.Process.Signal(sig) // it may have ended already
			select {
			case <-s.over:
			case <-time.After(20 * time.Second):
				continue
			}
			break
		}
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// freePort is one that nobody listens on now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
