package source_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/sourcetest"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(m, map[string]storetest.Role{"write": writeRole, "race": raceRole})
}

// rig is one source on its real server.
type rig struct {
	source.Source
	stop  func(func(step string) error)                                   // at each step of a change
	place func(t testing.TB) source.Place                                 // a fresh one
	seed  func(t testing.TB, p source.Place, names ...string)             // items that something else put there
	hold  func(t testing.TB, p source.Place, name string, content []byte) // one with this content
}

var places atomic.Int64

// freshPlace answers a place that no test has had.
func freshPlace(testing.TB) source.Place {
	n := places.Add(1)
	return source.Place{Account: source.Account{Tenant: "local", Actor: fmt.Sprintf("actor %d", n)}, Collection: "files", Incarnation: fmt.Sprintf("inc%d", n)}
}

// mark draws one.
func mark() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// within answers a context that ends before a test would be missed.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func usual(t testing.TB) context.Context { return within(t, 10*time.Second) }

// code answers a failure's code, "" for none, and ends the test where it isn't a
// *tool.Error.
func code(t testing.TB, err error) refusal.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	told, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Fatalf("%T %v isn't a *tool.Error", err, err)
	}
	return told.Code
}

// want fails the test unless err has that code ("" for none).
func want(t testing.TB, err error, c refusal.Code) {
	t.Helper()
	if got := code(t, err); got != c {
		t.Fatalf("%q (%v), want %q", got, err, c)
	}
}

func openBook(t testing.TB, url string, opts store.Options) (*item.Book, *store.DB) {
	t.Helper()
	db := storetest.Open(t, url, opts)
	log, err := audit.Open(db, audit.Options{Tenant: "local"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := item.NewBook(db, log, "local", item.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b, db
}

func hostedRig(t *testing.T, url string) rig {
	t.Helper()
	b, db := openBook(t, url, store.Options{})
	h, err := source.NewHosted(b, filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.View(context.Background(), item.Check); err != nil {
			t.Error(err)
		}
	})
	return writable(rig{Source: h, stop: h.Stop, place: freshPlace})
}

// writable gives a storage its seed: it writes itself.
func writable(r rig) rig {
	r.hold = func(t testing.TB, p source.Place, name string, content []byte) {
		t.Helper()
		_, err := r.Write(usual(t), p, source.Write{Item: name, HasContent: true, Content: content, MediaType: "text/plain", IfAbsent: true, Mark: mark()})
		want(t, err, "")
	}
	r.seed = func(t testing.TB, p source.Place, names ...string) {
		t.Helper()
		for _, n := range names {
			r.hold(t, p, n, []byte("content of "+n))
		}
	}
	return r
}

func s3Config(t testing.TB, endpoint string, g *sourcetest.Gateway) source.S3Config {
	return source.S3Config{Endpoint: endpoint, Region: "us-east-1", Bucket: g.Bucket(t), Prefix: "chaperone", AccessKey: sourcetest.AccessKey,
		SecretKeyFile: sourcetest.Secret(t, sourcetest.SecretKey)}
}

func s3Rig(t *testing.T) rig {
	t.Helper()
	g := sourcetest.S3(t)
	s, err := source.NewS3(s3Config(t, "http://"+g.Host, g))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return writable(rig{Source: s, stop: s.Stop, place: freshPlace})
}

// message is a mail with that subject.
func message(subject string) []byte {
	return []byte("From: Ada <ada@example.org>\r\nTo: Bob <bob@example.org>\r\nSubject: " + subject + "\r\nDate: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\nHello, this is " + subject + ".\r\n")
}

func maildirRig(t *testing.T) rig {
	t.Helper()
	m, err := source.NewMaildir(filepath.Join(t.TempDir(), "mail"))
	if err != nil {
		t.Fatal(err)
	}
	r := rig{Source: m, stop: m.Stop, place: freshPlace}
	r.hold = func(t testing.TB, p source.Place, _ string, content []byte) {
		t.Helper()
		if err := m.Deliver(p, content); err != nil {
			t.Fatal(err)
		}
	}
	return mailSeed(r)
}

func mailSeed(r rig) rig {
	r.seed = func(t testing.TB, p source.Place, names ...string) {
		t.Helper()
		for _, n := range names {
			r.hold(t, p, n, message(n))
		}
	}
	return r
}

func imapConfig(t testing.TB, d *sourcetest.Dovecot, how, address string, users ...string) source.IMAPConfig {
	c := source.IMAPConfig{Address: address, TLS: how, CAFile: d.CA}
	for _, u := range users {
		c.Logins = append(c.Logins, source.Login{Actor: u, Username: u, PasswordFile: sourcetest.Secret(t, sourcetest.Password)})
	}
	return c
}

// imapRig answers a source with twenty users; each place is another's.
func imapRig(t *testing.T, how string) rig {
	t.Helper()
	d := sourcetest.IMAP(t)
	var users []string
	for range 20 {
		users = append(users, d.User(t))
	}
	address := d.Clear
	if how == source.TLSAlways {
		address = d.TLS
	}
	s, err := source.NewIMAP(imapConfig(t, d, how, address, users...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	next := 0
	r := rig{Source: s, stop: s.Stop, place: func(t testing.TB) source.Place {
		if next++; next > len(users) {
			t.Fatal("no user is left")
		}
		return source.Place{Account: source.Account{Tenant: "local", Actor: users[next-1]}, Collection: "inbox", Incarnation: "1"}
	}}
	r.hold = func(t testing.TB, p source.Place, _ string, content []byte) {
		t.Helper()
		d.Put(t, p.Account.Actor, string(content))
	}
	return mailSeed(r)
}

func storages(t *testing.T, f func(t *testing.T, r rig)) {
	t.Run("hosted", func(t *testing.T) {
		storetest.EachURL(t, func(t *testing.T, url string) { f(t, hostedRig(t, url)) })
	})
	t.Run("s3", func(t *testing.T) { f(t, s3Rig(t)) })
}

func mailboxes(t *testing.T, f func(t *testing.T, r rig)) {
	t.Run("maildir", func(t *testing.T) { f(t, maildirRig(t)) })
	t.Run("imap", func(t *testing.T) { f(t, imapRig(t, source.TLSNone)) })
	t.Run("imap tls", func(t *testing.T) { f(t, imapRig(t, source.TLSAlways)) })
	t.Run("imap starttls", func(t *testing.T) { f(t, imapRig(t, source.TLSStart)) })
}

func externals(t *testing.T, f func(t *testing.T, r rig)) {
	t.Run("webdav", func(t *testing.T) { f(t, webdavRig(t)) })
	t.Run("caldav", func(t *testing.T) { f(t, calendarRig(t, "caldav")) })
	t.Run("carddav", func(t *testing.T) { f(t, calendarRig(t, "carddav")) })
}

func davRig(t *testing.T, c source.DAVConfig) rig {
	t.Helper()
	s, err := source.NewWebDAV(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return rig{Source: s, place: func(testing.TB) source.Place {
		return source.Place{Account: source.Account{Tenant: "local", Actor: "owner"}, Collection: c.Collection, Incarnation: "1"}
	}}
}

func webdavRig(t *testing.T) rig {
	t.Helper()
	d := sourcetest.WebDAV(t)
	url, dir := d.Folder(t)
	r := davRig(t, source.DAVConfig{Collection: "disk", Kind: "webdav", URL: url,
		Logins: []source.Login{{Actor: "owner", Username: "davuser", PasswordFile: sourcetest.Secret(t, sourcetest.Password)}}})
	r.hold = func(t testing.TB, _ source.Place, name string, content []byte) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.seed = func(t testing.TB, p source.Place, names ...string) {
		for _, n := range names {
			r.hold(t, p, n, []byte("content of "+n))
		}
	}
	return r
}

func calendarRig(t *testing.T, kind string) rig {
	t.Helper()
	d := sourcetest.CalDAV(t)
	user, home := d.User(t)
	url := home + "main/"
	ext, entry := "text/calendar; charset=utf-8", func(name string) string {
		return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:" + name + "\r\nDTSTAMP:20261130T080000Z\r\nDTSTART:20261201T080000Z\r\nSUMMARY:" + name + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	}
	if kind == "carddav" {
		d.Book(t, user, url)
		ext, entry = "text/vcard; charset=utf-8", func(name string) string {
			return "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:" + name + "\r\nFN:" + name + "\r\nN:" + name + ";;;;\r\nEND:VCARD\r\n"
		}
	} else {
		d.Calendar(t, user, url)
	}
	r := davRig(t, source.DAVConfig{Collection: "main", Kind: kind, URL: url,
		Logins: []source.Login{{Actor: "owner", Username: user, PasswordFile: sourcetest.Secret(t, sourcetest.Password)}}})
	r.seed = func(t testing.TB, _ source.Place, names ...string) {
		for _, n := range names {
			d.Do(t, user, "PUT", url+n, entry(strings.TrimSuffix(n, filepath.Ext(n))), "Content-Type", ext)
		}
	}
	return r
}

// list answers all items, page by page of n.
func list(t testing.TB, s source.Source, p source.Place, n int, q source.Query) (all []source.Item, pages int) {
	t.Helper()
	for q.Limit = n; ; {
		page, err := s.List(usual(t), p, q)
		want(t, err, "")
		if len(page.Items) > n {
			t.Fatalf("%d items on a page of %d", len(page.Items), n)
		}
		all = append(all, page.Items...)
		if pages++; page.Next == "" {
			return all, pages
		}
		if pages > 1000 || len(page.Next) > 1000 || strings.Trim(page.Next, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Fatalf("after %d pages there is a cursor of %d characters", pages, len(page.Next))
		}
		q.Cursor = page.Next
	}
}

func titles(items []source.Item) []string {
	all := []string{}
	for _, i := range items {
		all = append(all, i.Title)
	}
	return all
}

func ids(items []source.Item) []string {
	all := []string{}
	for _, i := range items {
		all = append(all, i.Item)
	}
	return all
}
