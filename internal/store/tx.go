package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chaperone/internal/refusal"
)

// Tx is a running transaction. It is good within fn only, by one goroutine, and
// rows are closed before the next statement (PostgreSQL's wire asks for it).
type Tx struct {
	db    *DB
	ctx   context.Context // the caller's
	use   context.Context // what statements run under
	on    runner
	look  bool        // of Look
	ran   bool        // and its statement was run
	kept  *statements // SQLite's writer alone
	after []func()
	later []row
}

// row is one of InsertLater.
type row struct {
	into   string
	values []any
}

// may tells whether a statement may be run.
func (tx *Tx) may(query string) error {
	if tx.look && (tx.ran || !strings.HasPrefix(query, "select ")) {
		return errors.New("store: Look is for one statement that reads")
	}
	tx.ran = true
	return tx.ctx.Err()
}

// runner is what *sql.Tx, *sql.Conn and *sql.DB share.
type runner interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// Context is the context that View or Update was given.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Engine answers SQLite or Postgres, for the rare statement that differs.
func (tx *Tx) Engine() string { return tx.db.engine }

// Older tells whether the database may lack tables (see DB.Older).
func (tx *Tx) Older() bool { return tx.db.older }

// Exec runs one statement and answers the number of rows it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	if err := tx.may(query); err != nil {
		return 0, err
	}
	var result sql.Result
	stmt, err := tx.kept.prepare(tx.use, query)
	switch {
	case err != nil:
	case stmt != nil:
		result, err = stmt.ExecContext(tx.use, args...)
	default:
		result, err = tx.on.ExecContext(tx.use, query, args...)
	}
	if err != nil {
		return 0, tx.db.explain(err)
	}
	return result.RowsAffected()
}

// Query runs a statement that answers rows; the caller closes them.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	if err := tx.may(query); err != nil {
		return nil, err
	}
	// Not from the kept statements: one of them has one cursor, and a caller
	// that runs it again before it closed the rows would move that cursor.
	var rows *sql.Rows
	stmt, err := tx.looking(query)
	switch {
	case err != nil:
	case stmt != nil:
		rows, err = stmt.QueryContext(tx.use, args...)
	default:
		rows, err = tx.on.QueryContext(tx.use, query, args...)
	}
	if err != nil {
		return nil, tx.db.explain(err)
	}
	return rows, nil
}

// QueryRow runs a statement that answers at most one row; Scan of the result
// answers sql.ErrNoRows where there is none.
func (tx *Tx) QueryRow(query string, args ...any) Row {
	if err := tx.may(query); err != nil {
		return Row{err: err}
	}
	stmt, err := tx.kept.prepare(tx.use, query)
	if tx.look {
		stmt, err = tx.looking(query)
	}
	switch {
	case err != nil:
		return Row{err: tx.db.explain(err)}
	case stmt != nil:
		return Row{db: tx.db, row: stmt.QueryRowContext(tx.use, args...)}
	}
	return Row{db: tx.db, row: tx.on.QueryRowContext(tx.use, query, args...)}
}

// looking answers Look's statement, prepared once for each connection; nil where the
// driver keeps statements itself.
func (tx *Tx) looking(query string) (*sql.Stmt, error) {
	if !tx.look || tx.db.engine != SQLite {
		return nil, nil
	}
	if stmt, ok := tx.db.looks.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	// Not under the caller's context: others go on using it.
	stmt, err := tx.db.pool.PrepareContext(context.WithoutCancel(tx.use), query)
	if err != nil {
		return nil, err
	}
	if first, there := tx.db.looks.LoadOrStore(query, stmt); there {
		return first.(*sql.Stmt), stmt.Close()
	}
	return stmt, nil
}

// InsertLater inserts a row just before the commit, and with it or not at all.
// into names table and columns: "audit_leaf (tenant, leaf)". The rows of a whole
// group go in by one statement, which is why an append-only trail costs little
// beside its transaction; the transaction's own reads don't see them.
func (tx *Tx) InsertLater(into string, values ...any) {
	tx.later = append(tx.later, row{into, values})
}

// AfterCommit runs f once the commit of this transaction is durable, and never
// where it isn't. f must be short and must not use the database.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// maxRows bounds the rows of one statement, and so how many texts are kept.
const maxRows = 32

// insertAll inserts what InsertLater put off, in its order for each table.
func (tx *Tx) insertAll(rows []row) error {
	for len(rows) > 0 {
		into, width := rows[0].into, len(rows[0].values)
		n := 1
		for n < len(rows) && n < maxRows && rows[n].into == into && len(rows[n].values) == width {
			n++
		}
		args := make([]any, 0, n*width)
		for _, r := range rows[:n] {
			args = append(args, r.values...)
		}
		if _, err := tx.Exec(insertion(into, n, width), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insertion answers the statement that inserts n rows of width values.
func insertion(into string, n, width int) string {
	b := append([]byte("insert into "), into...)
	b = append(b, " values "...)
	for i := range n * width {
		switch {
		case i == 0:
			b = append(b, '(')
		case i%width == 0:
			b = append(b, "),("...)
		default:
			b = append(b, ',')
		}
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(i+1), 10)
	}
	return string(append(b, ')'))
}

// Row is the answer of QueryRow.
type Row struct {
	db  *DB
	row *sql.Row
	err error
}

// Scan copies the row's columns into dest.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	err := r.row.Scan(dest...)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return r.db.explain(err)
}

// explain turns an engine's error into what a person can act on.
func (db *DB) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case isBusy(err):
		return db.busy()
	case db.older && (lacksTable(err) || lacksPostgresTable(err)):
		return fmt.Errorf("%w: the database was made by an older version (%v); run `chaperone serve` once, it migrates", refusal.OlderDatabase, err)
	case isNoText(err):
		// Not as it came: the server's own words quote the text.
		return fmt.Errorf("text with NUL or without UTF-8: %w", refusal.BadDocument)
	case isForeign(err):
		return fmt.Errorf("%w: %s is damaged or no SQLite database (%w); put a good copy back, or name another file with --database or --home", refusal.Tampered, db.path, err)
	case isUnwritable(err):
		return fmt.Errorf("%s can't be written (%w): make room on its disk and let its folder be written, or name another file with --database or --home", db.path, err)
	}
	return err
}
