package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chaperone/internal/node"
	"chaperone/internal/pagetest"
)

// shown goes to a page of the portal and waits until all of it is there.
func shown(p *pagetest.Page, path string) {
	p.Eval("history.pushState(null, '', "+pagetest.Quote(path)+"); dispatchEvent(new PopStateEvent('popstate'))", nil)
	p.Wait("document.querySelector('main h1') && !document.querySelector('main [aria-busy=true]')")
}

// sound fails where a page tells that something didn't work.
func sound(t *testing.T, p *pagetest.Page, name string) {
	t.Helper()
	if told := p.Text(".problem"); told != "" {
		t.Errorf("%s: %s", name, told)
	}
	if told := p.Text(".toast.bad"); told != "" {
		t.Errorf("%s: %s", name, told)
	}
}

// Every page of the portal over the real server, from a fresh account on, with
// what a person does on it.
func TestPortal(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	for _, path := range []string{"/", "/collections/inbox", "/collections/files", "/automation", "/connections", "/agents", "/approvals", "/audit", "/settings"} {
		shown(p, path)
		sound(t, p, path)
		if words := p.Text("main"); strings.Contains(words, "undefined") || strings.Contains(words, "NaN") || strings.Contains(words, "[object") {
			t.Errorf("%s shows:\n%s", path, words)
		}
	}

	// Collections and items.
	shown(p, "/")
	p.ClickText("New collection")
	p.Fill("dialog input", "Reports")
	p.Press("Enter")
	p.See("Created.")
	p.ClickOn("[...document.querySelectorAll('.title-link')].find(a => a.innerText === 'Reports')")
	p.See("Nothing stored yet")
	p.ClickText("New item")
	p.Fill("dialog input", "notes/first.txt")
	p.Fill("dialog textarea", "one")
	p.Click("dialog button[type=submit]")
	p.Wait("document.querySelector('.item-content')?.innerText === 'one'")
	p.ClickText("Edit")
	p.Fill("dialog textarea", " and two")
	p.Click("dialog button[type=submit]")
	p.Wait("document.querySelector('.item-content')?.innerText.includes('and two')")
	sound(t, p, "item")
	name, content := p.Download(func() { p.ClickText("Download") })
	if name != "first.txt" || !strings.Contains(string(content), "one") || !strings.Contains(string(content), "and two") {
		t.Errorf("downloaded %s: %q", name, content)
	}
	p.ClickText("Delete")
	p.Click("dialog .danger")
	p.See("Deleted.")
	binary := make([]byte, 700_000)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	file := filepath.Join(t.TempDir(), "picture.png")
	if err := os.WriteFile(file, binary, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Upload(file, func() { p.ClickText("Upload a file") })
	p.See("This isn’t text.")
	if name, content = p.Download(func() { p.Click(".binary button") }); name != "picture.png" || !bytes.Equal(content, binary) {
		t.Errorf("downloaded %s, %d bytes, want what was uploaded", name, len(content))
	}
	p.ClickText("Delete")
	p.Click("dialog .danger")
	p.See("Nothing stored yet")
	shown(p, "/")
	p.ClickOn("document.querySelector('button[aria-label=\"Remove Reports\"]')")
	p.Click("dialog .danger")
	p.See("Removed.")
	sound(t, p, "collections")

	// A token for a script, shown once.
	shown(p, "/connections")
	p.ClickText("New token")
	p.Fill("dialog input", "nightly")
	p.ClickOn("document.querySelector('dialog input[value=collections]')")
	p.Click("dialog input[aria-label='read: Files']")
	p.Click("dialog button[type=submit]")
	p.Wait("document.querySelector('.secret')?.innerText.startsWith('chap_pat_')")
	p.ClickText("I have kept it")
	p.See("nightly")
	p.ClickOn("document.querySelector('button[aria-label=\"Revoke the token nightly\"]')")
	p.Click("dialog .danger")
	p.See("No token")
	sound(t, p, "tokens")

	// Settings: another passkey, fresh codes.
	shown(p, "/settings")
	p.ClickText("Add a passkey")
	p.Fill("dialog input", "Second")
	p.Click("dialog button[type=submit]")
	p.See("This device has a passkey of yours already.")
	p.Press("Escape")
	p.Wait("!document.querySelector('dialog')")
	p.ClickText("New recovery codes")
	p.ClickText("Make new codes")
	p.Wait("document.querySelector('.secret')?.innerText.trim().split('\\n').length === 10")
	p.ClickText("I have kept it")
	p.Wait("!document.querySelector('dialog')")

	shown(p, "/audit")
	p.Wait("document.querySelectorAll('main tbody tr').length > 5")
	sound(t, p, "audit")
	p.Click(".who button")
	p.See("You are signed out.")
	p.ClickText("Sign in")
	p.Wait("document.querySelector('#passkey')")
	p.Click("#passkey")
	p.See("Collections")
}

// An app's consent over the real authorization server: nothing is picked for the
// person, and what they pick is what is granted.
func TestConsentPage(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	address := authorize(t, s)
	p.Goto(address)
	p.Wait("location.pathname.startsWith('/connect/') && document.querySelector('.matrix')")
	p.See("Notebook")
	p.See("127.0.0.1")
	var ticked int
	p.Eval("document.querySelectorAll('main input:checked').length", &ticked)
	if ticked != 0 {
		t.Errorf("%d boxes are ticked for the person", ticked)
	}
	sound(t, p, "connect")
	p.ClickOn("document.querySelector('input[value=collections]')")
	p.Click("input[aria-label='read: Files']")
	p.ClickText("Allow")
	p.Wait("location.hostname === '127.0.0.1' || document.querySelector('.problem')")
	var at string
	p.Eval("location.href", &at)
	if u, err := url.Parse(at); err != nil || u.Query().Get("code") == "" || u.Query().Get("state") != "s" {
		t.Fatalf("the answer went to %s: %s", at, p.Text("main"))
	}
	p.Goto(s.origin + "/connections")
	p.See("Notebook")
	p.Wait("[...document.querySelectorAll('.selection li')].some(l => /files\\s*read/.test(l.innerText))")
	p.ClickText("Revoke")
	p.Click("dialog .danger")
	p.See("Revoked.")
	sound(t, p, "connections")
}

// authorize registers a client and answers the address that its person is sent to.
func authorize(t *testing.T, s *server) string {
	t.Helper()
	// The app's own listener, on the loopback as such apps have it.
	app := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<title>app</title>") })}
	port := free(t)
	l, err := listen(port)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); app.Serve(l) }()
	t.Cleanup(func() { app.Shutdown(context.Background()); app.Close(); <-done })

	back := fmt.Sprintf("http://127.0.0.1:%d/back", port)
	body := fmt.Sprintf(`{"client_name":"Notebook","redirect_uris":[%q],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"response_types":["code"]}`, back)
	answer, err := http.Post(s.origin+"/oauth/register", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&client); err != nil || client.ID == "" {
		t.Fatalf("registration: %s %v", answer.Status, err)
	}
	return s.origin + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {back}, "state": {"s"}, "scope": {"collections"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, "resource": {s.origin + "/mcp"},
	}.Encode()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// Signed in by a recovery code, what needs a strong sign-in asks for one, and the
// person comes back to their own choice, which they then confirm themselves.
func TestStepUpAfterRecovery(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	w, err := s.node.Welcome(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.Authenticator()
	p.Goto(w.Enrolment)
	p.Wait(`document.activeElement?.id === "name"`)
	p.Fill("#name", "Ada")
	p.Click("#enrol button[type=submit]")
	p.Wait(`document.querySelectorAll("#list li").length === 10`)
	var code string
	p.Eval(`document.querySelector("#list li").innerText.trim()`, &code)
	p.Goto(s.origin + "/automation")
	p.ClickText("Sign in")
	p.Wait(`document.querySelector("#passkey")`)
	p.Eval(`document.querySelector("details")?.setAttribute("open", "")`, nil)
	p.Fill("#code", code)
	p.Click("#recovery button[type=submit]")
	p.Wait("document.querySelector('.matrix input')")
	p.Click("input[aria-label='read: Files']")
	p.ClickText("Switch on with this selection")
	p.See("Is it still you?")
	p.ClickText("Sign in again")
	p.Wait(`document.querySelector("#passkey")`)
	p.Click("#passkey")
	p.See("Your choice is as you left it.")
	if n := len(p.Tools()); n != 0 {
		t.Errorf("%d tools before the person pressed again", n)
	}
	p.ClickText("Switch on with this selection")
	p.See("2 of 5 tools are registered in this tab.")
	sound(t, p, "automation")
}

// Two people one after the other in one browser: the second meets nothing of the
// first, and what the first had switched on is off.
func TestSecondPerson(t *testing.T) {
	s := stand(t, nil)
	profile := pagetest.Start(t).Profile()
	one := profile.Page(pagetest.Look{})
	s.enrol(one, "Ada")
	one.Goto(s.origin + "/automation")
	one.Click("input[aria-label='list: Files']")
	one.ClickText("Switch on with this selection")
	one.See("2 of 5 tools are registered in this tab.")
	call := one.Invoke("items_list", map[string]any{"collection": "files"})
	if got := call.Result(); got["ok"] != true {
		t.Errorf("items_list: %v", got)
	}

	one.Invoke("collections_list", map[string]any{}).Result()
	one.Wait("document.querySelectorAll('main section:last-of-type tbody tr').length === 2 && !document.querySelector('main [aria-busy=true]')")
	sound(t, one, "calls")

	// Revoked in another tab under Connected apps: gone here with the next call.
	two := profile.Page(pagetest.Look{})
	two.Goto(s.origin + "/connections")
	two.See("This browser session")
	two.ClickText("Revoke")
	two.Click("dialog .danger")
	two.See("Revoked.")
	one.Wait("document.querySelector('[data-state=disabled]')")
	if n := len(one.Tools()); n != 0 {
		t.Errorf("%d tools after the grant was revoked", n)
	}
	two.Click(".who button")
	two.See("You are signed out.")
	one.See("Sign in")
	if words := one.Text("body"); strings.Contains(words, "Files") || strings.Contains(words, "Ada") {
		t.Errorf("something of the first person is left:\n%s", words)
	}
}

// A person starts a contained browser, watches it, pauses it and ends it.
func TestAgentsPage(t *testing.T) {
	s := stand(t, nil)
	folder := filepath.Join(s.home, "engagements")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"demo.yaml":   "engagement: demo\nallow:\n  - {host: app.example.com}\n",
		"broken.yaml": "engagement: broken\nallow: 7\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	shown(p, "/agents")
	p.See("This scope file can’t be read")
	p.ClickOn(`document.querySelector('button[aria-label="Start a browser for demo"]')`)
	p.Wait("location.pathname.startsWith('/agents/') && document.querySelector('.live-picture')?.naturalWidth > 0")
	p.See("running")
	sound(t, p, "run")
	p.ClickText("Pause")
	p.See("paused")
	p.ClickText("Resume")
	p.See("running")
	shown(p, "/agents")
	p.Wait("document.querySelectorAll('main tbody tr').length === 1")
	p.ClickOn(`document.querySelector('button[aria-label="End the browser of demo"]')`)
	p.Click("dialog .danger")
	p.See("No browser is running")
	sound(t, p, "agents")
}

// Mail from anybody arrives over LMTP and is shown for what it is; the person marks
// and moves it.
func TestHostileMail(t *testing.T) {
	mail := fmt.Sprintf("127.0.0.1:%d", free(t))
	s := stand(t, func(c *node.Config) { c.Sources.Inbox.LMTP = mail })
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	deliver(t, mail, "Ada", "Subject: =?utf-8?B?"+base64.StdEncoding.EncodeToString([]byte("pay\u202Egnp.exe <b>now</b>"))+"?=\r\nFrom: mallory@example.org\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"+
		"<img src=x onerror=owned=1><a href=\"javascript:owned=2\">click</a> zero\u200Bwidth\r\n")
	shown(p, "/collections/inbox")
	p.Wait("document.querySelector('main tbody a')")
	if words := p.Text("main tbody"); !strings.Contains(words, "gnp.exe <b>now</b>") || strings.Contains(words, "\u202E") || !strings.Contains(words, "new") {
		t.Errorf("the list shows %s", words)
	}
	p.Click("main tbody a")
	p.See("zero⟦U+200B⟧width")
	var owned bool
	p.Eval("window.owned !== undefined || document.querySelector('main img, main a[href^=javascript]') !== null", &owned)
	if owned {
		t.Error("the mail became something")
	}
	p.ClickText("Mark as read")
	p.See("Mark as unread")
	p.ClickText("Move")
	p.Fill("dialog input", "Nowhere")
	p.Click("dialog button[type=submit]")
	p.See("isn’t accepted")
	p.Eval("document.querySelector('dialog input').select()", nil)
	p.Type("Archive")
	p.Click("dialog button[type=submit]")
	p.See("Moved.")
	p.Wait("[...document.querySelectorAll('.facts div')].some(d => /folder\\s*Archive/.test(d.innerText))")
	sound(t, p, "mail")
}

// deliver hands over one mail as a mail server does.
func deliver(t *testing.T, at, to, text string) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	say := func(line, want string) {
		t.Helper()
		if line != "" {
			fmt.Fprintf(c, "%s\r\n", line)
		}
		for {
			got, err := in.ReadString('\n')
			if err != nil || !strings.HasPrefix(got, want) {
				t.Fatalf("%q was answered %q (%v)", line, got, err)
			}
			if got[3] == ' ' {
				return
			}
		}
	}
	say("", "220")
	say("LHLO test", "250")
	say("MAIL FROM:<mallory@example.org>", "250")
	say("RCPT TO:<"+to+"@localhost>", "250")
	say("DATA", "354")
	say(text+".", "250")
	say("QUIT", "221")
}

// The largest write goes all the way: reviewed in the page, kept by the server, read
// back by parts.
func TestLargestWrite(t *testing.T) {
	s := stand(t, nil)
	p := pagetest.Start(t).Page(pagetest.Look{})
	s.enrol(p, "Ada")
	p.Goto(s.origin + "/automation")
	p.Click("input[aria-label='write: Files']")
	p.Click("input[aria-label='read: Files']")
	p.ClickText("Switch on with this selection")
	p.See("3 of 5 tools are registered in this tab.")
	content := strings.Repeat("\"quoted\"\\\n", 1<<20/10+1)[:1<<20]
	call := p.Invoke("item_write", map[string]any{"collection": "files", "item": "big.txt", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a09", "content": content, "if_absent": true})
	p.Click("#review-accept")
	if got := call.Result(); got["outcome"] != "created" {
		t.Fatalf("answered %v", got)
	}
	got := p.Invoke("item_read", map[string]any{"collection": "files", "item": "big.txt", "max_bytes": 1000, "offset": 1<<20 - 1000}).Result()
	if got["content"] != content[1<<20-1000:] || got["truncated"] != false {
		t.Errorf("the end reads %v", got)
	}
}

// axe-core finds nothing on the provider's pages either, and none is too wide.
func TestSignInPagesAreAccessible(t *testing.T) {
	engine := pagetest.Start(t)
	for _, look := range []pagetest.Look{{Still: true}, {Dark: true, Still: true, Width: 320, Language: "es"}} {
		s, p := stand(t, nil), engine.Page(look)
		p.BypassPolicy(true) // axe-core makes a script of strings, which our policies forbid
		check := func(name string) {
			t.Helper()
			for _, found := range p.Axe() {
				t.Errorf("%s: %s", name, found)
			}
			var wide int
			p.Eval("document.documentElement.scrollWidth", &wide)
			if look.Width > 0 && wide > look.Width {
				t.Errorf("%s: %d pixels wide", name, wide)
			}
		}
		p.Goto(s.origin + "/auth/login?next=/")
		p.Wait(`document.querySelector("#passkey")`)
		check("sign-in")
		w, err := s.node.Welcome(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		p.Authenticator()
		p.Goto(w.Enrolment)
		p.Wait(`document.activeElement?.id === "name"`)
		check("enrol")
		p.Fill("#name", "Ada")
		p.Click("#enrol button[type=submit]")
		p.Wait(`document.querySelectorAll("#list li").length === 10`)
		check("codes")
	}
}
