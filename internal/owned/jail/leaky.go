//go:build chaperone_leaky

package jail

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// leakyWarning is printed for each engine that a leaky build starts.
const leakyWarning = "chaperone: THIS BUILD HAS NO BOX (chaperone_leaky). It exists to prove that the containment corpus sees leaks. Never use it."

// confining are the engine's own network bounds. They go with the box: what is
// left is a browser like any other, in which only the requests that the pipe
// lets us pause are still judged.
var confining = []string{"--proxy-server", "--proxy-bypass-list", "--host-resolver-rules", "--webrtc-ip-handling-policy", "--disable-quic"}

// run starts the engine on the host itself, with the same pipe, its listener on
// the host's own [ProxyAddr], and its folders in a temporary one. Only one such
// engine can run at a time.
func (b *Box) run(c Config) (*exec.Cmd, error) {
	if c.Engine == "" {
		return nil, errors.New("a leaky build has no box to probe")
	}
	fmt.Fprintln(os.Stderr, leakyWarning)
	dir, err := os.MkdirTemp("", "chaperone-leaky-")
	if err != nil {
		return nil, err
	}
	files, err := b.hostFolders(dir)
	if err != nil {
		return nil, errors.Join(err, closeAll(files), os.RemoveAll(dir))
	}
	args := []string{c.Engine}
	for _, arg := range c.Args {
		if !slices.ContainsFunc(confining, func(flag string) bool { return strings.HasPrefix(arg, flag) }) {
			args = append(args, strings.Replace(arg, "=/tmp/", "="+dir+"/", 1))
		}
	}
	cmd := &exec.Cmd{
		Path: c.Engine, Args: args, Dir: dir, Stderr: b.wires.theirs[3], ExtraFiles: b.wires.theirs[:2],
		Env:         []string{"HOME=" + dir + "/home", "TMPDIR=" + dir, "LANG=C.UTF-8", "TZ=UTC"},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(b.ids.uid), Gid: uint32(b.ids.gid)}
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, closeAll(files), os.RemoveAll(dir))
	}
	b.tasks.Go(func() {
		<-b.gone
		_ = os.RemoveAll(dir) // the engine's children may still be writing; a test build may leave that
	})
	return cmd, b.rise(files)
}

// hostFolders makes what a box would have: a listener and the two file folders,
// as the descriptors that its init would send.
func (b *Box) hostFolders(dir string) ([]*os.File, error) {
	for _, name := range []string{"", "profile", "home", "up", "down"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		if err := os.Chown(path, b.ids.uid, b.ids.gid); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", ProxyAddr)
	if err != nil {
		return nil, err
	}
	socket, err := l.(*net.TCPListener).File()
	files := []*os.File{socket}
	for _, name := range []string{"up", "down"} {
		f, openErr := os.Open(filepath.Join(dir, name))
		files, err = append(files, f), errors.Join(err, openErr)
	}
	return files, errors.Join(err, l.Close())
}
