package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"chaperone/internal/owned/ownedv1"
)

// maxInput bounds a file that is read whole, in bytes.
const maxInput = ownedv1.MaxMessage

// input reads a file that a person named, and what it is to them; "-" is standard
// input where stdin isn't nil. What can't be read is exit 2 with the absolute path that was tried.
// It ends with ctx, and leaves its reading behind then: a pipe that nobody
// writes to can't be interrupted, and would hold the process against any signal.
func input(ctx context.Context, what, name string, stdin io.Reader) ([]byte, error) {
	type outcome struct {
		data []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		data, err := readWhole(what, name, stdin)
		done <- outcome{data, err}
	}()
	select {
	case o := <-done:
		return o.data, exit(exitUsage, o.err)
	case <-ctx.Done():
		return nil, exit(exitFailed, fmt.Errorf("told to end while reading %s", name))
	}
}

func readWhole(what, name string, stdin io.Reader) ([]byte, error) {
	path, from := "standard input", stdin
	if name != "-" || stdin == nil {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		path = abs
		file, err := os.Open(path)
		if err != nil {
			return nil, cantRead(what, path, err)
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("it is larger than %d bytes", maxInput)
	}
	return data, cantRead(what, path, err)
}

func cantRead(what, path string, err error) error {
	if err == nil {
		return nil
	}
	var cause *os.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("can't read the %s %s: %w", what, path, err)
}
