package browser_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

func TestConsole(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Console</title><script>
		console.log('plain', 1, true, null, undefined, -0, 10n);
		console.warn('careful'); console.error({a: 1, b: 'x'}, [1, 'y']); console.info(new Map([[1, 2]]));
		console.debug('lone \ud800');
		setTimeout(() => { throw new TypeError('late') }, 0);
		new Worker('data:text/javascript,console.log("from the worker")');
	</script><img src=/missing.png>`)
	site.Page("/next", `<script>console.log('second page')</script>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	lines := func() []string {
		r := must(t, run, ownedv1.ConsoleLogs{}).Result.(ownedv1.ConsoleResult)
		if r.Count != len(r.Lines) {
			t.Errorf("count %d of %d lines", r.Count, len(r.Lines))
		}
		return r.Lines
	}
	has := func(want string) func() bool {
		return func() bool { return strings.Contains("\n"+strings.Join(lines(), "\n"), "\n"+want) }
	}
	for _, want := range []string{
		"[log] plain 1 true null undefined -0 10n\n", "[warning] careful\n", `[error] {a: 1, b: "x"} [1, "y"]`,
		"[info] Map(1)", "[debug] lone \uFFFD", "[pageerror] TypeError: late", "[log] from the worker",
		"[error] Failed to load resource: the server responded with a status of 404 (Not Found) (" + site.URL("/missing.png") + ")",
	} {
		eventually(t, has(want))
	}
	visit(t, run, site.URL("/next"))
	eventually(t, has("[log] second page"))
	if !has("[warning] careful")() {
		t.Error("the lines of the page before are gone")
	}
	must(t, run, ownedv1.ConsoleLogs{Clear: true})
	if got := lines(); len(got) != 0 {
		t.Errorf("after clear: %q", got)
	}
}

// Size, encoding, floods: a console flood keeps the last 500 lines and the run.
func TestCaseConsoleFlood(t *testing.T) {
	run := shared(t)
	must(t, run, ownedv1.EvalJS{Expression: `for (let i = 0; i < 3000; i++) console.log('line', i)`})
	must(t, run, ownedv1.EvalJS{Expression: `console.log('x'.repeat(26e6))`})
	must(t, run, ownedv1.EvalJS{Expression: `console.log('y'.repeat(1e6))`})
	var r ownedv1.ConsoleResult
	eventually(t, func() bool {
		r = must(t, run, ownedv1.ConsoleLogs{}).Result.(ownedv1.ConsoleResult)
		return strings.HasPrefix(r.Lines[len(r.Lines)-1], "[log] yyy")
	})
	if r.Count != 500 || len(r.Lines[499]) > 5000 || r.Lines[0] != "[log] line 2502" || r.Lines[499][:6] != "[log] " {
		t.Errorf("%d lines, the last of %d bytes, the first %q", r.Count, len(r.Lines[len(r.Lines)-1]), r.Lines[0])
	}
	if got := r.Lines[498]; got != "[warning] a console message over its limit was dropped" {
		t.Errorf("the oversized line: %.100q", got)
	}
}

func TestPageSource(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<html><head><title>S</title></head><body><p>grün 🎉 <b>&amp;</b></p></body></html>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	want := `<!DOCTYPE html>` + "\n" + `<html><head><title>S</title></head><body><p>grün 🎉 <b>&amp;</b></p></body></html>`
	got := must(t, run, ownedv1.PageSource{}).Result
	if diff := cmp.Diff(ownedv1.SourceResult{URL: site.URL("/"), Bytes: len(want), HTML: want}, got); diff != "" {
		t.Error("-want +got\n" + diff)
	}
	var all strings.Builder
	for at := 0; ; {
		part := must(t, run, browser.SourcePart{Offset: at, MaxBytes: 7}).Result.(browser.SourcePartResult)
		all.WriteString(part.HTML)
		if part.Bytes != len(want) || len(part.HTML) > 7 || part.Offset != at {
			t.Fatalf("part %+v", part)
		}
		if at = part.Next; at == 0 {
			break
		}
	}
	if all.String() != want {
		t.Errorf("the parts give %q", all.String())
	}
}

// Size: limits applied only after the transfer. Five megabytes of text pass; forty
// are refused, and told in parts with the whole size.
func TestCaseLargeSource(t *testing.T) {
	run := shared(t)
	must(t, run, ownedv1.EvalJS{Expression: `void (document.body.textContent = 'a'.repeat(5e6))`})
	if got := must(t, run, ownedv1.PageSource{}).Result.(ownedv1.SourceResult).Bytes; got < 5e6 {
		t.Errorf("%d bytes", got)
	}
	must(t, run, ownedv1.EvalJS{Expression: `document.body.hidden = true; void (document.body.textContent = 'a'.repeat(40e6))`})
	start := time.Now()
	if f := fails(t, run, ownedv1.PageSource{}); f.Reason != refusal.TooLarge || f.Code != refusal.BrowserActionFailed {
		t.Errorf("got %v", f)
	}
	part := must(t, run, browser.SourcePart{Offset: 39e6, MaxBytes: 1000}).Result.(browser.SourcePartResult)
	if part.Bytes < 40e6 || len(part.HTML) != 1000 || part.Next != 39e6+1000 {
		t.Errorf("part of %d bytes of %d, next %d", len(part.HTML), part.Bytes, part.Next)
	}
	within(t, start, 0, 10*time.Second)
	must(t, run, ownedv1.EvalJS{Expression: `void (document.body.textContent = '"'.repeat(5e6))`})
	if f := fails(t, run, ownedv1.PageSource{}); f.Reason != refusal.TooLarge {
		t.Errorf("quotes: got %v", f) // twice as large once they are escaped
	}
}

// Deadlines and hangs: `content()` fails while a navigation tears the document
// down.
func TestCaseSourceDuringANavigation(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Old</title><script>setTimeout(() => location = '/new', 50)</script>`)
	site.Page("/new", `<title>New</title>`)
	run := shared(t)
	for range 5 {
		visit(t, run, site.URL("/"))
		for end := time.Now().Add(120 * time.Millisecond); time.Now().Before(end); {
			got := must(t, run, ownedv1.PageSource{}).Result.(ownedv1.SourceResult).HTML
			if !strings.Contains(got, "<title>Old</title>") && !strings.Contains(got, "<title>New</title>") {
				t.Fatalf("got %q", got)
			}
		}
	}
}

func picture(t *testing.T, run *sitetest.Run, full bool) (width, height int, notes browser.Notes) {
	t.Helper()
	answer := must(t, run, ownedv1.Screenshot{FullPage: full})
	r := answer.Result.(ownedv1.ScreenshotResult)
	raw, err := base64.StdEncoding.DecodeString(r.Base64)
	if err != nil || len(raw) != r.Bytes || r.Format != "png" {
		t.Fatalf("%s of %d bytes, decoded %d: %v", r.Format, r.Bytes, len(raw), err)
	}
	shot, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return shot.Bounds().Dx(), shot.Bounds().Dy(), answer.Notes
}

func TestScreenshot(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Shot</title><body style="margin:0"><div style="height:3000px;background:linear-gradient(red,blue)">`)
	site.Page("/endless", `<body style="margin:0"><div style="height:90000px">`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	if w, h, _ := picture(t, run, false); w != 1280 || h != 720 {
		t.Errorf("the viewport: %d x %d", w, h)
	}
	if w, h, _ := picture(t, run, true); w != 1280 || h != 3000 {
		t.Errorf("the page: %d x %d", w, h)
	}
	must(t, run, ownedv1.Scroll{DX: 0, DY: 500})
	if got := eval(t, run, `scrollY`); got != `500` {
		t.Errorf("scrolled to %s", got)
	}
	switchTo(t, run, "other") // "main" is behind it now
	switchTo(t, run, "main")
	if w, h, _ := picture(t, run, false); w != 1280 || h != 720 {
		t.Errorf("after a switch: %d x %d", w, h)
	}
	visit(t, run, site.URL("/endless"))
	if f := fails(t, run, ownedv1.Screenshot{FullPage: true}); f.Reason != refusal.TooLarge {
		t.Errorf("90,000 pixels: %v", f)
	}
}

// Deadlines and hangs: a screenshot waits for a font for ever.
func TestCaseScreenshotWithAPendingFont(t *testing.T) {
	site := sitetest.New(t)
	site.Hang("/font.woff2")
	site.Page("/", `<title>Font</title><p>text`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	must(t, run, ownedv1.EvalJS{Expression: `document.fonts.add(new FontFace('f', 'url(/font.woff2)')); void document.fonts.load('12px f')`})
	start := time.Now()
	w, _, notes := picture(t, run, false)
	within(t, start, 0, 4*time.Second)
	if w != 1280 || !notes.FontsPending {
		t.Errorf("width %d, fonts pending %v", w, notes.FontsPending)
	}
}

// Deadlines and hangs: a PDF fails after a hidden limit. Four hundred pages.
func TestCaseLargePDF(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Pages</title>`+strings.Repeat(`<p style="break-after:page">A page of text.</p>`, 400))
	run := shared(t)
	visit(t, run, site.URL("/"))
	r := must(t, run, ownedv1.PDF{}).Result.(ownedv1.PDFResult)
	raw, err := base64.StdEncoding.DecodeString(r.Base64)
	if err != nil || len(raw) != r.Bytes || r.Format != "pdf" || !bytes.HasPrefix(raw, []byte("%PDF-")) {
		t.Fatalf("%s of %d bytes: %v", r.Format, r.Bytes, err)
	}
	if got := bytes.Count(raw, []byte("/Type /Page\n")); got < 400 {
		t.Errorf("%d pages", got)
	}
}

// saver keeps what it is given.
type saver struct {
	mu    sync.Mutex
	saved map[string]string
}

func (s *saver) Save(name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[name] = string(text)
	return "kept-" + name, err
}

// Downloads: a click that starts one drops the whole connection and the logins.
func TestCaseDownloads(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Files</title><a href=/file>x</a><a id=b download=b.txt href="data:text/plain,inline">y</a>`)
	site.Handle("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../../report.txt"`)
		fmt.Fprint(w, "the report")
	})
	kept := &saver{saved: map[string]string{}}
	allowing := sitetest.Browser(t, sitetest.Options{Config: func(c *browser.Config) { c.Saving = kept }})
	for name, run := range map[string]*sitetest.Run{"refused": shared(t), "saved": allowing} {
		visit(t, run, site.URL("/"))
		must(t, run, ownedv1.EvalJS{Expression: `void (document.cookie = 'login=1')`})
		answer := must(t, run, ownedv1.Click{Selector: "a"})
		want := browser.Download{ID: "download-1", Tab: "main", Size: 10, State: name}
		if name == "saved" {
			want.Saved = "kept-" + answer.Notes.Downloads[0].Name
		}
		if len(answer.Notes.Downloads) != 1 {
			t.Fatalf("%s: %+v", name, answer.Notes.Downloads)
		}
		got := answer.Notes.Downloads[0]
		if strings.ContainsAny(got.Name, `/\`) || !strings.HasSuffix(got.Name, "report.txt") {
			t.Errorf("%s: name %q", name, got.Name)
		}
		want.Name = got.Name
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		f := fails(t, run, ownedv1.Goto{URL: site.URL("/file")})
		if f.Reason != refusal.Failed || len(f.Notes.Downloads) != 1 || f.Notes.Downloads[0].State != name {
			t.Errorf("%s: goto: %v %+v", name, f, f.Notes)
		}
		if got := eval(t, run, `document.title + document.cookie`); got != `"Fileslogin=1"` {
			t.Errorf("%s: the page is %s", name, got)
		}
		if got := len(must(t, run, browser.Downloads{}).Result.(browser.DownloadsResult).Downloads); got != 2 {
			t.Errorf("%s: %d downloads are listed", name, got)
		}
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	for name, text := range kept.saved {
		if text != "the report" {
			t.Errorf("%s holds %q", name, text)
		}
	}
	saved := must(t, allowing, browser.SaveDownload{ID: "download-1"}).Result.(browser.Download)
	if saved.State != "saved" {
		t.Errorf("got %+v", saved)
	}
	if f := fails(t, allowing, browser.SaveDownload{ID: "download-9"}); f.Reason != refusal.NotFound {
		t.Errorf("got %v", f)
	}
}

// The engine's death is told, and ends every call.
func TestEngineDies(t *testing.T) {
	run := sitetest.Browser(t, sitetest.Options{})
	done := make(chan error)
	go func() {
		_, err := do(run, ownedv1.EvalJS{Expression: `new Promise(() => {})`})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := run.Box.Close(); err != nil {
		t.Error(err)
	}
	if f := asFailure(t, <-done); f.Reason != refusal.NoBrowser {
		t.Errorf("the call under way: %v", f)
	}
	select {
	case <-run.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done isn't closed")
	}
	if !errors.Is(run.Err(), refusal.EngineExited) {
		t.Errorf("Err: %v", run.Err())
	}
	if f := fails(t, run, ownedv1.ListTabs{}); f.Reason != refusal.NoBrowser {
		t.Errorf("afterwards: %v", f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := run.Do(ctx, ownedv1.ListTabs{}); asFailure(t, err).Reason != refusal.Cancelled {
		t.Errorf("cancelled before: %v", err)
	}
}
