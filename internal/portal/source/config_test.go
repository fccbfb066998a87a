package source_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/sourcetest"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// TestConfig: what can't be used is refused by its key.
func TestConfig(t *testing.T) {
	login := "logins: [{actor: ada, username: ada, password_file: /p}]"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                  {"", ""},
		"maildir":                  {"inbox: {maildir: /m, lmtp: 'unix:/run/lmtp'}", ""},
		"lmtp on loopback":         {"inbox: {lmtp: '127.0.0.1:24'}", ""},
		"lmtp for the world":       {"inbox: {lmtp: '0.0.0.0:24'}", "sources.inbox.lmtp"},
		"imap":                     {"inbox: {imap: {address: 'mail.example.org:993', " + login + "}}", ""},
		"imap beside maildir":      {"inbox: {maildir: /m, imap: {address: 'mail.example.org:993', " + login + "}}", "sources.inbox"},
		"imap without a port":      {"inbox: {imap: {address: mail.example.org, " + login + "}}", "sources.inbox.imap.address"},
		"imap in clear":            {"inbox: {imap: {address: 'mail.example.org:143', tls: none, " + login + "}}", "sources.inbox.imap.tls"},
		"imap, other tls":          {"inbox: {imap: {address: 'mail.example.org:143', tls: maybe, " + login + "}}", "sources.inbox.imap.tls"},
		"imap for nobody":          {"inbox: {imap: {address: 'mail.example.org:143'}}", "sources.inbox.imap.logins"},
		"login twice":              {"inbox: {imap: {address: 'm:143', logins: [{actor: a, username: u, password_file: /p}, {actor: a, username: u, password_file: /p}]}}", "logins[1].actor"},
		"login without a password": {"inbox: {imap: {address: 'm:143', logins: [{actor: a, username: u}]}}", "logins[0].password_file"},
		"s3":                       {"storage: {s3: {endpoint: 'https://s3.example.org', bucket: items, access_key: k, secret_key_file: /s}}", ""},
		"s3 in clear":              {"storage: {s3: {endpoint: 'http://s3.example.org', bucket: items, access_key: k, secret_key_file: /s}}", "sources.storage.s3.endpoint"},
		"s3 with a user":           {"storage: {s3: {endpoint: 'https://u:p@s3.example.org', bucket: items, access_key: k, secret_key_file: /s}}", "sources.storage.s3.endpoint"},
		"s3, bad prefix":           {"storage: {s3: {endpoint: 'https://s3.example.org', bucket: items, prefix: ../x, access_key: k, secret_key_file: /s}}", "sources.storage.s3.prefix"},
		"s3 without a secret":      {"storage: {s3: {endpoint: 'https://s3.example.org', bucket: items, access_key: k}}", "secret_key_file"},
		"external":                 {"external: [{collection: calendar, title: Calendar, kind: caldav, url: 'https://dav.example.org/ada/main/', " + login + "}]", ""},
		"external twice":           {"external: [{collection: c, kind: webdav, url: 'https://d/', " + login + "}, {collection: c, kind: webdav, url: 'https://d/', " + login + "}]", "sources.external[1].collection"},
		"external as the inbox":    {"external: [{collection: inbox, kind: webdav, url: 'https://d/', " + login + "}]", "sources.external[0].collection"},
		"external of no kind":      {"external: [{collection: c, kind: ftp, url: 'https://d/', " + login + "}]", "sources.external[0].kind"},
		"external without a url":   {"external: [{collection: c, kind: webdav, " + login + "}]", "sources.external[0].url"},
		"external in clear":        {"external: [{collection: c, kind: webdav, url: 'http://dav.example.org/', " + login + "}]", "sources.external[0].url"},
		"hidden title":             {"external: [{collection: c, title: \"a\\u202eb\", kind: webdav, url: 'https://d/', " + login + "}]", "sources.external[0].title"},
	} {
		var got source.Config
		if err := yaml.UnmarshalWithOptions([]byte(c.text), &got, yaml.Strict()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := got.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestOpen: the default works with nothing configured.
func TestOpen(t *testing.T) {
	home := t.TempDir()
	b, _ := openBook(t, storetest.SQLite(t), store.Options{})
	s, err := source.Open(source.Config{}, home, b)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := freshPlace(t)
	for _, kind := range []string{source.KindInbox, source.KindStorage} {
		if n, known, err := s.ByKind[kind].Count(usual(t), p); n != 0 || !known || err != nil {
			t.Errorf("%s: %d %v %v", kind, n, known, err)
		}
	}
	if s.ByKind[source.KindExternal] != nil || s.Maildir == nil || s.Hosted == nil {
		t.Errorf("%+v", s)
	}
	for _, dir := range []string{"mail", "blobs"} {
		if info, err := os.Stat(filepath.Join(home, dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	if _, err := source.Open(source.Config{Inbox: source.InboxConfig{LMTP: "0.0.0.0:1"}}, home, b); err == nil {
		t.Error("a bad configuration was opened")
	}
}

// TestOpenAll: every other kind at once, through Open.
func TestOpenAll(t *testing.T) {
	d, g, cal, dav := sourcetest.IMAP(t), sourcetest.S3(t), sourcetest.CalDAV(t), sourcetest.WebDAV(t)
	user := d.User(t)
	d.Put(t, user, string(message("hello")))
	calUser, home := cal.User(t)
	cal.Calendar(t, calUser, home+"main/")
	url, dir := dav.Folder(t)
	if err := os.WriteFile(filepath.Join(dir, "x.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	imap, s3 := imapConfig(t, d, source.TLSAlways, d.TLS, user), s3Config(t, "http://"+g.Host, g)
	s3.Region, s3.Prefix = "", ""
	secret := sourcetest.Secret(t, sourcetest.Password)
	c := source.Config{Inbox: source.InboxConfig{IMAP: &imap}, Storage: source.StorageConfig{S3: &s3}, External: []source.DAVConfig{
		{Collection: "calendar", Kind: "caldav", Logins: []source.Login{{Actor: user, Username: calUser, PasswordFile: secret, URL: home + "main/"}}},
		{Collection: "disk", Kind: "webdav", URL: url, Logins: []source.Login{{Actor: "*", Username: "davuser", PasswordFile: secret}}},
	}}
	s, err := source.Open(c, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := func(collection string) source.Place {
		return source.Place{Account: source.Account{Tenant: "local", Actor: user}, Collection: collection, Incarnation: "1"}
	}
	for _, one := range []struct {
		kind, collection string
		n                int
	}{{source.KindInbox, "inbox", 1}, {source.KindStorage, "files", 0}, {source.KindExternal, "calendar", 0}, {source.KindExternal, "disk", 1}} {
		if n, _, err := s.ByKind[one.kind].Count(usual(t), at(one.collection)); n != one.n || err != nil {
			t.Errorf("%s %s: %d %v", one.kind, one.collection, n, err)
		}
	}
	_, err = s.ByKind[source.KindExternal].List(usual(t), at("other"), source.Query{Limit: 1})
	want(t, err, tool.SourceDisconnected)
}

// TestLaxS3: a server that lets a failed condition through is never written to.
func TestLaxS3(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"0123"`)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer server.Close()
	s, err := source.NewS3(source.S3Config{Endpoint: server.URL, Region: "us-east-1", Bucket: "bucket", Prefix: "chaperone", AccessKey: "k", SecretKeyFile: sourcetest.Secret(t, "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		_, err := s.Write(usual(t), freshPlace(t), source.Write{Item: "x", HasContent: true, IfAbsent: true, Mark: mark()})
		want(t, err, tool.SourceDisconnected)
		want(t, s.Delete(usual(t), freshPlace(t), "x", "v", mark()), tool.SourceDisconnected)
	}
}
