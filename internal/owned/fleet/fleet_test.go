package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/identity"
	"chaperone/internal/leaktest"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Check(m.Run())) }

// ground is a fleet over a fresh ledger with the engagements that a test writes.
type ground struct {
	*fleet.Fleet
	runs *run.Book
	dir  string
	ctx  context.Context
}

func stand(t *testing.T, db *store.DB, most int) *ground {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(db, audit.Options{Tenant: "local", CheckpointDir: filepath.Join(dir, "c"), KeyFile: filepath.Join(dir, "k")})
	if err != nil {
		t.Fatal(err)
	}
	book, err := run.NewBook(db, log, "local")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := jail.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	f := fleet.New(fleet.Config{Book: book, Engagements: filepath.Join(dir, "engagements"), Engine: engine, Most: most})
	t.Cleanup(func() {
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := log.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &ground{f, book, filepath.Join(dir, "engagements"), ctx}
}

func (g *ground) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(g.dir, name), mode); err != nil {
		t.Fatal(err)
	}
}

func person(t *testing.T, actor string) identity.Principal {
	t.Helper()
	p, err := identity.New(identity.Claims{Tenant: "local", Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const localScope = "engagement: acme\nallow:\n  - host: 127.0.0.1\n    ports: \"*\"\n    schemes: [http]\n"

func TestFleet(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		g := stand(t, db, 2)
		g.write(t, "acme.yaml", localScope, 0o600)
		site := sitetest.New(t)
		site.Page("/", "<title>Hi</title><p>there</p>")
		ann, bob := person(t, "ann"), person(t, "bob")

		b, err := g.Open(g.ctx, fleet.Opening{Engagement: "acme", Principal: ann, Connection: "c1", Surface: "mcp"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Do(g.ctx, ownedv1.Goto{URL: site.URL("/")}); err != nil {
			t.Fatal(err)
		}
		look, err := b.Glimpse(g.ctx)
		if err != nil || look.URL != site.URL("/") || len(look.JPEG) < 500 {
			t.Errorf("a glimpse of %q with %d bytes: %v", look.URL, len(look.JPEG), err)
		}
		for name, c := range map[string]struct {
			who        identity.Principal
			connection string
			found      bool
		}{
			"the connection":               {ann, "c1", true},
			"the person":                   {ann, "", true},
			"another connection of theirs": {ann, "c2", false},
			"another person":               {bob, "", false},
			"another's connection id":      {bob, "c1", false},
			"nobody":                       {identity.Principal{}, "", false},
		} {
			_, err := g.Find(c.who, c.connection, b.Handle())
			if c.found != (err == nil) || !c.found && !errors.Is(err, refusal.Unknown) {
				t.Errorf("%s: %v", name, err)
			}
		}
		t.Run("pause", func(t *testing.T) { pause(t, g, b) })
		t.Run("limit", func(t *testing.T) {
			second, err := g.Open(g.ctx, fleet.Opening{Engagement: "acme", Principal: bob, Surface: "rest"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Open(g.ctx, fleet.Opening{Engagement: "acme", Principal: bob, Surface: "rest"}); !errors.Is(err, refusal.TooMany) {
				t.Errorf("a third of two: %v", err)
			}
			if err := second.End(g.ctx, refusal.Ended); err != nil {
				t.Error(err)
			}
			if len(g.List(bob, "")) != 0 {
				t.Error("an ended browser is still listed")
			}
		})
		t.Run("revoked", func(t *testing.T) {
			if err := g.EndConnection(g.ctx, "c1"); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Find(ann, "", b.Handle()); !errors.Is(err, refusal.Unknown) {
				t.Errorf("it outlives its connection: %v", err)
			}
			account, err := g.runs.Account(g.ctx, b.RunID())
			if err != nil || account.State != run.Ended || account.StartedBy != "connection:c1" {
				t.Errorf("%+v, %v", account.State, err)
			}
		})
	})
}

// A paused browser refuses what comes, and stops what runs.
func pause(t *testing.T, g *ground, b *fleet.Browser) {
	stuck := make(chan error, 1)
	go func() {
		_, err := b.Do(g.ctx, ownedv1.EvalJS{Expression: "new Promise(() => {})"})
		stuck <- err
	}()
	time.Sleep(300 * time.Millisecond)
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	var f *browser.Failure
	if err := <-stuck; !errors.As(err, &f) || f.Reason != refusal.Paused {
		t.Errorf("what ran ended with %v", err)
	}
	if _, err := b.Do(g.ctx, ownedv1.EvalJS{Expression: "1"}); !errors.As(err, &f) || f.Reason != refusal.Paused || f.Sent {
		t.Errorf("what came was answered %v", err)
	}
	if b.State() != fleet.Paused {
		t.Errorf("state %s", b.State())
	}
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Do(g.ctx, ownedv1.EvalJS{Expression: "1"}); err != nil {
		t.Errorf("after resuming: %v", err)
	}
}

func TestEngagements(t *testing.T) {
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	g := stand(t, db, 1)
	ann := person(t, "ann")
	if all, err := g.Engagements(); err != nil || len(all) != 0 {
		t.Errorf("without a folder: %v, %v", all, err)
	}
	g.write(t, "acme.yaml", localScope, 0o600)
	g.write(t, "loose.yaml", "engagement: loose\nallow:\n  - host: a.test\n", 0o666)
	g.write(t, "other.yaml", localScope, 0o600)
	g.write(t, "broken.yaml", "engagement: broken\nalow: []\n", 0o600)
	g.write(t, "note.txt", "", 0o600)
	if err := os.Symlink(filepath.Join(g.dir, "acme.yaml"), filepath.Join(g.dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	all, err := g.Engagements()
	if err != nil {
		t.Fatal(err)
	}
	faults := map[string]refusal.Code{}
	for _, e := range all {
		faults[e.Name] = e.Fault
	}
	want := map[string]refusal.Code{"acme": "", "loose": refusal.BadDocument, "other": refusal.BadDocument, "broken": refusal.BadDocument, "link": refusal.BadDocument}
	for name, fault := range want {
		if got, ok := faults[name]; !ok || got != fault {
			t.Errorf("%s: %q, want %q", name, got, fault)
		}
	}
	for _, name := range []string{"loose", "other", "broken", "link", "none", "../acme", ""} {
		if _, err := g.Open(g.ctx, fleet.Opening{Engagement: name, Principal: ann, Surface: "rest"}); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}
