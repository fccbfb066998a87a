package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"chaperone/internal/audit"
	"chaperone/internal/node"
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

// anotherHome is what helps where a home can't be one.
const anotherHome = "name a directory of yours with --home DIR or CHAPERONE_HOME"

// settings is what the home's chaperone.yaml says, with --database over it. Every
// command that keeps or reads records asks here: one that looked elsewhere would
// make tokens for, and verify, a database that the server never sees.
func (a *app) settings() (home string, config node.Config, err error) {
	if home, err = a.homeDir(); err != nil {
		return "", config, err
	}
	if info, err := os.Stat(home); err == nil && !info.IsDir() {
		return "", config, fmt.Errorf("no home: %s is not a directory; %s", home, anotherHome)
	}
	if config, err = node.ReadConfig(home); err != nil {
		return "", config, exit(exitUsage, err)
	}
	if a.database != "" {
		config.Database = a.database
	}
	return home, config, nil
}

// openLedger opens the home's records, and creates fresh ones. Only serve migrates;
// see store.Options.
func (a *app) openLedger(ctx context.Context) (*records, error) {
	home, config, err := a.settings()
	if err != nil {
		return nil, err
	}
	if err := makeHome(home); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, config.Database, store.Options{})
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(db, audit.Options{Tenant: localTenant, CheckpointDir: config.Audit.Checkpoints, KeyFile: config.Audit.Key})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	log.Start(context.WithoutCancel(ctx)) // until close, also while the command is told to end
	return &records{db, log}, nil
}

// openServers opens the records of a server that has run. A home that was mistyped
// would else get a database, and a token or a link that no server knows.
func (a *app) openServers(ctx context.Context) (*records, error) {
	home, config, err := a.settings()
	if err != nil {
		return nil, err
	}
	if noFile(config.Database) {
		return nil, exit(exitUsage, fmt.Errorf("no server has run with the home %s: start `chaperone serve`, or name the server's home with --home DIR or CHAPERONE_HOME", home))
	}
	return a.openLedger(ctx)
}

// noFile tells whether a database is a file that isn't there.
func noFile(url string) bool {
	if strings.Contains(url, "://") {
		return false
	}
	_, err := os.Stat(strings.TrimPrefix(url, "sqlite:"))
	return errors.Is(err, fs.ErrNotExist)
}

// makeHome makes the home where there is none. One that every user may write in
// is refused: anybody could put a database, a key and checkpoints of theirs there.
func makeHome(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("no home: %w; %s", err, anotherHome)
	}
	info, err := os.Stat(home)
	if err != nil {
		return fmt.Errorf("no home: %w; %s", err, anotherHome)
	}
	if info.Mode()&0o002 != 0 {
		return fmt.Errorf("every user may write in the home %s (%v): %s, or close it with chmod o-w", home, info.Mode(), anotherHome)
	}
	return nil
}

// book is where the ledger's runs stand.
func (l *records) book() (*run.Book, error) { return run.NewBook(l.db, l.log, localTenant) }

// close integrates what is left and closes both.
func (l *records) close(ctx context.Context) error {
	return errors.Join(l.log.Close(ctx), l.db.Close())
}
