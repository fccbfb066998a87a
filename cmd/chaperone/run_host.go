package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"chaperone/internal/owned/engagement"
	"chaperone/internal/refusal"
)

// spawned is `chaperone host` as a process of its own. Apart from the caller it
// outlives a caller's death by what an orderly end takes, and a caller outlives
// its host's death and can cancel the run; and it never holds the API's key.
//
// Its standard input is its lifeline: the kernel closes it with this process.
type spawned struct {
	cmd   *exec.Cmd
	stdin *os.File
	said  tail

	done chan struct{}
	err  error // how it ended; set before done is closed
}

const (
	readyTime = 60 * time.Second // for the start of a host
	killAfter = 20 * time.Second // a host's own bounds are shorter
)

// host starts the host of one run and waits until it is ready.
func (r *turning) host(ctx context.Context, name, runID, dir string) (engagement.Host, error) {
	args := []string{os.Args[0], "host", "--engagement", name, "--run-id", runID, "--dir", dir, "--scope", "/proc/self/fd/3"}
	if r.app.home != "" {
		args = append(args, "--home", r.app.home)
	}
	if r.app.database != "" {
		args = append(args, "--database", r.app.database)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	s := &spawned{done: make(chan struct{})}
	ready, err := s.start(args, r.scope)
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
		return s, nil
	case <-s.done:
		return nil, s.failed()
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.Background(), killAfter)
		defer cancel()
		return nil, errors.Join(context.Cause(ctx), s.Close(closing))
	}
}

// start starts the process with the scope's bytes, exactly those that were
// judged here, and answers a channel that is closed when it says that it is ready.
func (s *spawned) start(args []string, scope []byte) (<-chan struct{}, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	defer from.Close()
	s.stdin = stdin
	s.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: args, Stdin: in, Stderr: &s.said, ExtraFiles: []*os.File{from},
		// Ctrl-C is for this process, which then ends the host in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   2 * time.Second,
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("chaperone host: %w", err), stdin.Close(), to.Close())
	}
	ready := make(chan struct{})
	go func() { // owned by done
		defer close(s.done)
		_, err := to.Write(scope)
		err = errors.Join(err, to.Close())
		if lines := bufio.NewScanner(out); err == nil && lines.Scan() && strings.HasPrefix(lines.Text(), `{"ready":true`) {
			close(ready)
			for lines.Scan() {
			}
		}
		s.err = s.cmd.Wait()
	}()
	return ready, nil
}

// failed is what the host said when it ended by itself.
func (s *spawned) failed() error {
	said := s.said.String()
	if said == "" {
		said = fmt.Sprintf("it ended without a word (%v)", s.cmd.ProcessState)
	}
	if s.cmd.ProcessState.ExitCode() == exitPrerequisite {
		return exit(exitPrerequisite, fmt.Errorf("%s: %w", said, refusal.PrerequisiteMissing))
	}
	return errors.New(said)
}

// Done is closed when the process has ended.
func (s *spawned) Done() <-chan struct{} { return s.done }

// Err says why it ended by itself; nil while it lives.
func (s *spawned) Err() error {
	select {
	case <-s.done:
		return s.failed()
	default:
		return nil
	}
}

// Close ends the host in order, and by force when ctx ends first: its guardian
// then does the rest.
func (s *spawned) Close(ctx context.Context) error {
	_ = s.stdin.Close() // closed before, where it was asked to end before
	forced := false
	select {
	case <-s.done:
	case <-ctx.Done():
		forced = true
	case <-time.After(killAfter):
		forced = true
	}
	if forced {
		_ = s.cmd.Process.Kill() // it may just have ended
		<-s.done
		return errors.New("the browser's host had to be killed")
	}
	if s.err != nil {
		return s.failed()
	}
	return nil
}

// tail keeps the end of what a process said.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 4 << 10

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, data...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = t.text[over:]
	}
	return len(data), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimPrefix(strings.TrimSpace(printable(string(t.text))), "chaperone: ")
}
