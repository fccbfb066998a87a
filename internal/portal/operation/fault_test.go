package operation_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// quick gives a source less time than a user would wait, and a busy machine enough.
var quick = operation.Limits{Parallel: 200, Rate: 1e6, Burst: 1e6, Deadline: 15 * time.Second, Wait: 100 * time.Millisecond}

// past moves the requests that are begun beyond their time, as minutes would.
func (o *office) past(t testing.TB) {
	t.Helper()
	ok(t, o.db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`update portal_request set until_ms=1 where state='begun'`)
		return err
	}))
}

// TestHangingSource: a source that never answers costs its deadline and a code, and
// what it does later is the truth that the same request is told.
func TestHangingSource(t *testing.T) {
	limits := quick
	limits.Deadline = 300 * time.Millisecond
	each(t, limits, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		release := make(chan struct{})
		var asked atomic.Int64
		o.storage.set(func(f *hooks) { // deaf to its context
			f.before = func(_ context.Context, verb string) error {
				switch verb {
				case "settle":
					asked.Add(1)
				case "write":
				default:
					<-release
				}
				return nil
			}
			f.after = func(verb string) error { <-release; return nil }
		})
		begun := time.Now()
		_, e := o.do(t, c, tool.ReadItem, object{"collection": "files", "item": "a"})
		if code(e) != tool.SourceUnavailable {
			t.Errorf("a read: %v", e)
		}
		a := creates("a", "1")
		_, e = o.do(t, c, tool.WriteItem, a)
		if code(e) != tool.UnknownOutcome || e.Details["receipt"] == "" {
			t.Errorf("a write: %v", e)
		}
		list, e := o.do(t, c, tool.ListCollections, object{})
		if e != nil || len(list["collections"].([]any)) != 2 {
			t.Errorf("collections_list waits for a count: %v %v", list, e)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("three calls took %v", took)
		}
		close(release)
		again := o.good(t, c, tool.WriteItem, a)
		if asked.Load() != 0 {
			t.Error("the late answer wasn't written by who had waited for it")
		}
		if again["outcome"] != "created" || o.storage.calls.Load() != 1 {
			t.Errorf("the same request: %v after %d changes", again, o.storage.calls.Load())
		}
	})
}

// TestEffectThenError: the source did it and says it failed. Nothing repeats it, and
// Repair finds the truth by the mark.
func TestEffectThenError(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		o.storage.set(func(f *hooks) {
			f.after = func(verb string) error {
				if verb == "write" || verb == "delete" {
					return errors.New("connection reset")
				}
				return nil
			}
		})
		a := creates("a", "1")
		if _, e := o.do(t, c, tool.WriteItem, a); code(e) != tool.UnknownOutcome {
			t.Errorf("%v", e)
		}
		o.past(t)
		ok(t, o.Repair(ctx))
		out := o.good(t, c, tool.WriteItem, a)
		if out["outcome"] != "created" {
			t.Errorf("%v", out)
		}
		d := deletes("a", out["version"].(string))
		if _, e := o.do(t, c, tool.DeleteItem, d); code(e) != tool.UnknownOutcome {
			t.Errorf("%v", e)
		}
		o.past(t) // without Repair: the same request finds out by itself
		if out := o.good(t, c, tool.DeleteItem, d); out["outcome"] != "deleted" {
			t.Errorf("%v", out)
		}
		if n := o.storage.calls.Load(); n != 2 {
			t.Errorf("%d changes were sent, want 2", n)
		}
		if u, err := o.ledger.Usage(ctx, p.Actor()); err != nil || u.Items != 0 || u.Bytes != 0 {
			t.Errorf("usage %+v %v", u, err)
		}
	})
}

// TestErrorWithoutEffect: it never arrived. The request is refused, and can be made
// again under its own id.
func TestErrorWithoutEffect(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		c := o.app(t, person(t, ""), everything)
		o.only("write", errors.New("reset"))
		a := creates("a", "1")
		if _, e := o.do(t, c, tool.WriteItem, a); code(e) != tool.UnknownOutcome {
			t.Errorf("%v", e)
		}
		o.past(t)
		ok(t, o.Repair(ctx))
		o.storage.set(nil)
		if out := o.good(t, c, tool.WriteItem, a); out["outcome"] != "created" {
			t.Errorf("%v", out)
		}
	})
}

// TestLies: what a source answers is held to what was asked.
func TestLies(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		p := person(t, "")
		c := owner(p)
		v := o.good(t, c, tool.WriteItem, creates("a", "content"))["version"].(string)
		read := map[string]func(*source.Content){
			"smaller":       func(c *source.Content) { c.Size = 2 },
			"bigger":        func(c *source.Content) { c.Size = 1 << 40 },
			"negative":      func(c *source.Content) { c.Size = -1 },
			"another item":  func(c *source.Content) { c.Item.Item = "b" },
			"another part":  func(c *source.Content) { c.Offset = 3 },
			"too much":      func(c *source.Content) { c.Bytes = make([]byte, 70_000); c.Size = 70_000 },
			"no version":    func(c *source.Content) { c.Version = "" },
			"version text":  func(c *source.Content) { c.Version = "<b>v 1</b>" },
			"cut, and not":  func(c *source.Content) { c.Truncated = true },
			"odd metadata":  func(c *source.Content) { c.Metadata = map[string]any{"a": 1.5} },
			"odder still":   func(c *source.Content) { c.Metadata = map[string]any{"a": make(chan int)} },
			"broken text":   func(c *source.Content) { c.Metadata = map[string]any{"a": "\xff"} },
			"another's row": func(c *source.Content) { c.Item = source.Item{} },
		}
		for name, lie := range read {
			o.storage.set(func(f *hooks) { f.read = lie })
			if _, e := o.do(t, c, tool.ReadItem, object{"collection": "files", "item": "a"}); code(e) != tool.SourceUnavailable || len(e.Details) != 0 {
				t.Errorf("a read that lies (%s): %v", name, e)
			}
		}
		list := map[string]func(*source.Page){
			"more than asked": func(p *source.Page) { p.Items = append(p.Items, p.Items[0], p.Items[0]) },
			"bad cursor":      func(p *source.Page) { p.Next = "<script>" },
			"dots":            func(p *source.Page) { p.Items[0].Item = "../../etc/passwd" },
			"hidden":          func(p *source.Page) { p.Items[0].Item = "a\u202e" },
		}
		for name, lie := range list {
			o.storage.set(func(f *hooks) { f.list = lie })
			if _, e := o.do(t, c, tool.ListItems, object{"collection": "files", "limit": 1}); code(e) != tool.SourceUnavailable {
				t.Errorf("a list that lies (%s): %v", name, e)
			}
		}
		o.storage.set(func(f *hooks) {
			f.list = func(p *source.Page) {
				p.Items[0].Title = long(5000) + "\xff"
				p.Items[0].MediaType = "text/html; x=<b>"
			}
		})
		row := o.good(t, c, tool.ListItems, object{"collection": "files"})["items"].([]any)[0].(object)
		if len(row["title"].(string)) != 1024 || row["media_type"] != "application/octet-stream" {
			t.Errorf("a row of others' text: %v", row)
		}
		wrote := map[string]func(*source.Written){
			"no version":    func(w *source.Written) { w.Version = "" },
			"another item":  func(w *source.Written) { w.Item = "b" },
			"other outcome": func(w *source.Written) { w.Outcome = "approved" },
			"created":       func(w *source.Written) { w.Outcome = source.Created },
		}
		for name, lie := range wrote {
			o.storage.set(func(f *hooks) { f.wrote = lie })
			a := replaces("a", name, v)
			if _, e := o.do(t, c, tool.WriteItem, a); code(e) != tool.UnknownOutcome {
				t.Errorf("a write that lies (%s): %v", name, e)
			}
			o.storage.set(nil)
			o.past(t)
			out := o.good(t, c, tool.WriteItem, a) // the source knows better by the mark
			v = out["version"].(string)
		}
		o.storage.set(func(f *hooks) { f.before = func(context.Context, string) error { panic("a parser's") } })
		if _, e := o.do(t, c, tool.ReadItem, object{"collection": "files", "item": "a"}); code(e) != tool.SourceUnavailable {
			t.Errorf("a source that panics: %v", e)
		}
	})
}

// Nothing of a source's text becomes an error.
func TestSourcesTextIsNoError(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		c := owner(person(t, ""))
		canary := "canary<img src=x>"
		for _, lie := range []error{
			errors.New(canary),
			tool.Fail(refusal.Code(canary)),
			tool.Fail(tool.VersionConflict, "version", canary+" x"),
			tool.Fail(tool.NotFound, "why", canary),
			tool.Fail(tool.InvalidInput, "path", "/"+canary, "rule", canary),
			tool.Fail(tool.QuotaExceeded, "limit", canary, "used", canary),
			tool.Fail(tool.SessionExpired), tool.Fail(tool.ReviewDeclined),
		} {
			o.down(lie)
			for _, call := range []func() error{
				func() error { return o.call(c, tool.ReadItem, object{"collection": "files", "item": "a"}) },
				func() error { return o.call(c, tool.WriteItem, creates("a", "1")) },
			} {
				err := call()
				var e *tool.Error
				if !errors.As(err, &e) || strings.Contains(string(e.JSON()), "canary") || strings.Contains(err.Error(), "canary") {
					t.Errorf("%v became %v", lie, err)
				} else if e.Code == tool.SessionExpired || e.Code == tool.ReviewDeclined {
					t.Errorf("a source said %s", e.Code)
				}
			}
		}
	})
}

// A source that vanishes is disconnected at once, for reads and changes; replays of
// what is known are answered all the same.
func TestVanishedSource(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		a := creates("a", "1")
		first := o.good(t, c, tool.WriteItem, a)
		ok(t, o.ledger.Disconnect(ctx, p.Actor(), "files"))
		if diff := cmp.Diff(first, o.good(t, c, tool.WriteItem, a)); diff != "" {
			t.Errorf("replay (-want +got):\n%s", diff)
		}
		if _, e := o.do(t, c, tool.WriteItem, creates("b", "1")); code(e) != tool.SourceDisconnected {
			t.Errorf("%v", e)
		}
		ok(t, o.ledger.Reconnect(ctx, p.Actor(), "files"))
		if _, e := o.do(t, c, tool.ReadItem, object{"collection": "files", "item": "a"}); code(e) != tool.UnknownCollection {
			t.Errorf("after it was connected again: %v", e)
		}
		if out := o.good(t, owner(p), tool.ReadItem, object{"collection": "files", "item": "a"}); out["content"] != "1" {
			t.Errorf("its owner reads %v", out)
		}
	})
}

// Cancelled before it is sent, a change isn't sent; after, its true outcome is
// written whoever still listens.
func TestCancellation(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		over, cancel := context.WithCancel(ctx)
		o.storage.set(func(f *hooks) {
			f.before = func(within context.Context, verb string) error {
				cancel()
				time.Sleep(20 * time.Millisecond)
				return within.Err() // a change isn't interrupted with its caller
			}
		})
		a := creates("a", "1")
		if out, e := result(t)(o.Call(over, c, "item_write", text(a))); e != nil || out["outcome"] != "created" {
			t.Errorf("%v %v", out, e)
		}
		o.storage.set(nil)
		if _, e := result(t)(o.Call(over, c, "item_write", text(creates("b", "1")))); code(e) != tool.Cancelled {
			t.Errorf("%v", e)
		}
		if n := o.storage.calls.Load(); n != 1 {
			t.Errorf("%d changes were sent", n)
		}
	})
}

// TestLostCommits loses each commit of a change's life, before it is applied and
// after. The effect happens at most once, what was told as done is, and the same
// request finds the truth.
func TestLostCommits(t *testing.T) {
	for _, applied := range []bool{false, true} {
		storetest.EachURL(t, func(t *testing.T, url string) {
			var countdown atomic.Int64
			o, err := open(url, t.TempDir(), quick, store.Options{Commit: func(commit func() error) error {
				if countdown.Add(-1) != 0 {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return errors.New("the commit's answer was lost")
			}})
			ok(t, err)
			p := person(t, "")
			c := o.app(t, p, everything)
			for at := int64(1); at <= 6; at++ {
				a := creates("file"+string(rune('0'+at)), "1")
				before := o.storage.calls.Load()
				countdown.Store(at)
				out, e := o.do(t, c, tool.WriteItem, a)
				countdown.Store(0)
				ok(t, o.verify())
				o.past(t)
				ok(t, o.Repair(ctx))
				again, e2 := o.do(t, c, tool.WriteItem, a)
				sent := o.storage.calls.Load() - before
				if e2 != nil || e == nil && cmp.Diff(out, again) != "" {
					t.Errorf("applied %v, commit %d: %v %v, then %v %v", applied, at, out, code(e), again, code(e2))
				}
				if e == nil && sent != 1 {
					t.Errorf("applied %v, commit %d: %d changes were sent", applied, at, sent)
				}
				ok(t, o.verify())
			}
			items := o.good(t, c, tool.ListItems, object{"collection": "files"})["items"].([]any)
			if u, err := o.ledger.Usage(ctx, p.Actor()); err != nil || len(items) != 6 || u.Items != 6 {
				t.Errorf("%d items, usage %+v %v", len(items), u, err)
			}
			ok(t, errors.Join(o.Close(ctx), o.db.Close()))
		})
	}
}

// Removed collections are emptied, and their room comes back.
func TestRemovedCollectionsAreEmptied(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		c := owner(p)
		for i := range 5 {
			o.good(t, c, tool.WriteItem, creates(string(rune('a'+i)), "12345"))
		}
		ok(t, o.ledger.Remove(ctx, p.Actor(), "files"))
		if _, e := o.do(t, c, tool.ListItems, object{"collection": "files"}); code(e) != tool.UnknownCollection {
			t.Errorf("%v", e)
		}
		ok(t, o.Repair(ctx))
		u, err := o.ledger.Usage(ctx, p.Actor())
		places, err2 := o.ledger.Places(ctx, p.Actor())
		if err != nil || err2 != nil || u.Items != 0 || u.Bytes != 0 || len(places) != 0 {
			t.Errorf("%+v %v %v", u, places, errors.Join(err, err2))
		}
	})
}

// A source that never tells is asked until the doubt is over; then it is unknown for
// good, and usage is counted anew.
func TestDoubtEnds(t *testing.T) {
	limits := quick
	limits.Doubt = time.Millisecond
	each(t, limits, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		o.down(errors.New("gone"))
		a := creates("a", "12345")
		o.only("write", errors.New("gone"))
		if _, e := o.do(t, c, tool.WriteItem, a); code(e) != tool.UnknownOutcome {
			t.Errorf("%v", e)
		}
		o.past(t)
		o.only("settle", errors.New("gone"))
		time.Sleep(5 * time.Millisecond)
		ok(t, o.Repair(ctx))
		o.storage.set(nil)
		_, e := o.do(t, c, tool.WriteItem, a)
		if code(e) != tool.UnknownOutcome || o.storage.calls.Load() != 1 {
			t.Errorf("%v after %d changes", e, o.storage.calls.Load())
		}
		ok(t, o.Repair(ctx))
		if u, err := o.ledger.Usage(ctx, p.Actor()); err != nil || u.Items != 0 {
			t.Errorf("%+v %v", u, err)
		}
		r, err := o.ledger.Receipt(ctx, p.Actor(), e.Details["receipt"].(string))
		if err != nil || r.State != ledger.Unknown {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// An inbox keeps no mark: what became of a mark on a message is found out by the
// metadata that was asked for, which the ledger forgets then.
func TestInboxEffectThenError(t *testing.T) {
	each(t, quick, func(t *testing.T, o *office) {
		p := person(t, "")
		item, version := o.deliver(t, p)
		c := o.app(t, p, everything)
		for _, x := range []struct {
			metadata object
			want     string
		}{
			{object{"seen": true, "keywords": []any{"later"}}, "metadata_updated"},
			{object{"folder": "Archive"}, "moved"},
		} {
			o.inbox.set(func(f *hooks) {
				f.after = func(verb string) error {
					if verb == "write" {
						return errors.New("connection reset")
					}
					return nil
				}
			})
			a := object{"collection": "inbox", "item": item, "request_id": uuid(), "metadata": x.metadata, "if_version": version}
			if _, e := o.do(t, c, tool.WriteItem, a); code(e) != tool.UnknownOutcome {
				t.Errorf("%v", e)
			}
			o.inbox.set(nil)
			o.past(t)
			ok(t, o.Repair(ctx))
			out, e := o.do(t, c, tool.WriteItem, a)
			if e != nil || out["outcome"] != x.want {
				t.Fatalf("%s: %v %v", x.want, out, e)
			}
			item, version = out["item"].(string), out["version"].(string)
			read := o.good(t, c, tool.ReadItem, object{"collection": "inbox", "item": item})
			if read["version"] != version {
				t.Errorf("%s is told in version %s and stands in %v", x.want, version, read["version"])
			}
		}
		if n := o.inbox.calls.Load(); n != 2 {
			t.Errorf("%d changes were sent", n)
		}
	})
}
