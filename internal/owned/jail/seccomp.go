package jail

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the system calls that no process of the box may make. They are the
// kernel's large and privileged interfaces; Chromium's own sandbox needs none of
// them (it does need clone, unshare and chroot, in user namespaces of its own).
var denied = append([]uint32{
	// programs that run in the kernel, and its largest attack surfaces
	unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
	// keys
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// modules and kernels
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	// mounts: a nested user namespace would have the capability
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_FANOTIFY_INIT,
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_SETNS,
	// files past the path checks
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	// memory that neither a file limit nor the watchdog's count would see, and
	// that could be executed in spite of the noexec mounts
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	// the machine
	unix.SYS_REBOOT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
}, deniedHere...)

// Namespaces that nothing in the box has use for. Chromium's sandbox makes user,
// PID and network namespaces; a mount namespace would only add attack surface.
const (
	deniedClone   = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP
	deniedUnshare = deniedClone | unix.CLONE_NEWTIME
)

// Offsets in struct seccomp_data; both machines are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// program is a seccomp filter in the making.
type program []unix.SockFilter

func (p *program) do(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *program) load(off uint32)  { p.do(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off, 0, 0) }
func (p *program) loadArg(n uint32) { p.load(offArgs + 8*n) }
func (p *program) answer(a uint32)  { p.do(unix.BPF_RET|unix.BPF_K, a, 0, 0) }

// equal, set and least skip the next n instructions unless the value compares.
func (p *program) equal(k uint32, n uint8) { p.do(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, n) }
func (p *program) set(k uint32, n uint8)   { p.do(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, 0, n) }
func (p *program) least(k uint32, n uint8) { p.do(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, k, 0, n) }

func refuse(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filter is the program. The kernel caches the answers that depend on the number
// alone, so the length of the list costs allowed calls nothing.
func filter() program {
	var p program
	p.load(offArch)
	p.do(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, auditArch, 1, 0)
	p.answer(unix.SECCOMP_RET_KILL_PROCESS) // another ABI has other numbers
	p.load(offNumber)
	p.least(x32Bit, 1) // x32: the same calls under other numbers
	p.answer(refuse(unix.ENOSYS))
	for _, nr := range denied {
		p.equal(nr, 1)
		p.answer(refuse(unix.EPERM))
	}
	p.equal(unix.SYS_CLONE3, 1) // its flags lie in memory; libraries fall back to clone
	p.answer(refuse(unix.ENOSYS))
	p.flags(unix.SYS_CLONE, deniedClone)
	p.flags(unix.SYS_UNSHARE, deniedUnshare)
	p.sockets()
	p.answer(unix.SECCOMP_RET_ALLOW)
	return p
}

// flags refuses call nr when its first argument has one of the bits.
func (p *program) flags(nr, bits uint32) {
	p.equal(nr, 4)
	p.loadArg(0)
	p.set(bits, 1)
	p.answer(refuse(unix.EPERM))
	p.answer(unix.SECCOMP_RET_ALLOW)
}

// sockets allows the families that a network namespace really separates. Vsock,
// for one, reaches the hypervisor from every namespace; of netlink only routing,
// as netfilter's is the nested namespaces' largest hole.
func (p *program) sockets() {
	p.equal(unix.SYS_SOCKET, 11)
	p.loadArg(0)
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		p.equal(family, 1)
		p.answer(unix.SECCOMP_RET_ALLOW)
	}
	p.equal(unix.AF_NETLINK, 2)
	p.loadArg(2)
	p.do(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.NETLINK_ROUTE, 1, 0)
	p.answer(refuse(unix.EAFNOSUPPORT))
}

// installFilter puts the filter on every thread of this process.
func installFilter() error {
	p := filter()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
