package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chaperone/internal/refusal"
)

// errBusy is the end of a wait; DB.busy says who held it.
var errBusy = errors.New("busy")

// turn is the order between processes that share a SQLite file. SQLite's own
// waiters sleep and look again, so a process that commits in a loop would never
// let them in; here the one who waits for the write lock holds the turn, and
// the busy one queues behind it. A lock of a dead process is gone with it.
type turn struct{ file *os.File }

// openTurn opens path, which stays: a removed one would be two turns at once.
func openTurn(path string) (*turn, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &turn{file}, nil
}

// take waits for the turn, at most BusyTimeout, and answers how to pass it on.
func (t *turn) take(ctx context.Context) (release func(), err error) {
	fd := int(t.file.Fd())
	err = wait(ctx, func() (bool, error) {
		err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
		return err != syscall.EWOULDBLOCK && err != syscall.EINTR, err
	})
	if err != nil {
		return nil, err
	}
	// Unlocking a lock that we hold can't fail.
	return func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }, nil
}

func (t *turn) close() error { return t.file.Close() }

// wait tries until try answers true, for BusyTimeout at most.
func wait(ctx context.Context, try func() (bool, error)) error {
	deadline := time.Now().Add(BusyTimeout)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		switch ok, err := try(); {
		case ok:
			return err
		case time.Now().After(deadline):
			return errBusy
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// busyOr makes errBusy the refusal that names the holder.
func (db *DB) busyOr(err error) error {
	if errors.Is(err, errBusy) {
		return db.busy()
	}
	return err
}

// busy is the refusal that names who holds the database.
func (db *DB) busy() error {
	who := "a process that can't be named from here"
	if pid := holder(db.path); pid > 0 {
		who = "process " + strconv.Itoa(pid)
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
			who += " (" + strings.TrimSpace(string(name)) + ")"
		}
	}
	return fmt.Errorf("%w: %s has been held for over %v by %s; end it or try again", refusal.DatabaseBusy, db.path, BusyTimeout, who)
}

// holder answers the pid that holds a write lock on path, or 0. It reads
// /proc/locks, since asking the file itself would mean to open and close it,
// and closing it would drop this process's own locks.
func holder(path string) int {
	inodes := map[string]int{} // the later in this list, the surer
	for rank, suffix := range []string{"-turn", "", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			major, minor := stat.Dev>>8&0xfff|stat.Dev>>32&^0xfff, stat.Dev&0xff|stat.Dev>>12&^0xff
			inodes[fmt.Sprintf("%02x:%02x:%d", major, minor, stat.Ino)] = rank + 1
		}
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	pid, best := 0, 0
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != "WRITE" || inodes[f[5]] <= best {
			continue
		}
		if n, err := strconv.Atoi(f[4]); err == nil && n > 0 {
			pid, best = n, inodes[f[5]]
		}
	}
	return pid
}
