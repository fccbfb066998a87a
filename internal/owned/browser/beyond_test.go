package browser_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// TestCaseWaitFor waits for each kind of condition, over navigations too.
func TestCaseWaitFor(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/": `<div id=s></div><b id=old>old</b><script>setTimeout(()=>{s.innerHTML='<i id=new hidden>new</i>'},100);
			setTimeout(()=>{document.querySelector('#new').hidden=false;old.hidden=true;s.append(' all  done')},250);setTimeout(()=>old.remove(),400);setTimeout(()=>history.pushState(0,'','/a/b?q=1'),500)</script>`,
		"/next": `<script>setTimeout(()=>location.href='/done',200)</script>`, "/done": `<h1>arrived</h1><iframe src="http://www.app.test/in"></iframe>`, "/in": `<p id=deep>far in</p>`,
	})
	d.open("http://app.test/")
	for _, w := range []browser.WaitFor{
		{Selector: "#new", State: "attached"}, {Selector: "#new"}, {Text: "all done"}, {Selector: "#old", State: "hidden"},
		{Selector: "#old", State: "detached"}, {URL: "/a/*?q=1"}, {URL: "http://app.test/**"},
	} {
		d.do(w)
	}
	d.fail(6*time.Second, browser.WaitFor{Text: "never", TimeoutMS: 800}, refusal.TimedOut)
	d.fail(6*time.Second, browser.WaitFor{URL: "/other", TimeoutMS: 800}, refusal.TimedOut)
	d.fail(6*time.Second, browser.WaitFor{Selector: "#none", TimeoutMS: 800}, refusal.NotFound)
	d.fail(6*time.Second, browser.WaitFor{Selector: "#new", State: "hidden", TimeoutMS: 800}, refusal.TimedOut)
	d.open("http://app.test/next")
	d.do(browser.WaitFor{Text: "arrived"})
	d.do(browser.WaitFor{Text: "far in"})
	d.do(browser.WaitFor{Selector: "#deep"})
	d.open("http://app.test/next")
	d.do(browser.WaitFor{Selector: "h1"})
}

// TestCaseUpload takes files of one folder by their bare names.
func TestCaseUpload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "alpha", "b.txt": "beta"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d := sit(t, map[string]string{"/": `<label id=l>pick<input type=file id=f hidden onchange="f.files[0].text().then(t=>window.got=t)"></label><input type=file id=m multiple><input id=t>`},
		func(c *browser.Config) { c.Uploads = root.FS() })
	d.open("http://app.test/")
	d.do(browser.Upload{Selector: "#l", Files: []string{"a.txt"}})
	d.wantSoon("[f.files[0].name, window.got]", `["a.txt","alpha"]`)
	d.do(browser.Upload{Selector: "#m", Files: []string{"a.txt", "b.txt"}})
	d.want("[...m.files].map(f=>f.name)", `["a.txt","b.txt"]`)
	d.fail(3*time.Second, browser.Upload{Selector: "#f", Files: []string{"a.txt", "b.txt"}}, refusal.Failed)
	d.fail(3*time.Second, browser.Upload{Selector: "#t", Files: []string{"a.txt"}}, refusal.Failed)
	d.fail(3*time.Second, browser.Upload{Selector: "#f", Files: []string{"none.txt"}}, refusal.NotFound)
	for _, name := range []string{"../a.txt", "/etc/hostname", "link.txt", "."} {
		d.fail(3*time.Second, browser.Upload{Selector: "#f", Files: []string{name}}, refusal.Failed)
	}
}

// TestCaseNetworkLog shows no query, no body and no cookie.
func TestCaseNetworkLog(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<script>fetch('/api?key=secret',{method:'POST',body:'secret'}).then(r=>r.text()).then(()=>fetch('/gone')).then(r=>r.text()).then(()=>setTimeout(()=>window.ok=1,50))</script>`})
	d.pages.handle("/api", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "sid=secret")
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"secret":1}`))
	})
	d.open("http://app.test/?token=secret")
	d.wantSoon("window.ok", "1")
	r := d.do(browser.NetworkLog{Clear: true}).Result.(browser.NetworkResult)
	want := []browser.Request{
		{Method: "GET", URL: "http://app.test/", Type: "document", Status: 200, Headers: map[string]string{"Content-Type": "text/html; charset=utf-8"}},
		{Method: "POST", URL: "http://app.test/api", Type: "fetch", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}},
		{Method: "GET", URL: "http://app.test/gone", Type: "fetch", Status: 404, Headers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
	}
	for i := range r.Requests {
		delete(r.Requests[i].Headers, "Content-Length")
	}
	ignore := cmpopts.IgnoreFields(browser.Request{}, "Bytes", "StartMS", "TookMS")
	if diff := cmp.Diff(want, r.Requests, ignore, cmpopts.IgnoreUnexported(browser.Request{})); diff != "" {
		t.Error(diff)
	}
	if r := d.do(browser.NetworkLog{}).Result.(browser.NetworkResult); len(r.Requests) != 0 {
		t.Errorf("%d requests after clear", len(r.Requests))
	}
}

func TestCaseFrames(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<iframe name=near src="/in?q=secret"></iframe><iframe src="http://other.test/in#x"></iframe>`, "/in": `<p>in`})
	d.open("http://app.test/")
	var got []string
	for _, f := range d.do(browser.Frames{}).Result.(browser.FramesResult).Frames {
		site := "other"
		if f.SameSite {
			site = "same"
		}
		got = append(got, f.Name+" "+f.URL+" "+site)
	}
	want := []string{" http://app.test/ same", "near http://app.test/in same", " http://other.test/in other"}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Error(diff)
	}
	// A selector doesn't reach a frame of another site; a reference does.
	d.pages.set("other.test/in", `<button id=far onclick="document.title='hit';parent.postMessage(1,'*')">far</button>`)
	d.pages.set("/", `<script>onmessage=()=>window.n=1</script><iframe src="http://other.test/in"></iframe>`)
	d.open("http://app.test/")
	d.fail(3*time.Second, ownedv1.Click{Selector: "#far", TimeoutMS: 400}, refusal.NotFound)
	text := d.snapshot(browser.Snapshot{})
	m := refLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no button in %q", text)
	}
	d.do(browser.ClickRef(m[3]))
	d.wantSoon("window.n", "1")
}

// TestCaseIsolatedFrames acts on a frame that another process renders, below the
// fold, by reference.
func TestCaseIsolatedFrames(t *testing.T) {
	t.Parallel()
	d := start(t, everything, []string{"--site-per-process"}, map[string]string{
		"/":    `<script>onmessage=e=>window.told=e.data</script><div style="height:1500px"></div><iframe src="http://other.test/mid" style="margin:30px"></iframe>`,
		"/mid": `<p>mid</p><iframe src="http://app.test/in" style="border:9px solid;width:250px"></iframe>`,
		"/in":  `<button onclick="top.postMessage('hit','*')">press</button><input oninput="top.postMessage(this.value,'*')" aria-label=field>`,
	})
	d.open("http://app.test/")
	text := d.snapshot(browser.Snapshot{})
	found := regexp.MustCompile(`(button "press"|textbox "field") \[ref=(e\d+)\]`).FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("the frame in the frame isn't in %q", text)
	}
	d.do(browser.ClickRef(found[0][2]))
	d.wantSoon("window.told", `"hit"`)
	d.do(browser.TypeRef(found[1][2], "hello"))
	d.wantSoon("window.told", `"hello"`)
}

// TestCasePageTools runs a page's own tools, and believes them nothing.
func TestCasePageTools(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/": `<script>
			const reg=(name,execute,extra)=>document.modelContext.registerTool({name,description:'says \u202ehi\u{e0041}',inputSchema:{type:'object'},execute,...extra});
			reg('echo',async i=>({ok:true,i}),{annotations:{readOnlyHint:true}});
			reg('long',async()=>'x\u202e'.repeat(9000));
			reg('bad',async()=>{throw new Error('went wrong\nstack')});
			reg('away',async()=>{location.href='/done';await new Promise(r=>setTimeout(r,50));return {ok:true}});
			reg('never',async(i,{signal})=>new Promise(()=>{window.called=1;signal.onabort=()=>window.aborted=1}));
			reg('ask',async()=>({ok:confirm('sure?')}));
		</script>`,
		"/done": `<h1>done</h1>`,
	})
	d.open("http://localhost/")
	list := d.do(browser.PageTools{}).Result.(browser.PageToolsResult)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Tool)
	}
	if diff := cmp.Diff([]string{"ask", "away", "bad", "echo", "long", "never"}, names, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Fatal(diff)
	}
	if !strings.Contains(list.Text, "echo: says hi\n") || !strings.HasPrefix(list.Text, "<<<untrusted page text ") {
		t.Errorf("text %q", list.Text)
	}
	call := func(name, arguments string) browser.CallPageToolResult {
		t.Helper()
		return d.do(browser.CallPageTool{Tool: name, Arguments: []byte(arguments)}).Result.(browser.CallPageToolResult)
	}
	if r := call("echo", `{"a":[1,"two"]}`); r.Status != "completed" || !strings.Contains(r.Text, `"i":{"a":[1,"two"]}`) {
		t.Errorf("%+v", r)
	}
	if r := call("long", `{}`); !r.Truncated || len(r.Text) > browser.MaxPageToolBytes+200 || strings.Contains(r.Text, "\u202e") {
		t.Errorf("%d bytes, truncated %v", len(r.Text), r.Truncated)
	}
	if r := call("bad", `{}`); r.Status != "error" || strings.Contains(r.Text, "stack") {
		t.Errorf("%+v", r)
	}
	if r := call("ask", `{}`); !strings.Contains(r.Text, `{"ok":false}`) {
		t.Errorf("%+v", r)
	}
	d.fail(5*time.Second, browser.CallPageTool{Tool: "none"}, refusal.NotFound)
	f := d.fail(5*time.Second, browser.CallPageTool{Tool: "never", TimeoutMS: 400}, refusal.SentUnconfirmed)
	if !f.Sent {
		t.Error("a call that was made isn't told as sent")
	}
	d.wantSoon("[window.called, window.aborted]", "[1,1]")
	d.fail(5*time.Second, browser.CallPageTool{Tool: "away"}, refusal.SentUnconfirmed)
	d.want("location.pathname", `"/done"`)
}

const stateScope = `
engagement: test
allow:
  - {host: localhost, ports: "*"}
  - {host: app.test, ports: [80]}
  - {host: "*.wide.test"}
`

// TestCaseImportState signs a run in, and takes away what would read it back.
func TestCaseImportState(t *testing.T) {
	t.Parallel()
	const good = `{"cookies":[{"name":"sid","value":"s3cret","domain":"app.test","path":"/","httpOnly":true},{"name":"w","value":"1","domain":".wide.test","expires":4102444800,"sameSite":"Lax"}],
		"origins":[{"origin":"http://app.test","localStorage":[{"name":"l","value":""}],"sessionStorage":[{"name":"s","value":"2"}]}]}`
	seen := make(chan string, 10)
	page := map[string]string{"/show": `<p id=p></p><script>p.textContent=localStorage.l+'|'+sessionStorage.s</script>`}
	for _, named := range []bool{false, true} {
		rules := stateScope
		if named {
			rules += "actions: [goto, import_state, snapshot, eval_js, network_log]\n"
		}
		d := sitIn(t, rules, page)
		d.pages.handle("/", func(w http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Cookie") })
		for _, bad := range []string{
			`{"cookies":[{"name":"a","value":"b","domain":"app.test"},{"name":"a","value":"b","domain":"out.test"}]}`,
			`{"cookies":[{"name":"a","value":"b","domain":".test"}]}`,
			`{"cookies":[],"origins":[{"origin":"http://out.test"}]}`,
			`{"cookies":[],"origins":[{"origin":"http://app.test:81"}]}`,
		} {
			if _, f := d.try(5*time.Second, browser.ImportState{State: []byte(bad)}); f == nil || f.Code != refusal.BrowserScopeDenied || f.Sent {
				t.Errorf("%s: %v, want scope_denied and nothing set", bad, f)
			}
		}
		d.fail(5*time.Second, browser.ImportState{State: []byte(`{"cookies":[],"other":1}`)}, refusal.Failed)
		d.fail(5*time.Second, browser.ImportState{File: "state.json"}, refusal.Failed)
		r := d.do(browser.ImportState{State: []byte(good)}).Result
		if diff := cmp.Diff(browser.ImportResult{Cookies: 2, Origins: 1, Items: 2}, r); diff != "" {
			t.Error(diff)
		}
		if len(seen) > 0 {
			t.Error("the site was asked while state was imported")
		}
		d.open("http://app.test/")
		if got := <-seen; got != "sid=s3cret" {
			t.Errorf("cookies %q", got)
		}
		d.open("http://x.wide.test/")
		if got := <-seen; got != "w=1" {
			t.Errorf("cookies %q", got)
		}
		d.open("http://app.test/show")
		if text := d.snapshot(browser.Snapshot{}); text != `text "|2"` {
			t.Errorf("storage %q", text)
		}
		for _, a := range []ownedv1.Action{ownedv1.EvalJS{Expression: "1"}, browser.NetworkLog{}, ownedv1.PageSource{}} {
			_, f := d.try(5*time.Second, a)
			if open := named && a.Name() != ownedv1.ActionPageSource; open != (f == nil) || f != nil && f.Reason != refusal.ScopeDenied {
				t.Errorf("%s with actions named %v: %v", a.Name(), named, f)
			}
		}
	}
}
