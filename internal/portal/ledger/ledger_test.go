package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/leaktest"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// book is a ledger with what a test needs to look behind it.
type book struct {
	*ledger.Book
	db  *store.DB
	log *audit.Log
}

// open opens the ledger at url as one process would.
func open(t testing.TB, url string, opts store.Options) *book {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ledger.NewBook(db, log, "local", ledger.Options{Items: 100, Bytes: 10_000,
		External: []ledger.External{{Collection: "contacts", Title: "Contacts", Source: "dav"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &book{b, db, log}
}

// each runs f on both engines.
func each(t *testing.T, f func(t *testing.T, b *book)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) { f(t, open(t, url, store.Options{})) })
}

// check walks the ledger's invariants.
func (b *book) check(t testing.TB) {
	t.Helper()
	if err := b.verify(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func (b *book) verify() error {
	return b.db.View(context.Background(), func(tx *store.Tx) error { return ledger.Check(tx) })
}

// edit changes rows behind the ledger's back.
func (b *book) edit(t testing.TB, statement string, args ...any) {
	t.Helper()
	err := b.db.Update(context.Background(), func(tx *store.Tx) error { _, err := tx.Exec(statement, args...); return err })
	if err != nil {
		t.Fatal(err)
	}
}

// text answers a statement's one value, "" where there is no row.
func (b *book) text(t testing.TB, query string, args ...any) (s string) {
	t.Helper()
	err := b.db.View(context.Background(), func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&s) })
	if err != nil && !strings.Contains(err.Error(), "no rows") {
		t.Fatal(err)
	}
	return s
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// word answers an error's code, "ok" where there is none.
func word(err error) refusal.Code {
	var code refusal.Code
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &code):
		return code
	}
	return refusal.Code("no code: " + err.Error())
}

var ctx = context.Background()

// names makes fresh names of people and sessions.
var count int

func fresh(what string) string { count++; return fmt.Sprintf("%s-%d", what, count) }

// all is a selection of everything on files.
func all() []tool.Selected {
	return []tool.Selected{{Collection: "files", Functions: tool.Selectable}}
}

// person opens an account.
func (b *book) person(t testing.TB) string {
	t.Helper()
	actor := fresh("actor")
	ok(t, b.EnsureAccount(ctx, actor))
	return actor
}

// surface is a person with a browser surface that is on.
type surface struct {
	actor, session string
	ledger.Connection
}

func (b *book) surface(t testing.TB) surface {
	t.Helper()
	s := surface{actor: b.person(t), session: fresh("session")}
	s.Connection = must[ledger.Connection](t)(b.Enable(ctx, s.session, s.actor, all(), 0))
	return s
}

func (s surface) caller() ledger.Caller {
	return ledger.Caller{Actor: s.actor, Transport: ledger.Browser, Session: s.session}
}

// bearer connects an app for an hour.
func (b *book) bearer(t testing.TB, actor string, selection []tool.Selected) ledger.Caller {
	t.Helper()
	c := must[ledger.Connection](t)(b.Connect(ctx, actor, "https://app.example/client.json", "App", selection, time.Now().Add(time.Hour)))
	return ledger.Caller{Actor: actor, Transport: ledger.Bearer, Connection: c.ID}
}

func uuid() string {
	id := ledger.NewID()
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// claim is a create of 10 bytes.
func claim(c ledger.Caller) ledger.Claim {
	return ledger.Claim{Caller: c, Tool: tool.WriteItem, Digest: digest, RequestID: uuid(), Collection: "files", Item: "a.txt",
		IfAbsent: true, HasContent: true, Items: 1, Bytes: 10, Until: time.Now().Add(15 * time.Second)}
}

var written = ledger.Outcome{State: ledger.Done, JSON: `{"item":"a.txt"}`, After: "v1"}

func TestFreshAccount(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := b.person(t)
		ok(t, b.EnsureAccount(ctx, actor))
		got := ""
		for _, c := range must[[]ledger.Collection](t)(b.Collections(ctx, actor)) {
			got += fmt.Sprintf("%s %q %s %s %s; ", c.Collection, c.Title, c.Kind, c.Source, c.State)
		}
		want := `contacts "Contacts" external dav connected; files "Files" storage storage connected; inbox "Inbox" inbox inbox connected; `
		if got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		b.check(t)
	})
}

func TestManyOpenOneAccount(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := fresh("actor")
		errs := make(chan error, 32)
		for range cap(errs) {
			go func() { errs <- b.EnsureAccount(ctx, actor) }()
		}
		for range cap(errs) {
			ok(t, <-errs)
		}
		if n := len(must[[]ledger.Collection](t)(b.Collections(ctx, actor))); n != 3 {
			t.Errorf("%d collections, want 3", n)
		}
		b.check(t)
	})
}

func TestCollectionIDs(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := b.person(t)
		for title, want := range map[string]string{"Trip to Oslo, 2026": "trip-to-oslo-2026", "  ": "collection", "ÅÄÖ": "collection-2", "Files": "files-2",
			"\u202eevil": "invalid_input", "": "invalid_input", strings.Repeat("x", 101): "invalid_input", strings.Repeat("y", 100): strings.Repeat("y", 48)} {
			_ = want
			c, err := b.Create(ctx, actor, title)
			got := c.Collection
			if err != nil {
				got = string(word(err))
			}
			if strings.TrimSuffix(got, "-2") != strings.TrimSuffix(want, "-2") {
				t.Errorf("%q is %q, want %q", title, got, want)
			}
		}
		b.check(t)
	})
}

// A provider's subject may be no word of the log's; it stands there as a digest.
func TestAnyActor(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := "auth0|Ana María"
		ok(t, b.EnsureAccount(ctx, actor))
		b.bearer(t, actor, all())
		b.check(t)
	})
}

func TestSelectionsAreExact(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := b.person(t)
		ok(t, b.Disconnect(ctx, actor, "contacts"))
		later := time.Now().Add(time.Hour)
		for name, c := range map[string]struct {
			selection []tool.Selected
			expires   time.Time
			want      refusal.Code
		}{
			"fine":          {all(), later, "ok"},
			"nothing":       {nil, later, tool.InvalidInput},
			"unknown":       {[]tool.Selected{{Collection: "nope", Functions: []tool.Name{tool.ReadItem}}}, later, tool.UnknownCollection},
			"inbox deletes": {[]tool.Selected{{Collection: "inbox", Functions: []tool.Name{tool.DeleteItem}}}, later, tool.FunctionUnavailable},
			"disconnected":  {[]tool.Selected{{Collection: "contacts", Functions: []tool.Name{tool.ReadItem}}}, later, tool.SourceDisconnected},
			"wildcard":      {[]tool.Selected{{Collection: "*", Functions: []tool.Name{tool.ReadItem}}}, later, tool.InvalidInput},
			"past":          {all(), time.Now().Add(-time.Second), refusal.Expired},
		} {
			_, err := b.Connect(ctx, actor, "app", "App", c.selection, c.expires)
			if got := word(err); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
		b.check(t)
	})
}

// No selection grows: not by a new collection, not by one made again under an old
// id, not by one that was connected again.
func TestSelectionsDoNotGrow(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := b.person(t)
		trips := must[ledger.Collection](t)(b.Create(ctx, actor, "Trips"))
		names := func(c ledger.Caller) (out string) {
			seen, _, err := b.Visible(ctx, c)
			ok(t, err)
			for _, a := range seen {
				out += a.Collection.Collection + " "
			}
			return out
		}
		app := b.bearer(t, actor, []tool.Selected{{Collection: "contacts", Functions: []tool.Name{tool.ReadItem}}, {Collection: "trips", Functions: []tool.Name{tool.ReadItem}}})
		owner := ledger.Caller{Actor: actor, Transport: ledger.Owner}
		steps := []struct {
			name       string
			do         func() error
			app, owner string
		}{
			{"at first", func() error { return nil }, "contacts trips ", "contacts files inbox trips "},
			{"a new one", func() error { _, err := b.Create(ctx, actor, "More"); return err }, "contacts trips ", "contacts files inbox more trips "},
			{"removed", func() error { return b.Remove(ctx, actor, "trips") }, "contacts ", "contacts files inbox more "},
			{"made again", func() error {
				again, err := b.Create(ctx, actor, "Trips")
				if again.Place == trips.Place || again.Incarnation == trips.Incarnation {
					t.Error("a collection that was made again is in the old place")
				}
				return err
			}, "contacts ", "contacts files inbox more trips "},
			{"disconnected", func() error { return b.Disconnect(ctx, actor, "contacts") }, "contacts ", "contacts files inbox more trips "},
			{"connected again", func() error { return b.Reconnect(ctx, actor, "contacts") }, "", "contacts files inbox more trips "},
		}
		for _, s := range steps {
			ok(t, s.do())
			if a, o := names(app), names(owner); a != s.app || o != s.owner {
				t.Errorf("%s: app sees %q and owner %q, want %q and %q", s.name, a, o, s.app, s.owner)
			}
		}
		if _, _, err := b.Allow(ctx, app, "trips", tool.ReadItem); word(err) != tool.UnknownCollection {
			t.Errorf("an app's read of the collection that was made again: %v", err)
		}
		b.check(t)
	})
}

// A session is one person's; nobody's account is nobody's.
func TestSessionsAreOnePersons(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		s := b.surface(t)
		if _, err := b.Enable(ctx, s.session, b.person(t), all(), 0); word(err) != tool.SessionExpired {
			t.Errorf("another person in the same session: %v", err)
		}
		if _, err := b.Enable(ctx, "", s.actor, all(), 0); word(err) != tool.SessionExpired {
			t.Errorf("no session: %v", err)
		}
		if err := b.EnsureAccount(ctx, ""); word(err) != refusal.BadDocument {
			t.Errorf("nobody: %v", err)
		}
		// An app's grant has no session, and the end of none ends it.
		app := b.bearer(t, fresh("newcomer"), all())
		ok(t, b.EndSession(ctx, ""))
		ok(t, b.Disable(ctx, ""))
		if c := must[ledger.Connection](t)(b.Connection(ctx, app.Connection)); c.State != ledger.Live {
			t.Errorf("it is %s", c.State)
		}
		b.check(t)
	})
}

// The names of what apps call themselves and their ids are nobody's words.
func TestConnectionsAreTold(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		actor := b.person(t)
		app := b.bearer(t, actor, all())
		s := fresh("session")
		must[ledger.Connection](t)(b.Enable(ctx, s, actor, all(), 0))
		list := must[[]ledger.Connection](t)(b.Connections(ctx, actor))
		if len(list) != 2 {
			t.Fatalf("%d connections, want 2", len(list))
		}
		for _, c := range list {
			if len(c.Selection) != 1 || c.Generation != 1 || c.State != ledger.Live || !c.Revoked.IsZero() {
				t.Errorf("%+v", c)
			}
		}
		if err := b.Revoke(ctx, b.person(t), app.Connection); word(err) != refusal.Unknown {
			t.Errorf("another person's revocation: %v", err)
		}
		ok(t, b.Revoke(ctx, actor, app.Connection))
		ok(t, b.Revoke(ctx, actor, app.Connection))
		c := must[ledger.Connection](t)(b.Connection(ctx, app.Connection))
		if c.State != ledger.Revoked || c.Generation != 2 || c.Revoked.IsZero() {
			t.Errorf("%+v", c)
		}
		b.check(t)
	})
}
