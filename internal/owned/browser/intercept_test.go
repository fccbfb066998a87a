package browser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

// records collects what a run records.
type records struct {
	mu   sync.Mutex
	list []scope.Record
}

func (r *records) add(rec scope.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, rec)
}

func (r *records) denied(layer, host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, rec := range r.list {
		if rec.Layer == layer && rec.Host == host && !rec.Allowed {
			n++
		}
	}
	return n
}

// Every way a page has to ask for something is judged, path and method included,
// before anything leaves.
func TestInterception(t *testing.T) {
	site := sitetest.New(t)
	page := `<title>Vectors</title><link rel=stylesheet href=/no/css><img src=/no/img srcset="/no/srcset 1x">
		<iframe src=/no/frame></iframe><iframe srcdoc="<img src=/no/srcdoc>"></iframe><object data=/no/object></object>
		<video src=/no/video></video><script src=/no/script></script><script type=module>import('/no/module').catch(() => 0)</script>
		<style>@font-face { font-family: f; src: url(/no/font) } p { font-family: f; background: url(/no/bg) }</style><p>x
		<form id=f action=/no/form method=post></form>
		<script>
		fetch('/no/fetch').catch(() => 0); fetch('/yes/post', {method: 'DELETE'}).catch(() => 0);
		navigator.sendBeacon('/no/beacon', 'x'); new EventSource('/no/events');
		fetch('/yes/redirect').catch(() => 0);
		new Worker('/no/worker'); new SharedWorker('/no/shared');
		new Worker('data:text/javascript,' + encodeURIComponent("fetch('" + location.origin + "/no/inworker').catch(() => 0)"));
		navigator.serviceWorker?.register('/no/sw').catch(() => 0);
		fetch('/no/keepalive', {keepalive: true}).catch(() => 0);
		window.open('/no/popup'); 
		const f = document.createElement('iframe'); document.body.append(f);
		f.contentWindow.location = '/no/location';
		document.getElementById('f').target = '_blank'; document.getElementById('f').submit();
		</script>`
	site.Page("/yes/", page)
	site.Redirect("/yes/redirect", "/no/redirected")
	seen := &records{}
	run := sitetest.Browser(t, sitetest.Options{Record: seen.add, Scope: fmt.Sprintf(`engagement: x
allow:
  - {host: 127.0.0.1, ports: [%s], paths: ["/yes/**"], methods: [GET]}
`, site.Port())})
	visit(t, run, site.URL("/yes/"))
	eventually(t, func() bool { return seen.denied("browser", "127.0.0.1") >= 20 })
	time.Sleep(200 * time.Millisecond) // whatever would still leave
	for _, path := range strings.Fields(`css img srcset frame srcdoc object video script module font bg form fetch beacon events
		redirected worker shared inworker sw keepalive popup location`) {
		if n := site.Hits("/no/" + path); n > 0 {
			t.Errorf("/no/%s had %d hits", path, n)
		}
	}
	if site.Hits("/yes/post") > 0 {
		t.Error("DELETE reached the site")
	}
	if site.Hits("/yes/redirect") == 0 {
		t.Error("what is allowed didn't reach the site")
	}
	if n := len(seen.list); n == 0 {
		t.Error("nothing was recorded")
	}
}

// A click or a script's navigation out of scope is the action's failure; a popup's
// or a subframe's isn't.
func TestDeniedByClick(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title><a id=out href="http://out.test/">x</a><a id=hop href=/hop>x</a><a id=new target=_blank href="http://out.test/">x</a>
		<form action="http://out.test/"><button id=form>x</button></form><button id=late onclick="location='http://out.test/'">x</button>
		<a id=in href="/in">in</a>`)
	site.Page("/in", `<title>In</title><iframe src="http://out.test/"></iframe>`)
	site.Redirect("/hop", "http://out.test/")
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, id := range []string{"out", "hop", "form", "late"} {
		f := fails(t, run, ownedv1.Click{Selector: "#" + id})
		if f.Code != refusal.BrowserScopeDenied || f.Reason != refusal.ScopeDenied || f.Rule == "" || len(f.Notes.Blocked) != 1 {
			t.Errorf("%s: %v %+v", id, f, f.Notes)
		}
		if got := eval(t, run, `document.title`); got != `"Home"` {
			t.Errorf("%s: the page is %s", id, got)
		}
	}
	for _, script := range []string{`location = 'http://out.test/'`, `location = '/hop'`, `document.forms[0].submit()`} {
		if f := fails(t, run, ownedv1.EvalJS{Expression: script}); f.Code != refusal.BrowserScopeDenied {
			t.Errorf("%s: %v", script, f)
		}
	}
	must(t, run, ownedv1.Click{Selector: "#new"})
	answer := must(t, run, ownedv1.Click{Selector: "#in"})
	if got := answer.Result.(ownedv1.ClickResult).URL; got != site.URL("/in") {
		t.Errorf("the click ended at %s", got)
	}
}

// A request with a large body passes; one over the cap of a frame fails and hangs
// nothing.
func TestLargeBodies(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Post</title>`)
	site.Handle("/post", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the browser gave it up
		}
		fmt.Fprint(w, n)
	})
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, test := range []struct{ size, want string }{
		{"1e6", `"1000000"`}, {"2.6e7", `"blocked"`}, {"10", `"10"`},
	} {
		script := `fetch('/post', {method: 'POST', body: 'x'.repeat(` + test.size + `)}).then(r => r.text(), () => 'blocked')`
		if got := eval(t, run, script); got != test.want {
			t.Errorf("%s: got %s, want %s", test.size, got, test.want)
		}
	}
}

// The proxy's refusals are the browser's too: a name that resolves to a forbidden
// address is denied, and an answer of the proxy is never taken for the site's.
func TestProxyRefusalFailsTheGoto(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	run := sitetest.Browser(t, sitetest.Options{Scope: fmt.Sprintf(`engagement: x
allow:
  - {host: 127.0.0.1, ports: [%s]}
  - {host: inside.test}
  - {host: nowhere.test}
`, site.Port()), Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "inside.test" {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		return nil, errors.New("no such name")
	}})
	visit(t, run, site.URL("/"))
	for _, url := range []string{"http://inside.test/", "https://inside.test/"} {
		f := fails(t, run, ownedv1.Goto{URL: url})
		if f.Code != refusal.BrowserScopeDenied || len(f.Notes.Blocked) == 0 {
			t.Errorf("%s: %v %+v", url, f, f.Notes)
		}
	}
	for _, url := range []string{"http://nowhere.test/", "https://nowhere.test/"} {
		if f := fails(t, run, ownedv1.Goto{URL: url}); f.Code != refusal.BrowserActionFailed {
			t.Errorf("%s: %v", url, f)
		}
	}
	visit(t, run, site.URL("/"))
}

// TLS is opened for a path rule, with the run's own CA, and judged by path too.
func TestPathsOverTLS(t *testing.T) {
	site := sitetest.NewTLS(t)
	site.Page("/yes", `<title>Yes</title>`)
	site.Page("/no", `<title>No</title>`)
	run := sitetest.Browser(t, sitetest.Options{Roots: site.Roots(), Scope: fmt.Sprintf(`engagement: x
allow:
  - {host: 127.0.0.1, ports: [%s], paths: [/yes]}
`, site.Port())})
	if got := visit(t, run, site.URL("/yes")); got.Title != "Yes" {
		t.Errorf("got %+v", got)
	}
	if f := fails(t, run, ownedv1.Goto{URL: site.URL("/no")}); f.Code != refusal.BrowserScopeDenied {
		t.Errorf("got %v", f)
	}
	if got := eval(t, run, `isSecureContext + ' ' + (await fetch('/no').then(r => r.status, () => 'blocked'))`); got != `"true blocked"` {
		t.Errorf("got %s", got)
	}
	if site.Hits("/no") > 0 {
		t.Error("the denied path was reached")
	}
}

// Local Network Access stays on as a second wall. In the box every address is the
// proxy's, so it asks nobody when one in-scope application reaches another, on
// loopback or not, and what is out of scope stays out.
func TestApplicationsInScopeReachEachOther(t *testing.T) {
	api := sitetest.New(t)
	api.Handle("/api", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		fmt.Fprint(w, "answer")
	})
	site := sitetest.New(t)
	site.Page("/", `<title>App</title>`)
	run := sitetest.Browser(t, sitetest.Options{Scope: `engagement: x
allow:
  - {host: 127.0.0.1, ports: "*"}
  - {host: localhost, ports: "*"}
  - {host: app.test, ports: "*", resolves_to: [127.0.0.0/8]}
`, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	for _, host := range []string{"127.0.0.1", "localhost", "app.test"} {
		visit(t, run, "http://"+host+":"+site.Port()+"/")
		for url, want := range map[string]string{
			api.URL("/api"):       `"answer"`,
			"http://10.1.1.1/api": `"TypeError: Failed to fetch"`,
		} {
			if got := eval(t, run, `fetch('`+url+`').then(r => r.text(), String)`); got != want {
				t.Errorf("%s from %s: got %s, want %s", url, host, got, want)
			}
		}
	}
}

// Cross-site frames run in processes of their own: their dialogs, consoles and
// scripts are the tab's.
func TestIsolatedFrames(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/frame", `<title>Frame</title><script>console.log('from', location.hostname)</script>`)
	site.Page("/loop", `<script>setTimeout(() => { while (true) {} }, 300)</script>`)
	run := shared(t)
	visit(t, run, site.URL("/frame"))
	must(t, run, ownedv1.EvalJS{Expression: `new Promise(done => { const f = document.createElement('iframe');
		f.onload = () => done(); f.src = 'http://localhost:` + site.Port() + `/frame'; document.body.append(f) })`})
	eventually(t, func() bool {
		lines := must(t, run, ownedv1.ConsoleLogs{}).Result.(ownedv1.ConsoleResult).Lines
		return strings.Contains(strings.Join(lines, "\n"), "[log] from localhost")
	})
	must(t, run, ownedv1.EvalJS{Expression: `document.querySelector('iframe').remove()`})
	if got := eval(t, run, `document.title`); got != `"Frame"` {
		t.Errorf("got %s", got)
	}
}
