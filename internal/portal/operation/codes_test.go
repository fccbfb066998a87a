package operation_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"chaperone/internal/identity"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// elsewhere are the codes that surfaces answer before a Desk is asked, or a page by
// itself.
var elsewhere = []refusal.Code{tool.CSRFDenied, tool.OriginDenied, tool.Offline}

// provoke is one way to a code.
type provoke struct {
	want refusal.Code
	do   func(t *testing.T, o *office, p identity.Principal) error
}

// call is a call that is to answer a code.
func (o *office) call(c operation.Caller, name tool.Name, a object) error {
	_, err := o.Call(ctx, c, string(name), text(a))
	return err
}

// reviewed prepares, confirms and executes, and answers the first error.
func (o *office) reviewed(c operation.Caller, name tool.Name, a object) error {
	r, err := o.Prepare(ctx, c, string(name), text(a))
	if err == nil {
		err = o.Confirm(ctx, c, r.ReceiptID, r.Digest)
	}
	if err == nil {
		_, err = o.Execute(ctx, c, r.ReceiptID, string(name), text(a))
	}
	return err
}

// down makes the storage answer an error to everything.
func (o *office) down(err error) {
	o.storage.set(func(f *hooks) { f.before = func(context.Context, string) error { return err } })
}

// only makes the storage answer an error to one verb.
func (o *office) only(verb string, err error) {
	o.storage.set(func(f *hooks) {
		f.before = func(_ context.Context, v string) error {
			if v == verb {
				return err
			}
			return nil
		}
	})
}

var files = []tool.Selected{{Collection: "files", Functions: []tool.Name{tool.ReadItem, tool.WriteItem, tool.ListItems}}}

// shared are ways that both transports have; change makes a change in its way.
func shared(enter func(o *office, t *testing.T, p identity.Principal, s []tool.Selected) operation.Caller,
	change func(o *office, c operation.Caller, name tool.Name, a object) error) []provoke {
	in := func(f func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error) func(*testing.T, *office, identity.Principal) error {
		return func(t *testing.T, o *office, p identity.Principal) error {
			return f(t, o, p, enter(o, t, p, everything))
		}
	}
	read := object{"collection": "files", "item": "none"}
	return []provoke{
		{tool.InvalidInput, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return o.call(c, tool.ReadItem, object{"collection": "files"})
		})},
		{tool.InvalidInput, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			_, err := o.Call(ctx, c, "items_list", []byte(`{"collection":"files","collection":"files"}`))
			return err
		})},
		{tool.UnknownTool, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return o.call(c, "items_purge", object{})
		})},
		{tool.UnknownCollection, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return o.call(c, tool.ReadItem, with(read, "collection", "none"))
		})},
		{tool.FunctionUnavailable, func(t *testing.T, o *office, p identity.Principal) error {
			return change(o, enter(o, t, p, files), tool.DeleteItem, deletes("a", "v"))
		}},
		{tool.FunctionUnavailable, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return change(o, c, tool.WriteItem, with(replaces("a", "x", "v"), "collection", "inbox"))
		})},
		{tool.NotFound, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return o.call(c, tool.ReadItem, read)
		})},
		{tool.NotFound, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return change(o, c, tool.WriteItem, replaces("none", "x", "v"))
		})},
		{tool.VersionConflict, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			v := o.good(t, owner(p), tool.WriteItem, creates("a", "1"))["version"]
			err := change(o, c, tool.WriteItem, replaces("a", "2", "0000"))
			var e *tool.Error
			if errors.As(err, &e) && e.Details["version"] != v {
				t.Errorf("the conflict tells %v, want %v", e.Details, v)
			}
			return err
		})},
		{tool.AlreadyExists, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			o.good(t, owner(p), tool.WriteItem, creates("a", "1"))
			return change(o, c, tool.WriteItem, creates("a", "2"))
		})},
		{tool.QuotaExceeded, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			stamp, err := o.ledger.Stamp(ctx, p.Actor())
			ok(t, err)
			ok(t, o.ledger.Recount(ctx, p.Actor(), stamp, 10_000, 0))
			err = change(o, c, tool.WriteItem, creates("a", "1"))
			var e *tool.Error
			if errors.As(err, &e) && (e.Details["limit"] != int64(10_000) || e.Details["used"] != int64(10_000)) {
				t.Errorf("the quota tells %v", e.Details)
			}
			return err
		})},
		{tool.TooLarge, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			return change(o, c, tool.WriteItem, creates("a", long(tool.MaxWrite+1)))
		})},
		{tool.SessionExpired, func(t *testing.T, o *office, p identity.Principal) error {
			c := enter(o, t, p, everything)
			if c.Transport == operation.Bearer { // an app has no session; the person in whose page it would be asked has
				c = operation.Caller{Transport: operation.Owner}
			} else {
				ok(t, o.ledger.EndSession(ctx, c.Session))
			}
			return o.call(c, tool.ListCollections, object{})
		}},
		{tool.GrantRevoked, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			all, err := o.ledger.Connections(ctx, p.Actor())
			ok(t, err)
			ok(t, o.ledger.Revoke(ctx, p.Actor(), all[0].ID))
			return o.call(c, tool.ListCollections, object{})
		})},
		{tool.GrantRevoked, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			c.Generation = 7
			return o.call(c, tool.ListCollections, object{})
		})},
		{tool.SourceDisconnected, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			ok(t, o.ledger.Disconnect(ctx, p.Actor(), "files"))
			return o.call(c, tool.ReadItem, read)
		})},
		{tool.SourceDisconnected, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			o.down(tool.Fail(tool.SourceDisconnected))
			return o.call(c, tool.ReadItem, read)
		})},
		{tool.SourceUnavailable, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			o.down(errors.New("<b>socket: no route to 10.0.0.3</b>"))
			return o.call(c, tool.ReadItem, read)
		})},
		{tool.SourceUnavailable, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			o.only("write", tool.Fail(tool.SourceUnavailable))
			return change(o, c, tool.WriteItem, creates("a", "1"))
		})},
		{tool.UnknownOutcome, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			o.only("write", errors.New("connection reset"))
			return change(o, c, tool.WriteItem, creates("a", "1"))
		})},
		{tool.RequestConflict, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			a := creates("a", "1")
			ok(t, change(o, c, tool.WriteItem, a))
			return change(o, c, tool.WriteItem, with(a, "content", "2"))
		})},
		{tool.Cancelled, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			ok(t, o.call(c, tool.ListCollections, object{}))
			over, cancel := context.WithCancel(ctx)
			cancel()
			_, err := o.Call(over, c, "item_read", text(read))
			return err
		})},
		{tool.RateLimited, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			errs := make(chan error, 100)
			for range cap(errs) {
				go func() { errs <- o.call(c, tool.ReadItem, read) }()
			}
			var err error
			for range cap(errs) {
				if e := <-errs; err == nil || word(e) == tool.RateLimited {
					err = e
				}
			}
			var e *tool.Error
			if errors.As(err, &e) {
				if ms, _ := e.Details["retry_after_ms"].(int64); ms < 1 || ms > 1000 {
					t.Errorf("try again after %v", e.Details)
				}
			}
			return err
		})},
		{tool.Busy, in(func(t *testing.T, o *office, p identity.Principal, c operation.Caller) error {
			release, inside := make(chan struct{}), make(chan struct{}, 8)
			o.storage.set(func(f *hooks) {
				f.before = func(context.Context, string) error {
					inside <- struct{}{}
					<-release
					return tool.Fail(tool.SourceUnavailable)
				}
			})
			done := make(chan error, 8)
			for range cap(done) {
				go func() { done <- o.call(c, tool.ReadItem, read) }()
			}
			for range cap(inside) {
				<-inside
			}
			err := o.call(c, tool.ReadItem, read)
			close(release)
			for range cap(done) {
				<-done
			}
			return err
		})},
	}
}

// TestEveryCodeOfAnApp provokes each code that an app can be answered.
func TestEveryCodeOfAnApp(t *testing.T) {
	table := shared(func(o *office, t *testing.T, p identity.Principal, s []tool.Selected) operation.Caller {
		return o.app(t, p, s)
	},
		func(o *office, c operation.Caller, name tool.Name, a object) error { return o.call(c, name, a) })
	table = append(table,
		// What isn't selected isn't there for an app.
		provoke{tool.UnknownCollection, func(t *testing.T, o *office, p identity.Principal) error {
			return o.call(o.app(t, p, files), tool.ListItems, object{"collection": "inbox"})
		}},
		provoke{tool.GrantRevoked, func(t *testing.T, o *office, p identity.Principal) error {
			c := o.app(t, p, files)
			c.Principal = person(t, "app-1") // another person's token can't use it
			return o.call(c, tool.ListCollections, object{})
		}},
		provoke{tool.FunctionUnavailable, func(t *testing.T, o *office, p identity.Principal) error {
			_, err := o.Prepare(ctx, o.app(t, p, files), "item_write", text(creates("a", "1")))
			return err
		}},
	)
	provokeAll(t, table, []refusal.Code{tool.UnselectedCollection, tool.Disabled, tool.ReviewDeclined, tool.ReceiptExpired, tool.ReceiptUsed})
}

// TestEveryCodeOfAPage provokes each code that a browser's agent can be answered.
func TestEveryCodeOfAPage(t *testing.T) {
	table := shared(func(o *office, t *testing.T, p identity.Principal, s []tool.Selected) operation.Caller {
		return o.page(t, p, s)
	},
		func(o *office, c operation.Caller, name tool.Name, a object) error { return o.reviewed(c, name, a) })
	prepared := func(f func(o *office, c operation.Caller, r operation.Review, a object) error) func(*testing.T, *office, identity.Principal) error {
		return func(t *testing.T, o *office, p identity.Principal) error {
			c, a := o.page(t, p, everything), creates("a", "1")
			r, err := o.Prepare(ctx, c, "item_write", text(a))
			ok(t, err)
			return f(o, c, r, a)
		}
	}
	execute := func(o *office, c operation.Caller, r operation.Review, a object) error {
		_, err := o.Execute(ctx, c, r.ReceiptID, "item_write", text(a))
		return err
	}
	confirmed := func(o *office, c operation.Caller, r operation.Review) { _ = o.Confirm(ctx, c, r.ReceiptID, r.Digest) }
	table = append(table,
		provoke{tool.UnselectedCollection, func(t *testing.T, o *office, p identity.Principal) error {
			return o.call(o.page(t, p, files), tool.ListItems, object{"collection": "inbox"})
		}},
		provoke{tool.Disabled, func(t *testing.T, o *office, p identity.Principal) error {
			return o.call(operation.Caller{Principal: p, Transport: operation.Browser, Session: "never"}, tool.ListCollections, object{})
		}},
		provoke{tool.Disabled, func(t *testing.T, o *office, p identity.Principal) error {
			c := o.page(t, p, files)
			ok(t, o.ledger.Disable(ctx, c.Session))
			return o.call(c, tool.ListCollections, object{})
		}},
		provoke{tool.ReviewDeclined, func(t *testing.T, o *office, p identity.Principal) error {
			return o.call(o.page(t, p, everything), tool.WriteItem, creates("a", "1"))
		}},
		provoke{tool.ReviewDeclined, prepared(execute)},
		provoke{tool.ReviewDeclined, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			confirmed(o, c, r)
			return execute(o, c, r, with(a, "content", "2"))
		})},
		provoke{tool.ReviewDeclined, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			return o.Confirm(ctx, c, r.ReceiptID, "sha256:0")
		})},
		provoke{tool.ReceiptExpired, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			return o.Confirm(ctx, c, ledger.NewID(), r.Digest)
		})},
		provoke{tool.ReceiptUsed, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			confirmed(o, c, r)
			_ = execute(o, c, r, a)
			return execute(o, c, r, a)
		})},
		provoke{tool.Cancelled, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			confirmed(o, c, r)
			_ = o.Decline(ctx, c, r.ReceiptID)
			return execute(o, c, r, a)
		})},
		// Revoked, changed or ended between prepare and execute: nothing is sent.
		provoke{tool.GrantRevoked, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			confirmed(o, c, r)
			s, _ := o.ledger.Selection(ctx, c.Session)
			_ = o.ledger.Revoke(ctx, c.Principal.Actor(), s.ID)
			return execute(o, c, r, a)
		})},
		provoke{tool.Cancelled, prepared(func(o *office, c operation.Caller, r operation.Review, a object) error {
			confirmed(o, c, r)
			_, _ = o.ledger.Select(ctx, c.Session, c.Principal.Actor(), everything, 1)
			return execute(o, c, r, a)
		})},
		provoke{tool.InvalidInput, func(t *testing.T, o *office, p identity.Principal) error { // a read needs no review
			_, err := o.Prepare(ctx, o.page(t, p, everything), "item_read", text(object{"collection": "files", "item": "a"}))
			return err
		}},
	)
	provokeAll(t, table, nil)
}

// provokeAll runs a table, each line in an account of its own, and holds the table
// to the contract's codes.
func provokeAll(t *testing.T, table []provoke, not []refusal.Code) {
	limits := operation.Limits{Deadline: 10 * time.Second, Wait: 100 * time.Millisecond}
	each(t, limits, func(t *testing.T, o *office) {
		got := map[refusal.Code]bool{}
		for i, x := range table {
			o.storage.set(nil)
			p := person(t, "")
			err := x.do(t, o, p)
			var told *tool.Error
			if !errors.As(err, &told) || told.Code != x.want {
				t.Errorf("line %d: %v, want %s", i, err, x.want)
				continue
			}
			got[told.Code] = true
		}
		o.storage.set(nil)
		for _, code := range tool.Codes() {
			if !got[code] && !slices.Contains(elsewhere, code) && !slices.Contains(not, code) {
				t.Errorf("no line provokes %s (those that do: %v)", code, slices.Sorted(maps.Keys(got)))
			}
		}
	})
}

var _ source.Source = (*faulty)(nil)
