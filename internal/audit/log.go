package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chaperone/internal/store"
)

// Delay is how long after its commit a leaf is in the tree at the latest, while
// a log is started. The batch that gathers meanwhile costs one commit.
const Delay = 250 * time.Millisecond

const (
	gather     = 150 * time.Millisecond // of Delay; the rest is for the batch itself
	retryAfter = time.Second            // after a batch that failed
)

// Options of Open.
type Options struct {
	Tenant        string // default "local"
	CheckpointDir string // "" writes none
	KeyFile       string // Ed25519 signing key, made at first use (0600)
	// CheckpointEvery is the least time between two checkpoints while the log
	// grows (default a minute); Close writes one whatever the time.
	CheckpointEvery time.Duration
	// Publish, where set, stands around the step that makes a checkpoint's file
	// appear; see store.Options.Commit.
	Publish func(publish func() error) error
}

// Log appends events and integrates them; safe for concurrent use.
type Log struct {
	db     *store.DB
	opts   Options
	wake   chan struct{} // holds one: something was committed
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu  sync.Mutex // over err; innermost
	err error      // the last background pass, nil when it went well
}

// Open answers a log over db. It neither reads nor writes yet.
func Open(db *store.DB, opts Options) (*Log, error) {
	if opts.Tenant == "" {
		opts.Tenant = "local"
	}
	if !isWord(opts.Tenant) {
		return nil, fault("", "tenant", "want letters, digits and ._:-")
	}
	if opts.CheckpointDir != "" && opts.KeyFile == "" {
		return nil, errors.New("audit: checkpoints need a key file")
	}
	if opts.CheckpointEvery == 0 {
		opts.CheckpointEvery = time.Minute
	}
	if opts.Publish == nil {
		opts.Publish = func(publish func() error) error { return publish() }
	}
	return &Log{db: db, opts: opts, wake: make(chan struct{}, 1)}, nil
}

// Append inserts e's leaf in tx, so that it is there exactly if the change is.
// An event that a leaf can't hold is refusal.BadDocument, and should end tx.
func (l *Log) Append(tx *store.Tx, e Event) error {
	if e.Tenant == "" {
		e.Tenant = l.opts.Tenant
	}
	if err := e.check(); err != nil {
		return err
	}
	record, openings := newLeaf(e, time.Now())
	if len(openings) > 0 {
		body, err := encodeOpenings(openings)
		if err != nil {
			return err
		}
		tx.InsertLater("audit_opening (id, body)", record.id, body)
	}
	tx.InsertLater("audit_leaf (tenant, leaf)", e.Tenant, record.encode())
	tx.AfterCommit(l.nudge)
	return nil
}

// Erase removes the sealed values of the leaf with that id for good, and tells
// it by an event of its own. The leaf and the tree stay as they are.
func (l *Log) Erase(tx *store.Tx, e Event, id string) error {
	rows, err := tx.Exec("delete from audit_opening where id=$1", id)
	if err != nil {
		return err
	}
	if rows == 0 {
		return fmt.Errorf("record %s has no sealed values left", id)
	}
	e.Kind, e.Subject = KindErased, id
	return l.Append(tx, e)
}

// nudge tells the background that something was committed.
func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Start integrates in the background until ctx ends or Close: first what others
// left, then what is committed from now on.
func (l *Log) Start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.nudge()
	l.done.Go(func() { l.background(ctx) })
}

// background is Start's goroutine; Close waits for it.
func (l *Log) background(ctx context.Context) {
	last, pause := time.Now(), time.Duration(0)
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		left, err := l.integrateAll(ctx)
		if err == nil && time.Since(last) >= l.opts.CheckpointEvery {
			last, err = time.Now(), l.Checkpoint(ctx)
		}
		if pause = gather; err != nil {
			pause = retryAfter
		}
		if err != nil || left {
			// What isn't settled yet, or failed, is looked at again.
			l.nudge()
		}
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
	}
}

// Err answers why the last background pass failed, nil where it went well. The
// leaves of a failed pass stay in the database and are tried again.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the background work, integrates what is left and writes a last
// checkpoint where the log grew.
func (l *Log) Close(ctx context.Context) error {
	if l.cancel != nil {
		l.cancel()
	}
	l.done.Wait()
	if _, err := l.integrateAll(ctx); err != nil {
		return err
	}
	return l.Checkpoint(ctx)
}
