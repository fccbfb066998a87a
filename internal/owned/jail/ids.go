package jail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"chaperone/internal/refusal"

	"golang.org/x/sys/unix"
)

// Host uids for boxes started by root: above nobody and systemd's dynamic users
// (to 65535), below the first subordinate uid (100000), so that nothing and nobody
// on the host has one.
const (
	firstUID = 70000
	lastUID  = 79999
)

// ids are a box's user and group as the host sees them.
type ids struct {
	uid, gid int
	claim    net.PacketConn // holds uid for this box; nil for one's own
}

// claimIDs chooses the box's uid. Root takes one from the range that no other run
// has; an ordinary user, root of a small user namespace included, can only map
// itself. asked, if not zero, is taken as it is.
func claimIDs(asked int) (ids, error) {
	switch {
	case asked != 0:
		return ids{uid: asked, gid: asked}, nil
	case os.Geteuid() != 0 || !mapsRange():
		return ids{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	const n = lastUID - firstUID + 1
	start := rand.IntN(n)
	for i := range n {
		uid := firstUID + (start+i)%n
		claim, err := claimUID(uid)
		if err == nil {
			return ids{uid: uid, gid: uid, claim: claim}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return ids{}, err
		}
	}
	return ids{}, fmt.Errorf("all uids from %d to %d are taken by boxes: %w", firstUID, lastUID, refusal.PrerequisiteMissing)
}

// claimUID takes uid for this process. The claim is a name that the kernel drops
// with the last descriptor: no file, no stale lock after a crash. Names are per
// network namespace; two hosts in different ones rely on the random start.
func claimUID(uid int) (net.PacketConn, error) {
	return net.ListenPacket("unixgram", "@chaperone-box-"+strconv.Itoa(uid))
}

// Close gives the uid back.
func (i ids) Close() error {
	if i.claim == nil {
		return nil
	}
	return i.claim.Close()
}

// dropGroups leaves root's supplementary groups, for the calling thread only:
// the box couldn't, as a user namespace that was mapped safely may not set them.
func (i ids) dropGroups() error {
	if i.uid == os.Geteuid() {
		return nil // an ordinary user's groups are what that user has anyway
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return at("groups", "", errno)
	}
	return nil
}

// mapsRange says whether this user namespace has the uids of the range.
func mapsRange() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err == nil && inside <= firstUID && lastUID < inside+size {
			return true
		}
	}
	return false
}
