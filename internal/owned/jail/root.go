package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stagingDir is where the new root is built. It only has to exist on every host
// and to hold nothing that is bound from it: /tmp may hold the engine, /dev holds
// the devices, and covering /proc would make the kernel refuse a fresh one.
const stagingDir = "/sys"

// engineDir is where the engine's folder appears when it isn't below readOnly.
const engineDir = "/engine"

// readOnly is all of the host that a box can read: libraries, locale and font
// data. There is no shell and no interpreter in it, no /etc/passwd, no
// resolv.conf, no /run.
var readOnly = []string{
	"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/share", "/usr/local/share/fonts",
	"/etc/fonts", "/etc/ld.so.cache", "/var/cache/fontconfig",
}

// merged are links into /usr, or folders where a distribution hasn't merged them.
var merged = []string{"/lib", "/lib32", "/lib64", "/libx32"}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

const (
	roAttr  = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	devAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	tmpFlag = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
)

// enginePath answers where the engine stands inside the box.
func enginePath(engine string) string {
	for _, dir := range readOnly {
		if strings.HasPrefix(engine, dir+"/") {
			return engine
		}
	}
	return engineDir + "/" + filepath.Base(engine)
}

// buildRoot builds the box's root and makes it this process's only one. Where
// chroot would leave the old root in reach, and would stop Chromium from making
// its own sandbox, pivot_root takes it away.
func buildRoot(o order) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return at("private mounts", "/", err)
	}
	if err := unix.Mount("tmpfs", stagingDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m,nr_inodes=512"); err != nil {
		return at("root", stagingDir, err)
	}
	if err := bindHost(o); err != nil {
		return err
	}
	if err := mountOwn(o.Limits); err != nil {
		return err
	}
	if err := os.Chdir(stagingDir); err != nil {
		return at("root", stagingDir, err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return at("pivot_root", "", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return at("old root", "", err)
	}
	if err := os.Chdir("/"); err != nil {
		return at("root", "/", err)
	}
	ro := unix.MountAttr{Attr_set: roAttr}
	return at("read-only root", "/", unix.MountSetattr(unix.AT_FDCWD, "/", 0, &ro))
}

// bindHost binds what is read from the host.
func bindHost(o order) error {
	for _, path := range readOnly {
		if err := bind(path, path, roAttr); err != nil && !os.IsNotExist(err) {
			return at("bind", path, err)
		}
	}
	for _, path := range merged {
		if err := mirror(path); err != nil && !os.IsNotExist(err) {
			return at("bind", path, err)
		}
	}
	for _, path := range devices {
		if err := bind(path, path, devAttr); err != nil {
			return at("device", path, err)
		}
	}
	return at("engine", o.Engine, bindEngine(o.Engine))
}

// bindEngine binds an engine from elsewhere: the folder of a Chromium, which has
// its resources beside it, and else the program alone. A folder is never bound on
// the word of a path only: it might be somebody's home.
func bindEngine(engine string) error {
	if engine == "" || enginePath(engine) == engine {
		return nil
	}
	dir := filepath.Dir(engine)
	if _, err := os.Stat(filepath.Join(dir, "icudtl.dat")); err == nil && dir != "/" {
		return bind(dir, engineDir, roAttr)
	}
	return bind(engine, enginePath(engine), roAttr)
}

// mirror copies a top-level link, or binds the folder that stands there.
func mirror(path string) error {
	if target, err := os.Readlink(path); err == nil {
		return os.Symlink(target, stagingDir+path)
	}
	return bind(path, path, roAttr)
}

// bind binds src at dst of the new root with at least the attributes given.
// Recursion isn't a choice: the kernel doesn't let a user namespace uncover what
// is below another mount.
func bind(src, dst string, attr uint64) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	dst = stagingDir + dst
	if err := mountPoint(dst, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(src, dst, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, dst, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr})
}

// mountPoint makes a folder or an empty file to mount over.
func mountPoint(path string, dir bool) error {
	if dir {
		return mkdirAll(path)
	}
	if err := mkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// mkdirAll makes folders that everyone in the box can pass, whatever the umask.
func mkdirAll(path string) error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	return os.MkdirAll(path, 0o755)
}

// mountOwn mounts what is the box's alone. All that can be written is sized, in
// memory, not executable, and gone with the mount namespace.
func mountOwn(l Limits) error {
	tmp := fmt.Sprintf("mode=0700,size=%d,nr_inodes=65536", l.TmpBytes)
	shm := fmt.Sprintf("mode=0700,size=%d,nr_inodes=16384", l.ShmBytes)
	for _, m := range []struct{ kind, path, data string }{
		{"proc", "/proc", ""}, {"tmpfs", "/tmp", tmp}, {"tmpfs", "/dev/shm", shm},
	} {
		if err := mkdirAll(stagingDir + m.path); err != nil {
			return at("mount", m.path, err)
		}
		if err := unix.Mount(m.kind, stagingDir+m.path, m.kind, tmpFlag, m.data); err != nil {
			return at("mount", m.path, err)
		}
	}
	if err := os.Symlink("/proc/self/fd", stagingDir+"/dev/fd"); err != nil {
		return at("mount", "/dev/fd", err)
	}
	for _, dir := range []string{ProfileDir, HomeDir, UploadDir, DownloadDir} {
		if err := os.Mkdir(stagingDir+dir, 0o700); err != nil {
			return at("folder", dir, err)
		}
	}
	return nil
}
