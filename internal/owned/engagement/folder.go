package engagement

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/host"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// registrations is the directory that hosts publish in, held open. The host
// judges it again for itself; here it is judged before a run is made for it.
type registrations struct {
	path string
	dir  *os.File
}

func openRegistrations(path string) (*registrations, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	bad := func(why string, args ...any) (*registrations, error) {
		return nil, fmt.Errorf("registrations directory %s %s: %w", path, fmt.Sprintf(why, args...), refusal.BadDocument)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return bad("doesn't exist: mkdir -p -m 700 %s", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return bad("is a symlink or no directory: name the directory itself")
	case errors.Is(err, unix.ENAMETOOLONG):
		return bad("has a name that the system can't take: choose a shorter one")
	case err != nil:
		return bad("can't be opened (%v): it must be yours, with mode 0700", err)
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	uid := uint32(os.Geteuid())
	switch {
	case uid != 0 && st.Uid != uid:
		dir.Close()
		return bad("belongs to uid %d, not to you (uid %d): name one of yours", st.Uid, uid)
	case st.Mode&0o7777 != 0o700:
		dir.Close()
		return bad("has mode %04o, and must be closed to others: chmod 700 %s", st.Mode&0o7777, path)
	}
	return &registrations{path, dir}, nil
}

func (r *registrations) close() { r.dir.Close() } // was only read from

// published checks that what the run's agent will find is the registration of
// exactly this run: a host that published another must not be joined.
func (r *registrations) published(engagement, runID string) error {
	wrong := func(why string) error {
		return fmt.Errorf("the host's registration of run %s %s: %w", runID, why, refusal.IncompatibleRuntime)
	}
	folder, err := unix.Openat(int(r.dir.Fd()), runID, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrong("isn't there")
	}
	defer unix.Close(folder)
	fd, err := unix.Openat(folder, host.DescriptorName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return wrong("isn't there")
	}
	file := os.NewFile(uintptr(fd), host.DescriptorName)
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
		return wrong("isn't a private file")
	}
	data, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return wrong("can't be read")
	}
	d, err := ownedv1.DecodeDescriptor(data, time.Now())
	switch {
	case err != nil:
		return wrong("isn't one of this protocol")
	case d.EngagementID != engagement || d.RunID != runID:
		return wrong("is of another run or engagement")
	case d.Transport != ownedv1.TransportUnix:
		return wrong("isn't for a Unix socket")
	}
	return nil
}

// sweepTime is how long a dead host's guardian gets for its work.
const sweepTime = 5 * time.Second

// swept waits until the run's folder is gone. What a host and its guardian left
// when both were killed is removed as the next host of that run would do it.
func (r *registrations) swept(runID string) error {
	var st unix.Stat_t
	for begun := time.Now(); time.Since(begun) < sweepTime; time.Sleep(20 * time.Millisecond) {
		err := unix.Fstatat(int(r.dir.Fd()), runID, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	folder, err := host.OpenFolder(ctx, r.path, runID)
	if err == nil {
		err = errors.Join(folder.Guarded(), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("the registration of run %s is still there: %w", runID, err)
	}
	return nil
}
