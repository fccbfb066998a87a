package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// readers is how many snapshots may be read at once.
const readers = 4

// openSQLite opens the file at path. The order matters: nothing is written to a
// file before it was seen to be fresh or ours.
func (db *DB) openSQLite(ctx context.Context, path string, migrate bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	db.path = path
	if err := prepareFile(path); err != nil {
		return fmt.Errorf("database %s: %w", path, db.explain(err))
	}
	if err := db.openWriter(ctx, migrate); err != nil {
		return fmt.Errorf("database %s: %w", path, err)
	}
	db.pool, err = sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		return err
	}
	db.pool.SetMaxOpenConns(readers)
	db.pool.SetMaxIdleConns(readers)
	return nil
}

// openWriter opens the connection that writes, brings the file to its version
// and starts the writer's goroutine.
func (db *DB) openWriter(ctx context.Context, migrate bool) (err error) {
	w := &writer{db: db, queue: make(chan *member), closing: make(chan struct{}), stopped: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.abandon())
		}
	}()
	if w.turn, err = openTurn(db.path + "-turn"); err != nil {
		return db.explain(err)
	}
	// A commit syncs the data; the file's times may wait.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return err
	}
	if w.pool, err = sql.Open("sqlite", dsn(db.path)); err != nil {
		return err
	}
	w.pool.SetMaxOpenConns(1)
	if w.conn, err = w.pool.Conn(ctx); err != nil {
		return db.explain(err)
	}
	w.kept = &statements{w.conn, map[string]*sql.Stmt{}}
	release, err := w.turn.take(ctx) // two processes may both find it fresh
	if err != nil {
		return db.busyOr(err)
	}
	defer release()
	if err := db.migrateSQLite(ctx, w, migrate); err != nil {
		return db.explain(err)
	}
	db.writer = w
	go w.loop()
	return nil
}

// abandon closes what openWriter opened before it failed.
func (w *writer) abandon() error {
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	if w.pool != nil {
		errs = append(errs, w.pool.Close())
	}
	if w.turn != nil {
		errs = append(errs, w.turn.close())
	}
	return errors.Join(errs...)
}

// migrateSQLite brings the file to its version under the turn.
func (db *DB) migrateSQLite(ctx context.Context, w *writer, migrate bool) error {
	have, err := sqliteVersion(ctx, w.conn)
	if err != nil {
		return err
	}
	for _, pragma := range []string{"journal_mode=wal", "synchronous=full"} {
		if _, err := w.conn.ExecContext(ctx, "pragma "+pragma); err != nil {
			return err
		}
	}
	plan, err := planned(SQLite, have, migrate)
	db.older = plan.older
	if err != nil || len(plan.steps) == 0 {
		return errors.Join(err, w.exec("pragma busy_timeout=0"))
	}
	if err := w.exec("begin immediate"); err != nil {
		return err
	}
	if err := plan.apply(ctx, w.conn); err != nil {
		return errors.Join(err, w.exec("rollback"))
	}
	if err := w.exec("commit"); err != nil {
		return err
	}
	// From now on the writer waits by itself, under its turn.
	return w.exec("pragma busy_timeout=0")
}

// sqliteVersion answers the file's version, 0 for an empty one. A database that
// isn't ours is an error.
func sqliteVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var tables, ours int
	err := conn.QueryRowContext(ctx, "select count(*), coalesce(sum(name='store_migration'),0) from sqlite_master where type='table'").Scan(&tables, &ours)
	switch {
	case err != nil:
		return 0, err
	case tables == 0:
		return 0, nil
	case ours == 0:
		return 0, errors.New("it is another program's database; name another file with --database or --home")
	}
	return version(ctx, conn)
}

// dsn answers the driver's address of path, with pragmas for each connection.
// Freed pages are overwritten, so that an erased value is gone from the file.
func dsn(path string, more ...string) string {
	query := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", BusyTimeout.Milliseconds()),
		"foreign_keys(1)", "secure_delete(1)", "trusted_schema(0)", "synchronous(full)", "temp_store(memory)", "journal_size_limit(67108864)",
	}, more...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String()
}

// prepareFile makes the directory and an empty file, so that SQLite gives its
// companions the same mode. The file of an earlier run is closed to others.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return file.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it is a symlink that leads nowhere; remove it, or name another file with --database or --home")
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file; name another with --database or --home")
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

func isForeign(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_NOTADB || e.Code()&0xff == sqlite3.SQLITE_CORRUPT)
}

// isUnwritable tells of a full or broken disk and of a file or folder that this
// process may not write. A log in WAL mode has to be writable to be read.
func isUnwritable(err error) bool {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return true
	}
	return false
}

func lacksTable(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != sqlite3.SQLITE_ERROR {
		return false
	}
	text := e.Error()
	return strings.Contains(text, "no such table") || strings.Contains(text, "no such column") || strings.Contains(text, "has no column")
}
