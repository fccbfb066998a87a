package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/pagetest"
	"chaperone/internal/refusal"
)

// agentOf makes a token of the page's person, as Connected apps does, and a client.
func (s *server) agentOf(p *pagetest.Page, name string) *client.Client {
	s.t.Helper()
	var token string
	p.Eval(`(async () => {
		const key = localStorage.getItem('chaperone.key'), own = await (await fetch('/api/session', {headers: {'X-Session-Key': key}})).json();
		const made = await fetch('/api/tokens', {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Session-Key': key, 'X-CSRF-Token': own.csrf}, body: JSON.stringify({name: `+pagetest.Quote(name)+`, scopes: ['control:write'], expires_in_s: 3600, selection: []})});
		return (await made.json()).token;
	})()`, &token)
	carrier, err := client.NewHTTP(s.origin, func(context.Context) (string, error) { return token, nil }, client.HTTPOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return client.New(carrier)
}

const confirmButton = "document.querySelector('dialog[open] #confirm-accept')"

// The whole of it over the real server, in a real browser: a person arms the portal's
// tab, and an agent calls its tools, with what that asks of the person.
func TestPortalIsAttended(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	shown(p, "/automation")
	for _, f := range []string{"list", "read", "write", "delete"} {
		p.Click("input[aria-label='" + f + ": Files']")
	}
	p.ClickText("Switch on with this selection")
	p.Wait("document.querySelector('[data-state=registered]')")
	c := s.agentOf(p, "Notes helper")
	if all, err := c.Documents(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("before arming: %v, %v", all, err)
	}
	shown(p, "/approvals")
	p.Click("[data-arm=off] button")
	p.Wait(`document.querySelector("#passkey")`)
	p.Click("#passkey")
	p.Wait("location.pathname === '/approvals' && document.querySelector('[data-arm=on]')")

	all, err := c.Documents(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("documents: %v, %v", all, err)
	}
	tools := all[0].Catalog.Tools()
	ids := make([]controlv1.ID, len(tools))
	for i, tool := range tools {
		ids[i] = tool.ID()
	}
	if len(ids) != 8 {
		t.Errorf("%d tools are armed", len(ids))
	}
	lease, err := c.Lease(t.Context(), all[0].Ref, 5*time.Minute, ids...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ask := func(tool, arguments string) <-chan heard {
		n++
		v, err := controlv1.ParseValue([]byte(arguments), controlv1.MaxArguments)
		if err != nil {
			t.Fatal(err)
		}
		e := controlv1.ExecuteCall{Lease: lease.Lease, Request: ident(t, fmt.Sprint("r", n)), Tool: ident(t, tool), Schemas: all[0].Catalog.Tool(ident(t, tool)).Schemas(), Arguments: v, TimeoutSeconds: 40}
		out := make(chan heard, 1)
		go func() {
			r, err := c.Do(t.Context(), e)
			out <- heard{r, err}
		}()
		return out
	}
	alive := func() { p.Wait(confirmButton + "?.getAttribute('aria-disabled') === null") }
	succeeded := func(what string, got heard, level controlv1.Level) map[string]any {
		t.Helper()
		var result map[string]any
		if got.err != nil || got.receipt.Status != controlv1.StatusSucceeded || got.receipt.Level != level {
			t.Fatalf("%s: %+v; the page shows\n%s\n%s", what, got, p.Text("dialog"), p.Text("main"))
		}
		if err := json.Unmarshal(got.receipt.Result.Bytes(), &result); err != nil {
			t.Fatal(err)
		}
		return result
	}
	request := func(i int) string { return fmt.Sprintf("7f0c1a52-1111-4222-8333-44445555666%d", i) }

	// A read asks nobody.
	if got := succeeded("a list", <-ask("items_list", `{"collection":"files"}`), ""); len(got["items"].([]any)) != 0 {
		t.Errorf("the list is %v", got)
	}
	// A write shows whose it is, and needs one press.
	write := ask("item_write", `{"collection":"files","item":"plan.txt","content":"one\ntwo\n","if_absent":true,"request_id":"`+request(1)+`"}`)
	alive()
	for _, want := range []string{"Notes helper", "plan.txt", "none: the item is new", lease.Lease.String(), "until "} {
		if !strings.Contains(p.Text("dialog"), want) {
			t.Errorf("the dialog lacks %q:\n%s", want, p.Text("dialog"))
		}
	}
	p.ClickOn(confirmButton)
	written := succeeded("a write", <-write, controlv1.VisibleClick)
	if written["outcome"] != "created" {
		t.Errorf("written: %v", written)
	}
	// Much content is cut to what the channel holds, by the server's own rule.
	long := ask("item_write", `{"collection":"files","item":"long.txt","content":"`+strings.Repeat("é line of it\\n", 400)+`","if_absent":true,"request_id":"`+request(2)+`"}`)
	alive()
	p.ClickOn(confirmButton)
	succeeded("a long write", <-long, controlv1.VisibleClick)
	if got := succeeded("a long read", <-ask("item_read", `{"collection":"files","item":"long.txt"}`), ""); got["truncated"] != true || len(got["content"].(string)) < 500 {
		t.Errorf("the long item is %v", got)
	}
	// A delete needs the passkey.
	remove := ask("item_delete", `{"collection":"files","item":"plan.txt","if_version":"`+fmt.Sprint(written["version"])+`","request_id":"`+request(3)+`"}`)
	alive()
	p.See("It needs your passkey")
	p.ClickOn(confirmButton)
	if got := succeeded("a delete", <-remove, controlv1.Passkey); got["outcome"] != "deleted" {
		t.Errorf("deleted: %v", got)
	}
	// A no is a no.
	away := ask("navigate", `{"path":"/audit"}`)
	alive()
	p.ClickText("Deny")
	if got := <-away; got.err != nil || got.receipt.Status != controlv1.StatusDenied || got.receipt.Effect != controlv1.NoEffect {
		t.Errorf("denied: %+v", got)
	}
	p.See("denied")
	away = ask("navigate", `{"path":"/settings"}`)
	alive()
	p.ClickOn(confirmButton)
	succeeded("a navigation", <-away, controlv1.VisibleClick)
	p.See("Appearance and keys")

	// Everything that happened stands in Approvals; the switch ends it.
	shown(p, "/approvals")
	p.Wait("document.querySelectorAll('main tbody tr').length > 10")
	sound(t, p, "approvals")
	p.ClickText("Stop all agents")
	p.Click("dialog .danger")
	p.See("A kill switch is on.")
	p.See("everything of yours")
	if _, err := c.Lease(t.Context(), all[0].Ref, time.Minute, ids...); refusal.Of(err) == "" {
		t.Error("a lease was issued under the kill switch")
	}
	p.ClickText("Allow again")
	p.See("Nothing is stopped.")
	// And a tab can be armed again, by another sign-in.
	p.Click("[data-arm=off] button")
	p.Wait(`document.querySelector("#passkey")`)
	p.Click("#passkey")
	p.Wait("document.querySelector('[data-arm=on]')")
	p.ClickText("Disarm")
	p.See("Disarmed. Nothing more is accepted for this tab.") // the server has answered
	if all, err := c.Documents(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("after disarming: %v, %v", all, err)
	}
}
