//go:build !chaperone_leaky

package jail

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// boxUID is the only user and the only group inside. It isn't 0: Chromium refuses
// its own sandbox to root.
const boxUID = 1000

// run forks the box's init in namespaces of its own, on the calling thread.
func (b *Box) run(Config) (*exec.Cmd, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if err := b.ids.dropGroups(); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{roleSetup},
		Env:        initEnv,
		Stderr:     b.wires.theirs[3],
		ExtraFiles: b.wires.theirs[:3],
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:    true,
			Pdeathsig: syscall.SIGKILL,
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
				unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: boxUID, HostID: b.ids.uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: boxUID, HostID: b.ids.gid, Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP},
			Credential:  &syscall.Credential{Uid: boxUID, Gid: boxUID, NoSetGroups: true},
		},
	}
	return cmd, diagnose(at("clone", "", cmd.Start()))
}
