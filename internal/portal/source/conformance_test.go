package source_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

// everyone runs f on each source there is, with a name's form that each can seed.
func everyone(t *testing.T, f func(t *testing.T, r rig, name func(n int) string)) {
	plain := func(n int) string { return fmt.Sprintf("note %03d.txt", n) }
	storages(t, func(t *testing.T, r rig) { f(t, r, plain) })
	mailboxes(t, func(t *testing.T, r rig) { f(t, r, plain) })
	t.Run("webdav", func(t *testing.T) { f(t, webdavRig(t), plain) })
	t.Run("caldav", func(t *testing.T) {
		f(t, calendarRig(t, "caldav"), func(n int) string { return fmt.Sprintf("event-%03d.ics", n) })
	})
	t.Run("carddav", func(t *testing.T) {
		f(t, calendarRig(t, "carddav"), func(n int) string { return fmt.Sprintf("card-%03d.vcf", n) })
	})
}

// TestReading: lists, pages, prefixes, queries, counts, parts. The same for every
// source.
func TestReading(t *testing.T) {
	everyone(t, func(t *testing.T, r rig, name func(int) string) {
		p := r.place(t)
		if n, known, err := r.Count(usual(t), p); err != nil || !known || n != 0 {
			t.Fatalf("an empty place counts %d %v %v", n, known, err)
		}
		if all, _ := list(t, r, p, 10, source.Query{}); len(all) != 0 {
			t.Fatalf("an empty place lists %v", ids(all))
		}
		const many = 23
		var names []string
		for n := range many {
			names = append(names, name(n))
		}
		r.seed(t, p, names...)
		if n, known, err := r.Count(usual(t), p); err != nil || !known || n != many {
			t.Errorf("counts %d %v %v, want %d", n, known, err, many)
		}
		all, pages := list(t, r, p, 5, source.Query{})
		if pages != 5 {
			t.Errorf("%d pages of 5 for %d items", pages, many)
		}
		whole, _ := list(t, r, p, 100, source.Query{})
		if diff := cmp.Diff(whole, all); diff != "" {
			t.Errorf("pages and the whole differ:\n%s", diff)
		}
		got := titles(all)
		slices.Sort(got)
		var told []string
		for _, n := range names { // an entry's own name has no ending
			told = append(told, strings.TrimSuffix(strings.TrimSuffix(n, ".ics"), ".vcf"))
		}
		names = told
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("titles (-want +got):\n%s", diff)
		}
		for _, i := range all {
			if !tool.ValidItem(i.Item) || !tool.Plain(i.Title) || i.Version == "" || len(i.Version) > 128 || strings.ContainsAny(i.Version, " \t") || i.Size <= 0 || i.Modified.IsZero() || !strings.Contains(i.MediaType, "/") {
				t.Errorf("item %+v", i)
			}
			alone, err := r.Stat(usual(t), p, i.Item)
			want(t, err, "")
			if diff := cmp.Diff(i, alone); diff != "" {
				t.Errorf("listed and asked alone differ:\n%s", diff)
			}
		}
		parts(t, r, p, all[7])
		chosen := names[4]
		found, _ := list(t, r, p, 10, source.Query{Query: strings.ToUpper(chosen)})
		if diff := cmp.Diff([]string{chosen}, titles(found)); diff != "" {
			t.Errorf("query (-want +got):\n%s", diff)
		}
		few, pages := list(t, r, p, 2, source.Query{Query: strings.Fields(chosen[:4])[0]})
		if len(few) != many || pages != 12 {
			t.Errorf("a query that all match found %d on %d pages", len(few), pages)
		}
		begin := all[3].Item
		found, _ = list(t, r, p, 10, source.Query{Prefix: begin})
		if diff := cmp.Diff([]string{begin}, ids(found)); diff != "" {
			t.Errorf("prefix of a whole id (-want +got):\n%s", diff)
		}
		if found, _ = list(t, r, p, 10, source.Query{Prefix: begin[:len(begin)-1]}); !slices.Contains(ids(found), begin) {
			t.Errorf("prefix %q misses %q", begin[:len(begin)-1], begin)
		}
		if found, _ = list(t, r, p, 10, source.Query{Prefix: "zzz/none"}); len(found) != 0 {
			t.Errorf("a prefix of nothing found %v", ids(found))
		}
		absent(t, r, p)
	})
}

// parts reads an item whole and in pieces.
func parts(t *testing.T, r rig, p source.Place, i source.Item) {
	t.Helper()
	whole, err := r.Read(usual(t), p, i.Item, 0, tool.MaxRead)
	want(t, err, "")
	if int64(len(whole.Bytes)) != i.Size || whole.Truncated || whole.Version != i.Version {
		t.Fatalf("the whole is %d bytes (truncated %v, version %q), want %d of %q", len(whole.Bytes), whole.Truncated, whole.Version, i.Size, i.Version)
	}
	var pieced []byte
	for {
		c, err := r.Read(usual(t), p, i.Item, int64(len(pieced)), 7)
		want(t, err, "")
		if c.Offset != int64(len(pieced)) || len(c.Bytes) > 7 || c.Version != i.Version {
			t.Fatalf("a part of %d bytes at %d of %q", len(c.Bytes), c.Offset, c.Version)
		}
		pieced = append(pieced, c.Bytes...)
		if c.Truncated != (int64(len(pieced)) < i.Size) {
			t.Fatalf("truncated is %v after %d of %d bytes", c.Truncated, len(pieced), i.Size)
		}
		if !c.Truncated {
			break
		}
	}
	if !bytes.Equal(pieced, whole.Bytes) {
		t.Errorf("pieces and the whole differ")
	}
	for _, offset := range []int64{i.Size, i.Size + 1, i.Size + 31, i.Size + 100, 1 << 40} {
		c, err := r.Read(usual(t), p, i.Item, offset, 10)
		want(t, err, "")
		if len(c.Bytes) != 0 || c.Truncated {
			t.Errorf("past the end, at %d of %d: %d bytes, truncated %v", offset, i.Size, len(c.Bytes), c.Truncated)
		}
	}
	_, err = r.Read(usual(t), p, i.Item, -1, 10)
	want(t, err, tool.InvalidInput)
	_, err = r.Read(usual(t), p, i.Item, 0, 0)
	want(t, err, tool.InvalidInput)
}

// absent asks for what isn't there, in every hostile form.
func absent(t *testing.T, r rig, p source.Place) {
	t.Helper()
	for _, id := range []string{"nothing", "INBOX/none", "INBOX;1;1", "INBOX;0;0", "../../etc/passwd", "a/../b", "/etc/passwd", "~", "~aGk", "~Li4vLi4vZXRj",
		"INBOX/../../x", "a%2fb", "http://127.0.0.1/x", "INBOX;4294967295;4294967295", strings.Repeat("x", 512), "Archive/" + strings.Repeat("y", 500)} {
		_, err := r.Stat(usual(t), p, id)
		if c := code(t, err); c != tool.NotFound && c != tool.InvalidInput {
			t.Errorf("%.30q: %q", id, c)
		}
		_, err = r.Read(usual(t), p, id, 0, 10)
		if c := code(t, err); c != tool.NotFound && c != tool.InvalidInput {
			t.Errorf("read %.30q: %q", id, c)
		}
	}
	for _, c := range []string{"x", "AAAA", "!!", strings.Repeat("A", 1001)} {
		_, err := r.List(usual(t), p, source.Query{Limit: 10, Cursor: c})
		want(t, err, tool.InvalidInput)
	}
}

// TestStorage: what only storage can, on each.
func TestStorage(t *testing.T) {
	storages(t, func(t *testing.T, r rig) {
		t.Run("life", func(t *testing.T) { life(t, r) })
		t.Run("names", func(t *testing.T) { names(t, r) })
		t.Run("content", func(t *testing.T) { contents(t, r) })
		t.Run("places", func(t *testing.T) { apart(t, r) })
		t.Run("refusals", func(t *testing.T) { refusals(t, r) })
	})
}

// life takes one item through all that can happen to it.
func life(t *testing.T, r rig) {
	p := r.place(t)
	put := func(w source.Write) (source.Written, error) {
		w.Item = "a/b.txt"
		if w.Mark == "" {
			w.Mark = mark()
		}
		return r.Write(usual(t), p, w)
	}
	_, err := put(source.Write{HasContent: true, Content: []byte("x"), IfVersion: "nothing"})
	want(t, err, tool.NotFound)
	first, err := put(source.Write{HasContent: true, Content: []byte("one"), MediaType: "text/plain", Metadata: map[string]any{"color": "blue", "n": int64(3), "on": true, "list": []any{"a", "b"}}, IfAbsent: true})
	want(t, err, "")
	if first.Outcome != source.Created || first.Before != "" || first.Item != "a/b.txt" {
		t.Errorf("%+v", first)
	}
	_, err = put(source.Write{HasContent: true, Content: []byte("other"), IfAbsent: true})
	want(t, err, tool.AlreadyExists)
	second, err := put(source.Write{HasContent: true, Content: []byte("two"), IfVersion: first.Version})
	want(t, err, "")
	if second.Outcome != source.Replaced || second.Before != first.Version || second.Version == first.Version {
		t.Errorf("%+v after %+v", second, first)
	}
	_, err = put(source.Write{HasContent: true, Content: []byte("late"), IfVersion: first.Version})
	want(t, err, tool.VersionConflict)
	if told := err.(*tool.Error).Details["version"]; told != second.Version {
		t.Errorf("the conflict tells %v, want %s", told, second.Version)
	}
	// The same content again is another version all the same: nothing comes back.
	same, err := put(source.Write{HasContent: true, Content: []byte("two"), IfVersion: second.Version})
	want(t, err, "")
	if same.Version == second.Version {
		t.Error("the same content is the same version")
	}
	meta, err := put(source.Write{Metadata: map[string]any{"color": "red"}, IfVersion: same.Version})
	want(t, err, "")
	if meta.Outcome != source.Updated || meta.Version == same.Version {
		t.Errorf("%+v after %+v", meta, same)
	}
	i, err := r.Stat(usual(t), p, "a/b.txt")
	want(t, err, "")
	if diff := cmp.Diff(source.Item{Item: "a/b.txt", Title: "b.txt", Version: meta.Version, Size: 3, MediaType: "text/plain", Modified: i.Modified, Metadata: map[string]any{"color": "red"}}, i); diff != "" {
		t.Error(diff)
	}
	c, err := r.Read(usual(t), p, "a/b.txt", 0, 10)
	want(t, err, "")
	if string(c.Bytes) != "two" {
		t.Errorf("%q after a change of metadata", c.Bytes)
	}
	want(t, r.Delete(usual(t), p, "a/b.txt", same.Version, mark()), tool.VersionConflict)
	want(t, r.Delete(usual(t), p, "a/b.txt", meta.Version, mark()), "")
	want(t, r.Delete(usual(t), p, "a/b.txt", meta.Version, mark()), tool.NotFound)
	again, err := put(source.Write{HasContent: true, Content: []byte("one"), IfAbsent: true})
	want(t, err, "")
	if slices.Contains([]string{first.Version, second.Version, same.Version, meta.Version}, again.Version) {
		t.Error("a version came again")
	}
}

// hostile are names that a store might trip over; all are valid ids.
var hostile = []string{
	"a", "A", "a b", " a", "a ", "a/b", "a/b/", "a//b", "/a", "a/", "-rf", "~", "~aGk", "..a", "a..", ".hidden", "...", "a.", "%2e%2e/x", "a%00b", "a+b", "a&b=c?d#e",
	"a|b", "a=7cb", "a!b", "!", "=", "a\\b", "C:\\x", "nul", "<script>", `"quoted"`, "'", "`", "ä", "日本語", "\u00e9", "e\u0301", "😀", "$HOME", "a;1;1", "a*", "[a]",
	strings.Repeat("x", 512), strings.Repeat("ü", 256), strings.Repeat("d/", 255) + "ff", "a/b!/c", "a!", "a!/b",
}

func names(t *testing.T, r rig) {
	p := r.place(t)
	for n, name := range hostile {
		if !tool.ValidItem(name) {
			t.Fatalf("%q isn't valid", name)
		}
		r.hold(t, p, name, []byte(fmt.Sprint(n)))
	}
	for n, name := range hostile {
		c, err := r.Read(usual(t), p, name, 0, 100)
		want(t, err, "")
		if c.Item.Item != name || string(c.Bytes) != fmt.Sprint(n) || !tool.Plain(c.Title) {
			t.Errorf("%.40q reads %q as %q (%q)", name, c.Bytes, c.Item.Item, c.Title)
		}
	}
	all, _ := list(t, r, p, 7, source.Query{})
	got, sorted := ids(all), slices.Clone(hostile)
	slices.Sort(got)
	slices.Sort(sorted)
	if diff := cmp.Diff(sorted, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	found, _ := list(t, r, p, 100, source.Query{Prefix: "a/"})
	got, sorted = ids(found), nil
	for _, h := range hostile {
		if strings.HasPrefix(h, "a/") {
			sorted = append(sorted, h)
		}
	}
	slices.Sort(got)
	slices.Sort(sorted)
	if diff := cmp.Diff(sorted, got); diff != "" {
		t.Errorf("prefix a/ (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", ".", "..", "a/../b", "a\x00b", "a\u202eb", "a\u200bb", "a\U000e0041", "\xff", strings.Repeat("x", 513)} {
		_, err := r.Write(usual(t), p, source.Write{Item: bad, HasContent: true, IfAbsent: true, Mark: mark()})
		want(t, err, tool.InvalidInput)
	}
}

func contents(t *testing.T, r rig) {
	p := r.place(t)
	for name, content := range map[string][]byte{
		"empty": {}, "nul": {0, 0, 0}, "bidi": []byte("a\u202eb"), "crlf": []byte("\r\n.\r\n"), "mark": []byte(mark()), "big": bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
	} {
		r.hold(t, p, name, content)
		var got []byte
		for {
			c, err := r.Read(usual(t), p, name, int64(len(got)), tool.MaxRead)
			want(t, err, "")
			if c.Size != int64(len(content)) {
				t.Fatalf("%s: size %d, want %d", name, c.Size, len(content))
			}
			if got = append(got, c.Bytes...); !c.Truncated {
				break
			}
		}
		if !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes came back as %d others", name, len(content), len(got))
		}
	}
	_, err := r.Write(usual(t), p, source.Write{Item: "over", HasContent: true, Content: make([]byte, tool.MaxWrite+1), IfAbsent: true, Mark: mark()})
	want(t, err, tool.TooLarge)
}

// apart: nothing of one place shows in another.
func apart(t *testing.T, r rig) {
	p := r.place(t)
	r.hold(t, p, "secret", []byte("mine"))
	i, err := r.Stat(usual(t), p, "secret")
	want(t, err, "")
	others := map[string]source.Place{}
	for what, change := range map[string]func(*source.Place){
		"account":     func(p *source.Place) { p.Account.Actor += "x" },
		"case":        func(p *source.Place) { p.Account.Actor = strings.ToUpper(p.Account.Actor) },
		"collection":  func(p *source.Place) { p.Collection = "other" },
		"incarnation": func(p *source.Place) { p.Incarnation += "1" },
		"slash":       func(p *source.Place) { p.Account.Actor, p.Collection = p.Account.Actor+"/"+p.Collection, "" },
		"tenant":      func(p *source.Place) { p.Account.Tenant = "other" },
	} {
		o := p
		change(&o)
		others[what] = o
	}
	for what, o := range others {
		if _, err := r.Stat(usual(t), o, "secret"); err == nil {
			t.Errorf("another %s sees the item", what)
		}
		if page, _ := r.List(usual(t), o, source.Query{Limit: 10}); len(page.Items) != 0 {
			t.Errorf("another %s lists the item", what)
		}
		if err := r.Delete(usual(t), o, "secret", i.Version, mark()); err == nil {
			t.Errorf("another %s deletes the item", what)
		}
		if _, err := r.Write(usual(t), o, source.Write{Item: "secret", HasContent: true, IfVersion: i.Version, Mark: mark()}); err == nil {
			t.Errorf("another %s replaces the item", what)
		}
	}
	if again, err := r.Stat(usual(t), p, "secret"); err != nil || again.Version != i.Version {
		t.Errorf("after all that: %+v %v", again, err)
	}
}

func refusals(t *testing.T, r rig) {
	p := r.place(t)
	for what, w := range map[string]source.Write{
		"no condition":      {Item: "a", HasContent: true, Mark: mark()},
		"both conditions":   {Item: "a", HasContent: true, IfAbsent: true, IfVersion: "v", Mark: mark()},
		"nothing to write":  {Item: "a", IfVersion: "v", Mark: mark()},
		"created of no use": {Item: "a", IfAbsent: true, Metadata: map[string]any{}, Mark: mark()},
		"no mark":           {Item: "a", HasContent: true, IfAbsent: true},
		"a mark of words":   {Item: "a", HasContent: true, IfAbsent: true, Mark: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:"},
	} {
		if _, err := r.Write(usual(t), p, w); code(t, err) != tool.InvalidInput {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, _ := list(t, r, p, 10, source.Query{}); len(all) != 0 {
		t.Errorf("a refused write left %v", ids(all))
	}
}
