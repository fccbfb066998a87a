package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"write": write, "hold": hold, "create": create})
}

// write inserts from..to, tells each number once it is acknowledged.
func write(args []string) error {
	db, err := store.Open(context.Background(), args[0], store.Options{})
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	for k := from; k < to; k++ {
		if err := db.Update(context.Background(), func(tx *store.Tx) error {
			if _, err := tx.Exec("insert into probe values ($1, 0)", 2*k); err != nil {
				return err
			}
			_, err := tx.Exec("insert into probe values ($1, 0)", 2*k+1)
			return err
		}); err != nil {
			return err
		}
		fmt.Println(k)
	}
	return db.Close()
}

// hold keeps the write lock until its standard input ends.
func hold(args []string) error {
	db, err := store.Open(context.Background(), args[0], store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Update(context.Background(), func(*store.Tx) error {
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}), db.Close())
}

// create opens a database that may be fresh.
func create(args []string) error {
	db, err := store.Open(context.Background(), args[0], store.Options{})
	if err != nil {
		return err
	}
	return db.Close()
}

// Processes that write in a loop must let each other in.
func TestProcessesShareOneFile(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		table(t, storetest.Open(t, url, store.Options{}))
		const processes, each = 4, 150
		var all []*storetest.Process
		for i := range processes {
			all = append(all, storetest.Start(t, "write", url, strconv.Itoa(i*each), strconv.Itoa((i+1)*each)))
		}
		for _, p := range all {
			p.End(t)
		}
		if got := count(t, storetest.Open(t, url, store.Options{})); got != 2*processes*each {
			t.Errorf("got %d rows, want %d", got, 2*processes*each)
		}
	})
}

// Whoever opens a fresh database first makes it, whole; the others find it.
func TestFreshDatabaseIsMadeOnce(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		var all []*storetest.Process
		for range 6 {
			all = append(all, storetest.Start(t, "create", url))
		}
		for _, p := range all {
			p.End(t)
		}
	})
}

// What was acknowledged is there after a SIGKILL at any point, and nothing by
// halves.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		db := storetest.Open(t, url, store.Options{})
		table(t, db)
		next := 0
		for seed := range storetest.Rounds(20, 400) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			p := storetest.Start(t, "write", url, strconv.Itoa(next), strconv.Itoa(next+1_000_000))
			stop := next + random.IntN(40)
			acknowledged := next - 1
			for acknowledged < stop && p.Lines.Scan() {
				n, err := strconv.Atoi(p.Lines.Text())
				if err != nil {
					t.Fatal(err)
				}
				acknowledged = n
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			for _, line := range p.Crash(t) {
				if n, err := strconv.Atoi(line); err == nil {
					acknowledged = n
				}
			}
			var rows, odd int
			if err := db.View(context.Background(), func(tx *store.Tx) error {
				return tx.QueryRow("select count(*), cast(coalesce(sum(k % 2), 0) as bigint) from probe").Scan(&rows, &odd)
			}); err != nil {
				t.Fatal(err)
			}
			if rows != 2*odd || odd < acknowledged+1 || odd > acknowledged+2 {
				t.Fatalf("seed %d: %d acknowledged, found %d rows and %d halves", seed, acknowledged+1, rows, odd)
			}
			next = odd
		}
	})
}

func TestBusyDatabaseNamesItsHolder(t *testing.T) {
	path := storetest.SQLite(t)
	db := storetest.Open(t, path, store.Options{})
	p := storetest.Start(t, "hold", path)
	if !p.Lines.Scan() {
		t.Fatal("nobody holds it")
	}
	start := time.Now()
	err := db.Update(context.Background(), func(*store.Tx) error { return nil })
	if !errors.Is(err, refusal.DatabaseBusy) || !strings.Contains(err.Error(), "process "+strconv.Itoa(p.Process.Pid)+" (") {
		t.Errorf("got %v, want database_busy that names %d", err, p.Process.Pid)
	}
	if took := time.Since(start); took < store.BusyTimeout || took > 5*store.BusyTimeout {
		t.Errorf("gave up after %v, want %v", took, store.BusyTimeout)
	}
	if err := db.View(context.Background(), func(*store.Tx) error { return nil }); err != nil {
		t.Errorf("a reader: %v", err)
	}
}

func TestForeignFilesStayAsTheyAre(t *testing.T) {
	for _, text := range []string{"my thesis, do not lose\n", strings.Repeat("SQLite format 3", 100)} {
		path := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(context.Background(), path, store.Options{})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an error that names the file", err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file was changed: %q, %v", got, err)
		}
	}
	if _, err := store.Open(context.Background(), t.TempDir(), store.Options{}); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := store.Open(context.Background(), "mysql://secret@host/db", store.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the URL", err)
	}
}
