package runsock_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// proc is one process, told from a later one with its number by its start.
type proc struct {
	pid         int
	parent      int
	name, start string
	state       string
}

// readProc reads /proc/PID/stat; a process that is gone, or only waits to be
// reaped, is none.
func readProc(pid int) (proc, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, false
	}
	open, last := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[last+1:]))
	parent, _ := strconv.Atoi(fields[1])
	p := proc{pid, parent, string(data[open+1 : last]), fields[19], fields[0]}
	return p, p.state != "Z" && p.state != "X"
}

// processes lists every living process.
func processes() (list []proc) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, ok := readProc(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

// family is a process and all that came from it.
func family(root int) (list []proc) {
	all := processes()
	want := []int{root}
	for len(want) > 0 {
		pid := want[0]
		want = want[1:]
		for _, p := range all {
			if p.pid == pid {
				list = append(list, p)
			}
			if p.parent == pid && p.pid != pid {
				want = append(want, p.pid)
			}
		}
	}
	return list
}

// named picks the family's members with one of these names.
func named(list []proc, match func(proc) bool) (found []proc) {
	for _, p := range list {
		if match(p) {
			found = append(found, p)
		}
	}
	return found
}

// network is the process's network namespace.
func network(pid int) string {
	ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return ns
}

// traces is what a run has on this machine, taken while it lives.
type traces struct {
	family   []proc
	networks []string // not this process's
	folder   string
	at       int64 // when this was seen, in ticks since boot
}

func (h *hosted) traces() traces {
	tr := traces{family: family(h.cmd.Process.Pid), folder: h.registry, at: ticks()}
	mine := network(os.Getpid())
	for _, p := range tr.family {
		if ns := network(p.pid); ns != "" && ns != mine && !slices.Contains(tr.networks, ns) {
			tr.networks = append(tr.networks, ns)
		}
	}
	return tr
}

// ticks is now in the unit of a process's start.
func ticks() int64 {
	uptime, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(uptime), " ")
	at, _ := strconv.ParseFloat(seconds, 64)
	return int64(at * 100)
}

// left answers what there still is of it.
func (tr traces) left() (left []string) {
	for _, p := range tr.family {
		if now, ok := readProc(p.pid); ok && now.start == p.start {
			left = append(left, fmt.Sprintf("process %d %s (%s)", p.pid, p.name, now.state))
		}
	}
	for _, p := range processes() {
		// The kernel gives a namespace's number again: a younger process has another.
		if start, _ := strconv.ParseInt(p.start, 10, 64); start <= tr.at && slices.Contains(tr.networks, network(p.pid)) {
			left = append(left, fmt.Sprintf("process %d %s in the run's network", p.pid, p.name))
		}
	}
	if tr.folder == "" {
		return left
	}
	if _, err := os.Lstat(tr.folder); err == nil {
		left = append(left, "folder "+tr.folder)
	}
	sockets, _ := os.ReadFile("/proc/net/unix")
	if strings.Contains(string(sockets), tr.folder+"/") {
		left = append(left, "a socket in "+tr.folder)
	}
	return left
}

// gone waits until nothing is left of a run.
func (tr traces) gone(t testing.TB) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = tr.left(); len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %s", strings.Join(left, "; "))
}
