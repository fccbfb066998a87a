package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Names inside a run's folder (section 3).
const (
	DescriptorName = "browser.json"
	SocketName     = "browser.sock"
	draftName      = "browser.json.new"
)

// Folder is a run's registration: its private folder in the registrations
// directory. It is held under a lock that dies with this process, and watched by
// a guardian that removes it when this process dies without Close.
//
// Order: the folder is made and locked, the guardian stands, the socket is bound,
// the browser is ready, and only then is browser.json published. A crash before
// the guardian leaves an empty folder, which the next host of that run id takes
// away; after it, nothing.
type Folder struct {
	runID  string
	parent *os.File
	dir    *os.File

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	watch   sync.WaitGroup // guarded
	first   chan error     // takes one value: how the first guardian's start went
	exposed chan struct{}  // closed when no guardian can be had any more
}

// OpenFolder makes the folder of a run in the registrations directory, which
// must be a private one: mode 0700, no symlink, owned by this process's user
// (whoever owns it, if that is root). A folder that a living host holds is
// [refusal.Conflict]; what a dead one left is removed. The guardian is on its way
// then; see Guarded.
func OpenFolder(ctx context.Context, registrations, runID string) (*Folder, error) {
	if !ownedv1.ValidID(runID) {
		return nil, fmt.Errorf("run id must match ^[A-Za-z0-9_-]{1,128}$: %w", refusal.BadDocument)
	}
	parent, err := openPrivate(registrations)
	if err != nil {
		return nil, err
	}
	f := &Folder{runID: runID, parent: parent, exposed: make(chan struct{})}
	if f.dir, err = f.claim(ctx); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.first = make(chan error, 1)
	f.watch.Go(f.guarded)
	return f, nil
}

// Guarded waits until the guardian stands. Nothing may be put in the folder
// before. It is asked once.
func (f *Folder) Guarded() error { return <-f.first }

// guard starts a guardian over all that this folder will ever hold.
func (f *Folder) guard() (*jail.Guardian, error) {
	in := f.runID + "/"
	return jail.Guard(f.ctx, f.parent, in+draftName, in+DescriptorName, in+SocketName, f.runID)
}

// guarded starts a guardian, and another one for each that dies, until Close. A
// host that can't have one is told by Exposed and must end: its own death would
// leave a registration.
func (f *Folder) guarded() {
	for n := 0; ; n++ {
		g, err := f.guard()
		if n == 0 {
			f.first <- err
		}
		if err != nil {
			close(f.exposed)
			return
		}
		select {
		case <-f.ctx.Done():
			// A guardian that died at this very moment needs no release.
			_ = g.Release()
			return
		case <-g.Done():
		}
	}
}

// Exposed is closed when nobody would remove the registration if this process
// died: its guardian is gone and another can't be started.
func (f *Folder) Exposed() <-chan struct{} { return f.exposed }

// openPrivate opens a registrations directory and judges what it has opened, so
// that nothing can be put in its place afterwards.
func openPrivate(path string) (*os.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	bad := func(why string, args ...any) (*os.File, error) {
		return nil, fmt.Errorf("registrations directory %s %s: %w", path, fmt.Sprintf(why, args...), refusal.BadDocument)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return bad("doesn't exist: mkdir -p -m 700 %s", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return bad("is a symlink or no directory: name the directory itself")
	case err != nil:
		return nil, fmt.Errorf("registrations directory %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	uid := uint32(os.Geteuid())
	switch {
	case st.Mode&0o7777 != 0o700:
		dir.Close()
		return bad("has mode %04o, which lets others in: chmod 700 %s", st.Mode&0o7777, path)
	case uid != 0 && st.Uid != uid:
		dir.Close()
		return bad("belongs to uid %d, not to you (uid %d)", st.Uid, uid)
	}
	return dir, nil
}

// claim makes the run's folder and locks it. Each try begins from what is there,
// since a dying host's guardian or a rival may be at work on the same name.
func (f *Folder) claim(ctx context.Context) (*os.File, error) {
	const pause, patience, tries = 10 * time.Millisecond, 40, 100
	parent := int(f.parent.Fd())
	for try := range tries {
		err := unix.Mkdirat(parent, f.runID, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("folder of run %s: %w", f.runID, err)
		}
		fresh := err == nil
		dir, err := f.lock()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case fresh:
			return dir, nil
		}
		// What a dead host left is never reused: its guardian may yet come for it,
		// and gets a while to do so.
		if try >= patience {
			err = f.empty(dir)
		}
		if err = errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("folder of run %s is taken away again and again: %w", f.runID, refusal.Conflict)
}

// lock opens the run's folder and locks it for the life of this process. A folder
// that was removed meanwhile is fs.ErrNotExist.
func (f *Folder) lock() (*os.File, error) {
	fd, err := unix.Openat(int(f.parent.Fd()), f.runID, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("folder of run %s: %w", f.runID, err)
	}
	dir := os.NewFile(uintptr(fd), f.runID)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		dir.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("run %s has a living host already: %w", f.runID, refusal.Conflict)
		}
		return nil, fmt.Errorf("lock of run %s: %w", f.runID, err)
	}
	same, err := f.current(dir)
	if err == nil && !same {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// current tells whether dir still is what the run's name leads to.
func (f *Folder) current(dir *os.File) (bool, error) {
	var mine, there unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &mine); err != nil {
		return false, err
	}
	err := unix.Fstatat(int(f.parent.Fd()), f.runID, &there, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mine.Ino == there.Ino && mine.Dev == there.Dev, err
}

// empty removes a dead host's registration: files where files belong, a socket
// where the socket belongs, and the folder. Anything else is left, and told.
func (f *Folder) empty(dir *os.File) error {
	for _, left := range []struct {
		name string
		kind uint32
	}{{DescriptorName, unix.S_IFREG}, {draftName, unix.S_IFREG}, {SocketName, unix.S_IFSOCK}} {
		if err := f.remove(dir, left.name, left.kind); err != nil {
			return err
		}
	}
	err := unix.Unlinkat(int(f.parent.Fd()), f.runID, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("folder of run %s holds what no host leaves: look at it and remove it: %w", f.runID, refusal.Conflict)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove removes one file if it is there and of its kind.
func (f *Folder) remove(dir *os.File, name string, kind uint32) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != kind {
		return fmt.Errorf("%s/%s isn't what a host leaves: look at it and remove it: %w", f.runID, name, refusal.Conflict)
	}
	if err == nil {
		err = unix.Unlinkat(int(dir.Fd()), name, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Dir is the open folder, for binding the socket in it.
func (f *Folder) Dir() *os.File { return f.dir }

// Publish writes browser.json, whole or not at all, readable for its owner only.
func (f *Folder) Publish(d ownedv1.Descriptor) error {
	dir := int(f.dir.Fd())
	fd, err := unix.Openat(dir, draftName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("registration of run %s: %w", f.runID, err)
	}
	draft := os.NewFile(uintptr(fd), draftName)
	_, err = draft.Write(d.Encode())
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err == nil {
		err = unix.Renameat(dir, draftName, dir, DescriptorName)
	}
	if err == nil {
		err = f.dir.Sync()
	}
	if err != nil {
		return fmt.Errorf("registration of run %s: %w", f.runID, err)
	}
	return nil
}

// Revoke takes the descriptor away, so that no new client comes.
func (f *Folder) Revoke() error { return f.remove(f.dir, DescriptorName, unix.S_IFREG) }

// Close removes what is left of the registration. The guardian leaves last.
func (f *Folder) Close() error {
	err := f.empty(f.dir)
	f.stop()
	f.watch.Wait()
	return errors.Join(err, f.dir.Close(), f.parent.Close())
}
