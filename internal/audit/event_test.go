package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/canon"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// An event can't carry free text in clear: what isn't a word is refused, and the
// refusal doesn't repeat it.
func TestFreeTextIsRefused(t *testing.T) {
	const text = "my password is hunter2"
	long := strings.Repeat("x", audit.MaxWord+1)
	bad := map[string]audit.Event{
		"no kind":          {},
		"kind":             {Kind: text},
		"actor":            {Kind: "k", Actor: text},
		"subject":          {Kind: "k", Subject: text},
		"code":             {Kind: "k", Code: text},
		"tenant":           {Kind: "k", Tenant: "../" + text},
		"dots":             {Kind: "k", Tenant: ".."},
		"long":             {Kind: "k", Actor: long},
		"quote":            {Kind: "k", Actor: `"`},
		"not ASCII":        {Kind: "k", Actor: "é"},
		"id":               {Kind: "k", Public: []audit.Field{audit.ID("id", text)}},
		"word":             {Kind: "k", Public: []audit.Field{audit.Word("w", text)}},
		"digest":           {Kind: "k", Public: []audit.Field{audit.Digest("d", text)}},
		"name":             {Kind: "k", Public: []audit.Field{audit.ID(text, "x")}},
		"twice":            {Kind: "k", Public: []audit.Field{audit.ID("x", "a"), audit.ID("x", "b")}},
		"huge count":       {Kind: "k", Public: []audit.Field{audit.Count("n", int64(1)<<53)}},
		"sealed name":      {Kind: "k", Sealed: []audit.Sealed{audit.Seal(text, "x")}},
		"sealed twice":     {Kind: "k", Sealed: []audit.Sealed{audit.Seal("x", "a"), audit.Seal("x", "a")}},
		"sealed long":      {Kind: "k", Sealed: []audit.Sealed{audit.Seal("x", strings.Repeat("y", audit.MaxSealed+1))}},
		"sealed not UTF-8": {Kind: "k", Sealed: []audit.Sealed{audit.Seal("x", "\xff")}},
		"many":             {Kind: "k", Public: make([]audit.Field, audit.MaxFields+1)},
	}
	l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
	for name, e := range bad {
		err := l.db.Update(context.Background(), func(tx *store.Tx) error { return l.log.Append(tx, e) })
		if !errors.Is(err, refusal.BadDocument) || strings.Contains(err.Error(), "hunter2") && name != "name" {
			t.Errorf("%s: got %v, want bad_document without the text", name, err)
		}
	}
	l.close(t)
	if err := l.verify(t).Err(); !errors.Is(err, refusal.NothingVerified) {
		t.Errorf("got %v, want an empty log", err)
	}
}

// Leaves are canonical JSON, and Records answers what went in.
func TestRecordsAnswerWhatWasAppended(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		odd := "a \"rule\"\n\u202E\U0001F600"
		e := audit.Event{
			Tenant: "acme", Kind: "owned_run.decided", Actor: "uid:0", Subject: "r-1", Code: refusal.NoRule,
			Public: []audit.Field{audit.Count("z", -3), audit.ID("a", "A.b:c-d_e"), audit.Digest("d", "sha256:00")},
			Sealed: []audit.Sealed{audit.Seal("rule", odd), audit.Seal("host", "example.com")},
		}
		if err := l.db.Update(context.Background(), func(tx *store.Tx) error { return l.log.Append(tx, e) }); err != nil {
			t.Fatal(err)
		}
		l.add(t, 4)
		l.close(t)
		var got []audit.Record
		if err := audit.Records(context.Background(), l.db, audit.Filter{Tenant: "acme"}, func(r audit.Record) error {
			got = append(got, r)
			return nil
		}); err != nil || len(got) != 1 {
			t.Fatalf("got %d records, %v", len(got), err)
		}
		text, err := json.Marshal(got[0])
		if err != nil {
			t.Fatal(err)
		}
		var shown map[string]any
		if err := json.Unmarshal(text, &shown); err != nil {
			t.Fatal(err)
		}
		delete(shown, "id")
		delete(shown, "at")
		want := map[string]any{
			"seq": 0.0, "tenant": "acme", "kind": "owned_run.decided", "actor": "uid:0", "subject": "r-1", "code": "no_rule",
			"public": map[string]any{"z": -3.0, "a": "A.b:c-d_e", "d": "sha256:00"},
			"values": map[string]any{"rule": odd, "host": "example.com"},
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Error(diff)
		}
		proof, err := audit.Prove(context.Background(), l.db, got[0])
		if err != nil {
			t.Fatal(err)
		}
		again, err := canon.Canonicalize([]byte(proof.Leaf))
		if err != nil || string(again) != proof.Leaf {
			t.Errorf("the leaf isn't canonical: %v\n%s\n%s", err, proof.Leaf, again)
		}
		if strings.Contains(proof.Leaf, "example.com") {
			t.Error("the leaf holds a sealed value")
		}
	})
}

func TestFilterChooses(t *testing.T) {
	l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
	l.add(t, 9)
	l.close(t)
	l.add(t, 1)
	for name, test := range map[string]struct {
		filter audit.Filter
		want   int
	}{
		"all":          {audit.Filter{}, 10},
		"run":          {audit.Filter{Subject: "run-1"}, 3},
		"kind":         {audit.Filter{Kind: "owned_run.decided"}, 10},
		"family":       {audit.Filter{Kind: "owned_run."}, 10},
		"other family": {audit.Filter{Kind: "owned."}, 0},
		"number":       {audit.Filter{Record: "8"}, 1},
		"unsequenced":  {audit.Filter{Record: "9"}, 0},
		"tenant":       {audit.Filter{Tenant: "acme"}, 0},
	} {
		n := 0
		if err := audit.Records(context.Background(), l.db, test.filter, func(audit.Record) error { n++; return nil }); err != nil || n != test.want {
			t.Errorf("%s: got %d, %v, want %d", name, n, err, test.want)
		}
	}
}

// export is a log of 300 records with two checkpoints, exported.
func export(t testing.TB, opts audit.ExportOptions) (lines []string, key string) {
	t.Helper()
	l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
	l.add(t, 40)
	l.close(t)
	l.add(t, 260)
	l.close(t)
	opts.Filter.Tenant, opts.CheckpointDir, opts.KeyFile = "local", l.opts.CheckpointDir, l.opts.KeyFile
	var out bytes.Buffer
	if _, err := audit.Export(context.Background(), l.db, opts, &out); err != nil {
		t.Fatal(err)
	}
	key, err := audit.PublicKey(l.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.SplitAfter(out.String(), "\n")
	return lines[:len(lines)-1], key // after the last line feed there is nothing
}

// An export verifies without its database, and nothing in it can be altered.
func TestExportVerifiesAlone(t *testing.T) {
	for name, opts := range map[string]audit.ExportOptions{
		"whole": {}, "without values": {WithoutValues: true}, "one run": {Filter: audit.Filter{Subject: "run-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			lines, key := export(t, opts)
			verify := func(lines []string, keys ...string) error {
				r, err := audit.VerifyExport(strings.NewReader(strings.Join(lines, "")), keys...)
				if err != nil {
					return err
				}
				return r.Err()
			}
			if err := verify(lines, key); err != nil {
				t.Fatal(err)
			}
			if err := verify(lines); err != nil {
				t.Errorf("with its own keys: %v", err)
			}
			if err := verify(lines, strings.Replace(key, "chaperone", "someone", 1)); err == nil {
				t.Error("another's key was taken")
			}
			with := func(i int, line string) []string {
				changed := append([]string{}, lines...)
				changed[i] = line
				return changed
			}
			for what, changed := range map[string][]string{
				"leaf":           with(7, strings.Replace(lines[7], "proxy", "proxi", 1)),
				"sequence":       with(7, strings.Replace(lines[7], `"seq":`, `"seq":1`, 1)),
				"swapped":        append(append(append([]string{}, lines[:5]...), lines[6], lines[5]), lines[7:]...),
				"doubled":        append(append([]string{}, lines[:6]...), lines[5:]...),
				"root":           with(0, strings.Replace(lines[0], `"root":"`, `"root":"A`, 1)),
				"checkpoint":     with(0, strings.Replace(lines[0], `number 1`, `number 7`, 1)),
				"unknown member": with(3, strings.Replace(lines[3], `{`, `{"x":1,`, 1)),
				"half a line":    with(len(lines)-1, lines[len(lines)-1][:20]),
				"other format":   with(0, strings.Replace(lines[0], "export-v1", "export-v2", 1)),
				"no header":      lines[1:],
				"nothing":        nil,
			} {
				if err := verify(changed, key); err == nil {
					t.Errorf("%s: not found", what)
				}
			}
			gone := append(append([]string{}, lines[:5]...), lines[6:]...)
			if err := verify(gone, key); (err != nil) != (opts.Filter.Subject == "") {
				t.Errorf("a record gone: got %v", err)
			}
			if !opts.WithoutValues {
				i := 1
				for !strings.Contains(lines[i], "example.com") {
					i++
				}
				if err := verify(with(i, strings.Replace(lines[i], "example.com", "example.org", 1)), key); err == nil {
					t.Error("a sealed value was altered and not found")
				}
			} else if strings.Contains(strings.Join(lines, ""), "example.com") {
				t.Error("the export holds a value")
			}
		})
	}
}

// The key is made once, is the owner's alone, and is refused where it isn't.
func TestKeyIsTheOwnersAlone(t *testing.T) {
	l := over(t, storetest.Open(t, storetest.SQLite(t), store.Options{}))
	l.add(t, 1)
	l.close(t)
	info, err := os.Stat(l.opts.KeyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v, want 0600", info.Mode(), err)
	}
	if err := os.Chmod(l.opts.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	l.add(t, 1)
	if err := l.log.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v, want an error that names the mending command", err)
	}
	secret, err := os.ReadFile(l.opts.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.opts.KeyFile, append([]byte("x"), secret...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(l.opts.KeyFile, 0o600); err != nil {
		t.Fatal(err)
	}
	err = l.log.Close(context.Background())
	if err == nil || strings.Contains(err.Error(), string(secret[20:40])) {
		t.Errorf("got %v, want an error without the key", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(l.opts.KeyFile), "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
