package jail

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// wires are the connections between the parent and a box.
type wires struct {
	control *net.UnixConn // lifeline and reports
	pipe    pipe          // CDP
	words   *os.File      // the engine's error output
	theirs  []*os.File    // the box's ends, for its descriptors 3, 4, 5 and 2
}

// pipe is CDP as one connection: r carries answers, w commands.
type pipe struct{ r, w *os.File }

func (p *pipe) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.w.Write(b) }

// Close closes both directions. A second Close is no error.
func (p *pipe) Close() error { return closeAll([]*os.File{p.r, p.w}) }

// pipeSize is asked for each direction of CDP, bytes: a screenshot then crosses
// in few turns. A kernel that grants less is slower, not wrong.
const pipeSize = 1 << 20

// newWires makes all of them, or none. Every descriptor is close-on-exec.
func newWires() (*wires, error) {
	w := &wires{theirs: make([]*os.File, 4)}
	err := w.open()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *wires) open() (err error) {
	if w.theirs[0], w.pipe.w, err = newPipe(1); err != nil {
		return err
	}
	if w.pipe.r, w.theirs[1], err = newPipe(0); err != nil {
		return err
	}
	if w.words, w.theirs[3], err = newPipe(0); err != nil {
		return err
	}
	w.control, w.theirs[2], err = newControl()
	return err
}

// newPipe makes a pipe whose end number ours (0 reads, 1 writes) stays here. Only
// that end goes through the poller; engines expect theirs to block.
func newPipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	err = unix.SetNonblock(fds[ours], true)
	return os.NewFile(uintptr(fds[0]), "box"), os.NewFile(uintptr(fds[1]), "box"), err
}

// newControl makes the control socket, which keeps messages apart.
func newControl() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "box"), os.NewFile(uintptr(fds[1]), "box")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, theirs, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// closeTheirs closes the box's ends once it has them, so that its end is seen.
func (w *wires) closeTheirs() error { return closeAll(w.theirs) }

// release closes all but the pipe, whose owner may still be reading.
func (w *wires) release() error {
	return errors.Join(w.control.Close(), closeAll([]*os.File{w.words}))
}

// Close closes every end that is open.
func (w *wires) Close() error {
	var err error
	if w.control != nil {
		err = w.control.Close()
	}
	return errors.Join(err, closeAll(append(w.theirs, w.words, w.pipe.r, w.pipe.w)))
}

// closeAll closes those files that are there and open.
func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// rights are the descriptors that came with a message, owned by the caller.
func rights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "box"))
		}
	}
	return files, nil
}

var _ io.ReadWriteCloser = (*pipe)(nil)
