package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Holder names the process that holds a run so exactly that a later process can
// tell whether it is gone: a pid alone is used again.
type Holder struct {
	Machine   string // another machine's processes can't be judged
	Boot      string // the kernel's boot id
	Namespace string // the pid namespace; another's processes can't be seen
	PID       int
	Start     string // the process's start, in the kernel's ticks since boot
}

// Self answers the calling process.
func Self() (Holder, error) {
	machine, err := machine()
	if err != nil {
		return Holder{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Holder{}, fmt.Errorf("this machine's boot id: %w", err)
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return Holder{}, fmt.Errorf("this process's pid namespace: %w", err)
	}
	start, err := started(os.Getpid())
	if err != nil {
		return Holder{}, fmt.Errorf("this process's start time: %w", err)
	}
	return Holder{machine, string(bytes.TrimSpace(boot)), pids, os.Getpid(), start}, nil
}

// machine answers what tells one machine from another: its id, where it has one,
// and its name, since images are cloned with their id.
func machine() (string, error) {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("this machine's id: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this machine's name: %w", err)
	}
	return string(bytes.TrimSpace(id)) + "@" + name, nil
}

// Gone tells whether h certainly doesn't live any more, as seen from self. A
// process of another machine or container is never called gone.
func (h Holder) Gone(self Holder) bool {
	switch {
	case h.Machine != self.Machine:
		return false
	case h.Boot != self.Boot:
		return true
	case h.Namespace != self.Namespace:
		return false
	}
	start, err := started(h.PID)
	return errors.Is(err, fs.ErrNotExist) || err == nil && start != h.Start
}

// started answers field 22 of /proc/PID/stat. The process's name before it may
// hold spaces and brackets, so fields are counted from the last bracket. A zombie
// runs no code and counts as gone.
func started(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has no start time", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", fs.ErrNotExist
	}
	return fields[19], nil
}

// String is the form that is stored.
func (h Holder) String() string {
	return fmt.Sprintf("%s %s %s %d %s", h.Machine, h.Boot, h.Namespace, h.PID, h.Start)
}

// ParseHolder reads what String wrote.
func ParseHolder(s string) (Holder, error) {
	f := strings.Fields(s)
	if len(f) != 5 {
		return Holder{}, fmt.Errorf("stored holder of a run has %d words, not 5", len(f))
	}
	pid, err := strconv.Atoi(f[3])
	if err != nil {
		return Holder{}, fmt.Errorf("stored holder of a run: %w", err)
	}
	return Holder{f[0], f[1], f[2], pid, f[4]}, nil
}
