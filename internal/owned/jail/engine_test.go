package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var background = context.Background()

// engineMain is an engine that does what it is told: a hostile one.
func engineMain() {
	commands, answers := os.NewFile(3, "commands"), os.NewFile(4, "answers")
	r := bufio.NewReader(commands)
	for {
		message, err := r.ReadString(0)
		if err != nil {
			return
		}
		words := strings.Fields(strings.TrimSuffix(message, "\x00"))
		fmt.Fprintf(answers, "%s\x00", obey(words[0], words[1:]))
	}
}

// obey does one thing and says how it went.
func obey(verb string, args []string) string {
	switch verb {
	case "env":
		return strings.Join(os.Environ(), " ")
	case "fds":
		return descriptors()
	case "list":
		return listing(args[0])
	case "read":
		data, err := os.ReadFile(args[0])
		return told(string(data), err)
	case "write":
		return told("done", os.WriteFile(args[0], []byte("x"), 0o600))
	case "link":
		return told("done", os.Symlink(args[0], args[1]))
	case "fifo":
		return told("done", unix.Mkfifo(args[0], 0o600))
	case "dial":
		c, err := net.DialTimeout(args[0], args[1], 3*time.Second)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		data, err := io.ReadAll(c)
		return told(string(data), err)
	case "exec":
		return told("done", exec.Command(args[0]).Run())
	case "say":
		_, err := fmt.Fprintln(os.Stderr, args[0])
		return told("done", err)
	case "exit":
		status, _ := strconv.Atoi(args[0])
		os.Exit(status)
	case "hog":
		return hog(args[0])
	case "spin":
		go func() {
			//lint:ignore SA5002 a program that never rests is the case
			for {
			}
		}()
		return "done"
	case "bomb":
		return bomb()
	case "idle":
		return "done"
	case "fill":
		return fill(args[0])
	case "syscalls":
		return syscalls()
	}
	return "unknown"
}

func told(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// descriptors lists what this process holds open, its runtime's poller aside.
func descriptors() string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err.Error()
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode") || strings.HasPrefix(target, "/proc/") {
			continue
		}
		kind, _, _ := strings.Cut(target, ":")
		open = append(open, e.Name()+" "+kind)
	}
	return strings.Join(open, ", ")
}

func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return told(strings.Join(names, " "), err)
}

// hog takes memory: in this process, or in as many children as are asked for.
func hog(children string) string {
	n, _ := strconv.Atoi(children)
	for range n {
		cmd := exec.Command("/proc/self/exe", "engine")
		in, out, err := os.Pipe()
		if err != nil {
			return err.Error()
		}
		cmd.ExtraFiles = []*os.File{in, os.Stderr}
		if err := cmd.Start(); err != nil {
			return err.Error()
		}
		fmt.Fprint(out, "hog 0\x00")
	}
	if n > 0 {
		return "done"
	}
	var kept [][]byte
	for range 1000 {
		data, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Sprintf("%d MiB then %v", len(kept)*16, err)
		}
		for i := 0; i < len(data); i += 4096 {
			data[i] = 1
		}
		kept = append(kept, data)
	}
	return "no limit"
}

// bomb starts copies of itself until it may not.
func bomb() string {
	for i := range 100000 {
		cmd := exec.Command("/proc/self/exe", "engine")
		in, _, err := os.Pipe()
		if err != nil {
			return fmt.Sprintf("%d then %v", i, err)
		}
		cmd.ExtraFiles = []*os.File{in, in}
		if err := cmd.Start(); err != nil {
			return fmt.Sprintf("%d then %v", i, err)
		}
	}
	return "no limit"
}

// fill writes one file until it may not, and answers its size.
func fill(path string) string {
	signal.Ignore(unix.SIGXFSZ) // else the write over the limit kills
	f, err := os.Create(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for {
		if _, err := f.Write(block); err != nil {
			info, _ := f.Stat()
			return fmt.Sprintf("%d %v", info.Size(), err)
		}
	}
}

// syscalls tries the calls that the filter must refuse, and those it must not.
func syscalls() string {
	var got []string
	try := func(name string, nr uintptr, a, b, c uintptr) {
		r, _, errno := unix.RawSyscall6(nr, a, b, c, 0, 0, 0)
		answer := errno.Error()
		if errno == 0 {
			answer = "ok"
			if strings.HasPrefix(name, "socket") {
				unix.Close(int(r))
			}
		}
		got = append(got, name+": "+answer)
	}
	try("bpf", unix.SYS_BPF, 0, 0, 0)
	try("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, 0, 0)
	try("keyctl", unix.SYS_KEYCTL, 0, 0, 0)
	try("userfaultfd", unix.SYS_USERFAULTFD, 0, 0, 0)
	try("perf_event_open", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)
	try("finit_module", unix.SYS_FINIT_MODULE, 0, 0, 0)
	try("mount", unix.SYS_MOUNT, 0, 0, 0)
	try("fsopen", unix.SYS_FSOPEN, 0, 0, 0)
	try("setns", unix.SYS_SETNS, 0, 0, 0)
	try("ptrace", unix.SYS_PTRACE, 0, 0, 0)
	try("process_vm_readv", unix.SYS_PROCESS_VM_READV, 1, 0, 0)
	try("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)
	try("memfd_create", unix.SYS_MEMFD_CREATE, 0, 0, 0)
	try("shmget", unix.SYS_SHMGET, 0, 4096, 0)
	try("clone3", unix.SYS_CLONE3, 0, 0, 0)
	try("unshare mount", unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0, 0)
	try("clone mount", unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS, 0, 0)
	try("socket unix", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)
	try("socket inet", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)
	try("socket inet6", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, 0)
	try("socket route", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	try("socket netfilter", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
	try("socket vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	try("socket packet", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
	try("socket alg", unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	return strings.Join(got, "\n")
}
