package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// schema reads the audit tables and their columns from the database itself, so
// that a new column is tampered with as soon as it is there.
func schema(t *testing.T, db *store.DB) map[string][]string {
	t.Helper()
	query := `select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type='table' and m.name like 'audit%'`
	if db.Engine() == store.Postgres {
		query = `select table_name, column_name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
			where t.table_type='BASE TABLE' and table_name like 'audit%' and table_schema=current_schema()`
	}
	all := map[string][]string{}
	err := db.View(context.Background(), func(tx *store.Tx) error {
		rows, err := tx.Query(query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				return err
			}
			all[table] = append(all[table], column)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 5 {
		t.Fatalf("got tables %v, want the five of the log", all)
	}
	return all
}

// errUndo ends a transaction that is not meant to stay.
var errUndo = errors.New("undo")

// tampered commits a change and wants verify to tell it; a change that the engine
// itself refuses is no tampering.
func (l *fixture) tampered(t *testing.T, what string, change func(*store.Tx) error) {
	t.Helper()
	if err := l.db.Update(context.Background(), change); err != nil {
		if !errors.Is(err, errUndo) {
			t.Logf("%s: the engine refuses it: %v", what, err)
		}
		return
	}
	if err := l.verify(t).Err(); !errors.Is(err, refusal.Tampered) {
		t.Errorf("%s: got %v, want tampered", what, err)
	}
}

// other answers a value of v's type that isn't v.
func other(v any) any {
	switch v := v.(type) {
	case int64:
		return v + 1_000_000 // no neighbour's
	case string:
		return "x" + v
	case []byte:
		changed := slices.Clone(v)
		if len(changed) == 0 {
			return []byte{1}
		}
		changed[len(changed)/2] ^= 1
		return changed
	}
	panic(fmt.Sprintf("no other value of %T", v))
}

// Every column of every row is altered once, and verify must say so each time.
func TestEditOfAnyColumnIsFound(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		l.add(t, 6)
		l.close(t)
		l.add(t, 260) // a full tile, a second level
		l.close(t)
		if err := l.verify(t).Err(); err != nil {
			t.Fatal(err)
		}
		for table, columns := range schema(t, l.db) {
			rows := l.rows(t, table, columns)
			for r := 0; r < len(rows); r += 1 + len(rows)/9 {
				for c := range columns {
					l.tampered(t, fmt.Sprintf("%s row %d, %s", table, r, columns[c]), func(tx *store.Tx) error {
						return set(tx, table, columns, rows[r], c, other(rows[r][c]))
					})
					changed := slices.Clone(rows[r])
					changed[c] = other(rows[r][c])
					l.restore(t, table, columns, changed, rows[r])
				}
				if table == "audit_leaf" || table == "audit_tile" || table == "audit_opening" || table == "audit_tree" {
					l.tampered(t, fmt.Sprintf("%s row %d deleted", table, r), func(tx *store.Tx) error {
						return remove(tx, table, columns, rows[r])
					})
					l.restore(t, table, columns, nil, rows[r])
				}
			}
		}
		if err := l.verify(t).Err(); err != nil {
			t.Fatalf("the test didn't put things back: %v", err)
		}
	})
}

func (l *fixture) rows(t *testing.T, table string, columns []string) (all [][]any) {
	t.Helper()
	err := l.db.View(context.Background(), func(tx *store.Tx) error {
		rows, err := tx.Query("select " + strings.Join(columns, ",") + " from " + table + " order by 1, 2")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			row := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			for i := range row {
				if b, ok := row[i].([]byte); ok && b == nil {
					row[i] = []byte{} // SQLite's driver answers an empty blob as none
				}
			}
			all = append(all, row)
		}
		return rows.Err()
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d rows, %v", table, len(all), err)
	}
	return all
}

func where(columns []string, first int) string {
	var parts []string
	for i, c := range columns {
		parts = append(parts, fmt.Sprintf("%s=$%d", c, first+i))
	}
	return " where " + strings.Join(parts, " and ")
}

func set(tx *store.Tx, table string, columns []string, row []any, c int, v any) error {
	n, err := tx.Exec("update "+table+" set "+columns[c]+"=$1"+where(columns, 2), append([]any{v}, row...)...)
	if err == nil && n != 1 {
		return fmt.Errorf("%d rows changed", n)
	}
	return err
}

func remove(tx *store.Tx, table string, columns []string, row []any) error {
	_, err := tx.Exec("delete from "+table+where(columns, 1), row...)
	return err
}

// restore puts row back in the place of changed.
func (l *fixture) restore(t *testing.T, table string, columns []string, changed, row []any) {
	t.Helper()
	if err := l.db.Update(context.Background(), func(tx *store.Tx) error {
		if changed != nil {
			if err := remove(tx, table, columns, changed); err != nil {
				return err
			}
		}
		var marks []string
		for i := range columns {
			marks = append(marks, fmt.Sprintf("$%d", i+1))
		}
		_, err := tx.Exec("insert into "+table+" ("+strings.Join(columns, ",")+") values ("+strings.Join(marks, ",")+") on conflict do nothing", row...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// forge rebuilds the whole log out of other leaves, as one could who owns the
// database and knows the code.
func forge(t *testing.T, l *fixture, n int) {
	t.Helper()
	if err := l.db.Update(context.Background(), func(tx *store.Tx) error {
		for _, s := range []string{"delete from audit_leaf", "delete from audit_opening", "delete from audit_tile", "delete from audit_tree", "update audit_mark set xid=0"} {
			if _, err := tx.Exec(s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(l.db, audit.Options{}) // no checkpoints of its own
	if err != nil {
		t.Fatal(err)
	}
	forged := &fixture{l.db, log, l.opts}
	forged.add(t, n)
	forged.close(t)
}

func TestCheckpointsTellCutAndRebuiltLogs(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(t *testing.T, l *fixture)
		found bool
	}{
		"rebuilt":                  {func(t *testing.T, l *fixture) { forge(t, l, 20) }, true},
		"rebuilt longer":           {func(t *testing.T, l *fixture) { forge(t, l, 40) }, true},
		"cut":                      {func(t *testing.T, l *fixture) { forge(t, l, 3) }, true},
		"all gone":                 {func(t *testing.T, l *fixture) { forge(t, l, 0) }, true},
		"rebuilt, no checkpoints":  {func(t *testing.T, l *fixture) { forge(t, l, 20); os.RemoveAll(l.opts.CheckpointDir) }, false},
		"first checkpoint gone":    {func(t *testing.T, l *fixture) { l.lose(t, 1) }, true},
		"checkpoint edited":        {func(t *testing.T, l *fixture) { l.edit(t, 1, "10\n", "11\n") }, true},
		"checkpoint of other name": {func(t *testing.T, l *fixture) { l.rename(t, 2, 3) }, true},
		"key replaced":             {func(t *testing.T, l *fixture) { l.rekey(t) }, true},
		"key gone":                 {func(t *testing.T, l *fixture) { os.Remove(l.opts.KeyFile) }, true},
		"nothing":                  {func(t *testing.T, l *fixture) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
			l.add(t, 10)
			l.close(t)
			l.add(t, 10)
			l.close(t)
			test.do(t, l)
			r := l.verify(t)
			if found := errors.Is(r.Err(), refusal.Tampered); found != test.found {
				t.Errorf("got %v, want found %v", r.Err(), test.found)
			}
			if len(r.Notes) == 0 && r.Tenants[0].Records > 0 {
				t.Error("the report doesn't say what it can't detect")
			}
		})
	}
}

func (l *fixture) file(number int) string {
	return filepath.Join(l.opts.CheckpointDir, "local", fmt.Sprintf("%08d.checkpoint", number))
}

func (l *fixture) lose(t *testing.T, number int) {
	if err := os.Remove(l.file(number)); err != nil {
		t.Fatal(err)
	}
}

func (l *fixture) rename(t *testing.T, from, to int) {
	if err := os.Rename(l.file(from), l.file(to)); err != nil {
		t.Fatal(err)
	}
}

func (l *fixture) edit(t *testing.T, number int, from, to string) {
	data, err := os.ReadFile(l.file(number))
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatal(err, string(data))
	}
	if err := os.WriteFile(l.file(number), []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *fixture) rekey(t *testing.T) {
	if err := os.Remove(l.opts.KeyFile); err != nil {
		t.Fatal(err)
	}
	l.add(t, 1)
	l.close(t) // makes another key, and signs with it
}

// A log that doesn't extend its last checkpoint gets no further signature.
func TestForkedLogIsNotSigned(t *testing.T) {
	for _, n := range []int{3, 10, 30} {
		l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
		l.add(t, 10)
		l.close(t)
		forge(t, l, n)
		if err := l.log.Checkpoint(context.Background()); !errors.Is(err, refusal.Tampered) {
			t.Errorf("%d records: got %v, want tampered", n, err)
		}
		if _, err := os.Stat(l.file(2)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d records: a second checkpoint is there", n)
		}
	}
}

func TestErasureKeepsTheLogVerifiable(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		l.add(t, 5)
		l.close(t)
		var id string
		find := func(r audit.Record) error {
			if r.Seq == 2 {
				id = r.ID
			}
			return nil
		}
		if err := audit.Records(context.Background(), l.db, audit.Filter{}, find); err != nil {
			t.Fatal(err)
		}
		erase := func(tx *store.Tx) error { return l.log.Erase(tx, audit.Event{Actor: "uid:0"}, id) }
		if err := l.db.Update(context.Background(), erase); err != nil {
			t.Fatal(err)
		}
		l.close(t)
		r := l.verify(t)
		if r.Err() != nil || r.Tenants[0].Erased != 1 {
			t.Errorf("got %v, %+v, want one erased", r.Err(), r.Tenants)
		}
		if err := audit.Records(context.Background(), l.db, audit.Filter{Record: id}, func(r audit.Record) error {
			if len(r.Values) != 0 || len(r.Erased) != 2 {
				t.Errorf("got %v, erased %v", r.Values, r.Erased)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.db.Update(context.Background(), erase); err == nil {
			t.Error("erased twice")
		}
	})
}

// A value that was erased is gone from the file, not only from the table.
func TestErasedValueLeavesTheFile(t *testing.T) {
	path := storetest.SQLite(t)
	db, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := over(t, db)
	const canary = "canary-7f3a.example"
	if err := db.Update(context.Background(), func(tx *store.Tx) error {
		return l.log.Append(tx, audit.Event{Kind: "k", Sealed: []audit.Sealed{audit.Seal("host", canary)}})
	}); err != nil {
		t.Fatal(err)
	}
	l.close(t)
	var id string
	if err := audit.Records(context.Background(), db, audit.Filter{}, func(r audit.Record) error { id = r.ID; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(context.Background(), func(tx *store.Tx) error { return l.log.Erase(tx, audit.Event{}, id) }); err != nil {
		t.Fatal(err)
	}
	l.close(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), canary) {
			t.Errorf("%s still holds the erased value", file)
		}
	}
}
