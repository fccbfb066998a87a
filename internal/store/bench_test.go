package store_test

import (
	"context"
	"sync/atomic"
	"testing"

	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// BenchmarkUpdate is one compare-and-swap and one insert, durable at return, by
// 1 and by 16 callers at once.
func BenchmarkUpdate(b *testing.B) {
	for _, engine := range []string{store.SQLite, store.Postgres} {
		for _, callers := range []int{1, 16} {
			b.Run(engine+map[int]string{1: "/1", 16: "/16"}[callers], func(b *testing.B) {
				url := storetest.SQLite(b)
				if engine == store.Postgres {
					url = storetest.Postgres(b)
				}
				db := storetest.Open(b, url, store.Options{})
				table(b, db)
				update(b, db, func(tx *store.Tx) error {
					for k := range callers {
						if _, err := tx.Exec("insert into probe values ($1, $2)", -k-1, 0); err != nil {
							return err
						}
					}
					return nil
				})
				var next, caller atomic.Int64
				before := db.Commits()
				b.SetParallelism(max(1, callers/2))
				if callers == 1 {
					for b.Loop() {
						swap(b, db, -1, next.Add(1))
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						me := -caller.Add(1)
						for pb.Next() {
							swap(b, db, me, next.Add(1))
						}
					})
				}
				b.ReportMetric(float64(db.Commits()-before)/float64(b.N), "syncs/op")
			})
		}
	}
}

func swap(b *testing.B, db *store.DB, me, k int64) {
	if err := db.Update(context.Background(), func(tx *store.Tx) error {
		if _, err := tx.Exec("update probe set v=v+1 where k=$1", me); err != nil {
			return err
		}
		_, err := tx.Exec("insert into probe values ($1, $2)", k, k)
		return err
	}); err != nil {
		b.Error(err)
	}
}
