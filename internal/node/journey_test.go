package node_test

import (
	"strings"
	"testing"
	"time"

	"chaperone/internal/pagetest"
)

// The whole way of a first owner on a fresh server: enrol, sign in, step up, switch
// the browser surface on for exact functions, and let an agent of the browser use
// the five tools, both ways that there are.
func TestJourney(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	p.See("Inbox")
	p.See("Files")
	if tools := p.Tools(); len(tools) != 0 {
		t.Fatalf("%d tools before anybody allowed any", len(tools))
	}
	p.Goto(s.origin + "/automation")
	p.Wait(`document.querySelector(".matrix input")`)
	p.Eval(`document.querySelectorAll(".matrix input").forEach((b) => b.click())`, nil)
	p.Click(".actions button.primary")
	p.Wait(`document.querySelector("[data-state=registered]")`)
	for end := time.Now().Add(5 * time.Second); len(p.Tools()) != 5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d tools, want 5", len(p.Tools()))
		}
	}

	// As the browser's own agent, through the protocol domain.
	r := p.Invoke("collections_list", map[string]any{}).Result()
	if r["ok"] != true {
		t.Fatalf("collections_list: %v", r)
	}
	const id = "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a01"
	write := p.Invoke("item_write", map[string]any{"collection": "files", "item": "notes/a.txt", "request_id": id, "content": "first", "if_absent": true})
	p.Wait(`document.querySelector("[aria-modal=true]")`)
	p.See("notes/a.txt")
	p.Look(pagetest.Look{Width: 1280, Height: 1100})
	p.Save("../../out/screens/journey-review.png") // the README's picture
	p.Click("#review-accept:not([aria-disabled])") // inert until it has been on view
	got := write.Result()
	if got["outcome"] != "created" {
		t.Fatalf("item_write: %v", got)
	}

	// As a page's script does, through document.modelContext.
	var read string
	p.Eval(`(async () => {
		const tools = await document.modelContext.getTools();
		const tool = tools.find((t) => t.name === "item_read");
		return await document.modelContext.executeTool(tool, {collection: "files", item: "notes/a.txt"});
	})()`, &read)
	if !strings.Contains(read, `"content":"first"`) {
		t.Errorf("item_read: %s", read)
	}
	declined := p.Invoke("item_delete", map[string]any{"collection": "files", "item": "notes/a.txt", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a02", "if_version": got["version"]})
	p.Wait(`document.querySelector("[aria-modal=true]")`)
	p.Press("Escape")
	if r := declined.Result(); r["code"] != "review_declined" {
		t.Errorf("a declined delete: %v", r)
	}
	list := p.Invoke("items_list", map[string]any{"collection": "files"}).Result()
	if items, _ := list["items"].([]any); len(items) != 1 {
		t.Errorf("items_list: %v", list)
	}
}
