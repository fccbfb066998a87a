package source_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// TestMail takes one message through all that can happen to it, on each mailbox.
func TestMail(t *testing.T) {
	mailboxes(t, func(t *testing.T, r rig) {
		p := r.place(t)
		r.seed(t, p, "First", "Second")
		all, _ := list(t, r, p, 10, source.Query{Query: "first"})
		if len(all) != 1 {
			t.Fatalf("found %v", titles(all))
		}
		i := all[0]
		base := map[string]any{"seen": false, "flagged": false, "answered": false, "keywords": []any{}, "folder": "INBOX",
			"from": "Ada <ada@example.org>", "to": "Bob <bob@example.org>", "subject": "First", "date": "2026-11-02T09:00:00Z"}
		if diff := cmp.Diff(base, i.Metadata); diff != "" || i.MediaType != "message/rfc822" {
			t.Errorf("%s %s", i.MediaType, diff)
		}
		c, err := r.Read(usual(t), p, i.Item, 0, 1<<16)
		want(t, err, "")
		if !bytes.HasSuffix(c.Bytes, message("First")) {
			t.Errorf("content is %q", c.Bytes)
		}
		if again, err := r.Stat(usual(t), p, i.Item); err != nil || again.Version != i.Version {
			t.Errorf("reading made another version of it: %q %v, was %q", again.Version, err, i.Version)
		}
		w := func(version string, metadata map[string]any) (source.Written, error) {
			return r.Write(usual(t), p, source.Write{Item: i.Item, Metadata: metadata, IfVersion: version, Mark: mark()})
		}
		seen, err := w(i.Version, map[string]any{"seen": true, "flagged": true, "keywords": []any{"work", "$Later"}})
		want(t, err, "")
		if seen.Outcome != source.Updated || seen.Item != i.Item || seen.Before != i.Version || seen.Version == i.Version {
			t.Errorf("%+v after %q", seen, i.Version)
		}
		base["seen"], base["flagged"], base["keywords"] = true, true, []any{"$Later", "work"}
		now, err := r.Stat(usual(t), p, i.Item)
		want(t, err, "")
		if diff := cmp.Diff(base, now.Metadata); diff != "" || now.Version != seen.Version {
			t.Errorf("version %q, told %q; %s", now.Version, seen.Version, diff)
		}
		_, err = w(i.Version, map[string]any{"seen": false})
		want(t, err, tool.VersionConflict)
		if told := err.(*tool.Error).Details["version"]; told != seen.Version {
			t.Errorf("the conflict tells %v, want %q", told, seen.Version)
		}
		answered, err := w(seen.Version, map[string]any{"answered": true, "flagged": false})
		want(t, err, "")
		moved, err := w(answered.Version, map[string]any{"folder": "Archive", "keywords": []any{"done"}})
		want(t, err, "")
		if moved.Outcome != source.Moved || moved.Item == i.Item || moved.Before != answered.Version {
			t.Errorf("%+v", moved)
		}
		base["answered"], base["flagged"], base["folder"], base["keywords"] = true, false, "Archive", []any{"done"}
		now, err = r.Stat(usual(t), p, moved.Item)
		want(t, err, "")
		if diff := cmp.Diff(base, now.Metadata); diff != "" || now.Version != moved.Version {
			t.Errorf("version %q, told %q; %s", now.Version, moved.Version, diff)
		}
		_, err = r.Stat(usual(t), p, i.Item)
		want(t, err, tool.NotFound)
		if n, _, err := r.Count(usual(t), p); n != 2 || err != nil {
			t.Errorf("counts %d %v after a move", n, err)
		}
		if found, _ := list(t, r, p, 10, source.Query{Prefix: "Archive"}); len(found) != 1 || found[0].Item != moved.Item {
			t.Errorf("prefix Archive lists %v", ids(found))
		}
		mailRefusals(t, r, p, moved.Item, moved.Version)
		if other := r.place(t); true {
			if _, err := r.Stat(usual(t), other, moved.Item); err == nil {
				t.Error("another account sees the message")
			}
		}
	})
}

func mailRefusals(t *testing.T, r rig, p source.Place, id, version string) {
	t.Helper()
	for what, c := range map[string]struct {
		w    source.Write
		want refusal.Code
	}{
		"content":           {source.Write{HasContent: true, IfVersion: version}, tool.FunctionUnavailable},
		"create":            {source.Write{IfAbsent: true, Metadata: map[string]any{"seen": true}}, tool.FunctionUnavailable},
		"unknown member":    {source.Write{IfVersion: version, Metadata: map[string]any{"color": "red"}}, tool.InvalidInput},
		"from":              {source.Write{IfVersion: version, Metadata: map[string]any{"from": "x"}}, tool.InvalidInput},
		"seen of text":      {source.Write{IfVersion: version, Metadata: map[string]any{"seen": "yes"}}, tool.InvalidInput},
		"no such folder":    {source.Write{IfVersion: version, Metadata: map[string]any{"folder": "Nowhere"}}, tool.InvalidInput},
		"folder of a path":  {source.Write{IfVersion: version, Metadata: map[string]any{"folder": "../../x"}}, tool.InvalidInput},
		"hidden folder":     {source.Write{IfVersion: version, Metadata: map[string]any{"folder": "Arch\u202eive"}}, tool.InvalidInput},
		"keyword of a flag": {source.Write{IfVersion: version, Metadata: map[string]any{"keywords": []any{`\Deleted`}}}, tool.InvalidInput},
		"keyword with CRLF": {source.Write{IfVersion: version, Metadata: map[string]any{"keywords": []any{"a\r\nb"}}}, tool.InvalidInput},
		"keyword of ours":   {source.Write{IfVersion: version, Metadata: map[string]any{"keywords": []any{"$chaperonemove"}}}, tool.InvalidInput},
		"too many keywords": {source.Write{IfVersion: version, Metadata: map[string]any{"keywords": manyWords(27)}}, tool.InvalidInput},
		"other version":     {source.Write{IfVersion: "1", Metadata: map[string]any{"seen": true}}, tool.VersionConflict},
	} {
		c.w.Item, c.w.Mark = id, mark()
		if _, err := r.Write(usual(t), p, c.w); code(t, err) != c.want {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	want(t, r.Delete(usual(t), p, id, version, mark()), tool.FunctionUnavailable)
	if now, err := r.Stat(usual(t), p, id); err != nil || now.Version != version {
		t.Errorf("refusals made version %q %v of %q", now.Version, err, version)
	}
}

func manyWords(n int) (all []any) {
	for i := range n {
		all = append(all, "k"+strings.Repeat("x", i+1))
	}
	return all
}

// TestHostileMail: foreign text stays data.
func TestHostileMail(t *testing.T) {
	mailboxes(t, func(t *testing.T, r rig) {
		p := r.place(t)
		for name, m := range map[string]string{
			"bidi":        "Subject: pay \xe2\x80\xaetxt.exe\r\n\r\nx",
			"encoded":     "Subject: =?utf-8?q?a=E2=80=8Bb=F3=A0=81=81c?=\r\n\r\nx",
			"latin":       "Subject: =?iso-8859-1?q?caf=E9?=\r\n\r\nx",
			"bad charset": "Subject: =?no-such?q?caf=E9?=\r\n\r\nx",
			"bad utf-8":   "Subject: a\xff\xfeb\r\n\r\nx",
			"no header":   "\r\nbody only",
			"no colon":    "what is this\r\n\r\nx",
			"long":        "Subject: " + strings.Repeat("word ", 2000) + "\r\nFrom: " + strings.Repeat("é", 3000) + "\r\n\r\nx",
			"date":        "Date: Mon, 99 Foo 99999\r\nSubject: when\r\n\r\nx",
			"nul":         "Subject: a\x01b\r\n\r\nx",
		} {
			r.hold(t, p, name, []byte(m))
		}
		all, _ := list(t, r, p, 3, source.Query{})
		if len(all) != 10 {
			t.Fatalf("%d of 10 messages are listed: %q", len(all), titles(all))
		}
		for _, i := range all {
			if !tool.Plain(i.Title) || len(i.Title) > 512 || i.Title == "" {
				t.Errorf("title %q", i.Title)
			}
			for name, v := range i.Metadata {
				if s, is := v.(string); is && (!tool.Plain(s) || len(s) > 512) {
					t.Errorf("%s is %q", name, s)
				}
			}
		}
		if found, _ := list(t, r, p, 10, source.Query{Query: "café"}); len(found) != 1 || found[0].Title != "café" {
			t.Errorf("café finds %q", titles(found))
		}
	})
}
