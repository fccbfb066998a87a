package jail

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
)

var errSoon = errors.New("not built yet")

// Init runs the re-executed roles and doesn't return for them.
func Init() {}

// Box is a contained engine.
type Box struct{}

// Start starts a box.
func Start(ctx context.Context, c Config) (*Box, error)           { return nil, errSoon }
func (b *Box) Listener() net.Listener                             { return nil }
func (b *Box) Pipe() io.ReadWriteCloser                           { return nil }
func (b *Box) Done() <-chan struct{}                              { return nil }
func (b *Box) Err() error                                         { return nil }
func (b *Box) LastWords() string                                  { return "" }
func (b *Box) PID() int                                           { return 0 }
func (b *Box) Close() error                                       { return nil }
func (b *Box) WriteFile(name string, r io.Reader) (string, error) { return "", errSoon }
func (b *Box) OpenFile(pathInBox string) (io.ReadCloser, error)   { return nil, errSoon }
func (b *Box) RemoveFile(pathInBox string) error                  { return errSoon }
func (b *Box) Usage() (Usage, error)                              { return Usage{}, errSoon }

// Probe says whether this machine can box.
func Probe(ctx context.Context) error { return errSoon }

// FindEngine finds the browser.
func FindEngine(path string) (string, error) { return "", errSoon }

// Guardian removes a run's registration when its host is gone.
type Guardian struct{}

// Guard starts a guardian. dir is the open registrations directory; names are
// slash-separated, relative to it, at most two deep, removed in this order; an
// empty directory is removed too ("RUN/browser.json", "RUN/browser.sock", "RUN").
func Guard(ctx context.Context, dir *os.File, names ...string) (*Guardian, error) {
	return nil, errSoon
}

// Done is closed when the guardian process ended, for whatever reason.
func (g *Guardian) Done() <-chan struct{} { return nil }

// Release ends the guardian without removing anything.
func (g *Guardian) Release() error { return nil }
