package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/host"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
)

// registrationsName is the mounted directory's name; clients know no other.
const registrationsName = "browser-runs"

// spot is something of the host that was judged fit to be mounted.
type spot struct {
	path string // absolute, free of symbolic links
	name string // below jail.MountDir
	stat unix.Stat_t
}

func (p spot) bind() jail.Bind {
	return jail.Bind{Source: p.path, Name: p.name, Device: p.stat.Dev, Inode: p.stat.Ino}
}

// registrationsAt judges a directory of registrations.
func registrationsAt(path, home string) ([]spot, error) {
	bad := func(why string, args ...any) ([]spot, error) {
		return nil, fmt.Errorf("registrations directory %s %s", path, fmt.Sprintf(why, args...))
	}
	p, err := settle(path, registrationsName)
	if err != nil {
		return nil, fmt.Errorf("registrations directory %w", err)
	}
	switch {
	case p.kind() != unix.S_IFDIR:
		return bad("is no directory: mkdir -m 700 another one")
	case p.stat.Mode&0o7777 != 0o700:
		return bad("has mode %04o, and must have 0700: chmod 700 %s", p.stat.Mode&0o7777, path)
	case holds(p.path, filepath.Join(home, "run")):
		return bad("is or holds the home's own run/ (%s): name a directory of its own, such as %s",
			filepath.Join(home, "run"), filepath.Join(home, "run", registrationsName))
	}
	entries, err := os.ReadDir(p.path)
	if err != nil {
		return nil, cantRead("registrations directory", path, err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			return bad("holds a symbolic link (%s), which no host makes: look at it and remove it", printable(e.Name()))
		}
	}
	return []spot{p}, nil
}

// descriptorAt judges a static descriptor and the socket beside it.
func descriptorAt(path, home, engagement string) ([]spot, error) {
	bad := func(why string, args ...any) ([]spot, error) {
		return nil, fmt.Errorf("descriptor %s %s", path, fmt.Sprintf(why, args...))
	}
	file, err := settle(path, host.DescriptorName)
	if err != nil {
		return nil, fmt.Errorf("descriptor %w", err)
	}
	folder := filepath.Dir(file.path)
	switch run := filepath.Join(home, "run"); {
	case file.kind() != unix.S_IFREG:
		return bad("is no regular file: name the browser.json that a host has published")
	case !same(folder, run):
		return bad("isn't directly in %s: only there does --browser-descriptor take one; for a directory of runs use --browser-registrations", run)
	case file.stat.Mode&0o077 != 0:
		return bad("has mode %04o and is open to others: its credential must be taken as known; start the run again", file.stat.Mode&0o7777)
	}
	socket, err := settle(filepath.Join(folder, host.SocketName), host.SocketName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the descriptor's socket %w", err)
	case socket.kind() != unix.S_IFSOCK:
		return bad("has no socket beside it: %s is something else; start the run again", socket.path)
	case socket.stat.Uid != file.stat.Uid:
		return bad("belongs to uid %d and the socket beside it to uid %d: start the run again", file.stat.Uid, socket.stat.Uid)
	}
	d, err := file.descriptor()
	switch {
	case err != nil:
		return bad("can't be used: %v", err)
	case d.Transport != ownedv1.TransportUnix:
		return bad("has transport loopback, which no mount carries: start the host with --transport unix")
	case d.EngagementID != engagement:
		return bad("is for another engagement than --engagement %s", engagement)
	}
	return []spot{file, socket}, nil
}

// descriptor reads the file that was judged, and none that took its place.
func (p spot) descriptor() (d ownedv1.Descriptor, err error) {
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return d, err
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d, err
	}
	if st.Dev != p.stat.Dev || st.Ino != p.stat.Ino {
		return d, errors.New("it was replaced just now: try again")
	}
	const most = 64 << 10 // a descriptor has some 500 bytes
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return d, err
	}
	return ownedv1.DecodeDescriptor(data, time.Now())
}

func (p spot) kind() uint32 { return p.stat.Mode & unix.S_IFMT }

// settle finds what path leads to, and refuses a way there that another user
// could turn: a folder above that others may write in, or a symbolic link of
// theirs. What it leads to must be one's own (anybody's, to root), and no link.
func settle(path, name string) (spot, error) {
	p := spot{name: name}
	bad := func(why string, args ...any) (spot, error) {
		return p, fmt.Errorf("%s %s", path, fmt.Sprintf(why, args...))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return p, err
	}
	switch err := unix.Lstat(abs, &p.stat); {
	case errors.Is(err, unix.ENOENT) && name == registrationsName:
		return bad("doesn't exist: mkdir -p -m 700 %s", path)
	case errors.Is(err, unix.ENOENT):
		return bad("doesn't exist: start the host first")
	case err != nil:
		return bad("can't be reached (%v)", err)
	case p.kind() == unix.S_IFLNK:
		return bad("is a symbolic link: name what it leads to")
	}
	me := uint32(os.Geteuid())
	if me != 0 && p.stat.Uid != me {
		return bad("belongs to uid %d, not to you (uid %d)", p.stat.Uid, me)
	}
	trusted := func(uid uint32) bool { return uid == 0 || uid == me || me == 0 && uid == p.stat.Uid }
	if p.path, err = walk(abs, trusted); err != nil {
		return bad("can be swapped by others: %v", err)
	}
	was := p.stat
	if err := unix.Lstat(p.path, &p.stat); err != nil || p.stat.Dev != was.Dev || p.stat.Ino != was.Ino {
		return bad("was moved just now: try again")
	}
	return p, nil
}

// walk follows path step by step and answers it without symbolic links.
func walk(path string, trusted func(uid uint32) bool) (string, error) {
	at, todo := "/", strings.Split(strings.Trim(path, "/"), "/")
	for links := 0; len(todo) > 0; {
		var dir, step unix.Stat_t
		next := filepath.Join(at, todo[0])
		todo = todo[1:]
		if err := errors.Join(unix.Stat(at, &dir), unix.Lstat(next, &step)); err != nil {
			return "", fmt.Errorf("%s can't be looked at (%w)", next, err)
		}
		switch {
		case !trusted(dir.Uid):
			return "", fmt.Errorf("%s belongs to uid %d: use a path where each folder is yours or root's", at, dir.Uid)
		case dir.Mode&0o022 != 0 && dir.Mode&unix.S_ISVTX == 0:
			return "", fmt.Errorf("%s has mode %04o: chmod go-w it, or use another path", at, dir.Mode&0o7777)
		case dir.Mode&0o022 != 0 && !trusted(step.Uid): // a sticky folder keeps one's own
			return "", fmt.Errorf("%s belongs to uid %d: use a path where each folder is yours or root's", next, step.Uid)
		case step.Mode&unix.S_IFMT != unix.S_IFLNK:
			at = next
			continue
		case !trusted(step.Uid):
			return "", fmt.Errorf("the symbolic link %s belongs to uid %d: name what it leads to", next, step.Uid)
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > 40 {
			return "", fmt.Errorf("%s leads nowhere", next)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		// Not cleaned: what is behind a link of the target decides where .. leads.
		todo = append(strings.FieldsFunc(target, func(r rune) bool { return r == '/' }), todo...)
	}
	return at, nil
}

// holds tells whether inner is outer or lies below it, under whatever names.
// Of an inner that doesn't exist, the part that does decides.
func holds(outer, inner string) bool {
	abs, err := filepath.Abs(inner)
	if err != nil {
		return true // the present folder is gone: nothing can be told apart
	}
	for at := unlinked(abs); ; at = filepath.Dir(at) {
		if same(outer, at) {
			return true
		}
		if at == "/" {
			return false
		}
	}
}

// unlinked is the absolute path without symbolic links, as far as it exists.
func unlinked(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil || path == "/" {
		return found
	}
	return filepath.Join(unlinked(filepath.Dir(path)), filepath.Base(path))
}

// same tells whether both names lead to the same file.
func same(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	bt, err := os.Stat(b)
	return err == nil && os.SameFile(at, bt)
}

// apart refuses a spot that whoever sees dir would see too.
func apart(spots []spot, what, dir string) error {
	for _, p := range spots {
		if holds(dir, p.path) || holds(p.path, dir) {
			return fmt.Errorf("%s and %s overlap: whoever works there would read the credentials; use a directory outside of it", p.path, what)
		}
	}
	return nil
}
