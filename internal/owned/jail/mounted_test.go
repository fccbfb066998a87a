package jail_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"
)

// bound is a bind of path as it is now.
func bound(t testing.TB, path, name string) jail.Bind {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return jail.Bind{Source: path, Name: name, Device: st.Dev, Inode: st.Ino}
}

// mounted runs a shell's script with binds, and answers how it ended and what it
// said.
func mounted(t *testing.T, script string, binds ...jail.Bind) (unix.WaitStatus, string) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "said")
	m, err := jail.Command{Binds: binds, Path: "/bin/sh", Args: []string{"sh", "-c", "exec >'" + said + "' 2>&1\n" + script}, Env: os.Environ()}.Start()
	if err != nil {
		t.Fatal(err)
	}
	status, err := m.Wait()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	return status, string(data)
}

func TestMountedIsSeenInsideAlone(t *testing.T) {
	dir, before := t.TempDir(), entries(t, "/run")
	if err := os.WriteFile(dir+"/early", []byte("early\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, said := mounted(t, `
cat /run/chaperone/seen/early
echo late >'`+dir+`/late'; cat /run/chaperone/seen/late
( : >/run/chaperone/seen/early ) 2>/dev/null || echo "can't write"
rm -f /run/chaperone/seen/early 2>/dev/null || echo "can't remove"
( : >/run/chaperone/other ) 2>/dev/null || echo "can't add"
mv /run/chaperone /run/away 2>/dev/null || echo "can't move"
test "$(ls /run | grep -vx chaperone)" = '`+strings.Join(before, "\n")+`' && echo "the same"
test "$(id -u)" = `+fmt.Sprint(os.Geteuid())+` && echo "the same user"
exit 23`, bound(t, dir, "seen"))
	want := "early\nlate\ncan't write\ncan't remove\ncan't add\ncan't move\nthe same\nthe same user\n"
	if said != want || status.ExitStatus() != 23 {
		t.Errorf("exit %d, said %q", status.ExitStatus(), said)
	}
	if after := entries(t, "/run"); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("the host's /run is %v, and was %v", after, before)
	}
}

func entries(t testing.TB, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if e.Name() != filepath.Base(jail.MountDir) {
			names = append(names, e.Name())
		}
	}
	return names
}

// An ordinary user can't take the mount away, not as the root of another
// namespace either.
func TestMountedStays(t *testing.T) {
	if os.Geteuid() == 0 {
		return // root can do anything to its own machine
	}
	dir := t.TempDir()
	_, said := mounted(t, `
grep CapPrm /proc/self/status
unshare -rm umount /run/chaperone/seen 2>/dev/null || echo "can't unmount"
unshare -rm mount -o remount,bind,rw /run/chaperone/seen 2>/dev/null || echo "can't remount"
unshare -rm umount /run 2>/dev/null || echo "can't uncover"`, bound(t, dir, "seen"))
	if want := "CapPrm:\t0000000000000000\ncan't unmount\ncan't remount\ncan't uncover\n"; said != want {
		t.Errorf("said %q", said)
	}
}

// A socket is connected to through the mount, however long its own path is, and
// each end sees the other's user as it is. A file and a socket can be bound alone.
func TestMountedSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/sock", folder.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	self, whole, alone := publicCopy(t), bound(t, dir, "seen"), bound(t, dir+"/sock", "sock")
	for _, path := range []string{"/run/chaperone/seen/sock", "/run/chaperone/sock"} {
		peer := make(chan uint32, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			raw, _ := conn.(*net.UnixConn).SyscallConn()
			raw.Control(func(fd uintptr) {
				if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					peer <- cred.Uid
				}
			})
		}()
		_, said := mounted(t, self+" host peer "+path, whole, alone)
		if want := fmt.Sprintf("peer %d\n", os.Geteuid()); said != want {
			t.Errorf("%s: said %q, want %q", path, said, want)
		}
		select {
		case uid := <-peer:
			if uid != uint32(os.Geteuid()) {
				t.Errorf("%s: the peer is uid %d", path, uid)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody came", path)
		}
	}
}

// tellPeer connects and says who listens.
func tellPeer(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		must(err)
		fmt.Println("peer", cred.Uid)
	})
}

func TestMountedRefusals(t *testing.T) {
	dir := t.TempDir()
	was := bound(t, dir, "seen")
	start := func(path string, b jail.Bind) error {
		m, err := jail.Command{Binds: []jail.Bind{b}, Path: path, Args: []string{path}}.Start()
		if err == nil {
			m.Wait()
		}
		return err
	}
	var bad *exec.Error
	if err := start(dir+"/none", was); !errors.As(err, &bad) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("no program: %v", err)
	}
	if err := start(dir, was); !errors.As(err, &bad) || !errors.Is(err, unix.EACCES) {
		t.Errorf("a folder: %v", err)
	}
	other := was
	other.Inode++
	if err := start("/bin/true", other); !errors.Is(err, unix.ESTALE) || errors.Is(err, refusal.PrerequisiteMissing) {
		t.Errorf("another folder: %v", err)
	}
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	other = was
	other.Source = dir + "/link"
	if err := start("/bin/true", other); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

// The command dies with whoever started it, and its mounts with it.
func TestMountedDiesWithItsParent(t *testing.T) {
	host, _, pid := startHost(t, nil, "mounted", t.TempDir(), "/bin/sleep", "3600")
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil || !strings.Contains(string(mounts), " /run/chaperone/seen ro,") {
		t.Fatalf("%v: %s", err, mounts)
	}
	host.Process.Kill()
	waitGone(t, []int{pid})
}

// A command that stops stops its parent too, and both go on together.
func TestMountedStops(t *testing.T) {
	dir := t.TempDir()
	// Not before the host has told its pid, since it stops with the command.
	script := "until test -e /run/chaperone/seen/go; do sleep 0.01; done; kill -STOP $$; exit 5"
	host, r, pid := startHost(t, nil, "mounted", dir, "/bin/sh", "-c", script)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitState(t, pid, 'T')
	waitState(t, host.Process.Pid, 'T')
	if err := host.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); line != "exit 5\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func waitState(t *testing.T, pid int, state byte) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if s := status(pid)["State"]; s != "" && s[0] == state {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("process %d is %q, want %c", pid, status(pid)["State"], state)
		}
	}
}

// A kernel that gives an ordinary user no namespace is told as doctor tells it.
func TestMountedNamesTheCause(t *testing.T) {
	me := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	cmd := exec.Command(publicCopy(t), "host", "mounted-broken", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: me, GidMappings: group}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "seccomp") {
		t.Errorf("%v %s", err, out)
	}
}

// hostMounted runs a command with dir mounted, says so, and how it ended.
func hostMounted(dir string, args ...string) error {
	var st unix.Stat_t
	must(unix.Lstat(dir, &st))
	m, err := jail.Command{Binds: []jail.Bind{{Source: dir, Name: "seen", Device: st.Dev, Inode: st.Ino}}, Path: args[0], Args: args}.Start()
	if err != nil {
		return err
	}
	fmt.Println("pid", tree(os.Getpid())[1])
	status, err := m.Wait()
	fmt.Println("exit", status.ExitStatus())
	return err
}
