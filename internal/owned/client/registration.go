package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Names inside a registration's folder, and how a client waits for it.
const (
	descriptorName = "browser.json"
	socketName     = "browser.sock"
	waitTime       = 30 * time.Second
	pollTime       = 50 * time.Millisecond
	maxDescriptor  = 64 << 10
)

// Registration is one run's descriptor and the folder it lies in, held open so
// that a path that changes meanwhile can't lead elsewhere.
type Registration struct {
	desc  ownedv1.Descriptor
	dir   *os.File // the folder of the descriptor and the socket
	file  string   // the descriptor's name in it
	owner uint32   // who wrote the descriptor, and so who must listen
	sum   [sha256.Size]byte
}

// WaitRegistration waits at most 30 s (or as long as ctx allows) for the run's
// registration in dir: a private directory whose sub-folder is named by the run.
// A registration for another engagement, a directory, folder or file that others
// could have written, and a symbolic link are refused with
// UNAUTHORIZED_ADAPTER; so is having waited in vain. A directory that doesn't
// exist is an fs.ErrNotExist: nothing was mounted.
func WaitRegistration(ctx context.Context, dir, engagementID, runID string) (*Registration, error) {
	if !ownedv1.ValidID(runID) || !ownedv1.ValidID(engagementID) {
		return nil, fmt.Errorf("run and engagement ids are 1 to 128 letters, digits, - or _: %w", refusal.UnauthorizedAdapter)
	}
	root, err := openPrivate(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	limited, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		reg, err := openRun(root, runID)
		if !errors.Is(err, os.ErrNotExist) {
			return bound(reg, err, engagementID, runID)
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("no registration of run %s within %s: start its host: %w", runID, waitTime, refusal.UnauthorizedAdapter)
		}
	}
}

func openRun(root *os.File, runID string) (*Registration, error) {
	folder, err := openPrivate(int(root.Fd()), runID, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return open(folder, descriptorName)
}

// bound refuses a registration that isn't of exactly these ids.
func bound(reg *Registration, err error, engagementID, runID string) (*Registration, error) {
	if err != nil {
		return nil, err
	}
	if reg.desc.RunID != runID || reg.desc.EngagementID != engagementID {
		return nil, errors.Join(fmt.Errorf("the registration is of another run or engagement: %w", refusal.UnauthorizedAdapter), reg.Close())
	}
	return reg, nil
}

// OpenRegistration opens the static form: one descriptor file, with browser.sock
// beside it.
func OpenRegistration(path string) (*Registration, error) {
	// The folder of a static descriptor is the home's run/: whose it is counts,
	// not that nobody else may look in; the file itself is private.
	fd, err := unix.Open(filepath.Dir(path), unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the descriptor's folder: %w", err)
	}
	folder := os.NewFile(uintptr(fd), filepath.Dir(path))
	return open(folder, filepath.Base(path))
}

// open reads the descriptor in folder, which it closes where it fails.
func open(folder *os.File, name string) (*Registration, error) {
	r := &Registration{dir: folder, file: name}
	data, owner, err := r.read()
	if err == nil {
		r.sum, r.owner = sha256.Sum256(data), owner
		r.desc, err = ownedv1.DecodeDescriptor(data, time.Now())
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return r, nil
}

// read reads the descriptor's file as it is now, and whose it is.
func (r *Registration) read() (data []byte, owner uint32, err error) {
	f, err := openPrivate(int(r.dir.Fd()), r.file, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(f, maxDescriptor))
	return data, st.Uid, err
}

// unchanged refuses a registration that was revoked or replaced.
func (r *Registration) unchanged() error {
	data, owner, err := r.read()
	if err != nil {
		return fmt.Errorf("the registration is gone: %w", refusal.UnauthorizedAdapter)
	}
	if sha256.Sum256(data) != r.sum || owner != r.owner {
		return fmt.Errorf("the registration was replaced: %w", refusal.UnauthorizedAdapter)
	}
	return nil
}

// openPrivate opens a directory, or a regular file, that is no symbolic link,
// is closed to group and others, and belongs to this process's user (any user's
// will do for root).
func openPrivate(at int, name string, kind int) (*os.File, error) {
	// O_NONBLOCK: a FIFO in the file's place must not hold us up.
	fd, err := unix.Openat(at, name, kind|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s (a symbolic link is refused): %v: %w", name, err, refusal.UnauthorizedAdapter)
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	want := uint32(unix.S_IFREG)
	if kind == unix.O_DIRECTORY {
		want = unix.S_IFDIR
	}
	me := uint32(os.Geteuid())
	switch {
	case st.Mode&unix.S_IFMT != want:
		err = fmt.Errorf("%s isn't of the right kind: %w", name, refusal.UnauthorizedAdapter)
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("%s is open to others: chmod go-rwx it: %w", name, refusal.UnauthorizedAdapter)
	case me != 0 && st.Uid != me:
		err = fmt.Errorf("%s belongs to another user: %w", name, refusal.UnauthorizedAdapter)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// socketPath names the socket through the open folder, which keeps it short of
// the 107 bytes that a socket's path may have, and in the folder that was checked.
func (r *Registration) socketPath() (string, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(r.dir.Fd()), socketName, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return "", errPeer
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", r.dir.Fd(), socketName), nil
}

// Identity answers the binding of the registration.
func (r *Registration) Identity() ownedv1.Identity { return r.desc.Identity }

// Close lets the folder go. A session of this registration can't act any more.
func (r *Registration) Close() error { return r.dir.Close() }
