package operation_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/audit"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/store"
)

// TestLifeOfAnItem goes through the five tools as each transport would.
func TestLifeOfAnItem(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		for name, c := range map[string]operation.Caller{"owner": owner(p), "app": o.app(t, p, everything), "page": o.page(t, p, everything)} {
			change := func(f tool.Name, a object) object {
				if c.Transport != operation.Browser {
					return o.good(t, c, f, a)
				}
				out, e := o.review(t, c, f, a)
				if e != nil {
					t.Fatalf("%s: %s", f, e.Code)
				}
				return out
			}
			file := "notes/" + name + ".txt"
			made := change(tool.WriteItem, creates(file, "one"))
			if made["outcome"] != "created" || made["item"] != file {
				t.Errorf("%s created %v", name, made)
			}
			read := o.good(t, c, tool.ReadItem, object{"collection": "files", "item": file})
			if read["content"] != "one" || read["version"] != made["version"] || read["encoding"] != "utf-8" || read["truncated"] != false {
				t.Errorf("%s read %v", name, read)
			}
			next := change(tool.WriteItem, replaces(file, "two", made["version"].(string)))
			if next["outcome"] != "replaced" {
				t.Errorf("%s replaced: %v", name, next)
			}
			rows := o.good(t, c, tool.ListItems, object{"collection": "files", "prefix": file})["items"].([]any)
			if len(rows) != 1 || rows[0].(object)["version"] != next["version"] || rows[0].(object)["size"] != 3.0 {
				t.Errorf("%s lists %v", name, rows)
			}
			gone := change(tool.DeleteItem, deletes(file, next["version"].(string)))
			if gone["outcome"] != "deleted" {
				t.Errorf("%s deleted: %v", name, gone)
			}
		}
		u, err := o.ledger.Usage(ctx, p.Actor())
		ok(t, err)
		if u.Items != 0 || u.Bytes != 0 {
			t.Errorf("usage at the end: %+v", u)
		}
	})
}

func TestInboxMarks(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		item, version := o.deliver(t, p)
		c := o.app(t, p, everything)
		mark := func(metadata object) object {
			return object{"collection": "inbox", "item": item, "request_id": uuid(), "metadata": metadata, "if_version": version}
		}
		for name, a := range map[string]object{
			"content":      with(mark(object{"seen": true}), "content", "x"),
			"delete":       nil,
			"other member": mark(object{"colour": "red"}),
			"wrong type":   mark(object{"seen": "yes"}),
			"create":       {"collection": "inbox", "item": "new", "request_id": uuid(), "metadata": object{"seen": true}, "if_absent": true},
		} {
			f, want := tool.WriteItem, tool.InvalidInput
			if name == "content" || name == "delete" {
				want = tool.FunctionUnavailable
			}
			if a == nil {
				f, a = tool.DeleteItem, with(deletes(item, version), "collection", "inbox")
			}
			if _, e := o.do(t, owner(p), f, a); code(e) != want {
				t.Errorf("%s: %s, want %s", name, code(e), want)
			}
		}
		out := o.good(t, c, tool.WriteItem, mark(object{"seen": true, "flagged": true}))
		if out["outcome"] != "metadata_updated" || out["version"] == version {
			t.Errorf("%v", out)
		}
		version = out["version"].(string)
		moved := o.good(t, c, tool.WriteItem, mark(object{"folder": "Archive"}))
		if moved["outcome"] != "moved" || moved["item"] == item {
			t.Errorf("%v", moved)
		}
		if u, err := o.ledger.Usage(ctx, p.Actor()); err != nil || u.Items != 0 {
			t.Errorf("mail counts in hosted usage: %+v %v", u, err)
		}
	})
}

func TestCollectionsInPages(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		ok(t, o.ledger.EnsureAccount(ctx, p.Actor()))
		for _, title := range []string{"Alpha", "Beta", "Gamma"} {
			_, err := o.ledger.Create(ctx, p.Actor(), title)
			ok(t, err)
		}
		o.good(t, owner(p), tool.WriteItem, creates("a", "1"))
		ok(t, o.ledger.Disconnect(ctx, p.Actor(), "inbox"))
		var got []string
		cursor := ""
		for range 10 {
			a := object{"limit": 2}
			if cursor != "" {
				a["cursor"] = cursor
			}
			page := o.good(t, owner(p), tool.ListCollections, a)
			for _, row := range page["collections"].([]any) {
				r := row.(object)
				line := r["collection"].(string) + " " + r["source"].(string)
				if n, ok := r["item_count"]; ok {
					line += map[any]string{0.0: " 0", 1.0: " 1"}[n]
				}
				if len(r["functions"].([]any)) == 0 {
					line += " -"
				}
				got = append(got, line)
			}
			next, more := page["next_cursor"].(string)
			if !more {
				break
			}
			cursor = next
		}
		want := []string{"alpha storage 0", "beta storage 0", "files storage 1", "gamma storage 0", "inbox inbox -"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, bad := range []string{"x", "YzE6", "YzE6Li4", cursor + "A"} {
			if _, e := o.do(t, owner(p), tool.ListCollections, object{"cursor": bad}); code(e) != tool.InvalidInput {
				t.Errorf("cursor %q: %s", bad, code(e))
			}
		}
	})
}

// Text that is cut stays text: no character is torn, and the parts make the whole.
func TestPartsOfText(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		c := owner(person(t, ""))
		whole := strings.Repeat("añ€😀", 50)
		o.good(t, c, tool.WriteItem, creates("t", whole))
		for size := 4; size < 12; size++ {
			got, offset := "", 0
			for more := true; more; {
				r := o.good(t, c, tool.ReadItem, object{"collection": "files", "item": "t", "max_bytes": size, "offset": offset})
				if r["encoding"] != "utf-8" {
					t.Fatalf("part at %d of %d bytes is %v", offset, size, r["encoding"])
				}
				part := r["content"].(string)
				got, offset, more = got+part, offset+len(part), r["truncated"].(bool)
			}
			if got != whole {
				t.Errorf("parts of %d bytes make %q", size, got)
			}
		}
		torn := o.good(t, c, tool.ReadItem, object{"collection": "files", "item": "t", "max_bytes": 4, "offset": 2})
		if torn["encoding"] != "base64" {
			t.Errorf("a part that begins within a character: %v", torn)
		}
		past := o.good(t, c, tool.ReadItem, object{"collection": "files", "item": "t", "offset": 1 << 30})
		if past["content"] != "" || past["truncated"] != false {
			t.Errorf("past the end: %v", past)
		}
		// A cut character at the very end isn't text.
		raw := base64.StdEncoding.EncodeToString([]byte("ab\xe2\x82"))
		o.good(t, c, tool.WriteItem, with(creates("b", raw), "encoding", "base64"))
		if r := o.good(t, c, tool.ReadItem, object{"collection": "files", "item": "b"}); r["encoding"] != "base64" || r["content"] != raw {
			t.Errorf("%v", r)
		}
	})
}

// Every result is at most 512 KiB: a read is cut, and says so; a list is cut and
// goes on.
func TestResultsAreBounded(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		c := owner(person(t, ""))
		for name, content := range map[string]string{"quotes": strings.Repeat(`"`, 256<<10), "controls": strings.Repeat("\x01", 256<<10)} {
			o.good(t, c, tool.WriteItem, creates(name, content))
			got, offset := "", 0
			for more := true; more; {
				data, err := o.Call(ctx, c, "item_read", text(object{"collection": "files", "item": name, "max_bytes": 256 << 10, "offset": offset}))
				ok(t, err)
				if len(data) > tool.MaxResult {
					t.Errorf("%s: a result of %d bytes", name, len(data))
				}
				r, _ := result(t)(data, nil)
				part := r["content"].(string)
				got, offset, more = got+part, offset+len(part), r["truncated"].(bool)
			}
			if got != content {
				t.Errorf("%s: %d bytes came back of %d", name, len(got), len(content))
			}
		}
		metadata := object{}
		for i := range 16 {
			metadata["m"+string(rune('a'+i))] = long(500)
		}
		for i := range 70 {
			o.good(t, c, tool.WriteItem, with(creates("many/"+string(rune('0'+i/10))+string(rune('0'+i%10)), ""), "metadata", metadata))
		}
		seen, cursor := 0, ""
		for range 10 {
			a := object{"collection": "files", "limit": 100, "prefix": "many/"}
			if cursor != "" {
				a["cursor"] = cursor
			}
			data, err := o.Call(ctx, c, "items_list", text(a))
			ok(t, err)
			if len(data) > tool.MaxResult {
				t.Errorf("a list of %d bytes", len(data))
			}
			page, _ := result(t)(data, nil)
			seen += len(page["items"].([]any))
			var more bool
			if cursor, more = page["next_cursor"].(string); !more {
				break
			}
		}
		if seen != 70 {
			t.Errorf("%d rows came in pages, want 70", seen)
		}
	})
}

// What a person reviews is what there is and what will be.
func TestShown(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.page(t, p, everything)
		made := o.good(t, owner(p), tool.WriteItem, creates("a.txt", "one\ntwo\n"))
		v := made["version"].(string)
		change := with(replaces("a.txt", "one\nthree", v), "metadata", object{"label": "x"})
		r, err := o.Prepare(ctx, c, "item_write", text(change))
		ok(t, err)
		want := operation.Shown{Tool: tool.WriteItem, Effect: tool.Write, Collection: "files", CollectionTitle: "Files", Source: ledger.Storage,
			Item: "a.txt", ItemTitle: "a.txt", CurrentVersion: v, Arguments: string(text(change)),
			Before:        &operation.Side{Size: 8, MediaType: "text/plain", Lines: []string{"one\n", "two\n"}},
			After:         &operation.Side{Size: 9, MediaType: "text/plain", Lines: []string{"one\n", "three"}},
			MetadataAfter: map[string]any{"label": "x"}, MetadataBefore: r.Review.MetadataBefore}
		if diff := cmp.Diff(want, r.Review); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if left := time.Until(time.UnixMilli(r.ExpiresAtMS)); left > 2*time.Minute || left < time.Minute {
			t.Errorf("it expires in %v", left)
		}
		big := o.good(t, owner(p), tool.WriteItem, creates("big", long(70_000)))
		if r, err = o.Prepare(ctx, c, "item_delete", text(deletes("big", big["version"].(string)))); err != nil || r.Review.Before.Lines != nil ||
			r.Review.Before.Size != 70_000 || r.Review.After != nil || r.Review.Effect != tool.Delete {
			t.Errorf("%v %+v", err, r.Review.Before)
		}
		binary := with(creates("bin", "AP8="), "encoding", "base64")
		if r, err = o.Prepare(ctx, c, "item_write", text(binary)); err != nil || r.Review.After.Lines != nil || r.Review.CurrentVersion != "" {
			t.Errorf("%v %+v", err, r.Review)
		}
		for name, x := range map[string]struct {
			a    object
			want any
		}{
			"old version":  {replaces("a.txt", "x", "0000"), tool.VersionConflict},
			"exists":       {creates("a.txt", "x"), tool.AlreadyExists},
			"isn't there":  {replaces("none", "x", "0000"), tool.NotFound},
			"not selected": {with(creates("x", "x"), "collection", "none"), tool.UnknownCollection},
		} {
			if _, err := o.Prepare(ctx, c, "item_write", text(x.a)); word(err) != x.want {
				t.Errorf("%s: %v, want %v", name, err, x.want)
			}
		}
		// It changes under the look.
		o.storage.set(func(f *hooks) { f.read = func(c *source.Content) { c.Version = "other" } })
		if _, err := o.Prepare(ctx, c, "item_write", text(replaces("a.txt", "x", v))); word(err) != tool.VersionConflict {
			t.Errorf("changed under the look: %v", err)
		}
	})
}

// What is logged of a call: who, which tool and collection, the code and the input's
// digest. Never an argument, an item or a content in clear.
func TestLogHoldsNoContent(t *testing.T) {
	each(t, wide, func(t *testing.T, o *office) {
		p := person(t, "")
		c := o.app(t, p, everything)
		secret := "canary-" + uuid()
		o.good(t, c, tool.WriteItem, with(creates("item-"+secret, "content-"+secret), "metadata", object{"label": secret}))
		o.good(t, c, tool.ReadItem, object{"collection": "files", "item": "item-" + secret})
		read := object{"collection": "files", "item": "none-" + secret}
		if _, e := o.do(t, c, tool.ReadItem, read); code(e) != tool.NotFound {
			t.Errorf("%v", e)
		}
		digest, err := tool.Digest("item_read", text(read))
		ok(t, err)
		refused := 0
		ok(t, audit.Records(ctx, o.db, audit.Filter{Kind: "portal."}, func(r audit.Record) error {
			r.Values = nil // sealed: only their commitments stand in the leaf
			line := fmt.Sprint(r.Kind, r.Actor, r.Subject, r.Code, r.Public)
			if strings.Contains(line, "canary") {
				t.Errorf("the log tells %s", line)
			}
			if r.Kind == "portal.called" && r.Code == tool.NotFound && r.Public["input"] == digest {
				refused++
			}
			return nil
		}))
		if refused != 1 {
			t.Errorf("%d records of the refused read with its digest, want 1", refused)
		}
		for _, table := range []string{"portal_request", "portal_call", "portal_review"} {
			ok(t, o.db.View(ctx, func(tx *store.Tx) error {
				rows, err := tx.Query(`select * from ` + table)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					columns, err := rows.Columns()
					if err != nil {
						return err
					}
					values := make([]any, len(columns))
					for i := range values {
						values[i] = new(any)
					}
					if err := rows.Scan(values...); err != nil {
						return err
					}
					for i, v := range values {
						told := fmt.Sprint(*v.(*any))
						if strings.Contains(told, "content-") || strings.Contains(told, "canary") && columns[i] != "item" && columns[i] != "outcome" {
							t.Errorf("%s.%s holds %s", table, columns[i], told)
						}
					}
				}
				return rows.Err()
			}))
		}
	})
}
