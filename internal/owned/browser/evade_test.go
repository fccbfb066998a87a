package browser_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// TestCaseLeavingARestlessPage leaves pages that go elsewhere by themselves all
// the time: a goto that succeeds shows what was asked for.
func TestCaseLeavingARestlessPage(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/ok":      `<title>ok</title>`,
		"/reload":  `<script>setInterval(()=>location.reload(),1)</script>`,
		"/refresh": `<meta http-equiv=refresh content=0><p>x`,
		"/script":  `<script>setTimeout(()=>location='/elsewhere',20)</script>`, "/elsewhere": `<title>elsewhere</title>`,
	})
	for _, path := range []string{"/reload", "/refresh", "/script"} {
		for i := range 12 {
			d.try(5*time.Second, ownedv1.Goto{URL: "http://app.test" + path})
			time.Sleep(time.Duration(i*2) * time.Millisecond)
			got := d.do(ownedv1.Goto{URL: "http://app.test/ok"}).Result.(ownedv1.GotoResult)
			if got.URL != "http://app.test/ok" || got.Status == nil || got.Title != "ok" {
				t.Fatalf("%s: a goto that succeeded is at %+v", path, got)
			}
		}
	}
	d.want("location.pathname + typeof setTimeout(()=>0)", `"/oknumber"`)
}

// TestCaseAnswerWithoutAPage tells a 204 from a navigation that was overtaken, and
// asks the site once.
func TestCaseAnswerWithoutAPage(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<title>home</title>`})
	for path, code := range map[string]int{"/204": http.StatusNoContent, "/304": http.StatusNotModified} {
		asked := make(chan struct{}, 10)
		d.pages.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			asked <- struct{}{}
			w.WriteHeader(code)
		})
		d.open("http://app.test/")
		f := d.fail(5*time.Second, ownedv1.Goto{URL: "http://app.test" + path}, refusal.Failed)
		if code == http.StatusNoContent && !strings.Contains(f.Detail, "204") {
			t.Errorf("detail %q, want the status", f.Detail)
		}
		if len(asked) != 1 {
			t.Errorf("%s was asked for %d times", path, len(asked))
		}
		d.want("document.title", `"home"`)
	}
}

// TestCaseLookingDuringANavigation looks at a page in the moment in which it is
// replaced: every look answers, long before its deadline.
func TestCaseLookingDuringANavigation(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/ok": `<title>ok</title><p>here`})
	for i, ms := range []string{"2", "5", "8", "11", "14", "17", "20"} {
		d.pages.set("/go"+ms, `<p>x<script>setTimeout(()=>location='/ok',`+ms+`)</script>`)
		for _, a := range []ownedv1.Action{
			ownedv1.Screenshot{}, ownedv1.Screenshot{FullPage: i%2 == 0}, ownedv1.PDF{}, ownedv1.Scroll{DY: 10},
			browser.Snapshot{}, ownedv1.PageSource{},
		} {
			d.try(5*time.Second, ownedv1.Goto{URL: "http://app.test/go" + ms})
			began := time.Now()
			r := d.do(a)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s took %v", a.Name(), took)
			}
			if shot, is := r.Result.(ownedv1.ScreenshotResult); is {
				if png, err := base64.StdEncoding.DecodeString(shot.Base64); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
					t.Errorf("no picture: %v", err)
				}
			}
		}
	}
}

// TestCaseDeafWhileLeaving leaves a page whose handlers never end.
func TestCaseDeafWhileLeaving(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/ok":           `<title>ok</title>`,
		"/beforeunload": `<button id=b>x</button><script>onbeforeunload=()=>{for(;;);}</script>`,
		"/pagehide":     `<button id=b>x</button><script>addEventListener('pagehide',()=>{for(;;);})</script>`,
	})
	d.open("http://app.test/beforeunload")
	d.click("#b")
	d.open("http://app.test/ok")
	d.want("location.pathname", `"/ok"`)
	d.open("http://app.test/pagehide")
	d.click("#b")
	d.try(4*time.Second, ownedv1.Goto{URL: "http://app.test/ok"}) // it may need another renderer
	d.open("http://app.test/ok")
	d.want("location.pathname", `"/ok"`)
}

// TestCaseBusyAfterTheClick ends a script that a click left to a timer.
func TestCaseBusyAfterTheClick(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<button id=b onclick="setTimeout(()=>{window.n=1;for(;;);},0)">x</button>`})
	d.open("http://app.test/")
	d.try(4*time.Second, ownedv1.Click{Selector: "#b", TimeoutMS: 1500})
	began := time.Now()
	d.want("n", "1")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the next call took %v", took)
	}
}

// TestCaseReformatted tells that a mask changed what was typed.
func TestCaseReformatted(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<input id=m oninput="this.value=this.value.replace(/(\d{3})(\d+)/,'($1) $2')"><input id=p>`})
	d.open("http://app.test/")
	if r := d.do(ownedv1.Type{Selector: "#m", Text: "5551234"}); !r.Notes.Reformatted {
		t.Errorf("notes %+v, want reformatted", r.Notes)
	}
	d.want("m.value", `"(555) 1234"`)
	if r := d.do(ownedv1.Type{Selector: "#p", Text: "plain"}); r.Notes.Reformatted {
		t.Errorf("notes %+v, want none", r.Notes)
	}
}

// TestCaseDrawnControl clicks what stands for a control without a box, and not a
// link in it.
func TestCaseDrawnControl(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/drawn": `<label><input type=checkbox id=c style="opacity:0;width:0;height:0;position:absolute"><i style="display:inline-block;width:20px;height:20px;background:red"></i>agree</label>`,
		"/none":  `<input type=radio id=c style="display:none"><label for=c style="display:none">x</label><label for=c>y</label>`,
		"/terms": `<input type=checkbox id=c style="display:none"><label for=c>I take <a href="/away">the long, long, long terms</a></label>`,
		"/bare":  `<input type=checkbox id=c style="display:none">`,
	})
	for _, path := range []string{"/drawn", "/none", "/terms"} {
		d.open("http://app.test" + path)
		d.click("#c")
		d.want("[location.pathname, c.checked]", `["`+path+`",true]`)
	}
	d.open("http://app.test/bare")
	d.fail(5*time.Second, ownedv1.Click{Selector: "#c", TimeoutMS: 300}, refusal.TimedOut)
	d.want("c.checked", "false")
}

// TestCaseThenable awaits what has a then of its own.
func TestCaseThenable(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<p>`})
	d.open("http://app.test/")
	d.want("({then(done){done({a:4})}})", `{"a":4}`)
	d.want("() => ({then(done){done(5)}})", `5`)
}
