package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

// mailboxDir answers the one mailbox's directory below dir.
func mailboxDir(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "cur"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return filepath.Dir(all[0])
}

// TestMaildirBesideOthers: another mail program renames, moves and adds, and the
// folder holds what no mail program put there.
func TestMaildirBesideOthers(t *testing.T) {
	m, dir := newMaildir(t)
	p := freshPlace(t)
	if err := m.Deliver(p, message("one")); err != nil {
		t.Fatal(err)
	}
	box := mailboxDir(t, dir)
	all, _ := list(t, m, p, 10, source.Query{})
	id, version := all[0].Item, all[0].Version
	_, unique, _ := strings.Cut(id, "/")
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(box, from), filepath.Join(box, to)); err != nil {
			t.Fatal(err)
		}
	}
	// Seen by a mail program: moved to cur, with no flag. The state is the same.
	rename("new/"+unique, "cur/"+unique+":2,")
	w, err := m.Write(usual(t), p, source.Write{Item: id, Metadata: map[string]any{"seen": true}, IfVersion: version, Mark: mark()})
	want(t, err, "")
	// Flags that we don't speak of stay, in order.
	rename("cur/"+unique+":2,S", "cur/"+unique+":2,DPS")
	i, err := m.Stat(usual(t), p, id)
	want(t, err, "")
	if i.Version == w.Version {
		t.Error("another flag is no other version")
	}
	_, err = m.Write(usual(t), p, source.Write{Item: id, Metadata: map[string]any{"flagged": true, "keywords": []any{"b", "a"}}, IfVersion: i.Version, Mark: mark()})
	want(t, err, "")
	if _, err := os.Stat(filepath.Join(box, "cur", unique+":2,DFPSab")); err != nil {
		found, _ := filepath.Glob(filepath.Join(box, "cur", "*"))
		t.Error(err, found)
	}
	text, err := os.ReadFile(filepath.Join(box, "dovecot-keywords"))
	if diff := cmp.Diff("0 a\n1 b\n", string(text)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	// In another folder the letters stand for other words.
	if err := os.WriteFile(filepath.Join(box, ".Archive", "dovecot-keywords"), []byte("0 x\n1 y\nnonsense\n-1 z\n99 q\n2 b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, _ = m.Stat(usual(t), p, id)
	w, err = m.Write(usual(t), p, source.Write{Item: id, Metadata: map[string]any{"folder": "Archive"}, IfVersion: i.Version, Mark: mark()})
	want(t, err, "")
	if _, err := os.Stat(filepath.Join(box, ".Archive", "cur", unique+":2,DFPScd")); err != nil {
		found, _ := filepath.Glob(filepath.Join(box, ".Archive", "cur", "*"))
		t.Error(err, found)
	}
	i, err = m.Stat(usual(t), p, w.Item)
	want(t, err, "")
	if diff := cmp.Diff([]any{"a", "b"}, i.Metadata["keywords"]); diff != "" {
		t.Error(diff)
	}
	// What is no message isn't listed, and leads nowhere.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(box, "cur", "link:2,")),
		os.Mkdir(filepath.Join(box, "cur", "folder"), 0o700),
		os.WriteFile(filepath.Join(box, "cur", ".hidden"), nil, 0o600),
		os.WriteFile(filepath.Join(box, "cur", "a\u202eb:2,"), message("bidi name"), 0o600),
		os.WriteFile(filepath.Join(box, "cur", strings.Repeat("n", 251)+":2,"), message("long name"), 0o600),
		os.WriteFile(filepath.Join(box, "cur", "~x\xff:2,"), message("bytes in its name"), 0o600),
		os.Symlink(filepath.Dir(outside), filepath.Join(box, ".Linked")),
		os.MkdirAll(filepath.Join(box, "..Up", "cur"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, _ = list(t, m, p, 2, source.Query{})
	got := map[string]bool{}
	for _, i := range all {
		got[i.Title] = true
		if !tool.ValidItem(i.Item) {
			t.Errorf("id %q", i.Item)
		}
		c, err := m.Read(usual(t), p, i.Item, 0, 1000)
		if err != nil || strings.Contains(string(c.Bytes), "secret") {
			t.Errorf("%q reads %q %v", i.Item, c.Bytes, err)
		}
		w, err := m.Write(usual(t), p, source.Write{Item: i.Item, Metadata: map[string]any{"answered": true}, IfVersion: i.Version, Mark: mark()})
		if err != nil || w.Item != i.Item {
			t.Errorf("%q: %+v %v", i.Item, w, err)
		}
	}
	if diff := cmp.Diff(map[string]bool{"one": true, "bidi name": true, "long name": true, "bytes in its name": true}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := m.Stat(usual(t), p, "INBOX/link"); err == nil {
		t.Error("a link was followed")
	}
	// Gone altogether: told at once.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err = m.List(usual(t), p, source.Query{Limit: 10})
	want(t, err, tool.SourceDisconnected)
}
