package operation_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// many runs f 64 times at once and counts what they answer.
func many(f func(i int) refusal.Code) map[refusal.Code]int {
	codes := make([]refusal.Code, 64)
	var wait sync.WaitGroup
	for i := range codes {
		wait.Go(func() { codes[i] = f(i) })
	}
	wait.Wait()
	got := map[refusal.Code]int{}
	for _, c := range codes {
		got[c]++
	}
	return got
}

// Of 64 writers with one version, one wins.
func TestOneWriterWins(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		v := o.good(t, c, tool.WriteItem, creates("a", "0"))["version"].(string)
		got := many(func(int) refusal.Code {
			_, err := o.Call(ctx, c, "item_write", text(replaces("a", "x", v)))
			return word(err)
		})
		if diff := cmp.Diff(map[refusal.Code]int{"ok": 1, tool.VersionConflict: 63}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		got = many(func(int) refusal.Code {
			_, err := o.Call(ctx, c, "item_write", text(creates("b", "x")))
			return word(err)
		})
		if diff := cmp.Diff(map[refusal.Code]int{"ok": 1, tool.AlreadyExists: 63}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Of 64 deliveries of one request, one has an effect, and all have its outcome.
func TestOneRequestOneEffect(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		o.storage.set(func(f *hooks) {
			f.before = func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }
		})
		a := text(creates("a", "x"))
		outs := make([]string, 64)
		got := many(func(i int) refusal.Code {
			out, err := o.Call(ctx, c, "item_write", a)
			outs[i] = string(out)
			return word(err)
		})
		if got["ok"] != 64 || o.storage.calls.Load() != 1 {
			t.Errorf("%v, %d changes were sent", got, o.storage.calls.Load())
		}
		for _, out := range outs {
			if out != outs[0] {
				t.Errorf("%s and %s", out, outs[0])
			}
		}
		// A page's receipt too is good once.
		page := o.page(t, p, everything)
		b := creates("b", "x")
		r, err := o.Prepare(ctx, page, "item_write", text(b))
		ok(t, err)
		ok(t, o.Confirm(ctx, page, r.ReceiptID, r.Digest))
		got = many(func(int) refusal.Code {
			_, err := o.Execute(ctx, page, r.ReceiptID, "item_write", text(b))
			return word(err)
		})
		if got["ok"] != 1 || got[tool.ReceiptUsed] != 63 || o.storage.calls.Load() != 2 {
			t.Errorf("%v, %d changes were sent", got, o.storage.calls.Load())
		}
		// The answer was lost: the same request under a new review tells it again.
		out, e := o.review(t, page, tool.WriteItem, b)
		if e != nil || out["outcome"] != "created" || o.storage.calls.Load() != 2 {
			t.Errorf("%v %v, %d changes were sent", out, e, o.storage.calls.Load())
		}
	})
}

// The same over two nodes with one database: what one has begun the other waits for.
func TestTwoNodesOneEffect(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		var nodes [2]*office
		for i := range nodes {
			o, err := open(url, dir, wide, store.Options{})
			ok(t, err)
			o.storage.set(func(f *hooks) {
				f.before = func(context.Context, string) error { time.Sleep(50 * time.Millisecond); return nil }
			})
			nodes[i] = o
		}
		c := nodes[0].app(t, person(t, ""), everything)
		for range storetest.Rounds(2, 50) {
			a := text(creates("a-"+uuid(), "x"))
			before := nodes[0].storage.calls.Load() + nodes[1].storage.calls.Load()
			got := many(func(i int) refusal.Code {
				_, err := nodes[i%2].Call(ctx, c, "item_write", a)
				return word(err)
			})
			if n := nodes[0].storage.calls.Load() + nodes[1].storage.calls.Load() - before; got["ok"] != 64 || n != 1 {
				t.Errorf("%v, %d changes were sent", got, n)
			}
		}
		for _, o := range nodes {
			ok(t, o.verify())
			ok(t, o.Close(ctx))
			ok(t, o.db.Close())
		}
	})
}

// The same request id is another one in another connection.
func TestRequestsAreAConnections(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		a := creates("a", "x")
		o.good(t, o.app(t, p, everything), tool.WriteItem, a)
		if _, e := o.do(t, o.app(t, p, everything), tool.WriteItem, a); code(e) != tool.AlreadyExists {
			t.Errorf("%v", e)
		}
	})
}

// One who waits for another's outcome is busy when its own time is over.
func TestWaitersEnd(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		c := o.app(t, person(t, ""), everything)
		release := make(chan struct{})
		o.storage.set(func(f *hooks) { f.before = func(context.Context, string) error { <-release; return nil } })
		a := text(creates("a", "x"))
		first := make(chan error)
		go func() { _, err := o.Call(ctx, c, "item_write", a); first <- err }()
		for o.storage.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := o.Call(short, c, "item_write", a); word(err) != tool.Busy {
			t.Errorf("%v", err)
		}
		close(release)
		ok(t, <-first)
	})
}

// A result that comes after the sign-out, or after another selection, goes to
// nobody.
func TestLateResults(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		for name, x := range map[string]struct {
			change func(c operation.Caller) error
			want   refusal.Code
		}{
			"sign-out": {func(c operation.Caller) error { return o.ledger.EndSession(ctx, c.Session) }, tool.SessionExpired},
			"disable":  {func(c operation.Caller) error { return o.ledger.Disable(ctx, c.Session) }, tool.Disabled},
			"select": {func(c operation.Caller) error {
				_, err := o.ledger.Select(ctx, c.Session, c.Principal.Actor(), everything, 1)
				return err
			}, tool.GrantRevoked},
			"a removal": {func(c operation.Caller) error { return o.ledger.Remove(ctx, c.Principal.Actor(), "files") }, tool.UnknownCollection},
		} {
			o.storage.set(nil)
			p := person(t, "")
			o.good(t, owner(p), tool.WriteItem, creates("a", "secret"))
			c := o.page(t, p, everything)
			o.storage.set(func(f *hooks) {
				f.after = func(verb string) error {
					if verb == "read" {
						return x.change(c)
					}
					return nil
				}
			})
			out, e := o.do(t, c, tool.ReadItem, object{"collection": "files", "item": "a"})
			if code(e) != x.want || out != nil {
				t.Errorf("after %s: %v %v, want %s", name, out, e, x.want)
			}
		}
	})
}

// TestAdmission lets the clock run: forty at once, twenty a second.
func TestAdmission(t *testing.T) {
	path := storetest.SQLite(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o, err := open(path, dir, operation.Limits{}, store.Options{})
		ok(t, err)
		p := person(t, "")
		c := owner(p)
		burst := func() (n int) {
			for {
				_, e := o.do(t, c, tool.ListItems, object{"collection": "files"})
				if e != nil {
					if e.Code != tool.RateLimited {
						t.Fatalf("%v", e)
					}
					return n
				}
				n++
			}
		}
		if n := burst(); n != 40 {
			t.Errorf("a burst of %d", n)
		}
		time.Sleep(time.Second)
		if n := burst(); n != 20 {
			t.Errorf("%d after a second", n)
		}
		if _, e := o.do(t, owner(person(t, "")), tool.ListItems, object{"collection": "files"}); e != nil {
			t.Errorf("another account: %v", e)
		}
		time.Sleep(time.Minute)
		ok(t, o.Repair(ctx))
		if n := burst(); n != 40 {
			t.Errorf("a burst of %d after a minute", n)
		}
		ok(t, o.Close(ctx))
		ok(t, o.db.Close())
	})
}

// TestNothingIsHeldInReview: while eight people's worth of reviews stand open, the
// account's other calls run.
func TestNothingIsHeldInReview(t *testing.T) {
	each(t, operation.Limits{Parallel: 1, Rate: 1e6, Burst: 1e6, Wait: time.Millisecond}, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.page(t, p, everything)
		for range 8 {
			_, err := o.Prepare(ctx, c, "item_write", text(creates("a", "x")))
			ok(t, err)
		}
		o.good(t, c, tool.ListItems, object{"collection": "files"})
	})
}
