// Package storetest runs a test on both real engines: a SQLite file in the
// test's own directory and a PostgreSQL server of the test process's own.
//
// The server is started at first use and belongs to the process: it listens on
// a Unix socket in a directory of its own, each test gets a database of its own,
// and a lifeline (a pipe that only this process holds open) ends the server and
// removes the directory however the process ends, by SIGKILL too. PostgreSQL
// must be installed: a test that needs it fails without, and is never skipped.
//
// Floor: test kit.
package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/store"
)

// Each runs f as a subtest on each engine, on a fresh and migrated database.
func Each(t *testing.T, f func(t *testing.T, db *store.DB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, url string) { f(t, Open(t, url, store.Options{})) })
}

// EachURL runs f as a subtest on each engine with the URL of a database that
// wasn't opened yet, for tests that open it themselves or in other processes.
func EachURL(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	t.Run(store.SQLite, func(t *testing.T) { f(t, SQLite(t)) })
	t.Run(store.Postgres, func(t *testing.T) { f(t, Postgres(t)) })
}

// Open opens url and closes it with the test.
func Open(t testing.TB, url string, opts store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// SQLite answers the path of a database that doesn't exist yet.
func SQLite(t testing.TB) string { return filepath.Join(t.TempDir(), "chaperone.db") }

// Postgres answers the URL of an empty database on the process's server.
func Postgres(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t%d", s.databases.Add(1))
	if err := s.admin("create database " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.admin("drop database " + name + " with (force)"); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

// server is the process's PostgreSQL.
type server struct {
	dir       string
	lifeline  io.WriteCloser // closed by this process's end alone
	databases atomic.Int64
}

var shared = sync.OnceValues(start)

// script makes a cluster, serves it until standard input ends and cleans up.
const script = `
"$BIN/initdb" -D "$DIR/data" -A trust -U chaperone --no-sync --no-locale -E UTF8 >"$DIR/log" 2>&1 || exit 1
"$BIN/postgres" -D "$DIR/data" -k "$DIR" -c listen_addresses= -c max_connections=200 >>"$DIR/log" 2>&1 &
server=$!
read -r _
kill -INT $server
wait $server
rm -rf "$DIR"
`

// start starts the server and waits until it answers.
func start() (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chpg") // short: a socket's path has 107 bytes
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"BIN=" + bin, "DIR=" + dir, "PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Dir = dir
	// A session of its own: a Ctrl-C meant for the test must not reach it first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := lend(cmd, dir); err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if s.lifeline, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return nil, fmt.Errorf("PostgreSQL ended at its start: %v\n%s", err, log)
		default:
		}
		if err = s.admin("select 1"); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("PostgreSQL doesn't answer: %w", err)
		}
	}
}

// binaries answers the directory of the newest installed server.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	best, newest := "", -1
	for _, initdb := range found {
		bin := filepath.Dir(initdb)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && v > newest {
			best, newest = bin, v
		}
	}
	if best == "" {
		return "", fmt.Errorf("no PostgreSQL server under /usr/lib/postgresql: run `make test`, or apt-get install postgresql")
	}
	return best, nil
}

// lend makes cmd run as another user where this process is root, since
// PostgreSQL refuses to be root, and gives it dir.
func lend(cmd *exec.Cmd, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(dir, uid, gid)
}

// admin runs one statement beside the tests' databases.
func (s *server) admin(statement string) error {
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

func (s *server) url(database string) string {
	query := url.Values{"host": {s.dir}, "user": {"chaperone"}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + query.Encode()
}
