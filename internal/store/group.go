package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// maxGroup bounds how many Updates share one transaction, and so how long the
// first of them waits for its sync.
const maxGroup = 256

// errUndone tells a member that its group was undone through no fault of its
// own; it runs again, alone.
var errUndone = errors.New("the group was undone")

// writer is the one SQLite connection that writes. Its goroutine owns the
// transaction and hands the connection to one member after another; a member
// runs its fn on the caller's own goroutine, so that a panic or a Goexit in fn
// is the caller's.
type writer struct {
	db      *DB
	pool    *sql.DB // of one connection
	conn    *sql.Conn
	kept    *statements
	turn    *turn
	queue   chan *member
	closing chan struct{}
	stopped chan struct{}
}

// member is one Update in a group. The writer speaks on turn and done, the
// member on ran.
type member struct {
	ctx   context.Context
	alone bool       // wants a group of its own
	turn  chan error // nil: the connection is yours; else the group never began
	ran   chan ran
	done  chan error // the commit's outcome; buffered, a member that panicked is gone
}

// ran is how a member's fn ended.
type ran struct {
	kept   bool  // its changes stand in the transaction
	broken bool  // the engine undid the whole transaction
	later  []row // what goes in before the commit
}

// update is DB.Update on SQLite.
func (w *writer) update(ctx context.Context, fn func(*Tx) error) error {
	err := w.join(ctx, fn, false)
	if errors.Is(err, errUndone) {
		err = w.join(ctx, fn, true)
	}
	return err
}

// join runs fn as a member of the next group.
func (w *writer) join(ctx context.Context, fn func(*Tx) error, alone bool) error {
	m := &member{ctx: ctx, alone: alone, turn: make(chan error), ran: make(chan ran, 1), done: make(chan error, 1)}
	select {
	case w.queue <- m:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closing:
		return ErrClosed
	}
	select {
	case err := <-m.turn:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	tx, err := w.run(m, fn)
	// From here on the outcome is the commit's, whatever becomes of ctx. A refusal
	// waits for it too: what fn saw may be the work of members before it, and nobody
	// may hear of that before it is on disk, nor be refused for it where it never is.
	if end := <-m.done; end != nil {
		return end
	}
	if err != nil {
		return err
	}
	for _, f := range tx.after {
		f()
	}
	return nil
}

// run runs fn between the savepoint and its end, and tells the writer.
func (w *writer) run(m *member, fn func(*Tx) error) (tx *Tx, err error) {
	outcome := ran{}
	defer func() { m.ran <- outcome }()
	// Statements run under a context without an end: an interrupted one would
	// make SQLite undo the whole group. Tx asks m.ctx before each.
	tx = &Tx{db: w.db, ctx: m.ctx, use: context.WithoutCancel(m.ctx), on: w.conn, kept: w.kept}
	if err := w.exec("savepoint member"); err != nil {
		outcome.broken = true
		return nil, w.db.explain(err)
	}
	defer func() {
		if outcome.kept {
			return
		}
		// fn failed, panicked or left its goroutine.
		undo := w.exec("rollback to member")
		if undo == nil {
			undo = w.exec("release member")
		}
		outcome.broken = undo != nil
	}()
	if err := fn(tx); err != nil {
		return nil, err
	}
	if err := w.exec("release member"); err != nil {
		return nil, w.db.explain(err)
	}
	outcome.kept, outcome.later = true, tx.later
	return tx, nil
}

// loop serves groups until close.
func (w *writer) loop() {
	defer close(w.stopped)
	for {
		select {
		case m := <-w.queue:
			for m != nil {
				m = w.group(m)
			}
		case <-w.closing:
			return
		}
	}
}

// group runs first and whoever comes meanwhile in one transaction. It answers a
// member that came but begins a group of its own, or nil.
func (w *writer) group(first *member) (next *member) {
	if err := w.begin(first.ctx); err != nil {
		w.refuse(first, err)
		return nil
	}
	var kept, failed []*member
	var later []row
	broken := false
	for m := first; m != nil; m, next = next, nil {
		outcome := w.hand(m)
		if outcome.kept {
			kept, later = append(kept, m), append(later, outcome.later...)
		} else if outcome.broken || len(kept) == 0 {
			m.done <- nil // its error is its own
		} else {
			failed = append(failed, m)
		}
		if broken = outcome.broken; broken || m.alone || len(kept) == maxGroup {
			break
		}
		if next = w.waiting(); next != nil && next.alone {
			break
		}
	}
	err := w.end(broken, len(kept), later)
	for _, m := range append(kept, failed...) {
		m.done <- err
	}
	return next
}

// hand lends the connection to m and waits until it gives it back.
func (w *writer) hand(m *member) ran {
	select {
	case m.turn <- nil:
		return <-m.ran
	case <-m.ctx.Done():
		return ran{}
	}
}

// waiting answers the next member that is there already, or nil. The callers of
// the last group have just been woken: the second look lets them come, and makes
// one sync out of many.
func (w *writer) waiting() *member {
	for range 2 {
		select {
		case m := <-w.queue:
			return m
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// refuse tells everyone who waits that no transaction began.
func (w *writer) refuse(m *member, err error) {
	for ; m != nil; m = w.waiting() {
		select {
		case m.turn <- err:
		case <-m.ctx.Done():
		}
	}
}

// begin takes this process's turn and then SQLite's write lock.
func (w *writer) begin(ctx context.Context) error {
	release, err := w.turn.take(ctx)
	if err != nil {
		return w.db.busyOr(err)
	}
	defer release()
	err = wait(ctx, func() (bool, error) {
		err := w.exec("begin immediate")
		return !isBusy(err), err
	})
	return w.db.busyOr(err)
}

// end commits, or undoes a broken group. Members of a group that surely wasn't
// committed run again, each alone, so that only the one at fault fails; where
// the outcome isn't known all get the commit's error.
func (w *writer) end(broken bool, members int, later []row) error {
	if broken {
		// The engine undid it by itself; this only clears a half-open one.
		_ = w.exec("rollback")
		return errUndone
	}
	asked := true
	err := w.insert(later)
	if err == nil {
		asked = false
		err = w.db.committed(w.db.commit(func() error { asked = true; return w.exec("commit") }))
	}
	if err == nil {
		return nil
	}
	undone := w.exec("rollback") == nil
	switch {
	case undone && asked && members > 1:
		return errUndone
	case undone:
		return fmt.Errorf("not committed: %w", w.db.explain(err))
	}
	return fmt.Errorf("commit (its outcome is unknown): %w", w.db.explain(err))
}

// insert puts in what the group's members put off; rows of one table together.
func (w *writer) insert(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.into, b.into) })
	ctx := context.Background()
	tx := &Tx{db: w.db, ctx: ctx, use: ctx, on: w.conn, kept: w.kept}
	return tx.insertAll(rows)
}

// exec runs a statement of the writer's own.
func (w *writer) exec(query string) error {
	stmt, err := w.kept.prepare(context.Background(), query)
	if err == nil {
		_, err = stmt.ExecContext(context.Background())
	}
	return err
}

// close ends the goroutine, then the connection, then the turn.
func (w *writer) close() error {
	close(w.closing)
	<-w.stopped
	return errors.Join(w.kept.close(), w.conn.Close(), w.pool.Close(), w.turn.close())
}

// statements keeps the writer's prepared statements by their text: preparing
// costs more than running most of them.
type statements struct {
	conn *sql.Conn
	all  map[string]*sql.Stmt
}

// maxStatements bounds what a caller that builds its texts can make us keep.
const maxStatements = 512

// prepare answers the kept statement of query, or nil where nothing is kept.
func (s *statements) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s == nil {
		return nil, nil
	}
	if stmt := s.all[query]; stmt != nil {
		return stmt, nil
	}
	if len(s.all) >= maxStatements {
		if err := s.close(); err != nil {
			return nil, err
		}
	}
	stmt, err := s.conn.PrepareContext(ctx, query)
	if err == nil {
		s.all[query] = stmt
	}
	return stmt, err
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.Close())
	}
	clear(s.all)
	return errors.Join(errs...)
}
