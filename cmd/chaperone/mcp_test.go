package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/sitetest"
)

// workbench is a site with what the tools act on.
func workbench(t testing.TB) *sitetest.Site {
	s := sitetest.New(t)
	s.Page("/", `<title>Workbench</title><h1>Bench</h1>
<form action="/sent"><label>Name <input id="name" name="name"></label>
<label>Size <select id="size" name="size"><option>S<option>M<option>L</select></label>
<button id="go">Go</button></form>
<button id="alert" onclick="alert('hello')">Alert</button>
<button id="ask" onclick="setTimeout(()=>{window.said=confirm('sure?')},0)">Ask</button>
<a id="popup" href="/popup" target="_blank">Popup</a>
<a id="save" href="/file">Save</a>
<input type="file" id="file">
<iframe src="/frame" title="inner"></iframe>
<script>console.log("one < two"); window.order=[];
document.modelContext.registerTool({name:"add",description:"Adds \u202e a and b",inputSchema:{type:"object"},execute:async i=>({sum:i.a+i.b})})</script>`)
	s.Page("/sent", `<title>Sent</title><p id="done">Thank you</p>`)
	s.Page("/popup", `<title>Popup</title>`)
	s.Page("/frame", `<p>inner</p>`)
	s.Page("/long", `<title>Long</title><p>`+strings.Repeat("é", 100_000)+`</p>`)
	s.Page("/late", `<title>Late</title><script>setTimeout(()=>document.body.innerHTML='<b id=late>here</b>',1500)</script><body></body>`)
	s.Handle("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.csv"`)
		fmt.Fprint(w, "a,b\n1,2\n")
	})
	s.Redirect("/out", "http://127.0.0.1:9/")
	s.Hang("/hang")
	return s
}

func want(t *testing.T, what, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("%s: got %q, want %s", what, got, pattern)
	}
}

// TestTools uses every tool once, in both eras of the protocol.
func TestTools(t *testing.T) {
	for _, protocol := range []string{newest, "2025-11-25"} {
		t.Run(protocol, func(t *testing.T) { everyTool(t, protocol) })
	}
}

func everyTool(t *testing.T, protocol string) {
	site := workbench(t)
	files, downloads := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "note.txt"), []byte("hi"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := connect(t, protocol, "--allow", site.Host(), "--files", files, "--downloads", downloads)
	want(t, "goto", a.do("browser_goto", args{"url": site.URL("/")}), `^200 http://127.0.0.1:\d+/ "Workbench" \[main\]$`)

	snapshot := a.do("browser_snapshot", args{})
	want(t, "snapshot", snapshot, `textbox "Name".*\[ref=e\d+\]`)
	ref := regexp.MustCompile(`textbox "Name".*\[(ref=e\d+)\]`).FindStringSubmatch(snapshot)[1]
	want(t, "type", a.do("browser_type", args{"selector": ref, "text": "Zoë"}), `^typed 3 characters \[main\]$`)
	want(t, "select", a.do("browser_select_option", args{"selector": "#size", "values": []string{"M"}}), `1 selected`)
	want(t, "eval", a.do("browser_eval_js", args{"expression": "[name.value ?? 0, document.querySelector('#name').value, size.value]"}), `"Zoë","M"\]`)
	want(t, "console", a.do("browser_console_logs", args{}), `one < two`)
	want(t, "frames", a.do("browser_frames", args{}), `/frame`)
	want(t, "network", a.do("browser_network_log", args{}), `/frame`)
	want(t, "scroll", a.do("browser_scroll", args{"dy": 100}), `^scrolled`)
	want(t, "press", a.do("browser_press", args{"key": "Tab"}), `pressed`)
	want(t, "page tools", a.do("browser_page_tools", args{}), `(?s)^add frame=\S+ http://\S+\n<<<untrusted page text .*Adds `)
	want(t, "a page's tool", a.do("browser_call_page_tool", args{"tool": "add", "arguments": args{"a": 2, "b": 3}}), `(?s)<<<untrusted.*"sum":5.*\ncompleted \[main\]$`)

	shot := a.call("browser_screenshot", args{})
	png, err := base64.StdEncoding.DecodeString(shot.Content[0].Data)
	if err != nil || shot.Content[0].MIMEType != "image/png" || !bytes.HasPrefix(png, []byte("\x89PNG")) {
		t.Errorf("screenshot: %v %s", err, shot.Content[0].MIMEType)
	}
	pdf := a.call("browser_pdf", args{})
	blob, err := base64.StdEncoding.DecodeString(pdf.Content[0].Resource.Blob)
	if err != nil || pdf.Content[0].Resource.URI != "chaperone://pdf/1" || !bytes.HasPrefix(blob, []byte("%PDF")) {
		t.Errorf("pdf: %v %s", err, pdf.Content[0].Resource.URI)
	}

	want(t, "alert", a.do("browser_click", args{"selector": "#alert"}), `alert "hello" in main dismissed`)
	a.do("browser_dialogs", args{"mode": "hold"})
	a.do("browser_click", args{"selector": "#ask"})
	a.fail("dialog_open", "browser_snapshot", args{})
	want(t, "answer", a.do("browser_dialogs", args{"accept": true}), `confirm "sure\?" accepted`)
	want(t, "answered", a.do("browser_eval_js", args{"expression": "window.said"}), `^true`)
	a.do("browser_dialogs", args{"mode": "dismiss"})

	want(t, "popup", a.do("browser_click", args{"selector": "#popup"}), `new tabs: popup-1`)
	want(t, "tabs", a.do("browser_tabs", args{}), `tabs: main, popup-1; active main`)
	want(t, "switch", a.do("browser_tabs", args{"action": "switch", "tab_id": "popup-1"}), `active: popup-1`)
	a.do("browser_tabs", args{"action": "close", "tab_id": "popup-1"})
	a.fail("tab_gone", "browser_tabs", args{"action": "switch", "tab_id": "popup-1"})
	a.do("browser_tabs", args{"action": "switch", "tab_id": "main"})

	a.do("browser_upload", args{"selector": "#file", "files": []string{"note.txt"}})
	want(t, "upload", a.do("browser_eval_js", args{"expression": "file.files[0].text()"}), `"hi"`)
	a.fail("not_found", "browser_upload", args{"selector": "#file", "files": []string{"nowhere.txt"}})
	a.do("browser_click", args{"selector": "#save"})
	id := ""
	for deadline := time.Now().Add(patience); id == "" && time.Now().Before(deadline); {
		if m := regexp.MustCompile(`"id":"([^"]+)".*"report.csv"`).FindStringSubmatch(a.do("browser_downloads", args{})); m != nil {
			id = m[1]
		}
	}
	want(t, "saving", a.do("browser_downloads", args{"id": id}), `report`)
	if data, err := os.ReadFile(filepath.Join(downloads, "report.csv")); err != nil || string(data) != "a,b\n1,2\n" {
		t.Errorf("download: %q, %v", data, err)
	}

	a.do("browser_click", args{"selector": "#go"})
	want(t, "wait", a.do("browser_wait_for", args{"text": "Thank you"}), ``)
	want(t, "source", a.do("browser_page_source", args{}), `<p id="done">Thank you</p>`)
	cookie := args{"name": "k", "value": "v", "domain": "127.0.0.1", "path": "/"}
	want(t, "import", a.do("browser_import_state", args{"state": args{"cookies": []args{cookie}}}), `imported 1 cookies`)
	a.fail("scope_denied", "browser_eval_js", args{"expression": "document.cookie"})
	want(t, "close", a.do("browser_close", args{}), `^closed`)
	want(t, "and again", a.do("browser_goto", args{"url": site.URL("/sent")}), `^200`)
	a.leave()
}

func TestALongSourceComesInParts(t *testing.T) {
	site := workbench(t)
	a := connect(t, newest, "--allow", site.Host())
	a.do("browser_goto", args{"url": site.URL("/long")})
	var whole strings.Builder
	next := regexp.MustCompile(`go on with offset=(\d+)`)
	for offset, parts := 0, 0; ; parts++ {
		r := a.call("browser_page_source", args{"offset": offset, "max_bytes": 70_001})
		if r.IsError || parts > 10 {
			t.Fatal(r.text())
		}
		whole.WriteString(r.Content[0].Text)
		m := next.FindStringSubmatch(r.Content[1].Text)
		if m == nil {
			want(t, "the end", r.Content[1].Text, `the end of \d+ bytes \[main\]`)
			break
		}
		fmt.Sscan(m[1], &offset)
	}
	if got := strings.Count(whole.String(), "é"); got != 100_000 {
		t.Errorf("%d characters came, want 100000", got)
	}
	want(t, "a long value", a.do("browser_eval_js", args{"expression": "'x'.repeat(1e6)"}), `cut: 65536 of 1000002 bytes`)
}

func TestRefusals(t *testing.T) {
	site := workbench(t)
	a := connect(t, newest, "--allow", site.Host())
	r := a.call("browser_goto", args{"url": "http://admin.example.com/secret?token=hunter2"})
	if !r.IsError || r.StructuredContent.Error != "BROWSER_SCOPE_DENIED" || r.StructuredContent.Reason != "scope_denied" || r.StructuredContent.Rule == "" {
		t.Errorf("got %+v", r.StructuredContent)
	}
	want(t, "refusal", r.text(), `(?s)^scope_denied: .*\nRule: .*\nA person can widen the scope with: .*admin.example.com.*\nNext: `)
	if strings.Contains(r.text(), "hunter2") {
		t.Errorf("the refusal repeats the query: %s", r.text())
	}
	a.fail("scope_denied", "browser_goto", args{"url": "file:///etc/passwd"})
	a.fail("scope_denied", "browser_goto", args{"url": site.URL("/out")})
	a.do("browser_goto", args{"url": site.URL("/")})
	a.fail("bad_arguments", "browser_click", args{"selector": "#go", "force": true})
	a.fail("bad_arguments", "browser_dialogs", args{})
	a.fail("timeout", "browser_goto", args{"url": site.URL("/hang"), "timeout_ms": 300})
}

// A call that is cancelled is answered at once, really stops, and holds nothing
// up.
func TestCancel(t *testing.T) {
	for _, protocol := range []string{newest, "2025-11-25"} {
		site := workbench(t)
		gone := make(chan struct{})
		site.Handle("/watched", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(gone)
		})
		a := connect(t, protocol, "--allow", site.Host(), "--timeout", "5m")
		a.do("browser_goto", args{"url": site.URL("/")})
		id := a.send("browser_goto", args{"url": site.URL("/watched")})
		for site.Hits("/watched") == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		started := time.Now()
		a.cancel(id)
		r := a.result(id)
		answered := time.Since(started)
		a.do("browser_eval_js", args{"expression": "1"})
		next := time.Since(started)
		t.Logf("%s: cancelled call answered in %s, the next call in %s", protocol, answered, next-answered)
		if r.StructuredContent.Reason != "cancelled" || answered > time.Second || next-answered > time.Second {
			t.Errorf("%s: %q after %s, next after %s", protocol, r.text(), answered, next)
		}
		select {
		case <-gone:
		case <-time.After(patience):
			t.Errorf("%s: the page goes on loading", protocol)
		}
		a.cancel(id)     // of a call that is over
		a.cancel(id + 9) // of none
		a.do("browser_tabs", args{})
	}
}

// Calls that are sent without waiting run in the order in which they were sent.
func TestOrder(t *testing.T) {
	site := workbench(t)
	a := connect(t, newest, "--allow", site.Host())
	var ids []int
	ids = append(ids, a.send("browser_goto", args{"url": site.URL("/")}))
	for i := range 40 {
		ids = append(ids, a.send("browser_eval_js", args{"expression": fmt.Sprintf("order.push(%d)", i)}))
	}
	ids = append(ids, a.send("browser_eval_js", args{"expression": "order.join()"}))
	var last string
	for _, id := range ids {
		last = a.result(id).text()
	}
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprint(i))
	}
	if diff := cmp.Diff(`"`+strings.Join(all, ",")+`"`, strings.SplitN(last, "\n", 2)[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProgress(t *testing.T) {
	site := workbench(t)
	a := connect(t, newest, "--allow", site.Host())
	a.do("browser_goto", args{"url": site.URL("/late")})
	id := a.request("tools/call", args{
		"name": "browser_wait_for", "arguments": args{"selector": "#late"}, "_meta": args{"progressToken": "p1"},
	})
	if r := a.result(id); r.IsError {
		t.Fatal(r.text())
	}
	if len(a.progress) == 0 || !strings.Contains(string(a.progress[0].Params), `"progressToken":"p1"`) {
		t.Errorf("got %d progress notifications", len(a.progress))
	}
	seen := len(a.progress)
	a.do("browser_eval_js", args{"expression": "new Promise(f=>setTimeout(f,1500))"})
	if len(a.progress) != seen {
		t.Errorf("progress without a token: %s", a.progress[seen].Params)
	}
}

// Whoever leaves in the middle of an action leaves nothing behind.
func TestEndings(t *testing.T) {
	for name, leave := range map[string]func(*agent){
		"end of input": func(a *agent) { a.in.Close() },
		"SIGTERM":      func(a *agent) { a.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":       func(a *agent) { a.cmd.Process.Signal(os.Interrupt) },
	} {
		site := workbench(t)
		a := connect(t, "2025-11-25", "--allow", site.Host())
		a.do("browser_goto", args{"url": site.URL("/")})
		a.send("browser_goto", args{"url": site.URL("/hang")})
		for site.Hits("/hang") == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		started := time.Now()
		leave(a)
		a.end(0)
		t.Logf("%s: over after %s", name, time.Since(started))
	}
	for _, pause := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond} {
		a := connect(t, newest, "--allow", "a.example") // and away while the box starts
		time.Sleep(pause)
		a.leave()
	}
}

func TestRawActions(t *testing.T) {
	site := workbench(t)
	a := connect(t, newest, "--allow", site.Host(), "--raw")
	for _, c := range []struct {
		action string
		params args
		want   string
	}{
		{"goto", args{"url": site.URL("/sent")}, `^\{"url":"http://127.0.0.1:\d+/sent","status":200,"title":"Sent"\}$`},
		{"list_tabs", nil, `^\{"tabs":\["main"\],"active":"main"\}$`},
		{"eval_js", args{"expression": "({a:'<&>'})"}, `^\{"result":\{"a":"<&>"\}\}$`},
		{"goto", args{"url": "http://admin.example.com/"}, `^\{"error":"BROWSER_SCOPE_DENIED"\}$`},
		{"click", args{"selector": 7}, `^\{"error":"BROWSER_ACTION_FAILED"\}$`},
		{"close", nil, `^\{"closed":true\}$`},
		{"page_source", nil, `^\{"error":"BROWSER_ACTION_FAILED"\}$`},
		{"launch", args{"headless": true}, `^\{"tabs":\["main"\],"active":"main"\}$`},
	} {
		arguments := args{"action": c.action}
		if c.params != nil {
			arguments["params"] = c.params
		}
		want(t, c.action, a.call("browser_action", arguments).text(), c.want)
	}
	a.fail("bad_arguments", "browser_action", args{"action": "fly"})
}

// The SDK's switches change how the protocol is spoken; ours is spoken one way.
func TestSwitchesAreForgotten(t *testing.T) {
	t.Setenv("MCPGODEBUG", "hintomitempty=1")
	a := connect(t, newest, "--allow", "a.example")
	m := a.answer(a.request("tools/list", args{}))
	if !strings.Contains(string(m.Result), `"idempotentHint":false`) {
		t.Error("hintomitempty had its way")
	}
}

// BenchmarkMCP measures whole calls over standard streams, the browser's part
// included.
func BenchmarkMCP(b *testing.B) {
	site := workbench(b)
	site.Page("/2k", "<title>2k</title>"+strings.Repeat(`<div class="row">text</div>`, 2000))
	a := connect(b, "2025-11-25", "--allow", site.Host())
	for _, c := range []struct {
		name, page, tool string
		arguments        args
	}{
		{"eval", "/sent", "browser_eval_js", args{"expression": "document.title"}},
		{"source", "/sent", "browser_page_source", args{}},
		{"source2k", "/2k", "browser_page_source", args{}},
		{"screenshot", "/sent", "browser_screenshot", args{}},
		{"tabs", "/sent", "browser_tabs", args{}},
	} {
		a.do("browser_goto", args{"url": site.URL(c.page)})
		b.Run(c.name, func(b *testing.B) {
			a.t = b
			for b.Loop() {
				b.ReportMetric(float64(a.call(c.tool, c.arguments).bytes), "bytes/answer")
			}
		})
	}
	a.t = b
	b.Run("ping", func(b *testing.B) { // the protocol alone
		a.t = b
		for b.Loop() {
			a.answer(a.request("ping", args{}))
		}
	})
	a.t = b
}

// Without an engine every call says so, and the shell is told at the end. The
// engine is hidden by an empty folder mounted over it, for this process alone.
func TestWithoutAnEngine(t *testing.T) {
	hide := func(cmd *exec.Cmd) {
		script := `mount -t tmpfs none /usr/lib/chromium && exec "$0" "$@"`
		cmd.Args = append([]string{"unshare", "--map-root-user", "--mount", "sh", "-c", script}, cmd.Args...)
		path, err := exec.LookPath("unshare")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = path
	}
	a := dial(t, newest, hide, "--allow", "a.example")
	text := a.fail("no_browser", "browser_goto", args{"url": "http://a.example/"})
	want(t, "the tool's error", text, `chromium-headless-shell(?s:.*)chaperone doctor`)
	a.in.Close()
	a.end(exitPrerequisite)
	want(t, "stderr", a.stderr.String(), `(?s)the browser didn't start: .*chaperone doctor`)

	cmd := command(t, "browse", "--allow", "a.example", "tabs")
	hide(cmd)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitPrerequisite {
		t.Errorf("browse: %v, exit code %d: %s", err, cmd.ProcessState.ExitCode(), out)
	}
}
