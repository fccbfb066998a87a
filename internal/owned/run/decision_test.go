package run_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// decision is a denial of host by the nth rule.
func decision(host string, n int64) scope.Record {
	return scope.Record{
		At: time.Now(), Layer: "proxy", Host: host, Port: 443, Scheme: "https", Method: "GET",
		Decision: scope.Decision{Code: refusal.NoRule, Rule: fmt.Sprintf("rule %d", n), Fix: "- host: " + host},
	}
}

func TestDecisionsAreToldOnceAndCounted(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		r, _ := in(t, l, run.Open)
		allowed := scope.Record{
			At: time.Now(), Layer: "browser", Host: "app.example.com", Port: 80, Scheme: "http", Address: netip.MustParseAddr("192.0.2.7"),
			Decision: scope.Decision{Allowed: true, Code: refusal.Allowed, Rule: "allow[0] app.example.com"},
		}
		for n := range 3 {
			r.Record(allowed)
			r.Record(decision("b.example.com", 1))
			if n == 1 {
				r.Record(decision("c.example.com", 1))
			}
			if err := r.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		got, err := l.Decisions(ctx, r.RunID())
		if err != nil {
			t.Fatal(err)
		}
		want := []run.Decision{
			{Layer: "browser", Scheme: "http", Host: "app.example.com", Port: 80, Address: "192.0.2.7", Rule: "allow[0] app.example.com", Code: refusal.Allowed, Count: 3},
			{Layer: "proxy", Scheme: "https", Host: "b.example.com", Port: 443, Rule: "rule 1", Code: refusal.NoRule, Fix: "- host: b.example.com", Count: 3},
			{Layer: "proxy", Scheme: "https", Host: "c.example.com", Port: 443, Rule: "rule 1", Code: refusal.NoRule, Fix: "- host: c.example.com", Count: 1},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(run.Decision{}, "First")); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		lines, err := l.Suggest(ctx, r.RunID())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"- host: b.example.com", "- host: c.example.com"}, lines); diff != "" {
			t.Errorf("suggestion (-want +got):\n%s", diff)
		}
		if _, err := l.Suggest(ctx, "never"); word(err) != refusal.Unknown {
			t.Errorf("suggestion for a run that never was: %v, want unknown", err)
		}
		if n := l.count(t, `select count(*) from audit_leaf`); n < 5 {
			t.Errorf("%d audit leaves, want one for each decision besides registration and opening", n)
		}
	})
}

func TestDecisionsBeyondTheLimitAreOneRow(t *testing.T) {
	each(t, func(t *testing.T, l *ledger) {
		ctx := context.Background()
		r, _ := in(t, l, run.Open)
		before := l.count(t, `select count(*) from audit_leaf`)
		for n := range run.Distinct + 500 {
			r.Record(decision(fmt.Sprintf("h%d.example.com", n), 0))
			if n == 700 {
				if err := r.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := r.End(ctx, refusal.Ended); err != nil {
			t.Fatal(err)
		}
		got, err := l.Decisions(ctx, r.RunID())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != run.Distinct+1 {
			t.Fatalf("%d rows, want %d", len(got), run.Distinct+1)
		}
		want := run.Decision{Code: refusal.TooMany, Count: 500}
		if diff := cmp.Diff(want, got[run.Distinct], cmpopts.IgnoreFields(run.Decision{}, "First")); diff != "" {
			t.Errorf("the row of the rest (-want +got):\n%s", diff)
		}
		if n := l.count(t, `select count(*) from audit_leaf`) - before; n != run.Distinct+2 {
			t.Errorf("%d audit leaves, want %d: each decision, the rest, the end", n, run.Distinct+2)
		}
		l.check(t)
	})
}

// TestNothingSecretAtRest looks for the tokens in every byte of the database,
// after it has found what must be there.
func TestNothingSecretAtRest(t *testing.T) {
	path := storetest.SQLite(t)
	l := open(t, path, store.Options{})
	ctx := context.Background()
	reg, session := registration("secret-run"), run.NewToken()
	r, err := l.Register(ctx, reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Open(ctx, reg.Bootstrap, session, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := r.End(ctx, refusal.Ended); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	for name, c := range map[string]struct {
		text string
		want bool
	}{"run id": {"secret-run", true}, "bootstrap token": {reg.Bootstrap, false}, "session token": {session, false}} {
		if got := bytes.Contains(all, []byte(c.text)); got != c.want {
			t.Errorf("%s in %d bytes of %v: %v, want %v", name, len(all), files, got, c.want)
		}
	}
}
