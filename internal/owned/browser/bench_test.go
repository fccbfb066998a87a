package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
	"chaperone/internal/sitetest"
)

// bare speaks the protocol with nothing around it: what our actions are measured
// against, in the same box and behind the same proxy.
type bare struct {
	b    *testing.B
	pipe io.ReadWriteCloser
	in   *bufio.Reader
	id   int
	sid  string
}

func (c *bare) call(method, params string) jsontext.Value {
	c.id++
	session := ""
	if c.sid != "" {
		session = fmt.Sprintf(`,"sessionId":%q`, c.sid)
	}
	if _, err := fmt.Fprintf(c.pipe, `{"id":%d,"method":%q,"params":%s%s}`+"\x00", c.id, method, params, session); err != nil {
		c.b.Fatal(err)
	}
	return c.await(func(m frame) bool { return m.ID == c.id })
}

type frame struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Result jsontext.Value `json:"result"`
}

func (c *bare) await(is func(frame) bool) jsontext.Value {
	for {
		raw, err := c.in.ReadBytes(0)
		if err != nil {
			c.b.Fatal(err)
		}
		var m frame
		if err := json.Unmarshal(raw[:len(raw)-1], &m, jsontext.AllowInvalidUTF8(true)); err != nil {
			c.b.Fatal(err)
		}
		if is(m) {
			return m.Result
		}
	}
}

func bareBrowser(b *testing.B) *bare {
	s, err := scope.FromHosts("bench", "127.0.0.1:*")
	if err != nil {
		b.Fatal(err)
	}
	p, err := proxy.New(proxy.Config{Scope: s, Record: func(scope.Record) {}})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := jail.FindEngine("")
	if err != nil {
		b.Fatal(err)
	}
	box, err := jail.Start(context.Background(), jail.Config{Engine: engine, Args: browser.Flags(jail.ProxyAddr, p.SPKI())})
	if err != nil {
		b.Fatal(err)
	}
	var served sync.WaitGroup
	listener := box.Listener()
	served.Go(func() { _ = p.Serve(listener) })
	b.Cleanup(func() {
		if err := box.Close(); err != nil {
			b.Error(err)
		}
		if err := p.Close(); err != nil {
			b.Error(err)
		}
		served.Wait()
	})
	c := &bare{b: b, pipe: box.Pipe(), in: bufio.NewReaderSize(box.Pipe(), 1<<20)}
	var made struct {
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
	}
	decode := func(v jsontext.Value) {
		if err := json.Unmarshal(v, &made); err != nil {
			b.Fatal(err)
		}
	}
	decode(c.call("Target.createTarget", `{"url":"about:blank"}`))
	decode(c.call("Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, made.Target)))
	c.sid = made.Session
	c.call("Page.enable", `{}`)
	return c
}

func benchSite(b *testing.B) *sitetest.Site {
	site := sitetest.New(b)
	var page strings.Builder
	page.WriteString(`<title>Bench</title>`)
	for i := range 20 {
		fmt.Fprintf(&page, `<p>Paragraph %d <a href="/">link</a></p><script src="/%d.js"></script>`, i, i)
		site.Handle(fmt.Sprintf("/%d.js", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "window.n = (window.n ?? 0) + 1")
		})
	}
	site.Page("/", page.String())
	return site
}

func BenchmarkNavigate(b *testing.B) {
	site := benchSite(b)
	b.Run("bare", func(b *testing.B) {
		c := bareBrowser(b)
		for b.Loop() {
			c.call("Page.navigate", fmt.Sprintf(`{"url":%q}`, site.URL("/")))
			c.await(func(m frame) bool { return m.Method == "Page.loadEventFired" })
		}
	})
	b.Run("goto", func(b *testing.B) { benchDo(b, site, ownedv1.Goto{URL: site.URL("/")}) })
}

func BenchmarkScreenshot(b *testing.B) {
	site := benchSite(b)
	b.Run("bare", func(b *testing.B) {
		c := bareBrowser(b)
		c.call("Emulation.setDeviceMetricsOverride", `{"width":1280,"height":720,"deviceScaleFactor":1,"mobile":false}`)
		c.call("Page.navigate", fmt.Sprintf(`{"url":%q}`, site.URL("/")))
		c.await(func(m frame) bool { return m.Method == "Page.loadEventFired" })
		for b.Loop() {
			c.call("Page.captureScreenshot", `{"format":"png"}`)
		}
	})
	b.Run("screenshot", func(b *testing.B) { benchDo(b, site, ownedv1.Screenshot{}) })
}

func BenchmarkEval(b *testing.B) {
	site := benchSite(b)
	b.Run("number", func(b *testing.B) { benchDo(b, site, ownedv1.EvalJS{Expression: `1+1`}) })
	b.Run("object", func(b *testing.B) { benchDo(b, site, ownedv1.EvalJS{Expression: `({a: [1, 2, {b: 'x'}]})`}) })
}

func BenchmarkSource(b *testing.B) { benchDo(b, benchSite(b), ownedv1.PageSource{}) }

func benchDo(b *testing.B, site *sitetest.Site, a ownedv1.Action) {
	run := sitetest.Browser(b, sitetest.Options{})
	if _, err := do(run, ownedv1.Goto{URL: site.URL("/")}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := do(run, a); err != nil {
			b.Fatal(err)
		}
	}
}
