package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// forbidDumps keeps what a server has in memory (sessions, tokens, what is said over
// attended control) out of core files. A dump piped to a handler ignores the limit;
// without any memory segment in it, it holds nothing either. Processes that this one
// starts inherit both.
func forbidDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switching core dumps off: %w", err)
	}
	err := os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without them
		return fmt.Errorf("switching core dumps off: %w", err)
	}
	return nil
}
