package source_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/sourcetest"
)

// TestExternalReads: only reads, and nothing else is ever sent.
func TestExternalReads(t *testing.T) {
	externals(t, func(t *testing.T, r rig) {
		p := r.place(t)
		if diff := cmp.Diff([]tool.Name{tool.ListItems, tool.ReadItem}, r.Functions()); diff != "" {
			t.Error(diff)
		}
		_, err := r.Write(usual(t), p, source.Write{Item: "x", HasContent: true, IfAbsent: true, Mark: mark()})
		want(t, err, tool.FunctionUnavailable)
		want(t, r.Delete(usual(t), p, "x", "v", mark()), tool.FunctionUnavailable)
		for what, other := range map[string]source.Place{
			"account":    {Account: source.Account{Tenant: "local", Actor: "stranger"}, Collection: p.Collection, Incarnation: "1"},
			"nobody":     {Collection: p.Collection, Incarnation: "1"},
			"collection": {Account: p.Account, Collection: "other", Incarnation: "1"},
		} {
			_, err := r.List(usual(t), other, source.Query{Limit: 10})
			if c := code(t, err); c != tool.SourceDisconnected {
				t.Errorf("another %s: %q", what, c)
			}
		}
	})
}

// TestWebDAVTree: folders within folders, names of every kind, a change under a
// reader.
func TestWebDAVTree(t *testing.T) {
	r := webdavRig(t)
	p := r.place(t)
	all := []string{"a b/c.txt", "a/b/c/d.txt", "a/b/x.txt", "a.txt", "a/z.txt", "B.txt", "ä/ö.txt", "100%.txt", "q?x#y.txt", "semi;colon", "plus+plus", "<b>.txt", "a&b.txt", "~tilde", "bidi\u202ename.txt", "new\nline.txt"}
	r.seed(t, p, all...)
	items, _ := list(t, r, p, 3, source.Query{})
	if len(items) != len(all) {
		t.Errorf("%d of %d: %q", len(items), len(all), ids(items))
	}
	for _, i := range items {
		if !tool.ValidItem(i.Item) || !tool.Plain(i.Title) {
			t.Errorf("%q %q", i.Item, i.Title)
		}
		c, err := r.Read(usual(t), p, i.Item, 0, 100)
		if err != nil || !strings.HasPrefix(string(c.Bytes), "content of ") {
			t.Errorf("%q reads %q %v", i.Item, c.Bytes, err)
		}
	}
	if found, _ := list(t, r, p, 2, source.Query{Prefix: "a/b/"}); len(found) != 2 {
		t.Errorf("prefix a/b/ finds %q", ids(found))
	}
	i, err := r.Stat(usual(t), p, "a.txt")
	want(t, err, "")
	r.hold(t, p, "a.txt", []byte("something else"))
	after, err := r.Stat(usual(t), p, "a.txt")
	want(t, err, "")
	if after.Version == i.Version {
		t.Error("other content is the same version")
	}
}

// TestEntryNames: an entry's own name is its title, however it is written.
func TestEntryNames(t *testing.T) {
	for kind, cases := range map[string]map[string]string{
		"SUMMARY": {
			"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Lunch\\, then\r\n  work\r\nEND:VEVENT\r\n":                   "Lunch, then work",
			"BEGIN:VEVENT\nSUMMARY;LANGUAGE=en;ALTREP=\"http://x:1\":Hi: there\n":                                    "Hi: there",
			"SUMMARY:outside\nBEGIN:VTIMEZONE\nSUMMARY:zone\nEND:VTIMEZONE\nBEGIN:VTODO\nSUMMARY:\nSUMMARY:second\n": "second",
			"BEGIN:VEVENT\nBEGIN:VALARM\nSUMMARY:alarm\nEND:VALARM\n":                                                "",
			"no colon": "",
		},
		"FN": {
			"BEGIN:VCARD\r\nVERSION:4.0\r\nitem1.FN;TYPE=work:Ada\\;L\r\n": "Ada;L",
			"BEGIN:VCARD\nFNX:no\nfn:yes\n":                                "yes",
		},
	} {
		for text, want := range cases {
			if got := source.EntryName(text, kind); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

// TestHostileDAV: answers of a server that lies.
func TestHostileDAV(t *testing.T) {
	row := func(href, props string) string {
		return `<d:response><d:href>` + href + `</d:href><d:propstat><d:prop>` + props + `</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>`
	}
	file := `<d:resourcetype/><d:getcontentlength>5</d:getcontentlength><d:getetag>"1"</d:getetag>`
	answer := func(rows ...string) string {
		return `<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">` + strings.Join(rows, "") + `</d:multistatus>`
	}
	multi := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(207)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		code   refusal.Code
		ids    []string
	}{
		"foreign hrefs": {multi(answer(row("http://elsewhere.example/base/x", file), row("//elsewhere.example/base/x", file), row("/other/x", file), row("/base/../etc/passwd", file),
			row("/base/%2e%2e/x", file), row("/base/a%2fb", file), row("/base/a//b", file), row("/base/x?y=1", file), row("javascript:alert(1)", file), row("/basement/x", file), row("/base/ok", file))), "", []string{"ok"}},
		"hidden names":       {multi(answer(row("/base/a%E2%80%AEb", file), row("/base/%00", file), row("/base/a%0Ab", file))), "", []string{"~YQpi", "~YeKArmI"}},
		"deeper than one":    {multi(answer(row("/base/a/b/c", file))), "", nil},
		"a folder in itself": {multi(answer(row("/base/", `<d:resourcetype><d:collection/></d:resourcetype>`), row("/base/sub/", `<d:resourcetype><d:collection/></d:resourcetype>`))), "", nil},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, tool.SourceUnavailable, nil},
		"plain 200":      {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer(row("/base/x", file))) }, tool.SourceUnavailable, nil},
		"no xml":         {multi("hello"), tool.SourceUnavailable, nil},
		"cut":            {multi(answer(row("/base/x", file))[:150]), tool.SourceUnavailable, nil},
		"entities":       {multi(`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>` + answer(row("/base/&b;", file))), tool.SourceUnavailable, nil},
		"outside entity": {multi(`<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>` + answer(row("/base/&a;", file))), tool.SourceUnavailable, nil},
		"deep":           {multi(strings.Repeat("<a>", 200_000)), tool.SourceUnavailable, nil},
		"deep in a row":  {multi(answer(row("/base/x", strings.Repeat("<d:a>", 200_000)))), tool.SourceUnavailable, nil},
		"too long":       {multi(`<d:multistatus xmlns:d="DAV:">` + strings.Repeat(row("/base/x", file+strings.Repeat(" ", 1000)), 20_000)), tool.SourceUnavailable, nil},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(207)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat("<a></a>", 1000)); err != nil {
					return
				}
			}
		}, tool.SourceUnavailable, nil},
		"lying size":    {multi(answer(row("/base/x", `<d:resourcetype/><d:getcontentlength>-5</d:getcontentlength>`), row("/base/y", `<d:resourcetype/><d:getcontentlength>99999999999999999999</d:getcontentlength>`))), "", []string{"x", "y"}},
		"server error":  {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "secret text", 500) }, tool.SourceUnavailable, nil},
		"no permission": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "secret text", 401) }, tool.SourceDisconnected, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handle)
			defer server.Close()
			d, err := source.NewWebDAV(source.DAVConfig{Collection: "main", Kind: "webdav", URL: server.URL + "/base/", Logins: []source.Login{{Actor: "owner"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			page, err := d.List(within(t, 5*time.Second), davPlace, source.Query{Limit: 100})
			if got := code(t, err); got != c.code {
				t.Fatalf("%q, want %q", got, c.code)
			}
			if diff := cmp.Diff(append([]string{}, c.ids...), ids(page.Items)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoReport: a server that has no REPORT leaves the files' names.
func TestNoReport(t *testing.T) {
	for _, status := range []int{400, 403, 404, 405, 415, 501} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "REPORT" {
				w.WriteHeader(status)
				return
			}
			w.WriteHeader(207)
			fmt.Fprint(w, `<d:multistatus xmlns:d="DAV:"><d:response><d:href>/base/x.ics</d:href><d:propstat><d:prop><d:getcontentlength>5</d:getcontentlength><d:getetag>"1"</d:getetag></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>`)
		}))
		d, err := source.NewWebDAV(source.DAVConfig{Collection: "main", Kind: "caldav", URL: server.URL + "/base/", Logins: []source.Login{{Actor: "owner"}}})
		if err != nil {
			t.Fatal(err)
		}
		page, err := d.List(within(t, 5*time.Second), davPlace, source.Query{Limit: 100})
		if diff := cmp.Diff([]string{"x.ics"}, titles(page.Items)); diff != "" || err != nil {
			t.Errorf("%d: %v %s", status, err, diff)
		}
		d.Close()
		server.Close()
	}
}

// TestLyingGET: content that contradicts what PROPFIND told.
func TestLyingGET(t *testing.T) {
	found := `<d:multistatus xmlns:d="DAV:"><d:response><d:href>/base/x</d:href><d:propstat><d:prop><d:resourcetype/><d:getcontentlength>10</d:getcontentlength><d:getetag>"1"</d:getetag></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>`
	for name, c := range map[string]struct {
		get  http.HandlerFunc
		code refusal.Code
	}{
		"whole": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			fmt.Fprint(w, "0123456789")
		}, ""},
		"no etag":       {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "0123456789") }, ""},
		"shorter":       {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "0123") }, tool.SourceUnavailable},
		"other version": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(412) }, ""},
		"redirect":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/base/y", 301) }, tool.SourceUnavailable},
		"other range": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 3-5/10")
			w.WriteHeader(206)
			fmt.Fprint(w, "345")
		}, tool.SourceUnavailable},
		"other size": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-3/4")
			w.WriteHeader(206)
			fmt.Fprint(w, "0123")
		}, tool.SourceUnavailable},
		"not there": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, tool.NotFound},
		"nothing":   {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, tool.SourceUnavailable},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, tool.SourceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == "PROPFIND" {
					w.WriteHeader(207)
					fmt.Fprint(w, found)
					return
				}
				c.get(w, r)
			}))
			defer server.Close()
			d, err := source.NewWebDAV(source.DAVConfig{Collection: "main", Kind: "webdav", URL: server.URL + "/base/", Logins: []source.Login{{Actor: "owner"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			_, err = d.Read(within(t, 5*time.Second), davPlace, "x", 0, 100)
			if name == "other version" {
				// The server refuses its own version: it contradicts itself.
				if got := code(t, err); got != tool.SourceUnavailable {
					t.Errorf("%q", got)
				}
				return
			}
			if got := code(t, err); got != c.code {
				t.Errorf("%q, want %q", got, c.code)
			}
		})
	}
}

// TestChangedUnderReader: another writer replaces the file between the look and the
// content; the reader gets the new version's name, or version_conflict, and never
// the one's content under the other's name.
func TestChangedUnderReader(t *testing.T) {
	d := sourcetest.WebDAV(t)
	url, dir := d.Folder(t)
	s, err := source.NewWebDAV(davConfig(url, "davuser", sourcetest.Secret(t, sourcetest.Password)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := filepath.Join(dir, "x")
	stop, done := make(chan struct{}), make(chan struct{})
	// Apache tells versions apart by size and time, and the time by the kernel's
	// ticks: files of one size come far enough from each other.
	put := func(n int) {
		tmp := path + ".tmp"
		os.WriteFile(tmp, []byte(strings.Repeat(fmt.Sprint(n%10), 20+n%70)), 0o644)
		os.Rename(tmp, path)
	}
	put(0)
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				put(n)
				time.Sleep(300 * time.Microsecond)
			}
		}
	}()
	contents := map[string]string{}
	for range 200 {
		c, err := s.Read(usual(t), davPlace, "x", 0, 100)
		switch got := code(t, err); got {
		case "":
			if int64(len(c.Bytes)) != c.Size {
				t.Errorf("%d bytes of %d", len(c.Bytes), c.Size)
			}
			if was, there := contents[c.Version]; there && was != string(c.Bytes) {
				t.Errorf("one version, two contents: %q and %q", was, c.Bytes)
			}
			contents[c.Version] = string(c.Bytes)
		case tool.VersionConflict, tool.SourceUnavailable:
		default:
			t.Errorf("%q", got)
		}
	}
	close(stop)
	<-done
}
