package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"chaperone/internal/audit"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// journal is a transaction as an owned run's journal has it: one compare-and-swap
// and one insert.
func journal(tx *store.Tx, me, k int64) error {
	if _, err := tx.Exec("update probe set v=v+1 where k=$1", -me); err != nil {
		return err
	}
	_, err := tx.Exec("insert into probe (k, v) values ($1, $2)", k, k)
	return err
}

// commits runs b.N transactions by so many callers, with an event each or none.
func commits(b *testing.B, url string, callers int, audited bool) {
	l := over(b, storetest.Open(b, url, store.Options{}))
	l.log.Start(context.Background())
	setUp := func(tx *store.Tx) error {
		if _, err := tx.Exec("create table probe (k bigint primary key, v bigint not null)"); err != nil {
			return err
		}
		for me := range callers {
			if _, err := tx.Exec("insert into probe (k, v) values ($1, 0)", -me-1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.db.Update(context.Background(), setUp); err != nil {
		b.Fatal(err)
	}
	var next, names atomic.Int64
	one := func(me int64) {
		err := l.db.Update(context.Background(), func(tx *store.Tx) error {
			k := next.Add(1)
			if err := journal(tx, me, k); err != nil {
				return err
			}
			if !audited {
				return nil
			}
			return l.log.Append(tx, audit.Event{
				Kind: "owned_run.begin", Actor: "uid:0", Subject: "5f0c1b3e-run", Public: []audit.Field{
					audit.Count("sequence", k), audit.Word("action", "goto"), audit.ID("epoch", "0123456789abcdef"),
				},
			})
		})
		if err != nil {
			b.Error(err)
		}
	}
	b.ResetTimer()
	before := cpu(b)
	if callers == 1 {
		for range b.N {
			one(1)
		}
	} else {
		b.SetParallelism(callers / 2) // of two cores
		b.RunParallel(func(pb *testing.PB) {
			for me := names.Add(1); pb.Next(); {
				one(me)
			}
		})
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	if err := l.log.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// cpu is the processor time of this process so far, in ns: what other processes
// do on a shared machine doesn't alter it.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func benchmarkCommits(b *testing.B, audited bool) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("sqlite/%d", callers), func(b *testing.B) { commits(b, storetest.SQLite(b), callers, audited) })
		b.Run(fmt.Sprintf("postgres/%d", callers), func(b *testing.B) { commits(b, storetest.Postgres(b), callers, audited) })
	}
}

// BenchmarkBareCommit is the transaction without its event; BenchmarkAppend is
// the same with it, while the log is integrated beside.
func BenchmarkBareCommit(b *testing.B) { benchmarkCommits(b, false) }
func BenchmarkAppend(b *testing.B)     { benchmarkCommits(b, true) }

// BenchmarkVerify verifies a log of 100,000 records, half of them with sealed
// values.
func BenchmarkVerify(b *testing.B) {
	const records = 100_000
	l := over(b, storetest.Open(b, storetest.SQLite(b), store.Options{}))
	for done := 0; done < records; done += 1000 {
		err := l.db.Update(context.Background(), func(tx *store.Tx) error {
			for i := range 1000 {
				if err := l.log.Append(tx, event(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	l.close(b)
	b.Run("database", func(b *testing.B) {
		before := cpu(b)
		defer func() { b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/records, "cpu-ns/record") }()
		for b.Loop() {
			if err := l.verify(b).Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("export", func(b *testing.B) {
		var export bytes.Buffer
		opts := audit.ExportOptions{Filter: audit.Filter{Tenant: "local"}}
		if _, err := audit.Export(context.Background(), l.db, opts, &export); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			r, err := audit.VerifyExport(bytes.NewReader(export.Bytes()))
			if err != nil || r.Err() != nil {
				b.Fatal(err, r.Err())
			}
		}
		b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
	})
}
