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
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
