package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"chaperone/internal/owned/corpus"
	"chaperone/internal/refusal"
)

// worldWord is the hidden argument that makes this executable the process inside
// the corpus' own network; its report goes to file descriptor 3.
const worldWord = "in-world"

// qualifyAs starts the process that lives in the world and reads its report. An
// ordinary user makes the namespaces by itself, so a step as that user comes
// first where root asks.
func qualifyAs(ctx context.Context, a *app, uid int, engine, only string) (corpus.Report, error) {
	stage := "enter"
	if os.Getuid() == 0 && uid != 0 {
		stage = "become"
	}
	out, in, err := os.Pipe()
	if err != nil {
		return corpus.Report{}, err
	}
	defer out.Close()
	cmd := worldCommand(ctx, stage, uid, engine, only, in)
	cmd.Stderr = a.stderr
	if err := cmd.Start(); err != nil {
		in.Close()
		return corpus.Report{}, fmt.Errorf("a network of its own for the corpus: %w: %w", err, refusal.PrerequisiteMissing)
	}
	in.Close()
	raw, readErr := io.ReadAll(out)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() == exitPrerequisite {
		return corpus.Report{}, exit(exitPrerequisite, errors.New("this machine lacks what the box needs: see `chaperone doctor`"))
	} else if err != nil {
		return corpus.Report{}, fmt.Errorf("the corpus ended early: %w", err)
	}
	if readErr != nil {
		return corpus.Report{}, readErr
	}
	var r corpus.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return corpus.Report{}, fmt.Errorf("the corpus' report: %w", err)
	}
	return r, nil
}

// worldCommand is this executable again: as another user (stage become), or in
// fresh namespaces (stage enter).
func worldCommand(ctx context.Context, stage string, uid int, engine, only string, report *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "qualify", worldWord, stage, engine, only)
	cmd.Args[0] = os.Args[0]
	cmd.ExtraFiles = []*os.File{report}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=/tmp", "HOME=/tmp", "TERM=" + os.Getenv("TERM")}
	cmd.Dir = "/"
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch {
	case stage == "become":
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: false}
	case os.Getuid() == 0:
		attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	default:
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}}
		attr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// newWorldCmd is the hidden process inside (or on the way into) the world.
func newWorldCmd() *cobra.Command {
	return &cobra.Command{
		Use: worldWord, Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			stage, engine, only := args[0], args[1], args[2]
			report := os.NewFile(3, "report")
			if stage == "become" {
				next := worldCommand(cmd.Context(), "enter", os.Getuid(), engine, only, report)
				next.Stderr = os.Stderr
				err := next.Run()
				return exit(next.ProcessState.ExitCode(), err)
			}
			if err := corpus.Enter(); err != nil {
				return err
			}
			config := corpus.Config{Engine: engine, Version: engineVersion(cmd.Context(), engine), Unboxed: unboxedEngine(cmd.Context(), engine)}
			if only != "" {
				config.Only = func(v corpus.Vector) bool {
					return strings.HasPrefix(v.Name, only) || strings.HasPrefix(v.Group, only)
				}
			}
			if term.IsTerminal(int(os.Stderr.Fd())) {
				config.Progress = func(done, of int, vector string) {
					fmt.Fprintf(os.Stderr, "\r\x1b[K%3d of %d  %s", done, of, vector)
				}
				defer fmt.Fprint(os.Stderr, "\r\x1b[K")
			}
			r, err := corpus.Run(cmd.Context(), config)
			if err != nil {
				return err
			}
			return json.NewEncoder(report).Encode(r)
		},
	}
}

// enginePipe is the debugging pipe of an engine without a box; Close ends it.
type enginePipe struct {
	io.Reader
	io.Writer
	end func() error
}

func (p enginePipe) Close() error { return p.end() }

// unboxedEngine starts the engine bare, for the control. It is reachable only in
// the world, which has no way out either.
func unboxedEngine(ctx context.Context, engine string) func([]string) (io.ReadWriteCloser, error) {
	return func(args []string) (io.ReadWriteCloser, error) {
		fromUs, toEngine, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		toUs, fromEngine, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		cmd := exec.CommandContext(ctx, engine, args...)
		cmd.ExtraFiles = []*os.File{fromUs, fromEngine}
		cmd.Env = []string{"HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		err = cmd.Start()
		fromUs.Close()
		fromEngine.Close()
		if err != nil {
			cancel()
			return nil, err
		}
		return enginePipe{toUs, toEngine, func() error {
			cancel()
			_ = cmd.Wait() // killed on purpose
			return errors.Join(toEngine.Close(), toUs.Close())
		}}, nil
	}
}
