package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"chaperone/internal/refusal"

	"golang.org/x/sys/unix"
)

// filled answers l with the default in every field that is zero.
func (l Limits) filled() Limits {
	d := DefaultLimits()
	l.ProcessBytes = or(l.ProcessBytes, d.ProcessBytes)
	l.TreeBytes = or(l.TreeBytes, d.TreeBytes)
	l.TmpBytes = or(l.TmpBytes, d.TmpBytes)
	l.ShmBytes = or(l.ShmBytes, d.ShmBytes)
	l.FileBytes = or(l.FileBytes, d.FileBytes)
	l.Processes = or(l.Processes, d.Processes)
	l.Files = or(l.Files, d.Files)
	l.CPU = or(l.CPU, d.CPU)
	return l
}

func or[T ~int | ~int64](value, zero T) T {
	if value == 0 {
		return zero
	}
	return value
}

// watch ends the box when its tree is over a limit. Rlimits bound one process;
// only a sum bounds many.
func (b *Box) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.gone:
			return
		case <-timer.C:
		}
		use, err := b.Usage()
		if errors.Is(err, refusal.NoBrowser) {
			return // it ended meanwhile, and whoever waits for it tells why
		}
		if err == nil {
			err = b.over(use)
		}
		if err != nil {
			b.end(err) // a box that can't be watched isn't kept
			return
		}
		timer.Reset(b.pace(use))
	}
}

// pace is the time to the next look. Memory fills at about a gigabyte a second;
// a tree far from its limit is looked at rarely, so that twenty idle boxes cost
// next to nothing.
func (b *Box) pace(use Usage) time.Duration {
	room := time.Duration(b.limits.TreeBytes - use.RSSBytes) // nanoseconds, at a byte each
	return min(500*time.Millisecond, max(20*time.Millisecond, room/4))
}

// over is the refusal when use is over a limit of the tree.
func (b *Box) over(use Usage) error {
	switch {
	case use.RSSBytes > b.limits.TreeBytes:
		return fmt.Errorf("%w: memory of the run, %d MiB of %d MiB", refusal.OverLimit, use.RSSBytes>>20, b.limits.TreeBytes>>20)
	case use.CPU > b.limits.CPU:
		return fmt.Errorf("%w: processor time of the run, %v of %v", refusal.OverLimit, use.CPU.Round(time.Second), b.limits.CPU)
	}
	return nil
}

// Usage measures the tree now; it takes well under a millisecond for a browser
// with a few tabs. Shared memory counts once for each process that maps it.
func (b *Box) Usage() (Usage, error) {
	select {
	case <-b.gone:
		return Usage{}, fmt.Errorf("the box has ended: %w", refusal.NoBrowser)
	default:
	}
	var use Usage
	todo := []int{b.PID()}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		children, err := use.add(pid)
		if err != nil && !gone(err) {
			return use, err
		}
		todo = append(todo, children...)
	}
	return use, nil
}

// gone says that a process ended while it was looked at.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// add counts one process and answers its children. Everything in the box descends
// from its init, orphans too, as PID 1 adopts them.
func (u *Usage) add(pid int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return nil, err
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil, err
	}
	u.Processes++
	u.RSSBytes += (field(status, "RssAnon:") + field(status, "RssShmem:")) << 10
	u.Threads += int(field(status, "Threads:"))
	u.CPU += cpu(stat)
	return children(dir, pid)
}

// field is the number after name in a status file, 0 where there is none.
func field(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(words[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// cpu is the time of a process and of its children that ended, from its stat
// file: fields 14 to 17, in hundredths of a second on every Linux.
func cpu(stat []byte) time.Duration {
	after := stat[bytes.LastIndexByte(stat, ')')+1:] // the name may hold anything
	fields := bytes.Fields(after)
	var ticks int64
	for i := 11; i <= 14 && i < len(fields); i++ {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// children reads the children of every thread of a process.
func children(dir string, pid int) ([]int, error) {
	threads, err := os.ReadDir(dir + "/task")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, thread := range threads {
		data, err := os.ReadFile(dir + "/task/" + thread.Name() + "/children")
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, word := range bytes.Fields(data) {
			child, err := strconv.Atoi(string(word))
			if err != nil {
				return nil, err
			}
			found = append(found, child)
		}
	}
	return found, nil
}
