// Package store holds Chaperone's durable state: one concrete [DB] over SQLite
// or PostgreSQL, its migrations, and the ways to touch it: View, Look and Update.
// It owns no domain table; a package of the same floor keeps its own tables, in
// one SQL text with $1..$n that both engines run. Only `create table` differs,
// so migrations/ has a folder for each engine.
//
// What a caller may lean on, on both engines:
//
//   - Update is serialisable. SQLite has one writer at a time; PostgreSQL runs
//     at SERIALIZABLE and Update runs fn again where the server refuses an
//     order. A check before a write therefore holds until the commit.
//   - fn may run more than once (a refused order, or a group commit that was
//     undone by another member) and must have no effect but through its Tx.
//   - Update returns nil only once the commit is on disk: SQLite runs in WAL
//     mode with synchronous=FULL, PostgreSQL with synchronous_commit=on.
//   - An error of fn undoes all that fn did and is returned as it is. An error
//     of the commit itself leaves the outcome unknown: state is read again,
//     never assumed.
//   - On SQLite concurrent Updates share one transaction (group commit): each is
//     a savepoint of its own, so a failing one undoes itself alone, and all of
//     them return after the one sync.
//
// Several processes may share a SQLite file. Each takes a turn (a flock on
// PATH-turn) before it asks for SQLite's write lock, so that a busy process
// can't starve another; a turn that doesn't come within [BusyTimeout] is
// refusal.DatabaseBusy, which names the holder's pid.
//
// Versions: a fresh database is made whole in one transaction by whoever opens
// it first. An older one is migrated with Options.Migrate alone (chaperone
// serve) and else used as it is: a statement that needs a table it doesn't have
// yet answers refusal.OlderDatabase. A newer one is refused
// (refusal.NewerDatabase) before anything is read or written. A file that is no
// database is left as it was.
//
// It never migrates down, never repairs a file, and never logs a statement or
// its arguments.
//
// Floor: durable authority.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// BusyTimeout is how long a write waits for another process's.
const BusyTimeout = 5 * time.Second

// Engines that Engine answers.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// ErrClosed is the answer of a closed DB.
var ErrClosed = errors.New("the database is closed")

// Options of Open.
type Options struct {
	// Migrate brings an older database up to date. Only serve sets it.
	Migrate bool
	// Commit, where set, stands around each commit of an Update; calling its
	// argument commits. Fault tests lose a commit with it (don't call) or its
	// answer (call, then return an error).
	Commit func(commit func() error) error
}

// DB is an open database; safe for concurrent use.
type DB struct {
	engine  string
	path    string // SQLite's file, "" on PostgreSQL
	pool    *sql.DB
	writer  *writer // SQLite alone
	commit  func(func() error) error
	commits atomic.Int64
	older   bool          // used as it is: tables may be missing
	again   chan struct{} // on PostgreSQL: held by the one transaction that runs again
	looks   sync.Map      // of SQLite: the statements of Look, prepared
}

// Open opens, and where it is fresh creates, the database at url: a file path,
// "sqlite:PATH" or "postgres://…". Its file is 0600, a directory it makes 0700.
// Errors: refusal.NewerDatabase, refusal.DatabaseBusy, and plain ones that name
// the path.
func Open(ctx context.Context, url string, opts Options) (*DB, error) {
	db := &DB{engine: SQLite, commit: opts.Commit, again: make(chan struct{}, 1)}
	if db.commit == nil {
		db.commit = func(commit func() error) error { return commit() }
	}
	var err error
	switch scheme, rest, found := strings.Cut(url, ":"); {
	case found && (scheme == "postgres" || scheme == "postgresql"):
		db.engine = Postgres
		err = db.openPostgres(ctx, url, opts.Migrate)
	case found && scheme == "sqlite":
		err = db.openSQLite(ctx, strings.TrimPrefix(rest, "//"), opts.Migrate)
	case strings.Contains(url, "://"):
		err = fmt.Errorf("database %q: want a file path, sqlite:PATH or postgres://…", scheme+"://…")
	default:
		err = db.openSQLite(ctx, url, opts.Migrate)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Engine answers SQLite or Postgres.
func (db *DB) Engine() string { return db.engine }

// Path answers SQLite's file, or "" on PostgreSQL.
func (db *DB) Path() string { return db.path }

// Older tells whether the database lacks tables of this version, because it is
// used as it is (see Options.Migrate).
func (db *DB) Older() bool { return db.older }

// Commits counts the durable commits (syncs) of this handle so far.
func (db *DB) Commits() int64 { return db.commits.Load() }

// View runs fn on one consistent snapshot. Writing in it fails.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	opts := &sql.TxOptions{ReadOnly: true}
	if db.engine == Postgres {
		opts.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.pool.BeginTx(ctx, opts)
	for again := 0; errors.Is(err, driver.ErrBadConn) && again < postgresConns; again++ {
		tx, err = db.pool.BeginTx(ctx, opts) // see isOrder
	}
	if err != nil {
		return db.explain(err)
	}
	// A snapshot has nothing to keep: it is rolled back however fn ends.
	defer tx.Rollback()
	return fn(&Tx{db: db, ctx: ctx, use: ctx, on: tx})
}

// Look is View for one statement that reads: a snapshot by itself, which spares a
// server two round trips. A second statement fails, and so does one that writes.
func (db *DB) Look(ctx context.Context, fn func(*Tx) error) error {
	return fn(&Tx{db: db, ctx: ctx, use: ctx, on: db.pool, look: true})
}

// Update runs fn in a serialisable transaction and returns once its commit is
// durable. It must not be called from within fn. See the package comment for
// what an error tells.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if db.writer != nil {
		return db.writer.update(ctx, fn)
	}
	return db.updatePostgres(ctx, fn)
}

// committed counts a durable commit.
func (db *DB) committed(err error) error {
	if err == nil {
		db.commits.Add(1)
	}
	return err
}

// Close waits for running transactions and closes the database.
func (db *DB) Close() error {
	var errs []error
	if db.writer != nil {
		errs = append(errs, db.writer.close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	return errors.Join(errs...)
}
