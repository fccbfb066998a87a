package operation_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"writer": writer, "hurry": hurry})
}

var ctx = context.Background()

// faulty stands before a real source and does what others' programs do: hang, fail
// after the effect, lie, panic.
type faulty struct {
	source.Source
	calls atomic.Int64 // changes that arrived
	mu    sync.Mutex   // over now
	now   hooks
}

// hooks are the faults of now; a nil one is none.
type hooks struct {
	before func(ctx context.Context, verb string) error // instead of the call, where it answers an error
	after  func(verb string) error                      // after the effect
	read   func(*source.Content)
	list   func(*source.Page)
	wrote  func(*source.Written)
}

func (f *faulty) set(change func(*hooks)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = hooks{}
	if change != nil {
		change(&f.now)
	}
}

func (f *faulty) hooks() hooks {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// through runs one call between the hooks.
func through[T any](ctx context.Context, f *faulty, verb string, call func() (T, error)) (v T, err error) {
	h := f.hooks()
	if h.before != nil {
		if err := h.before(ctx, verb); err != nil {
			return v, err
		}
	}
	if v, err = call(); err == nil && h.after != nil {
		err = h.after(verb)
	}
	return v, err
}

func (f *faulty) Count(ctx context.Context, p source.Place) (n int, ok bool, err error) {
	n, err = through(ctx, f, "count", func() (int, error) { n, ok, err = f.Source.Count(ctx, p); return n, err })
	return n, ok, err
}

func (f *faulty) List(ctx context.Context, p source.Place, q source.Query) (source.Page, error) {
	page, err := through(ctx, f, "list", func() (source.Page, error) { return f.Source.List(ctx, p, q) })
	if h := f.hooks(); h.list != nil {
		h.list(&page)
	}
	return page, err
}

func (f *faulty) Read(ctx context.Context, p source.Place, item string, offset int64, max int) (source.Content, error) {
	c, err := through(ctx, f, "read", func() (source.Content, error) { return f.Source.Read(ctx, p, item, offset, max) })
	if h := f.hooks(); h.read != nil {
		h.read(&c)
	}
	return c, err
}

func (f *faulty) Stat(ctx context.Context, p source.Place, item string) (source.Item, error) {
	return through(ctx, f, "stat", func() (source.Item, error) { return f.Source.Stat(ctx, p, item) })
}

func (f *faulty) Write(ctx context.Context, p source.Place, w source.Write) (source.Written, error) {
	f.calls.Add(1)
	out, err := through(ctx, f, "write", func() (source.Written, error) { return f.Source.Write(ctx, p, w) })
	if h := f.hooks(); h.wrote != nil {
		h.wrote(&out)
	}
	return out, err
}

func (f *faulty) Delete(ctx context.Context, p source.Place, item, ifVersion, mark string) error {
	f.calls.Add(1)
	_, err := through(ctx, f, "delete", func() (int, error) { return 0, f.Source.Delete(ctx, p, item, ifVersion, mark) })
	return err
}

func (f *faulty) Settle(ctx context.Context, p source.Place, w source.Write) (out source.Written, s source.Settled, err error) {
	out, err = through(ctx, f, "settle", func() (source.Written, error) { out, s, err = f.Source.Settle(ctx, p, w); return out, err })
	return out, s, err
}

func (f *faulty) SettleDelete(ctx context.Context, p source.Place, item, ifVersion, mark string) (source.Settled, error) {
	return through(ctx, f, "settle", func() (source.Settled, error) { return f.Source.SettleDelete(ctx, p, item, ifVersion, mark) })
}

// office is a desk over real sources with what a test needs to look behind it.
type office struct {
	*operation.Desk
	ledger  *ledger.Book
	db      *store.DB
	storage *faulty
	inbox   *faulty
	mail    *source.Maildir
}

// wide is limits that a test doesn't meet by chance, on a busy machine either.
var wide = operation.Limits{Parallel: 200, Rate: 1e6, Burst: 1e6, Deadline: time.Minute}

// open opens the office in dir over the database at url, as one process would.
func open(url, dir string, limits operation.Limits, opts store.Options) (*office, error) {
	db, err := store.Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		return nil, err
	}
	book, err := ledger.NewBook(db, log, "local", ledger.Options{})
	if err != nil {
		return nil, err
	}
	items, err := item.NewBook(db, log, "local", item.Options{})
	if err != nil {
		return nil, err
	}
	hosted, err := source.NewHosted(items, filepath.Join(dir, "blobs"))
	if err != nil {
		return nil, err
	}
	mail, err := source.NewMaildir(filepath.Join(dir, "mail"))
	if err != nil {
		return nil, err
	}
	o := &office{ledger: book, db: db, mail: mail, storage: &faulty{Source: hosted}, inbox: &faulty{Source: mail}}
	o.Desk = operation.New(operation.Config{Ledger: book, Limits: limits,
		Sources: map[string]source.Source{"storage": o.storage, "inbox": o.inbox}})
	return o, nil
}

func office1(t testing.TB, url string, limits operation.Limits) *office {
	t.Helper()
	o, err := open(url, t.TempDir(), limits, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o.storage.set(nil)
		o.inbox.set(nil)
		if err := errors.Join(o.Close(ctx), o.verify(), o.db.Close()); err != nil {
			t.Error(err)
		}
	})
	return o
}

// verify walks the invariants of the ledger and of the items.
func (o *office) verify() error {
	return o.db.View(ctx, func(tx *store.Tx) error { return errors.Join(ledger.Check(tx), item.Check(tx)) })
}

// each runs f on both engines.
func each(t *testing.T, limits operation.Limits, f func(t *testing.T, o *office)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, office1(t, url, limits)) })
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var names atomic.Int64

// person is somebody with a fresh account.
func person(t testing.TB, agent string) identity.Principal {
	t.Helper()
	p, err := identity.New(identity.Claims{Tenant: "local", Actor: fmt.Sprintf("ana-%d", names.Add(1)), Agent: agent})
	ok(t, err)
	return p
}

func owner(p identity.Principal) operation.Caller {
	return operation.Caller{Principal: p, Transport: operation.Owner, Session: "s-" + p.Actor()}
}

var everything = []tool.Selected{{Collection: "files", Functions: tool.Selectable},
	{Collection: "inbox", Functions: []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem}}}

// app connects an app to the person's collections.
func (o *office) app(t testing.TB, p identity.Principal, selection []tool.Selected) operation.Caller {
	t.Helper()
	ok(t, o.ledger.EnsureAccount(ctx, p.Actor()))
	c, err := o.ledger.Connect(ctx, p.Actor(), "app-1", "App", selection, time.Now().Add(time.Hour))
	ok(t, err)
	return operation.Caller{Principal: p, Transport: operation.Bearer, Connection: c.ID}
}

// page enables the browser surface in a session of the person's.
func (o *office) page(t testing.TB, p identity.Principal, selection []tool.Selected) operation.Caller {
	t.Helper()
	ok(t, o.ledger.EnsureAccount(ctx, p.Actor()))
	session := fmt.Sprintf("session-%d", names.Add(1))
	_, err := o.ledger.Enable(ctx, session, p.Actor(), selection, 0)
	ok(t, err)
	return operation.Caller{Principal: p, Transport: operation.Browser, Session: session}
}

func uuid() string {
	id := ledger.NewID()
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

type object = map[string]any

func text(v object) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return data
}

// with answers v with more members.
func with(v object, pairs ...any) object {
	out := object{}
	for name, x := range v {
		out[name] = x
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

func creates(name, content string) object {
	return object{"collection": "files", "item": name, "request_id": uuid(), "content": content, "media_type": "text/plain", "if_absent": true}
}

func replaces(name, content, version string) object {
	return object{"collection": "files", "item": name, "request_id": uuid(), "content": content, "if_version": version}
}

func deletes(name, version string) object {
	return object{"collection": "files", "item": name, "request_id": uuid(), "if_version": version}
}

// do calls and answers the result, or the error's code and details.
func (o *office) do(t testing.TB, c operation.Caller, name tool.Name, arguments object) (object, *tool.Error) {
	t.Helper()
	return result(t)(o.Call(ctx, c, string(name), text(arguments)))
}

func result(t testing.TB) func(data []byte, err error) (object, *tool.Error) {
	return func(data []byte, err error) (object, *tool.Error) {
		t.Helper()
		var told *tool.Error
		if err != nil && !errors.As(err, &told) {
			t.Fatalf("an error that isn't a *tool.Error: %v", err)
		}
		if err != nil {
			return nil, told
		}
		var out object
		ok(t, json.Unmarshal(data, &out))
		return out, nil
	}
}

// good is do where it must go well.
func (o *office) good(t testing.TB, c operation.Caller, name tool.Name, arguments object) object {
	t.Helper()
	out, e := o.do(t, c, name, arguments)
	if e != nil {
		t.Fatalf("%s: %s %v", name, e.Code, e.Details)
	}
	return out
}

func word(err error) refusal.Code {
	if err == nil {
		return "ok"
	}
	return refusal.Of(err)
}

func code(e *tool.Error) refusal.Code {
	if e == nil {
		return "ok"
	}
	return e.Code
}

// deliver puts a message into the person's inbox and answers its item.
func (o *office) deliver(t testing.TB, p identity.Principal) (item, version string) {
	t.Helper()
	ok(t, o.ledger.EnsureAccount(ctx, p.Actor()))
	all, err := o.ledger.Collections(ctx, p.Actor())
	ok(t, err)
	for _, c := range all {
		if c.Collection == "inbox" {
			ok(t, o.mail.Deliver(source.Place{Account: source.Account{Tenant: "local", Actor: p.Actor()}, Collection: "inbox", Incarnation: c.Place},
				[]byte("From: a@example.com\r\nSubject: Hello\r\n\r\nHow are you?\r\n")))
		}
	}
	rows := o.good(t, owner(p), tool.ListItems, object{"collection": "inbox"})["items"].([]any)
	last := rows[0].(object)
	return last["item"].(string), last["version"].(string)
}

// review prepares, confirms and executes a browser's change.
func (o *office) review(t testing.TB, c operation.Caller, name tool.Name, arguments object) (object, *tool.Error) {
	t.Helper()
	r, err := o.Prepare(ctx, c, string(name), text(arguments))
	ok(t, err)
	ok(t, o.Confirm(ctx, c, r.ReceiptID, r.Digest))
	return result(t)(o.Execute(ctx, c, r.ReceiptID, string(name), text(arguments)))
}

func long(n int) string { return strings.Repeat("x", n) }
