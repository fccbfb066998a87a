package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"chaperone/internal/refusal"
)

// app is what every subcommand shares: the three streams and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	home           string // --home, else $CHAPERONE_HOME, else ~/.chaperone
	database       string // --database, else the home's chaperone.yaml, else <home>/chaperone.db
	json           bool   // --json: machine-readable output on stdout
}

// exit codes of spec/product.md.
const (
	exitFailed       = 1
	exitUsage        = 2
	exitRefused      = 3
	exitPrerequisite = 4
	exitVerification = 5
)

// exitError carries the exit code that a subcommand chose.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exit wraps err so that the process ends with code. A code that was chosen
// already stands.
func exit(code int, err error) error {
	var chosen *exitError
	if err == nil || errors.As(err, &chosen) {
		return err
	}
	return &exitError{code, err}
}

// exitCode is the one place where an error becomes a process's exit code. What
// no subcommand chose is told by its refusal code, and else is a plain failure.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, refusal.PrerequisiteMissing):
		return exitPrerequisite
	case errors.Is(err, refusal.BrowserScopeDenied):
		return exitRefused
	case errors.Is(err, refusal.BadDocument):
		return exitUsage
	}
	return exitFailed
}

// run parses args, runs the subcommand and prints its error as one plain line
// (or several, where the error itself has them) on stderr.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if out, ok := a.stdout.(*output); ok && err == nil {
		err = out.lost() // results that nobody got are no success
	}
	switch {
	case errors.Is(err, syscall.EPIPE): // whoever read our output has left, and knows
	case err != nil && err.Error() != "":
		fmt.Fprintln(a.stderr, "chaperone:", err)
	}
	return exitCode(err)
}

// homeDir answers the home's absolute path. It doesn't create it.
func (a *app) homeDir() (string, error) {
	home := a.home
	if home == "" {
		home = os.Getenv("CHAPERONE_HOME")
	}
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home directory (set --home DIR or CHAPERONE_HOME): %w", err)
		}
		home = filepath.Join(user, ".chaperone")
	}
	return filepath.Abs(home)
}
