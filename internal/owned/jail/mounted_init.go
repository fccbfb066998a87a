package jail

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Steps whose failure isn't the machine's.
const (
	stepSource  = "source"  // what is to be bound isn't what was judged
	stepCommand = "command" // the program can't be executed
)

const runDir = "/run"

// runMounted is the role that makes the namespace's mounts and becomes the
// command. It keeps umask, environment, streams and descriptors as they are.
func runMounted() int {
	runtime.LockOSThread() // credentials are a thread's, until the exec
	var o mountOrder
	if len(os.Args) < 3 || json.Unmarshal([]byte(os.Args[1]), &o) != nil {
		return 2
	}
	unix.CloseOnExec(o.Report)
	err := o.mount()
	if err == nil && o.Inner {
		err = dropMounting()
	}
	if err == nil {
		// From here on what is in a covered folder is seen again as it now is.
		_ = os.Chdir(o.Dir) // not allowed, or gone: then it stays where it is
		err = at(stepCommand, "", unix.Exec(o.Path, os.Args[2:], os.Environ()))
	}
	data, _ := json.Marshal(reported(err)) // strings and numbers always marshal
	if _, err := unix.Write(o.Report, data); err != nil {
		return 3
	}
	return 2
}

// mount gives the namespace a /run of its own: the host's entries bound back, and
// MountDir with the binds. The host's own /run is never written: an ordinary user
// couldn't, and after a sudden death nobody would tidy up.
func (o mountOrder) mount() error {
	// Slave: what the host mounts later is still seen; nothing from here gets out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return at("private mounts", "/", err)
	}
	// All trees are taken before /run is covered: they may lie in it.
	var trees []int
	for _, b := range o.Binds {
		tree, err := b.tree()
		if err != nil {
			return err
		}
		trees = append(trees, tree)
	}
	if err := ownRun(); err != nil {
		return err
	}
	if err := os.Mkdir(MountDir, 0o755); err != nil {
		return at("folder", MountDir, err)
	}
	if err := unix.Mount("tmpfs", MountDir, "tmpfs", tmpFlag, "mode=0755,size=64k,nr_inodes=16"); err != nil {
		return at("mount", MountDir, err)
	}
	for i, b := range o.Binds {
		if err := b.attach(trees[i]); err != nil {
			return at("bind", b.Source, err)
		}
	}
	if err := readOnlyMount(MountDir); err != nil || !o.Inner {
		return err
	}
	return readOnlyMount(runDir) // as the host's is to an ordinary user
}

// tree is a detached, read-only copy of the bind's mount.
func (b Bind) tree() (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, b.Source, &how)
	if err != nil {
		return -1, at(stepSource, b.Source, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, at(stepSource, b.Source, err)
	}
	if st.Dev != b.Device || st.Ino != b.Inode {
		return -1, at(stepSource, b.Source, unix.ESTALE)
	}
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, at("bind", b.Source, err)
	}
	attr := unix.MountAttr{Attr_set: roAttr | unix.MOUNT_ATTR_NOEXEC}
	return tree, at("bind", b.Source, unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr))
}

// attach puts the tree in its place.
func (b Bind) attach(tree int) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	target := filepath.Join(MountDir, b.Name)
	if err := mountPoint(target, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// ownRun covers /run with a file system of the namespace's own and binds the
// host's entries back. Entries that the host adds to /run itself later aren't
// seen; what appears inside of them is.
func ownRun() error {
	entries, err := os.ReadDir(runDir)
	if err != nil {
		return at("read", runDir, err)
	}
	var back []func() error
	for _, e := range entries {
		path := filepath.Join(runDir, e.Name())
		put, err := taken(path, e)
		switch {
		case path == MountDir, errors.Is(err, fs.ErrNotExist): // ours is another; this one has just gone
		case errors.Is(err, unix.EINVAL): // a mount that its maker has made unbindable
		case err != nil:
			return at("bind", path, err)
		default:
			back = append(back, put)
		}
	}
	if err := unix.Mount("tmpfs", runDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return at("mount", runDir, err)
	}
	for _, put := range back {
		if err := put(); err != nil {
			return at("bind", runDir, err)
		}
	}
	return nil
}

// taken takes hold of an entry of /run and answers what puts it back.
func taken(path string, e fs.DirEntry) (func() error, error) {
	if e.Type()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		return func() error { return os.Symlink(target, path) }, err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	return func() error {
		defer unix.Close(tree)
		if err := mountPoint(path, e.IsDir()); err != nil {
			return err
		}
		return unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}, err
}

// readOnlyMount makes one mount read-only, and none below it.
func readOnlyMount(path string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return at("read-only", path, unix.MountSetattr(unix.AT_FDCWD, path, 0, &attr))
}

// dropMounting gives up the one capability that mounting took. An ordinary user
// has none in this namespace afterwards, and no program in it can give one: its
// root isn't mapped.
func dropMounting() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return at("ambient set", "", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return at("capabilities", "", unix.Capset(&head, &none[0]))
}
