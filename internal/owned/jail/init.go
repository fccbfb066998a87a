package jail

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// engineEnv is the engine's whole environment. A page that could read it (file:
// is denied, but one wall is none) would learn nothing.
var engineEnv = []string{"HOME=" + HomeDir, "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC"}

// runInit is stage two and PID 1 of the box.
func runInit() int {
	o, err := readOrder()
	if err != nil {
		return fail(at("order", "", err))
	}
	unix.CloseOnExec(fdControl)
	if err := confine(o.Limits); err != nil {
		return fail(err)
	}
	if o.Engine == "" { // only a probe: getting here is the answer
		return told(report{Exit: probed})
	}
	path := enginePath(o.Engine)
	pid, err := syscall.ForkExec(path, append([]string{path}, o.Args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   engineEnv,
		Files: []uintptr{0, 1, 2, fdCommands, fdAnswers},
	})
	if err != nil {
		return fail(at("engine", o.Engine, err))
	}
	// Ours to close: only the engine's end must keep the pipes open.
	unix.Close(fdCommands)
	unix.Close(fdAnswers)
	go followLifeline()
	return told(reap(pid))
}

// told sends the last report and answers the exit status.
func told(r report) int {
	if tell(r) != nil {
		return 3
	}
	return 0
}

// followLifeline ends the box when the parent is gone. It lives as long as the
// process and needs nobody to wait for it.
func followLifeline() {
	var b [1]byte
	for {
		n, err := unix.Read(fdControl, b[:])
		if err == unix.EINTR || n > 0 {
			continue
		}
		os.Exit(4)
	}
}

// reap collects every child of the box until the engine itself has ended, and
// says how that was.
func reap(engine int) report {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return report{Exit: err.Error()}
		case pid != engine:
		case status.Signaled():
			sig := status.Signal()
			return report{
				Exit: fmt.Sprintf("killed by signal %d (%v)", sig, sig),
				Over: sig == unix.SIGXCPU || sig == unix.SIGXFSZ,
			}
		case status.Exited():
			return report{Exit: fmt.Sprintf("exit status %d", status.ExitStatus())}
		}
	}
}

// confine makes this process, and all that it starts, what section 5 asks for:
// it checks that stage one's drop took, then sets limits and filter.
func confine(l Limits) error {
	if err := checkDropped(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return at("death signal", "", err)
	}
	// The engine shares this uid; it must not look into the process that holds
	// the lifeline. Its own exec makes the engine dumpable (to itself) again.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return at("dumpable", "", err)
	}
	if err := setLimits(l); err != nil {
		return err
	}
	return at("seccomp", "", installFilter())
}

// checkDropped refuses to go on with any privilege left.
func checkDropped() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return at("capabilities", "", err)
	}
	if caps != [2]unix.CapUserData{} {
		return at("capabilities", "", unix.EPERM)
	}
	on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err == nil && on != 1 {
		err = unix.EPERM
	}
	return at("no_new_privs", "", err)
}

// setLimits sets the limits of each process. RLIMIT_AS isn't among them: V8
// reserves more address space than any useful limit.
func setLimits(l Limits) error {
	seconds := uint64(l.CPU.Seconds() + 1)
	for _, r := range []struct {
		name string
		kind int
		max  uint64
	}{
		{"RLIMIT_CORE", unix.RLIMIT_CORE, 0},
		{"RLIMIT_DATA", unix.RLIMIT_DATA, uint64(l.ProcessBytes)},
		{"RLIMIT_FSIZE", unix.RLIMIT_FSIZE, uint64(l.FileBytes)},
		{"RLIMIT_NPROC", unix.RLIMIT_NPROC, uint64(l.Processes)},
		{"RLIMIT_NOFILE", unix.RLIMIT_NOFILE, uint64(l.Files)},
		{"RLIMIT_CPU", unix.RLIMIT_CPU, seconds},
		{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, 64 << 10},
		{"RLIMIT_MSGQUEUE", unix.RLIMIT_MSGQUEUE, 0},
	} {
		if err := lowerLimit(r.kind, r.max); err != nil {
			return at("limit", r.name, err)
		}
	}
	return nil
}

// lowerLimit sets both limits to max, or keeps the hard one that is lower already.
func lowerLimit(kind int, max uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(kind, &now); err != nil {
		return err
	}
	max = min(max, now.Max)
	return unix.Setrlimit(kind, &unix.Rlimit{Cur: max, Max: max})
}
