// Command chaperone lets AI agents use browsers and web apps under supervision.
//
// It is the composition floor: flags and environment are read here and nowhere
// else, each subcommand is one thin file that turns them into a Config of a
// lower floor, and an error becomes an exit code in one place (see [exitCode]).
// The codes are spec/product.md's: 0 done, 1 failed, 2 usage or bad file,
// 3 refused by scope or policy, 4 prerequisite missing, 5 verification failed.
//
// Floor: composition.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"chaperone/internal/owned/jail"
)

func main() {
	// Before anything else: a box starts this very binary again for its own roles,
	// which never get beyond this line.
	jail.Init()
	forgetSwitches()
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	// A reader of our output who leaves is an error of a write, after which the run
	// is ended as any other, and not this process's sudden death.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{stdin: os.Stdin, stdout: &output{File: os.Stdout}, stderr: os.Stderr}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// endings lists the signals that end a command in order. A terminal that closes
// is one, unless somebody asked to outlive it (nohup).
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// forgetSwitches starts over without MCPGODEBUG. The MCP SDK reads it before
// main begins, and it changes how the protocol is spoken and what is checked.
func forgetSwitches() {
	const name = "MCPGODEBUG"
	if os.Getenv(name) == "" {
		return
	}
	err := os.Unsetenv(name)
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "chaperone: can't start without %s: %v\n", name, err)
	os.Exit(exitFailed)
}
