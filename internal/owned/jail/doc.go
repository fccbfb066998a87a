// Package jail runs one browser where nothing but its proxy can be reached, and
// sees to it that it dies when it should (spec/owned-browser.md, section 5).
//
// A [Box] is one process tree in namespaces of its own: user, mount, PID,
// network, IPC, UTS and cgroup. Its first process is this very executable,
// started again through /proc/self/exe (see [Init]), in two stages:
//
//	stage one  has CAP_SYS_ADMIN and CAP_NET_ADMIN in its own user namespace only.
//	           It builds a read-only root from /usr/lib and /usr/share, mounts
//	           /proc, /dev, /dev/shm and /tmp, pivots into it, brings loopback up,
//	           listens on [ProxyAddr] and hands that listener and the two file
//	           folders to the parent. Then it drops every capability, closes what
//	           it inherited and executes stage two.
//	stage two  has no capability, can gain none, and runs under the seccomp filter
//	           that every process of the box inherits. It sets the resource limits,
//	           starts the engine, reaps, and ends when the engine or the parent
//	           does. As it is PID 1, its end is everybody's end.
//
// States of a box: starting, then up, then ended; ended is final and [Box.Err]
// says why, with one of the codes over_limit, engine_exited, ended. Death has
// three independent causes, each sufficient: the parent closes the box, the
// parent's death signal, and the end of the control socket (the lifeline).
//
// Limits hold without cgroups: rlimits for each process, tmpfs sizes, and a
// watchdog in the parent that sums the tree's memory and processor time and
// kills that one box when it is over.
//
// A [Guardian] is a small process outside the box that removes a run's
// registration when its host died without doing so.
//
// A [Command] is a program outside of any box, an agent's server, that alone sees
// the registrations in a mount namespace of its own; it contains nothing.
//
// What it never does: run an engine without a box (only a build with the tag
// chaperone_leaky, made to prove that the containment corpus can see a leak, has
// that); fall back to a weaker box when the kernel refuses one; put anything of
// the run into argv or the environment; keep a file on the host's disk; follow a
// symlink that the box made.
//
// Floor: runtime.
package jail
