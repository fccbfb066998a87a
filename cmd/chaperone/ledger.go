package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"chaperone/internal/audit"
	"chaperone/internal/owned/run"
	"chaperone/internal/store"
)

// localTenant owns what commands record; serve's default tenant is the same.
const localTenant = "local"

// records is the database and the audit log that a command writes in.
type records struct {
	db  *store.DB
	log *audit.Log
}

// openLedger opens --database, or the home's own, and creates a fresh one. Only
// serve migrates; see store.Options.
func (a *app) openLedger(ctx context.Context) (*records, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	if err := makeHome(home); err != nil {
		return nil, err
	}
	url := a.database
	if url == "" {
		url = filepath.Join(home, "chaperone.db")
	}
	db, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(db, audit.Options{
		Tenant: localTenant, CheckpointDir: filepath.Join(home, "checkpoints"), KeyFile: filepath.Join(home, "audit.key"),
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	log.Start(context.WithoutCancel(ctx)) // until close, also while the command is told to end
	return &records{db, log}, nil
}

// makeHome makes the home where there is none. One that every user may write in
// is refused: anybody could put a database, a key and checkpoints of theirs there.
func makeHome(home string) error {
	const mend = "name a directory of yours with --home DIR or CHAPERONE_HOME"
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("no home: %w; %s", err, mend)
	}
	info, err := os.Stat(home)
	if err != nil {
		return fmt.Errorf("no home: %w; %s", err, mend)
	}
	if info.Mode()&0o002 != 0 {
		return fmt.Errorf("every user may write in the home %s (%v): %s, or close it with chmod o-w", home, info.Mode(), mend)
	}
	return nil
}

// book is where the ledger's runs stand.
func (l *records) book() (*run.Book, error) { return run.NewBook(l.db, l.log, localTenant) }

// close integrates what is left and closes both.
func (l *records) close(ctx context.Context) error {
	return errors.Join(l.log.Close(ctx), l.db.Close())
}
