package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

func status(code int) *int { return &code }

func TestGotoAnswersWhereItEnded(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	site.Page("/title", `<title>&lt;b&gt; &amp; "x"</title>`)
	site.Redirect("/one", "/two")
	site.Redirect("/two", "/?end")
	site.Handle("/gone", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, "<title>Gone</title>")
	})
	site.Handle("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	site.Page("/script", `<title>First</title><script>location.replace('/?by=script')</script>`)
	site.Page("/spa", `<title>Spa</title><script>history.replaceState(0, '', '/spa/inner')</script>`)
	for _, test := range []struct {
		name, url string
		want      ownedv1.GotoResult
	}{
		{"plain", site.URL("/"), ownedv1.GotoResult{URL: site.URL("/"), Status: status(200), Title: "Home"}},
		{"characters", site.URL("/title"), ownedv1.GotoResult{URL: site.URL("/title"), Status: status(200), Title: `<b> & "x"`}},
		{"redirects", site.URL("/one"), ownedv1.GotoResult{URL: site.URL("/?end"), Status: status(200), Title: "Home"}},
		{"same document", site.URL("/?end#part"), ownedv1.GotoResult{URL: site.URL("/?end#part"), Title: "Home"}},
		{"4xx", site.URL("/gone"), ownedv1.GotoResult{URL: site.URL("/gone"), Status: status(410), Title: "Gone"}},
		{"5xx", site.URL("/broken"), ownedv1.GotoResult{URL: site.URL("/broken"), Status: status(503)}},
		{"fragment", site.URL("/#part"), ownedv1.GotoResult{URL: site.URL("/#part"), Status: status(200), Title: "Home"}},
		{"script goes on", site.URL("/script"), ownedv1.GotoResult{URL: site.URL("/?by=script"), Status: status(200), Title: "Home"}},
		{"history", site.URL("/spa"), ownedv1.GotoResult{URL: site.URL("/spa/inner"), Status: status(200), Title: "Spa"}},
		{"blank", "about:blank", ownedv1.GotoResult{URL: "about:blank"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := shared(t)
			if test.name == "same document" {
				visit(t, run, site.URL("/?end"))
			}
			if diff := cmp.Diff(test.want, visit(t, run, test.url)); diff != "" {
				t.Error("-want +got\n" + diff)
			}
		})
	}
}

func TestGotoRefuses(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	site.Redirect("/out", "http://out.test/")
	site.Redirect("/far", "/out")
	site.Redirect("/file", "file:///etc/passwd")
	site.Handle("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	tls := sitetest.NewTLS(t)
	closed := sitetest.Make(false)
	closed.Close()
	run := shared(t)
	visit(t, run, site.URL("/"))
	for _, test := range []struct {
		name, url string
		code      refusal.Code
		reason    refusal.Code
	}{
		{"out of scope", "http://out.test/", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"metadata", "http://169.254.169.254/latest", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"odd address", "http://0xa.1/", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"user info", "http://127.0.0.1@out.test/", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"redirect", site.URL("/out"), refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"second redirect", site.URL("/far"), refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"file", "file:///etc/passwd", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"script", "javascript:document.title='x'", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"data", "data:text/html,x", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"chrome", "chrome://version", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"view-source", "view-source:" + site.URL("/"), refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"about", "about:version", refusal.BrowserScopeDenied, refusal.ScopeDenied},
		{"no scheme", "127.0.0.1/x", refusal.BrowserActionFailed, refusal.Malformed},
		{"no url", "http://[::1", refusal.BrowserActionFailed, refusal.Malformed},
		{"empty", "", refusal.BrowserActionFailed, refusal.Malformed},
		{"no content", site.URL("/nothing"), refusal.BrowserActionFailed, refusal.Failed},
		{"redirect to a file", site.URL("/file"), refusal.BrowserActionFailed, refusal.Failed},
		{"certificate", "https://localhost:" + tls.Port() + "/", refusal.BrowserActionFailed, refusal.Failed},
		{"nobody there", closed.URL("/"), refusal.BrowserActionFailed, refusal.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fails(t, run, ownedv1.Goto{URL: test.url})
			if f.Code != test.code || f.Reason != test.reason {
				t.Errorf("got %v, want %s (%s)", f, test.code, test.reason)
			}
			if f.Code == refusal.BrowserScopeDenied && f.Rule == "" {
				t.Error("no rule is named")
			}
		})
	}
	if visit(t, run, site.URL("/")).Title != "Home" {
		t.Error("the tab isn't usable afterwards")
	}
}

// A denied navigation leaves the page where it was, and says what was blocked.
func TestDeniedNavigationKeepsThePage(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title><img src="http://out.test/a.png"><img src="http://out.test/b.png"><script>
		setTimeout(() => location.href = 'http://away.test/', 0)</script>`)
	site.Redirect("/out", "http://out.test/")
	run := shared(t)
	answer := must(t, run, ownedv1.Goto{URL: site.URL("/")})
	if got, want := answer.Notes.Blocked[0], (browser.Blocked{Host: "out.test", Rule: "no rule", Count: 2}); got != want {
		t.Errorf("blocked: got %v, want %v", got, want)
	}
	fails(t, run, ownedv1.Goto{URL: site.URL("/out")})
	if got := eval(t, run, "document.title + location.pathname"); got != `"Home/"` {
		t.Errorf("the page is %s", got)
	}
}

func TestGotoKeepsItsTime(t *testing.T) {
	site := sitetest.New(t)
	site.Hang("/hang")
	site.Hang("/slow.png")
	site.Page("/", "<title>Home</title>")
	site.Page("/never", `<title>Never</title><img src=/slow.png>`)
	run := shared(t)
	for _, path := range []string{"/hang", "/never"} {
		start := time.Now()
		f := fails(t, run, ownedv1.Goto{URL: site.URL(path), TimeoutMS: 300})
		if f.Code != refusal.BrowserActionFailed || f.Reason != refusal.TimedOut {
			t.Errorf("%s: its own limit gave %v", path, f)
		}
		within(t, start, 300*time.Millisecond, 3*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		start = time.Now()
		_, err := run.Do(ctx, ownedv1.Goto{URL: site.URL(path)})
		cancel()
		if refusal.Of(err) != refusal.BrowserTimeout {
			t.Errorf("%s: the deadline gave %v", path, err)
		}
		within(t, start, 300*time.Millisecond, 3*time.Second)
		start = time.Now()
		if got := eval(t, run, "1+1"); got != "2" {
			t.Errorf("%s: the next call gave %s", path, got)
		}
		within(t, start, 0, 2*time.Second)
	}
	if got := visit(t, run, site.URL("/")).Title; got != "Home" {
		t.Errorf("title %q", got)
	}
}

// within checks how long something took, in generous bounds.
func within(t *testing.T, since time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(since); took < least || took > most {
		t.Errorf("took %v, want %v to %v", took, least, most)
	}
}
