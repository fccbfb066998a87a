package runsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/ownedv1"
)

// UnixAuthority is the Host header of a run with a Unix socket. It is no place in
// any network.
var UnixAuthority = strings.TrimPrefix(ownedv1.UnixEndpoint, "http://")

// ListenUnix binds the socket called name in the open folder dir, mode 0600. It
// goes through the folder's descriptor: the path's own length doesn't matter,
// and nobody can put another folder in its place. Each connection's peer is
// checked: it must be this process's user, or root.
func ListenUnix(dir *os.File, name string) (net.Listener, error) {
	path := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + name
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("the run's socket: %w", err)
	}
	// Go would unlink a path that leads elsewhere once the descriptor is closed;
	// whoever owns the folder removes the socket.
	l.SetUnlinkOnClose(false)
	if err := unix.Fchmodat(int(dir.Fd()), name, 0o600, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("the run's socket: %w", err), l.Close())
	}
	return &ownListener{l, uint32(os.Geteuid())}, nil
}

// ListenLoopback binds a free port of 127.0.0.1 and answers its authority.
func ListenLoopback() (l net.Listener, authority string, err error) {
	l, err = net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("a loopback port: %w", err)
	}
	return l, l.Addr().String(), nil
}

// ownListener accepts the connections of one user, and of root.
type ownListener struct {
	*net.UnixListener
	uid uint32
}

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		if err == nil && (uid == l.uid || uid == 0) {
			return conn, nil
		}
		// A stranger gets no answer, and can't end the listener.
		conn.Close()
	}
}

// peer answers who is at the other end, as the kernel knows it.
func peer(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
