package jail

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// setUp is stage one: everything that needs a capability of the box's own user
// namespace. It ends by executing stage two, never by returning success. Linux
// keeps credentials per thread; so all of it stays on one thread, whose
// credentials the exec then gives to the whole process.
func setUp() int {
	runtime.LockOSThread()
	o, err := readOrder()
	if err != nil {
		return fail(at("order", "", err))
	}
	if err := prepare(o); err != nil {
		return fail(err)
	}
	fds, err := handles()
	if err != nil {
		return fail(err)
	}
	if err := tell(report{Ready: true}, fds...); err != nil {
		return 3
	}
	if err := dropAll(); err != nil {
		return fail(err)
	}
	// What the parent itself inherited without close-on-exec would otherwise
	// reach the engine: a folder among it would be a way out of the root.
	if err := unix.CloseRange(fdControl+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail(at("descriptors", "", err))
	}
	return fail(at("second exec", "", unix.Exec("/proc/self/exe", []string{roleInit}, initEnv)))
}

// initEnv is the whole environment of both stages.
var initEnv = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}

// prepare makes the box around this process.
func prepare(o order) error {
	unix.Umask(0o077)
	// Before the new /proc is mounted: with it, this file is another one.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("900"), 0); err != nil {
		return at("oom_score_adj", "", err)
	}
	// A dump piped to a handler ignores RLIMIT_CORE; without any memory segment
	// in it, it holds nothing of a page.
	if err := os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0); err != nil && !os.IsNotExist(err) {
		return at("coredump_filter", "", err)
	}
	if err := joinKeyring(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("box")); err != nil {
		return at("hostname", "", err)
	}
	if err := loopbackUp(); err != nil {
		return at("loopback", "", err)
	}
	return buildRoot(o)
}

// joinKeyring leaves the parent's session keyring. A kernel without keyrings has
// none to leave.
func joinKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // 0: a new one without a name
	if err == unix.ENOSYS {
		return nil
	}
	return at("keyring", "", err)
}

// loopbackUp brings up the only interface that there is.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// handles opens what the parent gets: the listener, and the two file folders. A
// socket stays in the network namespace where it was made, so the parent serves
// the listener from the host without anything of the host being in the box.
func handles() ([]int, error) {
	l, err := listen()
	if err != nil {
		return nil, at("listener", ProxyAddr, err)
	}
	fds := []int{l}
	for _, dir := range []string{UploadDir, DownloadDir} {
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, at("folder", dir, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// listen opens the box's one listening socket.
func listen() (int, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, err
	}
	return s, unix.Listen(s, 512)
}

// dropAll gives up every capability for good. The bounding set goes first, as
// that takes a capability; exec then finds nothing to give back.
func dropAll() error {
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // past this kernel's last one
		} else if err != nil {
			return at("bounding set", "", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return at("ambient set", "", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return at("capabilities", "", err)
	}
	return at("no_new_privs", "", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}
