package item_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

func open(t *testing.T, db *store.DB, opts item.Options) *item.Book {
	t.Helper()
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := item.NewBook(db, log, "local", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.View(context.Background(), item.Check); err != nil {
			t.Error(err)
		}
	})
	return b
}

var place = item.Place{Account: "ada", Collection: "files", Incarnation: "1"}

// put makes one change whose content is called digest and has that size.
func put(t *testing.T, b *item.Book, c item.Change) (item.Written, error) {
	t.Helper()
	if c.HasContent {
		c.Digest = strings.Repeat(fmt.Sprintf("%02x", c.Size%256), 32)
		var err error
		if c.File, err = b.Claim(context.Background(), c.Digest, c.Size); err != nil {
			t.Fatal(err)
		}
	}
	return b.Put(context.Background(), place, c)
}

func TestQuota(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := open(t, db, item.Options{MaxItems: 2, MaxBytes: 100})
		create := func(name, mark string, size int64) error {
			_, err := put(t, b, item.Change{Item: name, HasContent: true, Size: size, IfAbsent: true, Mark: mark})
			return err
		}
		refused := func(err error, limit, used int64) {
			t.Helper()
			told, ok := errors.AsType[*tool.Error](err)
			if !ok || told.Code != tool.QuotaExceeded {
				t.Fatalf("%v, want quota_exceeded", err)
			}
			if diff := cmp.Diff(map[string]any{"limit": limit, "used": used}, told.Details); diff != "" {
				t.Error(diff)
			}
		}
		if err := create("a", "m1", 60); err != nil {
			t.Fatal(err)
		}
		refused(create("b", "m2", 41), 100, 60)
		if err := create("b", "m3", 40); err != nil {
			t.Fatal(err)
		}
		refused(create("c", "m4", 0), 2, 2)
		a, _, err := b.Find(context.Background(), place, "a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = put(t, b, item.Change{Item: "a", HasContent: true, Size: 61, IfVersion: a.Version, Mark: "m5"})
		refused(err, 100, 100)
		w, err := put(t, b, item.Change{Item: "a", HasContent: true, Size: 1, IfVersion: a.Version, Mark: "m6"})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(context.Background(), place, "a", w.Version, "m7"); err != nil {
			t.Fatal(err)
		}
		u, err := b.Usage(context.Background(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(item.Usage{Items: 1, MaxItems: 2, Bytes: 40, MaxBytes: 100}, u); diff != "" {
			t.Error(diff)
		}
		if u, err := b.Usage(context.Background(), "bob"); err != nil || u.Items != 0 {
			t.Errorf("bob uses %+v %v", u, err)
		}
	})
}

// TestMarks: a mark is one change, for ever; settled as never it can't come.
func TestMarks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := open(t, db, item.Options{})
		ctx := context.Background()
		w, err := put(t, b, item.Change{Item: "a", HasContent: true, Size: 1, IfAbsent: true, Mark: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, b, item.Change{Item: "b", HasContent: true, Size: 1, IfAbsent: true, Mark: "m1"}); refusal.Of(err) != tool.Cancelled {
			t.Errorf("a mark was used twice: %v", err)
		}
		settled, err := b.Settle(ctx, place, "m1")
		if diff := cmp.Diff(w, settled); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for range 2 {
			if settled, err = b.Settle(ctx, place, "m2"); err != nil || settled.Outcome != item.Never {
				t.Errorf("%+v %v", settled, err)
			}
		}
		if err := b.Delete(ctx, place, "a", w.Version, "m2"); refusal.Of(err) != tool.Cancelled {
			t.Errorf("a settled delete came: %v", err)
		}
		if _, there, _ := b.Find(ctx, place, "a"); !there {
			t.Error("the item is gone")
		}
		other := place
		other.Account = "bob"
		if settled, err = b.Settle(ctx, other, "m1"); err != nil || settled.Outcome != item.Never {
			t.Errorf("another account's mark: %+v %v", settled, err)
		}
		if err := b.Delete(ctx, place, "a", w.Version, "m3"); err != nil {
			t.Fatal(err)
		}
		if settled, err = b.Settle(ctx, place, "m3"); err != nil || settled.Outcome != item.Deleted || settled.Before != w.Version {
			t.Errorf("%+v %v", settled, err)
		}
	})
}

// TestAudit: each change has its row, and no name or content in clear.
func TestAudit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := open(t, db, item.Options{})
		ctx := context.Background()
		w, err := put(t, b, item.Change{Item: "secret plan", HasContent: true, Size: 1, IfAbsent: true, Mark: "m1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(ctx, place, "secret plan", w.Version, "m2"); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		err = audit.Records(ctx, db, audit.Filter{Kind: "item."}, func(r audit.Record) error {
			kinds = append(kinds, r.Kind+" "+r.Subject)
			if strings.Contains(fmt.Sprint(r.Public), "secret") {
				t.Errorf("in clear: %v", r.Public)
			}
			return nil
		})
		if diff := cmp.Diff([]string{"item.created m1", "item.deleted m2"}, kinds); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// TestCheck: what a hand changed in the table is found.
func TestCheck(t *testing.T) {
	for name, change := range map[string]string{
		"usage":   "update item_usage set bytes=bytes+1",
		"usage 2": "delete from item_usage",
		"blob":    "delete from item_blob",
		"size":    "update item set size=size+1",
		"version": "update item set version=''",
		"outcome": "update item_change set outcome='approved'",
		"mark":    "update item_change set version='x'",
		"gone":    "delete from item",
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				log, err := audit.Open(db, audit.Options{})
				if err != nil {
					t.Fatal(err)
				}
				b, err := item.NewBook(db, log, "local", item.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := put(t, b, item.Change{Item: "a", HasContent: true, Size: 1, IfAbsent: true, Mark: "m1"}); err != nil {
					t.Fatal(err)
				}
				if err := db.View(context.Background(), item.Check); err != nil {
					t.Fatal(err)
				}
				if err := db.Update(context.Background(), func(tx *store.Tx) error { _, err := tx.Exec(change); return err }); err != nil {
					t.Fatal(err)
				}
				if err := db.View(context.Background(), item.Check); refusal.Of(err) != refusal.Tampered {
					t.Errorf("%v, want tampered", err)
				}
			})
		})
	}
}
