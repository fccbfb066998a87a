package source_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// openHosted opens the hosted storage of a process of its own.
func openHosted(url, dir string) (*source.Hosted, *store.DB, error) {
	db, err := store.Open(context.Background(), url, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		return nil, nil, err
	}
	b, err := item.NewBook(db, log, "local", item.Options{})
	if err != nil {
		return nil, nil, err
	}
	h, err := source.NewHosted(b, dir)
	return h, db, err
}

var shared = source.Place{Account: source.Account{Tenant: "local", Actor: "ada"}, Collection: "files", Incarnation: "1"}

// writeRole writes items for ever: it tells each mark before, and what came of it.
// At a step of chance it waits to be killed.
func writeRole(args []string) error {
	h, _, err := openHosted(args[0], args[1])
	if err != nil {
		return err
	}
	stop, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	h.Stop(func(step string) error {
		if stop--; stop == 0 {
			fmt.Println("at", step)
			select {}
		}
		return nil
	})
	version := ""
	for n := 0; ; n++ {
		w := source.Write{Item: "killed", HasContent: true, Content: fmt.Append(nil, args[3], n%3), IfVersion: version, IfAbsent: version == "", Mark: mark()}
		fmt.Println("write", w.Mark, version)
		done, err := h.Write(context.Background(), shared, w)
		if errors.Is(err, tool.AlreadyExists) {
			i, err := h.Stat(context.Background(), shared, "killed")
			if err != nil {
				return err
			}
			fmt.Println("refused", w.Mark)
			version = i.Version
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("wrote", w.Mark, done.Version)
		version = done.Version
	}
}

// TestKilledWriter kills writers between all steps, on both engines. What was told
// as written is there; what wasn't is settled, and stays so; content is never gone.
func TestKilledWriter(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "blobs")
		h, db, err := openHosted(url, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for round := range storetest.Rounds(8, 200) {
			w := storetest.Start(t, "write", url, dir, fmt.Sprint(1+rand.IntN(14)), fmt.Sprint(round))
			last, version, open := "", "", false
			read := func(line string) {
				f := strings.Fields(line + " ")
				switch f[0] {
				case "write":
					last, open = f[1], true
				case "wrote":
					version, open = f[2], false
				case "refused":
					open = false
				}
			}
			for w.Lines.Scan() && !strings.HasPrefix(w.Lines.Text(), "at ") {
				read(w.Lines.Text())
			}
			at := w.Lines.Text()
			for _, line := range w.Crash(t) {
				read(line)
			}
			if !open {
				t.Fatalf("round %d: killed %s with nothing open", round, at)
			}
			now, err := h.Stat(usual(t), shared, "killed")
			if err != nil && !errors.Is(err, tool.NotFound) {
				t.Fatal(err)
			}
			done, settled, err := h.Settle(usual(t), shared, source.Write{Item: "killed", Mark: last})
			want(t, err, "")
			switch {
			case settled == source.Done && (done.Version != now.Version || at != "at committed"):
				t.Errorf("round %d, killed %s: done as %q, it is %q", round, at, done.Version, now.Version)
			case settled == source.Not && (version != "" && now.Version != version || at == "at committed"):
				t.Errorf("round %d, killed %s: not done, and %q was told but it is %q", round, at, version, now.Version)
			case settled == source.Unknown:
				t.Errorf("round %d, killed %s: unknown", round, at)
			}
			if now.Version != "" {
				if _, err := h.Read(usual(t), shared, "killed", 0, 100); err != nil {
					t.Errorf("round %d, killed %s: its content: %v", round, at, err)
				}
			}
			if err := db.View(context.Background(), item.Check); err != nil {
				t.Error(err)
			}
		}
	})
}

// raceRole replaces one item until it won as often as asked, and tells each win.
func raceRole(args []string) error {
	h, _, err := openHosted(args[0], args[1])
	if err != nil {
		return err
	}
	for won := 0; won < 15; {
		i, err := h.Stat(context.Background(), shared, "raced")
		if err != nil {
			return err
		}
		done, err := h.Write(context.Background(), shared, source.Write{Item: "raced", HasContent: true, Content: fmt.Append(nil, rand.IntN(4)), IfVersion: i.Version, Mark: mark()})
		if errors.Is(err, tool.VersionConflict) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println(done.Before, done.Version)
		won++
		if _, err := h.Sweep(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// TestProcesses: processes that share the database and the folder of content
// replace one item; each version had one successor, and content is always there.
func TestProcesses(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "blobs")
		h, db, err := openHosted(url, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, err = h.Write(usual(t), shared, source.Write{Item: "raced", HasContent: true, IfAbsent: true, Mark: mark()})
		want(t, err, "")
		var all []*storetest.Process
		for range 4 {
			all = append(all, storetest.Start(t, "race", url, dir))
		}
		next := map[string]string{}
		for _, p := range all {
			for _, line := range p.End(t) {
				before, after, _ := strings.Cut(line, " ")
				if next[before] != "" {
					t.Errorf("two writers replaced one version")
				}
				next[before] = after
			}
		}
		if len(next) != 60 {
			t.Errorf("%d replacements were told, want 60", len(next))
		}
		_, err = h.Read(usual(t), shared, "raced", 0, 10)
		want(t, err, "")
	})
}

// files answers how many files of content there are.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// age makes everything look as if it had been there for two hours.
func age(t *testing.T, db *store.DB, dir string) {
	t.Helper()
	long := time.Now().Add(-2 * time.Hour)
	err := db.Update(context.Background(), func(tx *store.Tx) error {
		_, err := tx.Exec("update item_blob set used_ms=$1", long.UnixMilli())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, long, long)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSweep: content goes once nothing names it and an hour is over, and never
// earlier, whatever crashed.
func TestSweep(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "blobs")
		h, db, err := openHosted(url, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		sweep := func(want int) {
			t.Helper()
			n, err := h.Sweep(usual(t))
			if err != nil || n != want {
				t.Errorf("swept %d %v, want %d", n, err, want)
			}
		}
		put := func(name, content string) error {
			_, err := h.Write(usual(t), shared, source.Write{Item: name, HasContent: true, Content: []byte(content), IfAbsent: true, Mark: mark()})
			return err
		}
		read := func(name, content string) {
			t.Helper()
			c, err := h.Read(usual(t), shared, name, 0, 100)
			if err != nil || string(c.Bytes) != content {
				t.Errorf("%s: %q %v, want %q", name, c.Bytes, err, content)
			}
		}
		want(t, put("kept", "kept"), "")
		want(t, put("twin", "kept"), "")
		if n := files(t, dir); n != 1 {
			t.Errorf("%d files for one content", n)
		}
		for _, step := range []string{"claimed", "placed"} {
			h.Stop(func(at string) error {
				if at == step {
					return errCrash
				}
				return nil
			})
			want(t, put("crashed "+step, "orphan "+step), tool.SourceUnavailable)
			h.Stop(nil)
		}
		if err := os.WriteFile(filepath.Join(dir, "tmp", "HALFWRITTEN"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		sweep(0) // all are young
		age(t, db, dir)
		sweep(3) // the claimed one (which had no file), the placed one, the half-written one
		read("kept", "kept")
		if n := files(t, dir); n != 1 {
			t.Errorf("%d files are left", n)
		}
		i, err := h.Stat(usual(t), shared, "kept")
		want(t, err, "")
		want(t, h.Delete(usual(t), shared, "kept", i.Version, mark()), "")
		age(t, db, dir)
		sweep(0) // its twin still names it
		i, err = h.Stat(usual(t), shared, "twin")
		want(t, err, "")
		want(t, h.Delete(usual(t), shared, "twin", i.Version, mark()), "")
		sweep(0) // an hour's grace for who reads it
		age(t, db, dir)
		sweep(1)
		// A writer of the same content comes while the sweeper is at it.
		want(t, put("a", "again"), "")
		i, err = h.Stat(usual(t), shared, "a")
		want(t, err, "")
		want(t, h.Delete(usual(t), shared, "a", i.Version, mark()), "")
		age(t, db, dir)
		h.Stop(func(at string) error {
			if at == "unnamed" { // its row is gone, its file isn't yet
				h.Stop(nil)
				return put("b", "again")
			}
			return nil
		})
		sweep(1)
		read("b", "again")
		// A crash between the row and the file: the next sweep takes the file.
		i, err = h.Stat(usual(t), shared, "b")
		want(t, err, "")
		want(t, h.Delete(usual(t), shared, "b", i.Version, mark()), "")
		age(t, db, dir)
		h.Stop(func(string) error { return errCrash })
		if _, err := h.Sweep(usual(t)); err == nil {
			t.Error("the crash wasn't told")
		}
		h.Stop(nil)
		sweep(1)
		if n := files(t, dir); n != 0 {
			t.Errorf("%d files are left", n)
		}
		if err := db.View(context.Background(), item.Check); err != nil {
			t.Error(err)
		}
	})
}

// TestSleeper: a writer that slept past its claim finds it swept, and is refused.
func TestSleeper(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "blobs")
		h, db, err := openHosted(url, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		h.Stop(func(at string) error {
			if at == "placed" {
				h.Stop(nil)
				age(t, db, dir)
				_, err := h.Sweep(usual(t))
				return err
			}
			return nil
		})
		w := source.Write{Item: "x", HasContent: true, Content: []byte("x"), IfAbsent: true, Mark: mark()}
		_, err = h.Write(usual(t), shared, w)
		want(t, err, tool.SourceUnavailable)
		_, err = h.Write(usual(t), shared, w)
		want(t, err, "")
		c, err := h.Read(usual(t), shared, "x", 0, 10)
		if err != nil || string(c.Bytes) != "x" {
			t.Errorf("%q %v", c.Bytes, err)
		}
	})
}

// TestDamage: content that isn't what its row says is never handed out.
func TestDamage(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "blobs")
		h, db, err := openHosted(url, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, err = h.Write(usual(t), shared, source.Write{Item: "x", HasContent: true, Content: []byte("right"), IfAbsent: true, Mark: mark()})
		want(t, err, "")
		all, err := filepath.Glob(filepath.Join(dir, "??", "*"))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		for _, change := range []func() error{
			func() error { return os.WriteFile(all[0], []byte("wrong"), 0o600) },
			func() error { return os.WriteFile(all[0], []byte("righ"), 0o600) },
			func() error { return os.Remove(all[0]) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			_, err = h.Read(usual(t), shared, "x", 0, 10)
			want(t, err, tool.SourceUnavailable)
		}
	})
}

// TestCommitFaults loses each commit of a write, and its answer, on both engines.
func TestCommitFaults(t *testing.T) {
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var countdown atomic.Int64
			b, db := openBook(t, url, store.Options{Commit: func(commit func() error) error {
				if countdown.Add(-1) != 0 {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return errCrash
			}})
			h, err := source.NewHosted(b, filepath.Join(t.TempDir(), "blobs"))
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(1); at <= 2; at++ { // the claim's, then the change's
				w := source.Write{Item: fmt.Sprint("x", at), HasContent: true, Content: []byte("x"), IfAbsent: true, Mark: mark()}
				countdown.Store(at)
				_, err := h.Write(usual(t), shared, w)
				countdown.Store(0)
				if at == 1 {
					want(t, err, tool.SourceUnavailable)
				} else {
					want(t, err, tool.UnknownOutcome)
				}
				_, settled, err := h.Settle(usual(t), shared, w)
				want(t, err, "")
				if there := at == 2 && applied; (settled == source.Done) != there {
					t.Errorf("applied %v, commit %d: settled %q", applied, at, settled)
				}
				if settled == source.Not { // and it can't come any more
					_, err := h.Write(usual(t), shared, w)
					want(t, err, tool.Cancelled)
				}
				if err := db.View(context.Background(), item.Check); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestDrop: a collection that was deleted leaves nothing, and nobody else's.
func TestDrop(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := hostedRig(t, url)
		p, q := r.place(t), r.place(t)
		r.seed(t, p, "a", "b", "c")
		r.seed(t, q, "a")
		want(t, r.Source.(*source.Hosted).Drop(usual(t), p), "")
		if n, _, _ := r.Count(usual(t), p); n != 0 {
			t.Errorf("%d items are left", n)
		}
		if n, _, _ := r.Count(usual(t), q); n != 1 {
			t.Error("another's item went with it")
		}
	})
}
