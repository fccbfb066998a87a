package jail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Guardian is a process that outlives its parent by the moment it takes to remove
// the parent's registration (spec/owned-browser.md, section 2).
//
// States: watching, then released (it removed nothing) or done (the parent died,
// the names are gone). A guardian that was itself killed closes Done without a
// Release; its parent then starts another or ends.
type Guardian struct {
	lifeline *net.UnixConn
	process  *os.Process
	done     chan struct{}
	once     sync.Once
}

// Descriptors of the guardian.
const (
	fdGuarded  = 3 // the directory
	fdLifeline = 4 // SOCK_SEQPACKET: first the names, then "release" or its end
)

// Words on the lifeline: the guardian's one, and the parent's last.
const (
	readyWord   = "ready"
	releaseWord = "release"
)

// Guard starts a guardian over dir, which stays the caller's. names are relative
// to it, slash-separated, at most two deep; when this process is gone they are
// removed in order, a folder if it is empty then, and nothing else ever. Nothing
// of a name reaches argv or the environment.
func Guard(ctx context.Context, dir *os.File, names ...string) (*Guardian, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, name := range names {
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.Count(name, "/") > 1 {
			return nil, fmt.Errorf("a guardian can't remove %q: the name must be relative and at most two deep", name)
		}
	}
	lifeline, theirs, err := newControl()
	if err != nil {
		return nil, errors.Join(err, closeAll([]*os.File{theirs}))
	}
	_, err = lifeline.Write([]byte(strings.Join(names, "\x00")))
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{roleGuardian},
		Env:        []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Dir:        "/",
		ExtraFiles: []*os.File{dir, theirs},
		// Its own session: what stops the parent's process group isn't meant for it.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("guardian: %w", err), lifeline.Close())
	}
	g := &Guardian{lifeline: lifeline, process: cmd.Process, done: make(chan struct{})}
	if err := g.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("guardian: %w", err), g.process.Kill(), cmd.Wait(), lifeline.Close())
	}
	go func() { // waited for by Release, through done
		_ = cmd.Wait() // how it ended says nothing: that it ended is what counts
		close(g.done)
	}()
	return g, nil
}

// ready waits until the guardian is on watch. Before that, what stops the parent's
// whole session at once would stop it too.
func (g *Guardian) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { g.lifeline.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, len(readyWord)+1)
	n, err := g.lifeline.Read(buf)
	if err == nil && string(buf[:n]) != readyWord {
		err = errors.New("it ended while it started")
	}
	return errors.Join(err, ctx.Err())
}

// PID is the guardian's process.
func (g *Guardian) PID() int { return g.process.Pid }

// Done is closed when the guardian has ended, for whatever reason.
func (g *Guardian) Done() <-chan struct{} { return g.done }

// Release ends the guardian, which then removes nothing, and waits for it.
func (g *Guardian) Release() error {
	var err error
	g.once.Do(func() {
		_, err = g.lifeline.Write([]byte(releaseWord))
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			err = nil // it is gone already
		}
		<-g.done
		err = errors.Join(err, g.lifeline.Close())
	})
	<-g.done
	return err
}

// guard is the guardian's own process. It ignores what asks a host to stop, since
// its work begins when the host has stopped.
func guard() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 2
	}
	// A descriptor that the host inherited and passed on must not be held open
	// beyond the host.
	if err := unix.CloseRange(fdLifeline+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 2
	}
	buf := make([]byte, maxOrder)
	n, err := unix.Read(fdLifeline, buf)
	if err != nil || n == 0 {
		return 2
	}
	names := strings.Split(string(buf[:n]), "\x00")
	known := pin(names)
	if _, err := unix.Write(fdLifeline, []byte(readyWord)); err != nil && err != unix.EPIPE {
		return 2 // EPIPE: the parent died just now, so the work is due
	}
	for {
		n, err := unix.Read(fdLifeline, buf)
		switch {
		case err == unix.EINTR:
		case err == nil && string(buf[:n]) == releaseWord:
			return 0
		default: // the end of the lifeline, or an error that can only mean it
			return removeAll(names, known)
		}
	}
}

// identity tells one folder from another that later has its name.
type identity struct{ device, inode uint64 }

// folderOf answers the identity of a folder below the guarded directory.
func folderOf(name string) (identity, bool) {
	var st unix.Stat_t
	if unix.Fstatat(fdGuarded, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return identity{}, false
	}
	return identity{st.Dev, st.Ino}, true
}

// pin remembers which folders the names mean. A guardian may be slow to wake: by
// then a successor of the dead host may have a folder of the same name, and that
// one isn't this guardian's to empty.
func pin(names []string) map[string]identity {
	known := map[string]identity{}
	for _, name := range names {
		for _, folder := range []string{path.Dir(name), name} {
			if folder == "." {
				continue
			}
			// Held open for as long as this process lives: an inode that is in use
			// can't become the successor's.
			if _, err := unix.Openat(fdGuarded, folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
				continue
			}
			if id, ok := folderOf(folder); ok {
				known[folder] = id
			}
		}
	}
	return known
}

// removeAll removes the names and answers the exit status.
func removeAll(names []string, known map[string]identity) int {
	status := 0
	for _, name := range names {
		if another(name, known) {
			continue
		}
		if err := removeOne(name); err != nil && err != unix.ENOENT {
			status = 1 // the next name may still go
		}
	}
	return status
}

// another tells whether the name, or the folder that it lies in, is no longer the
// folder that was pinned.
func another(name string, known map[string]identity) bool {
	for _, folder := range []string{path.Dir(name), name} {
		was, pinned := known[folder]
		if now, ok := folderOf(folder); pinned && ok && now != was {
			return true
		}
	}
	return false
}

// removeOne removes a file or empty folder below the guarded directory. No
// symlink is followed: not at the folder, and unlink never follows the last step.
func removeOne(name string) error {
	parent := fdGuarded
	if folder, _ := path.Split(name); folder != "" {
		how := unix.OpenHow{
			Flags:   unix.O_DIRECTORY | unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		}
		fd, err := unix.Openat2(fdGuarded, path.Clean(folder), &how)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		parent = fd
	}
	err := unix.Unlinkat(parent, path.Base(name), 0)
	if err == unix.EISDIR {
		return unix.Unlinkat(parent, path.Base(name), unix.AT_REMOVEDIR)
	}
	return err
}
