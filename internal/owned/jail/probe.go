package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"chaperone/internal/refusal"

	"golang.org/x/sys/unix"
)

// Missing is something that this machine lacks. It wraps
// refusal.PrerequisiteMissing.
type Missing struct {
	What string // what can't be done, and which setting stands in the way
	Mend string // the command, or the file to install, that mends it
	Err  error  // what the kernel said; may be nil
}

func (m *Missing) Error() string {
	text := m.What
	if m.Err != nil {
		text += " (" + m.Err.Error() + ")"
	}
	return text + "; mend it with: " + m.Mend
}

func (m *Missing) Unwrap() []error { return []error{refusal.PrerequisiteMissing, m.Err} }

// probeTime bounds a probe on a machine that is very busy.
const probeTime = 30 * time.Second

// Probe builds a box, with all that one has but an engine, and takes it down. Its
// error is a [Missing] that names the kernel's setting and the command to mend it.
func Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	b, err := start(ctx, Config{})
	if err != nil {
		return err
	}
	select {
	case <-b.Done():
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), b.Close())
	}
	b.mu.Lock()
	exit := b.last.Exit
	b.mu.Unlock()
	err = b.wires.pipe.Close()
	if exit == probed {
		return err
	}
	return errors.Join(b.Err(), err)
}

// probed is the exit that a probe's init reports when every step was done.
const probed = "probe"

// supported checks what the parent's own side needs.
func supported() error {
	// Without these files the watchdog would see the init alone and bound nothing.
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return &Missing{What: "this kernel doesn't tell a process's children (CONFIG_PROC_CHILDREN)", Mend: newKernel, Err: err}
	}
	// Stage one runs as another user and without any right over files.
	info, err := os.Stat("/proc/self/exe")
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 || info.Mode().Perm()&0o005 == 0o005 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return &Missing{What: "this program can't be executed by another user, and a box has a user of its own", Mend: "chmod o+rx " + self}
}

// newKernel is the command where the kernel itself is the cause.
const newKernel = "apt-get install -y linux-image-amd64, then reboot into it (5.14 or newer)"

// fault is what the init reported.
func (r report) fault() error {
	if r.Errno == 0 {
		return at(r.Step, r.Path, errors.New("failed"))
	}
	return at(r.Step, r.Path, unix.Errno(r.Errno))
}

// diagnose turns a failed step into what the machine lacks. The kernel says only
// EPERM for most; which setting it was has to be looked up.
func diagnose(err error) error {
	if err == nil {
		return nil
	}
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	m := &Missing{Err: err}
	switch {
	case f.step == "engine":
		m.What = "the engine can't be executed in a box"
		m.Mend = installEngine
	case setting("kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		m.What = "kernel.unprivileged_userns_clone is 0: an ordinary user can't make a user namespace"
		m.Mend = "sysctl -w kernel.unprivileged_userns_clone=1"
	case setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		m.What = "kernel.apparmor_restrict_unprivileged_userns is 1: only programs with an AppArmor profile get a user namespace"
		m.Mend = AppArmorMend
	case exhausted() != "":
		name := exhausted()
		m.What = name + " is 0: no namespace of that kind can be made"
		m.Mend = "sysctl -w " + name + "=15000"
	case f.step == "mount" && f.path == "/proc":
		m.What = "the kernel refuses a fresh /proc, because parts of this one are masked, as container runtimes do; the owned wing isn't supported in containers"
		m.Mend = "run chaperone on the host or in a virtual machine"
	case filtered() && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)):
		m.What = "a seccomp policy around this process forbids namespaces or mounts, as container runtimes do; the owned wing isn't supported in containers"
		m.Mend = "run chaperone on the host or in a virtual machine"
	case errors.Is(err, unix.ENOSYS):
		m.What = "this kernel is too old for a box"
		m.Mend = newKernel
	default:
		m.What = "the kernel refuses a step of building the box"
		m.Mend = "chaperone doctor"
	}
	return m
}

// setting reads one value below /proc/sys, "" where there is none.
func setting(name string) string {
	data, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// exhausted names the namespace limit that is 0, if one is.
func exhausted() string {
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if setting("user/max_"+kind+"_namespaces") == "0" {
			return "user.max_" + kind + "_namespaces"
		}
	}
	return ""
}

// filtered says whether this process already runs under a seccomp filter.
func filtered() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && field(status, "Seccomp:") == 2
}

// AppArmorProfile is the profile that lets this program make boxes where
// kernel.apparmor_restrict_unprivileged_userns is 1, for the program and engine
// at these paths. Both only gain the right to make user namespaces.
func AppArmorProfile(self, engine string) string {
	return fmt.Sprintf(`abi <abi/4.0>,
include <tunables/global>

profile chaperone %s flags=(unconfined) {
  userns,
}

profile chaperone-engine %s flags=(unconfined) {
  userns,
}
`, self, engine)
}

// AppArmorMend is the command that installs the profile.
const AppArmorMend = "chaperone doctor --apparmor | sudo tee /etc/apparmor.d/chaperone >/dev/null && sudo apparmor_parser -r /etc/apparmor.d/chaperone"
