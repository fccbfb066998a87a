package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"chaperone/internal/refusal"
)

// migrations holds a folder for each engine; a file is NNNN_name.sql, numbered
// without a gap, and is never changed once it was published.
//
//go:embed migrations
var migrations embed.FS

// step is one migration.
type step struct {
	version   int
	name, sql string
}

// plan is what must run to bring a database to this version.
type plan struct {
	steps []step
	older bool // it stays behind, and is used as it is
}

// planned answers the plan for a database of version have. A fresh one (0) is
// always made whole; an older one only where migrate says so.
func planned(engine string, have int, migrate bool) (plan, error) {
	steps, err := steps(engine)
	if err != nil {
		return plan{}, err
	}
	switch {
	case have > len(steps):
		return plan{}, fmt.Errorf("%w: it has version %d and this program knows %d; use the newer chaperone", refusal.NewerDatabase, have, len(steps))
	case have > 0 && !migrate:
		return plan{older: have < len(steps)}, nil
	}
	return plan{steps: steps[have:]}, nil
}

// steps reads engine's migrations in order.
func steps(engine string) ([]step, error) {
	dir := path.Join("migrations", engine)
	entries, err := fs.ReadDir(migrations, dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var all []step
	for i, entry := range entries {
		number, name, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s/%s: want number %04d", engine, entry.Name(), i+1)
		}
		text, err := fs.ReadFile(migrations, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, step{i + 1, name, string(text)})
	}
	return all, nil
}

// apply runs the plan on an open transaction: all of it or, by a crash, none.
func (p plan) apply(ctx context.Context, on runner) error {
	const table = "create table if not exists store_migration (version integer primary key, name text not null)"
	if _, err := on.ExecContext(ctx, table); err != nil {
		return err
	}
	for _, s := range p.steps {
		// Without arguments both drivers run a script of several statements.
		if _, err := on.ExecContext(ctx, s.sql); err != nil {
			return fmt.Errorf("migration %04d_%s: %w", s.version, s.name, err)
		}
		if _, err := on.ExecContext(ctx, "insert into store_migration (version, name) values ($1, $2)", s.version, s.name); err != nil {
			return err
		}
	}
	return nil
}

// version answers the highest version that was applied.
func version(ctx context.Context, on runner) (have int, err error) {
	err = on.QueryRowContext(ctx, "select coalesce(max(version), 0) from store_migration").Scan(&have)
	return have, err
}
