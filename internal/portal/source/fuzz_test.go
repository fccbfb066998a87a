package source_test

import (
	"net/url"
	"strings"
	"testing"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

// FuzzName: each name has one id and each id one name; ids are valid.
func FuzzName(f *testing.F) {
	for _, s := range append(hostile, "", "\x00", "a\u202eb", "~\xff", "..", strings.Repeat("x", 600)) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := source.EncodeName(s); ok {
			back, ok := source.DecodeName(id)
			if !tool.ValidItem(id) || !ok || back != s {
				t.Errorf("%q became %q, and that %q %v", s, id, back, ok)
			}
		}
		if name, ok := source.DecodeName(s); ok {
			if again, ok := source.EncodeName(name); !ok || again != s {
				t.Errorf("id %q is %q, whose id is %q", s, name, again)
			}
		}
	})
}

// FuzzMessageID: an IMAP id is read in one form alone.
func FuzzMessageID(f *testing.F) {
	for _, s := range []string{"INBOX;1;2", "~YTti;1;2", "a/b;4294967295;4294967295", "INBOX;01;2", "INBOX;1;0", ";1;2", "a;b;1;2", "~;1;2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if again, ok := source.ParseMessage(s); ok && (again != s || !tool.ValidItem(s)) {
			t.Errorf("%q was read as %q", s, again)
		}
	})
}

// FuzzMaildirName: what is taken apart is put together again, and nothing leaves
// its folder.
func FuzzMaildirName(f *testing.F) {
	for _, s := range []string{"1700000000.M1P2.host:2,FS", "x", ":2,S", "a:2,b:2,c", ".x", "a/b", "x:1,S", "x:2,SSaZ9é", "1.2,S=3:2,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		unique, flags, ok := source.ParseFile(s)
		if ok {
			u, fl, again := source.ParseFile(source.FormatFile(unique, flags))
			if !again || u != unique || fl != flags || strings.ContainsAny(unique, "/\x00") || unique == "." || unique == ".." {
				t.Errorf("%q: %q %q, then %q %q", s, unique, flags, u, fl)
			}
			if id, ok := source.MailID("INBOX", unique); ok {
				if folder, back, ok := source.ParseMailID(id); !ok || folder != "INBOX" || back != unique || !tool.ValidItem(id) {
					t.Errorf("%q has the id %q, which is read as %q %q %v", unique, id, folder, back, ok)
				}
			}
		}
		if folder, unique, ok := source.ParseMailID(s); ok {
			if again, ok := source.MailID(folder, unique); !ok || again != s {
				t.Errorf("id %q is written again as %q", s, again)
			}
			if dir := source.FolderDir(folder); strings.ContainsAny(dir, "/\x00") || strings.HasPrefix(dir, "..") {
				t.Errorf("folder %q lies in %q", folder, dir)
			}
		}
		if name, ok := source.FolderName(s); ok && source.FolderDir(name) != s {
			t.Errorf("directory %q is the folder %q, which lies in %q", s, name, source.FolderDir(name))
		}
	})
}

// FuzzCursor: only cursors of that kind are read, and in one form alone.
func FuzzCursor(f *testing.F) {
	f.Add(source.Cursor("hosted", "a/b"), "hosted", 1)
	f.Add(source.Cursor("maildir", "INBOX", "1.2.3"), "maildir", 2)
	f.Add("AAAA", "s3", 1)
	f.Fuzz(func(t *testing.T, text, kind string, n int) {
		if strings.Contains(kind, "\x00") {
			return
		}
		parts, err := source.ReadCursor(kind, text, n)
		if err != nil {
			want(t, err, tool.InvalidInput)
			return
		}
		if again := source.Cursor(kind, parts...); again != text {
			t.Errorf("%q was read as %q, which is %q", text, parts, again)
		}
	})
}

// FuzzHref: what is accepted lies below the base on its host, and leads back.
func FuzzHref(f *testing.F) {
	for _, s := range []string{"/base/x", "http://host.example/base/a%20b", "https://host.example/base/x", "//evil.example/base/x", "/base/../x", "/base/%2e%2e/x", "/base/a%2Fb",
		"/base", "/base/", "x", "/base/x;y", "/base/%zz", "/base/x?y", "HTTP://HOST.EXAMPLE/base/x", "http:/base/x", "http://user@host.example/base/x"} {
		f.Add(s)
	}
	base, err := url.Parse("http://host.example/base/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, href string) {
		rel, ok := source.DavPath(base, href)
		if ok && rel != "" {
			for s := range strings.SplitSeq(strings.TrimSuffix(rel, "/"), "/") {
				if s == "" || s == "." || s == ".." {
					t.Fatalf("%q is accepted as %q", href, rel)
				}
			}
		}
		if u, ok := source.DavURL(base, href); ok { // as an id
			if u.Host != "host.example" || u.Scheme != "http" || !strings.HasPrefix(u.Path, "/base/") || u.RawQuery != "" {
				t.Errorf("id %q leads to %s", href, u)
			}
		}
	})
}

// FuzzKey: each id has one key, each key one id, no key is another's folder, and a
// prefix of an id is a prefix of its key.
func FuzzKey(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		if tool.ValidItem(s) {
			key := source.NameKey(s, true)
			back, ok := source.KeyName(key)
			if !ok || back != s {
				t.Errorf("%q has the key %q, and that is %q %v", s, key, back, ok)
			}
			for piece := range strings.SplitSeq(key, "/") {
				if piece == "" || len(piece) > 201 || piece == "." || piece == ".." {
					t.Errorf("%q has the piece %q", s, piece)
				}
			}
			if n >= 0 && n <= len(s) && tool.Plain(s[:n]) && !strings.HasPrefix(key, source.NameKey(s[:n], false)) {
				t.Errorf("the key of %q doesn't begin with that of %q", s, s[:n])
			}
		}
		if id, ok := source.KeyName(s); ok && source.NameKey(id, true) != s {
			t.Errorf("key %q is %q, whose key is another", s, id)
		}
	})
}

// FuzzHeader: whatever a message says, what is told of it is plain and bounded.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("Subject: =?utf-8?q?a?=\r\nFrom: x\r\nDate: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\n"))
	f.Add([]byte("Subject: a\r\n b\r\n\tc\r\n: \r\n\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, to, subject, date := source.ReadHeader(b)
		for _, s := range []string{from, to, subject, date} {
			if !tool.Plain(s) || len(s) > 512 {
				t.Errorf("%q", s)
			}
		}
	})
}
