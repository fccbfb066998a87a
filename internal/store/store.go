// Package store holds Chaperone's durable state: one concrete [DB] over SQLite
// or PostgreSQL, its migrations, and the two ways to touch it, View and Update.
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
	"time"
)

// BusyTimeout is how long a write waits for another process's.
const BusyTimeout = 5 * time.Second

// Engines that Engine answers.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

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
	engine string
}

// Open opens, and where it is fresh creates, the database at url: a file path,
// "sqlite:PATH" or "postgres://…". Its file is 0600, a directory it makes 0700.
func Open(ctx context.Context, url string, opts Options) (*DB, error) { panic("unbuilt") }

// Engine answers SQLite or Postgres.
func (db *DB) Engine() string { return db.engine }

// Commits counts the durable commits (syncs) of this handle so far.
func (db *DB) Commits() int64 { panic("unbuilt") }

// View runs fn on one consistent snapshot. Writing in it fails.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error { panic("unbuilt") }

// Update runs fn in a serialisable transaction and returns once its commit is
// durable. It must not be called from within fn. See the package comment for
// what an error tells.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error { panic("unbuilt") }

// Close waits for running transactions and closes the database.
func (db *DB) Close() error { panic("unbuilt") }

// Tx is a running transaction. It is good within fn only, by one goroutine, and
// rows are closed before the next statement (PostgreSQL's wire asks for it).
type Tx struct {
}

// Context is the context that View or Update was given.
func (tx *Tx) Context() context.Context { panic("unbuilt") }

// Exec runs one statement and answers the number of rows it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) { panic("unbuilt") }

// Query runs a statement that answers rows; the caller closes them.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) { panic("unbuilt") }

// QueryRow runs a statement that answers at most one row; Scan of the result
// answers sql.ErrNoRows where there is none.
func (tx *Tx) QueryRow(query string, args ...any) Row { panic("unbuilt") }

// AfterCommit runs f once the commit of this transaction is durable, and never
// where it isn't. f must be short and must not use the database.
func (tx *Tx) AfterCommit(f func()) { panic("unbuilt") }

// Row is the answer of QueryRow.
type Row struct {
	row *sql.Row
	err error
}

// Scan copies the row's columns into dest.
func (r Row) Scan(dest ...any) error { panic("unbuilt") }
