package jail

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0x40000000 // no call has such a number here
)

// deniedHere are calls that only this machine has: none of the old ones.
var deniedHere []uint32
