package node_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"chaperone/internal/pagetest"
	"chaperone/internal/store"
)

// The whole way of a first owner on a fresh server: enrol, sign in, step up, switch
// the browser surface on for exact functions, and let an agent use all five tools,
// both by document.modelContext.executeTool and by the browser's own protocol.
func TestJourney(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	p.See("Inbox")
	p.See("Files")
	if tools := p.Tools(); len(tools) != 0 {
		t.Fatalf("%d tools before anybody allowed any", len(tools))
	}
	s.enable(p)
	ways := map[string]func(tool string, input map[string]any) func() map[string]any{
		"the browser's agent": func(tool string, input map[string]any) func() map[string]any { return p.Invoke(tool, input).Result },
		"executeTool":         func(tool string, input map[string]any) func() map[string]any { return execute(t, p, tool, input) },
	}
	n := 0
	for way, call := range ways {
		n++
		item, id := fmt.Sprintf("notes/%d.txt", n), func(k int) string { return fmt.Sprintf("0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f%02d%02d", n, k) }
		if r := call("collections_list", map[string]any{})(); r["ok"] != true {
			t.Fatalf("%s: collections_list: %v", way, r)
		}
		write := call("item_write", map[string]any{"collection": "files", "item": item, "request_id": id(1), "content": "first", "if_absent": true})
		p.Wait(`document.querySelector("[aria-modal=true]")`)
		p.See(item)
		p.Look(pagetest.Look{Width: 1280, Height: 1100})
		p.Save("../../out/screens/journey-review.png") // the README's picture
		p.Click("#review-accept:not([aria-disabled])") // inert until it has been on view
		made := write()
		if made["outcome"] != "created" {
			t.Fatalf("%s: item_write: %v", way, made)
		}
		if r := call("item_read", map[string]any{"collection": "files", "item": item})(); r["content"] != "first" {
			t.Errorf("%s: item_read: %v", way, r)
		}
		gone := map[string]any{"collection": "files", "item": item, "request_id": id(2), "if_version": made["version"]}
		declined := call("item_delete", gone)
		p.Wait(`document.querySelector("[aria-modal=true]")`)
		p.Press("Escape")
		if r := declined(); r["code"] != "review_declined" {
			t.Errorf("%s: a declined delete: %v", way, r)
		}
		s.dropped(t) // and the server knows that nobody will use that receipt
		if list := call("items_list", map[string]any{"collection": "files", "prefix": item})(); len(list["items"].([]any)) != 1 {
			t.Errorf("%s: items_list: %v", way, list)
		}
		gone["request_id"] = id(3)
		deleted := call("item_delete", gone)
		p.Click("#review-accept:not([aria-disabled])")
		if r := deleted(); r["outcome"] != "deleted" {
			t.Errorf("%s: item_delete: %v", way, r)
		}
	}
}

// execute begins a call as a page's script does, and answers how to await it.
func execute(t *testing.T, p *pagetest.Page, tool string, input map[string]any) func() map[string]any {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	p.Eval(`(() => {
		window.executed = undefined;
		document.modelContext.getTools().then((tools) => document.modelContext.executeTool(tools.find((t) => t.name === `+pagetest.Quote(tool)+`), `+string(data)+`)).then(
			(r) => { window.executed = r; }, (e) => { window.executed = JSON.stringify({isError: true, code: e.name}); });
	})()`, nil)
	return func() map[string]any {
		t.Helper()
		p.Wait(`window.executed !== undefined`)
		var text string
		p.Eval(`window.executed`, &text)
		var out map[string]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s: %q", tool, text)
		}
		return out
	}
}

// dropped waits until no review of the server's is open any more.
func (s *server) dropped(t *testing.T) {
	t.Helper()
	db, err := store.Open(t.Context(), s.config.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var open int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		err := db.View(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRow(`select count(*) from portal_review where state in ('prepared', 'confirmed')`).Scan(&open)
		})
		if err != nil {
			t.Fatal(err)
		}
		if open == 0 {
			return
		}
	}
	t.Errorf("%d reviews are still open", open)
}
