package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	postgresConns = 16
	// migrationLock is the advisory lock under which nodes create and migrate.
	migrationLock = 0x63686170
	// maxOrders is how often Update asks for another order before it gives up.
	maxOrders = 500
	// againTime is how long a transaction that collided waits for the one that runs again.
	againTime = 200 * time.Millisecond
)

// PostgreSQL's answers that Update and explain know.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	noCharacter          = "22021"
	untranslatable       = "22P05"
)

// openPostgres opens url's database and brings it to its version.
func (db *DB) openPostgres(ctx context.Context, url string, migrate bool) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The parser's own text may quote the URL, and with it a password.
		return errors.New("database: not a valid postgres:// URL")
	}
	// A server's own default could acknowledge a commit before it is on disk.
	config.RuntimeParams["synchronous_commit"] = "on"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "chaperone"
	}
	db.pool = stdlib.OpenDB(*config)
	db.pool.SetMaxOpenConns(postgresConns)
	db.pool.SetMaxIdleConns(postgresConns)
	if err := db.migratePostgres(ctx, migrate); err != nil {
		return fmt.Errorf("database on %s:%d: %w", config.Host, config.Port, err)
	}
	return nil
}

// migratePostgres brings the database to its version in one transaction.
func (db *DB) migratePostgres(ctx context.Context, migrate bool) error {
	tx, err := db.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	// After Commit this answers ErrTxDone; before it, nothing is to be kept.
	defer tx.Rollback()
	have, err := postgresVersion(ctx, tx)
	if err != nil {
		return err
	}
	plan, err := planned(Postgres, have, migrate)
	db.older = plan.older
	if err != nil || len(plan.steps) == 0 {
		return err
	}
	// Many nodes start at once: look again when it is this one's turn.
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock($1)", migrationLock); err != nil {
		return err
	}
	if have, err = postgresVersion(ctx, tx); err != nil {
		return err
	}
	if plan, err = planned(Postgres, have, migrate); err != nil {
		return err
	}
	if err := plan.apply(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// postgresVersion answers the schema's version, 0 where it has none.
func postgresVersion(ctx context.Context, tx *sql.Tx) (int, error) {
	var there bool
	// From the table itself: to_regclass would answer from a cache that misses
	// what another node committed while this one waited for the lock.
	err := tx.QueryRowContext(ctx, `select exists (select from pg_class
		where relname='store_migration' and relnamespace=current_schema()::regnamespace)`).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	return version(ctx, tx)
}

// updatePostgres is DB.Update on PostgreSQL: fn runs again while the server
// refuses the order in which it met others.
func (db *DB) updatePostgres(ctx context.Context, fn func(*Tx) error) error {
	for order := 1; ; order++ {
		err := db.tryPostgres(ctx, fn)
		if !isOrder(err) || order == maxOrders {
			return err
		}
		// Those that collided must not meet again at once: one at a time goes on, and
		// meets newcomers alone. One that takes long holds up nobody for long.
		var again chan<- struct{}
		wait := rand.N(time.Duration(min(order, 50)) * time.Millisecond)
		if order == 1 {
			again, wait = db.again, againTime
		}
		pause := time.NewTimer(wait)
		select {
		case again <- struct{}{}:
			defer func() { <-db.again }()
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		pause.Stop()
	}
}

func (db *DB) tryPostgres(ctx context.Context, fn func(*Tx) error) error {
	on, err := db.pool.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	// After Commit this answers ErrTxDone; before it, fn's changes go.
	defer on.Rollback()
	tx := &Tx{db: db, ctx: ctx, use: ctx, on: on}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.insertAll(tx.later); err != nil {
		return err
	}
	if err := db.committed(db.commit(on.Commit)); err != nil {
		if _, told := errors.AsType[*pgconn.PgError](err); told && isOrder(err) {
			return err
		}
		return unknown{err}
	}
	for _, f := range tx.after {
		f()
	}
	return nil
}

// unknown is a commit whose outcome nobody knows: it is never run again.
type unknown struct{ error }

func (u unknown) Error() string { return "commit (its outcome is unknown): " + u.error.Error() }
func (u unknown) Unwrap() error { return u.error }

// isOrder tells whether a transaction that committed nothing may run again: the
// server asks for another order, or the pool lent a connection that an earlier
// caller's cancellation had closed.
func isOrder(err error) bool {
	if _, never := errors.AsType[unknown](err); never {
		return false
	}
	if errors.Is(err, driver.ErrBadConn) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == serializationFailure || e.Code == deadlockDetected)
}

func lacksPostgresTable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == undefinedTable || e.Code == undefinedColumn)
}

// isNoText tells whether the server refuses a text as such: it keeps no NUL, and
// nothing but UTF-8. That is the caller's fault, not the database's.
func isNoText(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == noCharacter || e.Code == untranslatable)
}
