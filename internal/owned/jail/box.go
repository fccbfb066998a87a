package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"chaperone/internal/refusal"
)

// Box is one contained engine. Its methods may be called from any goroutine.
type Box struct {
	limits  Limits
	ids     ids            // the box's uid as the host sees it, and the claim on it
	wires   *wires         // this end of every connection
	process *os.Process    // the box's init
	words   tail           // the engine's error output
	tasks   sync.WaitGroup // readReports, words, watch
	started chan error     // takes one value: nil once the box is up, else why it never was
	gone    chan struct{}  // closed when the tree is gone; ends the tasks
	done    chan struct{}  // closed when all is cleaned up

	listener net.Listener // set, with the two folders, before started answers nil
	up, down *os.File     // UploadDir and DownloadDir

	mu      sync.Mutex
	cause   error  // why it is being ended; the first one counts
	last    report // how the engine ended, if the init could tell
	uploads int    // numbers the upload folders
}

// Start builds a box and starts the engine in it. It returns when the box is up
// and the engine is about to execute, some milliseconds later; ctx bounds only
// this, and a cancelled Start leaves nothing behind. What this machine can't box
// is an error that wraps refusal.PrerequisiteMissing and names the setting.
func Start(ctx context.Context, c Config) (*Box, error) {
	if !filepath.IsAbs(c.Engine) {
		return nil, fmt.Errorf("the engine's path %q isn't absolute: %w", c.Engine, refusal.PrerequisiteMissing)
	}
	engine, err := checkEngine(c.Engine)
	if err != nil {
		return nil, err
	}
	c.Engine = engine // without links, whose targets the box may not have
	return start(ctx, c)
}

// start is Start, and with an empty engine Probe.
func start(ctx context.Context, c Config) (*Box, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.Limits = c.Limits.filled()
	asked, err := json.Marshal(order{Engine: c.Engine, Args: c.Args, Limits: c.Limits})
	if err != nil {
		return nil, err
	}
	if len(asked) > maxOrder {
		return nil, fmt.Errorf("the engine's flags are longer than %d bytes", maxOrder)
	}
	b, err := fork(c, asked)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-b.started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return b, nil
	}
	b.end(err)
	<-b.done
	return nil, err
}

// fork starts the box's init and the goroutines that follow it.
func fork(c Config, asked []byte) (*Box, error) {
	ids, err := claimIDs(c.HostUID)
	if err != nil {
		return nil, err
	}
	w, err := newWires()
	if err != nil {
		return nil, errors.Join(err, ids.Close())
	}
	for range 2 { // one copy for each stage, waiting in the socket's buffer
		if _, err := w.control.Write(asked); err != nil {
			return nil, errors.Join(err, w.Close(), ids.Close())
		}
	}
	b := &Box{
		limits: c.Limits, ids: ids, wires: w, words: tail{max: maxWords},
		started: make(chan error, 1), gone: make(chan struct{}), done: make(chan struct{}),
	}
	forked := make(chan error)
	go b.live(c, forked)
	if err := <-forked; err != nil {
		return nil, errors.Join(err, w.Close(), ids.Close())
	}
	return b, nil
}

// live forks the init and waits for it, on one thread of its own: the death
// signal follows the thread that forked, so that thread must live as long as the
// box. It is never unlocked; the runtime ends the thread with the goroutine.
func (b *Box) live(c Config, forked chan<- error) {
	runtime.LockOSThread()
	cmd, err := b.run(c)
	if err != nil {
		forked <- err
		return
	}
	b.process = cmd.Process
	b.wires.closeTheirs()
	b.tasks.Go(b.readReports)
	b.tasks.Go(func() { b.words.fill(b.wires.words) })
	b.tasks.Go(b.watch)
	forked <- nil
	b.finish(cmd)
}

// readReports follows the control socket until it ends.
func (b *Box) readReports() {
	buf, oob := make([]byte, 4096), make([]byte, 256)
	for {
		n, oobn, _, _, err := b.wires.control.ReadMsgUnix(buf, oob)
		if errors.Is(err, unix.ECONNRESET) {
			continue // told once, where stage one ended with stage two's order unread; what it said comes after
		}
		if err != nil || n == 0 {
			return // the init is gone, which is told by its exit
		}
		files, err := rights(oob[:oobn])
		if err == nil {
			err = b.take(buf[:n], files)
		}
		if err != nil {
			b.end(errors.Join(err, closeAll(files)))
		}
	}
}

// take acts on one report and keeps the descriptors that it needs.
func (b *Box) take(data []byte, files []*os.File) error {
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if r.Exit != "" {
		b.mu.Lock()
		b.last = r
		b.mu.Unlock()
		return nil
	}
	if !r.Ready || len(files) != 3 {
		return diagnose(r.fault())
	}
	return b.rise(files)
}

// rise makes the box usable: it is up.
func (b *Box) rise(files []*os.File) error {
	l, err := net.FileListener(files[0])
	if err != nil {
		return err
	}
	b.listener, b.up, b.down = l, files[1], files[2]
	b.started <- nil
	return files[0].Close() // FileListener has its own copy
}

// end kills the box for the reason given; only the first reason counts.
func (b *Box) end(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause == nil {
		b.cause = cause
	}
	_ = b.process.Kill() // its one error says that it is gone already
}

// finish waits for the whole tree: PID 1 is reaped only when nothing else of its
// namespace is left. Then it lets go of all that belonged to the box.
func (b *Box) finish(cmd *exec.Cmd) {
	wait := cmd.Wait()
	close(b.gone)
	b.tasks.Wait()
	b.mu.Lock()
	if b.cause == nil {
		b.cause = b.exited(wait)
	}
	b.cause = errors.Join(b.cause, b.release())
	cause := b.cause
	b.mu.Unlock()
	select {
	case b.started <- cause:
	default: // it was up, and Start has been told
	}
	close(b.done)
}

// exited tells an end that nobody on this side asked for. The engine's last words
// aren't in it: they may quote a page, and errors travel.
func (b *Box) exited(wait error) error {
	how := b.last.Exit
	if how == "" && wait != nil {
		how = wait.Error()
	}
	if b.last.Over {
		return fmt.Errorf("%w: a process of the run: %s", refusal.OverLimit, how)
	}
	return fmt.Errorf("%w: %s", refusal.EngineExited, how)
}

// release closes what is left of an ended box. The pipe stays readable: what the
// engine said last may still be in it; its owner closes it.
func (b *Box) release() error {
	errs := []error{b.wires.release(), b.ids.Close()}
	if b.listener != nil {
		if err := b.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		errs = append(errs, b.up.Close(), b.down.Close())
	}
	return errors.Join(errs...)
}

// Listener is the box's listener on [ProxyAddr]. The box closes it when it ends.
func (b *Box) Listener() net.Listener { return b.listener }

// Pipe is the engine's CDP connection: JSON messages, each ended by a NUL. Reads
// answer io.EOF once the engine is gone and all it said was read. Closing it ends
// the engine.
func (b *Box) Pipe() io.ReadWriteCloser { return &b.wires.pipe }

// Done is closed when no process of the box is left.
func (b *Box) Done() <-chan struct{} { return b.done }

// PID is the box's init, as the host numbers it.
func (b *Box) PID() int { return b.process.Pid }

// LastWords is the end of what the engine wrote to its error output, at most
// 4 KiB. It may quote a page: it is for the person at this machine who asks why
// the engine didn't start, never for an agent, a log or an audit row.
func (b *Box) LastWords() string { return b.words.String() }

// Err says why the box ended, and is nil while it hasn't. It wraps one of
// refusal.OverLimit, refusal.EngineExited and refusal.Ended.
func (b *Box) Err() error {
	select {
	case <-b.done:
	default:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// Close ends the box and returns when its whole tree is gone. It is safe at any
// moment, and more than once.
func (b *Box) Close() error {
	b.end(fmt.Errorf("the box was closed: %w", refusal.Ended))
	<-b.done
	return b.wires.pipe.Close()
}
