package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"chaperone/internal/refusal"

	"golang.org/x/sys/unix"
)

// WriteFile puts what r holds into the box, for an upload, and answers its path
// there. The file keeps the last element of name, as pages show it, in a folder
// of its own. More than Limits.FileBytes, or than /tmp has room for, is
// refusal.TooLarge and leaves nothing.
func (b *Box) WriteFile(name string, r io.Reader) (string, error) {
	name, err := cleanName(name)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	b.uploads++
	folder := strconv.Itoa(b.uploads)
	b.mu.Unlock()
	f, err := b.create(folder, name)
	if err != nil {
		return "", fmt.Errorf("upload %q: %w", name, err)
	}
	inBox := path.Join(UploadDir, folder, name)
	n, err := io.Copy(f, io.LimitReader(r, b.limits.FileBytes+1))
	err = errors.Join(err, f.Close())
	if n > b.limits.FileBytes || errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("the box takes files up to %d MiB, and %d MiB in all: %w", b.limits.FileBytes>>20, b.limits.TmpBytes>>20, refusal.TooLarge)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("upload %q: %w", name, err), b.RemoveFile(inBox))
	}
	return inBox, nil
}

// create makes folder and a new file in it, as the box's user.
func (b *Box) create(folder, name string) (f *os.File, err error) {
	err = b.asOwner(func() error {
		if err := unix.Mkdirat(int(b.up.Fd()), folder, 0o700); err != nil {
			return err
		}
		f, err = beneath(b.up, path.Join(folder, name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		return err
	})
	return f, err
}

// OpenFile opens a file of DownloadDir or UploadDir for reading. It follows no
// symlink, leaves neither folder, and opens regular files only; the reader ends
// at the size that the file had, at most Limits.FileBytes.
func (b *Box) OpenFile(pathInBox string) (io.ReadCloser, error) {
	dir, rest, err := b.folder(pathInBox)
	if err != nil {
		return nil, err
	}
	var f *os.File
	err = b.asOwner(func() (err error) {
		// Nonblocking: a FIFO in a file's place must not hold this thread.
		f, err = beneath(dir, rest, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("file of the box: %w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("not a regular file: %w", refusal.NotFound)
	case info.Size() > b.limits.FileBytes:
		err = fmt.Errorf("%d bytes: %w", info.Size(), refusal.TooLarge)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("file of the box: %w", err), f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, info.Size()), f}, nil
}

// RemoveFile removes a file of DownloadDir or UploadDir, and an upload's folder
// with it.
func (b *Box) RemoveFile(pathInBox string) error {
	dir, rest, err := b.folder(pathInBox)
	if err != nil {
		return err
	}
	return b.asOwner(func() error {
		parent, err := beneath(dir, path.Dir(rest), unix.O_DIRECTORY|unix.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("file of the box: %w", err)
		}
		err = unix.Unlinkat(int(parent.Fd()), path.Base(rest), 0)
		err = errors.Join(err, parent.Close())
		if err == nil && dir == b.up {
			err = unix.Unlinkat(int(dir.Fd()), path.Dir(rest), unix.AT_REMOVEDIR)
		}
		if err != nil {
			return fmt.Errorf("file of the box: %w", err)
		}
		return nil
	})
}

// folder splits a path of the box into the folder's handle and the rest.
func (b *Box) folder(pathInBox string) (*os.File, string, error) {
	clean := path.Clean(pathInBox)
	for name, dir := range map[string]*os.File{UploadDir: b.up, DownloadDir: b.down} {
		if rest, ok := strings.CutPrefix(clean, name+"/"); ok {
			return dir, rest, nil
		}
	}
	return nil, "", fmt.Errorf("a path outside %s and %s: %w", UploadDir, DownloadDir, refusal.NotFound)
}

// beneath opens a path below dir without following any symlink on the way. The
// browser owns these folders and may be hostile; the kernel checks each step.
func beneath(dir *os.File, rest string, flags int, mode uint64) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(int(dir.Fd()), rest, &how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "box"), nil
}

// asOwner runs do with the box's user as the filesystem user of this thread. To
// root's own id the box's tmpfs has no mapping, so root couldn't create there.
// The thread is given back only with its own ids; else it ends with the goroutine.
func (b *Box) asOwner(do func() error) error {
	if b.ids.uid == os.Geteuid() {
		return do()
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here, whatever its ids
		if err := becomeOwner(b.ids); err != nil {
			result <- err
			return
		}
		result <- do()
	}()
	return <-result
}

// becomeOwner changes the calling thread's filesystem ids, group first.
func becomeOwner(i ids) error {
	if _, err := unix.SetfsgidRetGid(i.gid); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(i.uid); err != nil {
		return err
	}
	// The call answers the old id, on failure too; only a second one tells.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != i.uid {
		return errors.Join(err, unix.EPERM)
	}
	return nil
}

// cleanName is name's last element as a plain file name.
func cleanName(name string) (string, error) {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if name == "" || name == "." || name == ".." || name == "/" || len(name) > 255 {
		return "", fmt.Errorf("a file name of 1 to 255 bytes is needed: %w", refusal.BadDocument)
	}
	return name, nil
}
