// Package sourcetest starts the real servers that account sources are tested
// against: Dovecot (IMAP over TLS, STARTTLS and in clear), Radicale (CalDAV and
// CardDAV), Apache's mod_dav (WebDAV) and versitygw (S3), and a [Proxy] between a
// source and its server that hangs, cuts and garbles.
//
// Each server is started at first use and belongs to the test process: it listens
// on 127.0.0.1 on ports of its own, below a directory of its own, and a lifeline (a
// pipe that only this process holds open) ends it and removes the directory however
// the process ends, by SIGKILL too. A server that isn't installed fails the test
// and names what installs it; nothing is skipped. Each test gets a user, a
// collection or a bucket of its own.
//
// It never stands in for our own code, and simulates no protocol.
//
// Floor: test kit.
package sourcetest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// server is one running server and the pipe that keeps it alive.
type server struct {
	dir      string
	lifeline io.WriteCloser // closed by this process's end alone
}

// keep runs "$@" until standard input ends, and cleans up. A server that ends by
// itself is noticed by those who call it.
const keep = `
"$@" >>"$DIR/log" 2>&1 </dev/null &
server=$!
read -r _
kill $server
wait $server
rm -rf "$DIR"
`

// start runs the command that prepare answers below a fresh directory and waits
// until address accepts connections.
func start(name string, prepare func(dir string) (command []string, address string, err error)) (*server, error) {
	dir, err := os.MkdirTemp("", "ch"+name) // short: a socket's path has 107 bytes
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers drop root
		return nil, err
	}
	command, address, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", keep, "sh"}, command...)...)
	cmd.Env = []string{"DIR=" + dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=" + dir}
	cmd.Dir = dir
	// A session of its own: a Ctrl-C meant for the test must not reach it first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	s := &server{dir: dir}
	if s.lifeline, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return s, c.Close()
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return nil, fmt.Errorf("%s doesn't answer: %w\n%s", name, err, log)
		}
	}
}

// must answers a server or ends the test.
func must[T any](t testing.TB, s T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// need answers the path of a program, or which package has it.
func need(path, pkg string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no %s: run `make test`, or apt-get install %s", path, pkg)
	}
	return path, nil
}

// port answers a free one. Another process may take it before the server does;
// the server then fails to start, and the test with it.
func port() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// lend answers a user whom a server may run as, and their group: ourselves, or
// where we are root the first of names that there is.
func lend(names ...string) (name, group string, uid, gid int, err error) {
	who, err := user.Current()
	if err == nil && os.Getuid() == 0 {
		for _, n := range names {
			if who, err = user.Lookup(n); err == nil {
				break
			}
		}
	}
	if err != nil {
		return "", "", 0, 0, err
	}
	g, err := user.LookupGroupId(who.Gid)
	if err != nil {
		return "", "", 0, 0, err
	}
	uid, err1 := strconv.Atoi(who.Uid)
	gid, err2 := strconv.Atoi(who.Gid)
	if err1 != nil || err2 != nil {
		return "", "", 0, 0, fmt.Errorf("user %s has no numbers", who.Username)
	}
	return who.Username, g.Name, uid, gid, nil
}

// write writes files below dir, by name and text in turn.
func write(dir string, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		path := filepath.Join(dir, pairs[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(pairs[i+1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Secret writes a secret into a file of the test's and answers its path.
func Secret(t testing.TB, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
