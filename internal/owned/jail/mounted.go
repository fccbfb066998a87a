package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// MountDir is where a command that was started with [Command.Start] finds what
// was bound for it, and the only place where clients look for a browser.
const MountDir = "/run/chaperone"

// Bind is a file, a socket or a folder of the host that a command sees read-only.
type Bind struct {
	Source string // absolute, without a symbolic link in it
	Name   string // below MountDir
	Device uint64 // with Inode: what was judged. What has its name by then …
	Inode  uint64 // … must still be that, or nothing is started.
}

// Command is a program of the host, with all its rights but one view of its own:
// a mount namespace in which MountDir holds the binds. It is no box, and contains
// nothing: it keeps registrations from being mounted anywhere else.
type Command struct {
	Binds []Bind
	Path  string   // the executable; relative ones are of the present folder
	Args  []string // argv, with argv[0]
	Env   []string
}

// Mounted is a command that runs. It has this process's standard streams,
// session, process group and inherited descriptors. As its namespace lives with
// it, nothing is left of the mounts when the last process in there has ended; the
// command itself dies with this process.
type Mounted struct {
	pid, pidfd int
	ended      chan struct{}
	status     unix.WaitStatus // set, with err, before ended is closed
	err        error
}

// mountOrder is what the parent asks of the role; it is no secret, and so it
// travels as an argument.
type mountOrder struct {
	Binds  []Bind `json:"binds"`
	Path   string `json:"path"`
	Dir    string `json:"dir"`    // the present folder, found again below the new mounts
	Report int    `json:"report"` // the descriptor on which a failure is told
	Inner  bool   `json:"inner"`  // in a user namespace of its own
}

// Start starts the command and returns when it is being executed. A kernel that
// forbids the namespaces is a [Missing], a program that can't be executed an
// [exec.Error].
func (c Command) Start() (*Mounted, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m := &Mounted{ended: make(chan struct{})}
	forked := make(chan error)
	go m.live(c, w, forked)
	if err := errors.Join(<-forked, w.Close()); err != nil {
		return nil, diagnose(at("clone", "", err))
	}
	// Empty when the exec has closed the other end.
	data, err := io.ReadAll(io.LimitReader(r, maxOrder))
	if err == nil && len(data) == 0 {
		return m, nil
	}
	_, werr := m.Wait()
	var told report
	if err = errors.Join(err, werr, json.Unmarshal(data, &told)); err != nil {
		return nil, err
	}
	return nil, c.refused(told)
}

// refused is the role's failure as its caller's error.
func (c Command) refused(r report) error {
	switch err := r.fault(); r.Step {
	case stepCommand:
		return &exec.Error{Name: c.Args[0], Err: unix.Errno(r.Errno)}
	case stepSource:
		return fmt.Errorf("%s was replaced or taken away while it was mounted: %w", r.Path, unix.Errno(r.Errno))
	default:
		return diagnose(err)
	}
}

// live forks and waits on one thread, which the death signal follows.
func (m *Mounted) live(c Command, report *os.File, forked chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	err := m.fork(c, int(report.Fd()))
	forked <- err
	if err == nil {
		m.follow()
	}
}

func (m *Mounted) fork(c Command, report int) error {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // it was removed; a command may well be started from nowhere
	}
	inner := os.Geteuid() != 0
	order, err := json.Marshal(mountOrder{c.Binds, c.Path, dir, report, inner})
	if err != nil {
		return err
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, PidFD: &m.pidfd}
	if inner {
		// Mapped to itself, so that files and peers see the same user as before.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	m.pid, err = syscall.ForkExec("/proc/self/exe", append([]string{roleMounted, string(order)}, c.Args...),
		&syscall.ProcAttr{Env: c.Env, Files: passed(report), Sys: attr})
	return err
}

// passed lists the descriptors that the command inherits: all that this process
// inherited itself, at their own numbers, and until its exec the report's.
func passed(report int) []uintptr {
	files := make([]uintptr, report+1)
	for fd := range files {
		files[fd] = uintptr(fd)
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd != report && (err != nil || flags&unix.FD_CLOEXEC != 0) {
			files[fd] = ^uintptr(0) // none
		}
	}
	return files
}

// follow waits for the command's end. A command that stops stops this process
// too, as whoever waits here has to learn of it; what wakes this one wakes both.
func (m *Mounted) follow() {
	defer close(m.ended)
	for {
		_, m.err = unix.Wait4(m.pid, &m.status, unix.WUNTRACED, nil)
		switch {
		case m.err == unix.EINTR:
		case m.err == nil && m.status.Stopped():
			_ = unix.Kill(unix.Getpid(), unix.SIGSTOP) // one's own process can always be told
			_ = m.Signal(unix.SIGCONT)                 // or it has ended, which the next turn tells
		default:
			return
		}
	}
}

// Signal sends sig to the command; one that has ended can't be told anything.
func (m *Mounted) Signal(sig unix.Signal) error {
	return unix.PidfdSendSignal(m.pidfd, sig, nil, 0)
}

// Wait waits for the command's end and answers how it was. It is called once.
func (m *Mounted) Wait() (unix.WaitStatus, error) {
	<-m.ended
	return m.status, errors.Join(m.err, unix.Close(m.pidfd))
}
