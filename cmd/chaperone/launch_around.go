package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/jail"
)

// outside are programs that have a daemon start containers, or start them in
// namespaces of their own: what is mounted around them isn't mounted there.
var outside = []string{"docker", "docker-compose", "podman", "podman-compose", "nerdctl"}

// around runs the command with the mounts around it.
func (l *launching) around(binds []jail.Bind, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return exit(exitUsage, fmt.Errorf("the command can't be run: %w", err))
	}
	if slices.Contains(outside, filepath.Base(path)) {
		return exit(exitUsage, fmt.Errorf("%s starts containers that this mount wouldn't reach: use --compose-out FILE --service NAME", args[0]))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)
	m, err := jail.Command{Binds: binds, Path: path, Args: args, Env: os.Environ()}.Start()
	var bad *exec.Error
	switch {
	case errors.As(err, &bad):
		return exit(exitUsage, fmt.Errorf("the command can't be run: %w", err))
	case err != nil:
		return withDoctor(err)
	}
	done := make(chan struct{})
	var forwarding sync.WaitGroup
	forwarding.Go(func() { passOn(signals, m, done) })
	status, err := m.Wait()
	close(done)
	forwarding.Wait()
	switch {
	case err != nil:
		return err
	case status.Signaled():
		return dieOf(status.Signal())
	case status.ExitStatus() != 0:
		return exit(status.ExitStatus(), errors.New("")) // the command has said why
	}
	return nil
}

// passedOn lists the signals that are the command's. One that was ignored when
// this process started stays so for both.
func passedOn() []os.Signal {
	all := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH,
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// passOn passes signals on until done. What a terminal sends, it sends to its
// whole foreground group: the command has that already, and would take a second
// Ctrl-C for impatience.
func passOn(signals <-chan os.Signal, m *jail.Mounted, done <-chan struct{}) {
	terminals := []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH}
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			if !slices.Contains(terminals, s) || !foreground() {
				_ = m.Signal(s.(syscall.Signal)) // it may just have ended
			}
		}
	}
}

// foreground tells whether this process's group is its terminal's foreground one.
func foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// dieOf ends this process as the command has ended, so that a shell sees the
// same. Of a signal that Go's runtime keeps for itself, the shells' number for it
// is told instead.
func dieOf(sig syscall.Signal) error {
	switch sig {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig) // one's own process can always be told
		time.Sleep(time.Second)            // it comes at once; a signal that is blocked never does
	}
	return exit(128+int(sig), errors.New(""))
}
