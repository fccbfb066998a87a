package store_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// script changes a database behind the store's back.
func script(t *testing.T, url string, statements ...string) {
	t.Helper()
	driver := "sqlite"
	if strings.HasPrefix(url, "postgres:") {
		driver = "pgx"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		storetest.Open(t, url, store.Options{})
		script(t, url, "insert into store_migration (version, name) values (9999, 'future')")
		for _, migrate := range []bool{false, true} {
			if _, err := store.Open(context.Background(), url, store.Options{Migrate: migrate}); !errors.Is(err, refusal.NewerDatabase) {
				t.Errorf("migrate %v: got %v, want newer_database", migrate, err)
			}
		}
	})
}

func TestOlderDatabaseIsUsedOrMigrated(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		first := storetest.Open(t, url, store.Options{})
		table(t, first)
		// As a version before the last migrations left it.
		script(t, url, append(drops(t, first), "delete from store_migration where version > 1")...)
		older := storetest.Open(t, url, store.Options{})
		if !older.Older() || count(t, older) != 0 {
			t.Errorf("got older %v, want it used as it is", older.Older())
		}
		err := older.Update(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Exec("delete from owned_run")
			return err
		})
		if !errors.Is(err, refusal.OlderDatabase) || !strings.Contains(err.Error(), "chaperone serve") {
			t.Errorf("got %v, want older_database that names chaperone serve", err)
		}
		migrated := storetest.Open(t, url, store.Options{Migrate: true})
		if err := migrated.Update(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Exec("delete from owned_run")
			return err
		}); err != nil || migrated.Older() {
			t.Errorf("after the migration: %v", err)
		}
	})
}

// drops answers the statements that drop every table of the migrations after the
// first.
func drops(t *testing.T, db *store.DB) (statements []string) {
	t.Helper()
	query := `select name from sqlite_master where type='table' and name not like 'sqlite_%'`
	if db.Engine() == store.Postgres {
		query = `select tablename from pg_tables where schemaname='public'`
	}
	err := db.View(context.Background(), func(tx *store.Tx) error {
		rows, err := tx.Query(query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			if !strings.HasPrefix(name, "audit_") && name != "store_migration" && name != "probe" {
				statements = append(statements, "drop table "+name)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return statements
}

func TestAnotherProgramsDatabaseIsRefused(t *testing.T) {
	path := storetest.SQLite(t)
	script(t, path, "create table music (title text)", "insert into music values ('x')")
	if _, err := store.Open(context.Background(), path, store.Options{Migrate: true}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("got %v, want it refused", err)
	}
	script(t, path, "insert into music values ('y')")
}

// What can't be used is told with what to do about it, and is left as it was.
func TestUnusableFilesAreToldWithTheirRemedy(t *testing.T) {
	dir := t.TempDir()
	garbage, link := filepath.Join(dir, "garbage"), filepath.Join(dir, "link")
	junk := []byte(strings.Repeat("no database at all ", 500))
	if err := errors.Join(os.WriteFile(garbage, junk, 0o600), os.Symlink(filepath.Join(dir, "nowhere"), link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		garbage: "put a good copy back", link: "a symlink that leads nowhere", dir: "no regular file",
		"/sys/x.db": "let its folder be written",
	} {
		_, err := store.Open(context.Background(), path, store.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--database") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want it to name the path, --database and %q", path, err, want)
		}
		if got, want := errors.Is(err, refusal.Tampered), path == garbage; got != want {
			t.Errorf("%s: tampered is %v, want %v", path, got, want)
		}
	}
	if left, err := os.ReadFile(garbage); err != nil || string(left) != string(junk) {
		t.Errorf("the file that is no database was changed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where the link leads something was made: %v", err)
	}
}
