package browser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

const shell = "/usr/lib/chromium/chromium-headless-shell"

// pages is a site of small pages for every host: the engine's proxy itself
// answers, so a page may have any name.
type pages struct {
	mu    sync.Mutex
	body  map[string]string // by host+path, or by path
	other map[string]http.HandlerFunc
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	h := p.other[r.URL.Path]
	body, ok := p.body[r.URL.Hostname()+r.URL.Path]
	if !ok {
		body, ok = p.body[r.URL.Path]
	}
	p.mu.Unlock()
	switch {
	case h != nil:
		h(w, r)
	case ok:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html>"+body)
	default:
		http.NotFound(w, r)
	}
}

// desk is one engine with its browser and its site.
type desk struct {
	testing.TB
	b     *browser.Browser
	pages *pages
	pid   int
}

type pipe struct {
	io.Reader
	io.WriteCloser
	r *os.File
}

func (p pipe) Close() error { return errors.Join(p.WriteCloser.Close(), p.r.Close()) }

// boxFiles stands for the box's files: a folder that the engine can read.
type boxFiles struct{ dir string }

func (f boxFiles) WriteFile(name string, r io.Reader) (string, error) {
	path := filepath.Join(f.dir, name)
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer out.Close()
	_, err = io.Copy(out, r)
	return path, err
}
func (f boxFiles) OpenFile(path string) (io.ReadCloser, error) { return os.Open(path) }
func (f boxFiles) RemoveFile(path string) error                { return os.Remove(path) }

const everything = `
engagement: test
allow:
  - {host: localhost, ports: "*"}
  - {host: app.test, ports: "*"}
  - {host: www.app.test, ports: "*"}
  - {host: other.test, ports: "*"}
`

// sit starts an engine without a box: these tests are about pages.
func sit(t testing.TB, body map[string]string, options ...func(*browser.Config)) *desk {
	t.Helper()
	return sitIn(t, everything, body, options...)
}

func sitIn(t testing.TB, rules string, body map[string]string, options ...func(*browser.Config)) *desk {
	t.Helper()
	return start(t, rules, nil, body, options...)
}

func start(t testing.TB, rules string, more []string, body map[string]string, options ...func(*browser.Config)) *desk {
	t.Helper()
	d := &desk{TB: t, pages: &pages{body: body, other: map[string]http.HandlerFunc{}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d.pages}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	toEngine, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromEngine, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	flags := append(browser.Flags(l.Addr().String(), ""), "--no-sandbox", "--user-data-dir="+filepath.Join(dir, "profile"))
	cmd := exec.Command(shell, append(flags, more...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{toEngine, fromEngine}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.pid = cmd.Process.Pid
	toEngine.Close()
	fromEngine.Close()

	s, err := scope.Parse("test", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	config := browser.Config{Conn: pipe{out, in, out}, Scope: s, Files: boxFiles{dir}}
	for _, o := range options {
		o(&config)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d.b, err = browser.Open(ctx, config)
	t.Cleanup(func() {
		if d.b != nil {
			d.b.Close()
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		server.Close()
		<-served
		for range 50 {
			if os.RemoveAll(dir) == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	d.do(ownedv1.Launch{Headless: true})
	return d
}

// try does an action within a deadline.
func (d *desk) try(limit time.Duration, a ownedv1.Action) (browser.Answer, *browser.Failure) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), limit)
	defer cancel()
	answer, err := d.b.Do(ctx, a)
	if err == nil {
		return answer, nil
	}
	var f *browser.Failure
	if !errors.As(err, &f) {
		d.Fatalf("%s: the error %v is no Failure", a.Name(), err)
	}
	return answer, f
}

// do does an action that must succeed.
func (d *desk) do(a ownedv1.Action) browser.Answer {
	d.Helper()
	answer, f := d.try(20*time.Second, a)
	if f != nil {
		d.Fatalf("%s: %v (sent %v)", a.Name(), f, f.Sent)
	}
	return answer
}

// fail does an action that must fail for a reason.
func (d *desk) fail(limit time.Duration, a ownedv1.Action, reason refusal.Code) *browser.Failure {
	d.Helper()
	_, f := d.try(limit, a)
	if f == nil {
		d.Fatalf("%s succeeded; want the reason %s", a.Name(), reason)
	}
	if f.Reason != reason {
		d.Fatalf("%s: reason %s (%v); want %s", a.Name(), f.Reason, f, reason)
	}
	return f
}

func (d *desk) open(url string) {
	d.Helper()
	d.do(ownedv1.Goto{URL: url, TimeoutMS: 20000})
}

// js answers an expression's value as JSON text.
func (d *desk) js(expression string) string {
	d.Helper()
	return string(d.do(ownedv1.EvalJS{Expression: expression}).Result.(ownedv1.EvalResult).Result)
}

// want compares an expression's value.
func (d *desk) want(expression, want string) {
	d.Helper()
	if got := d.js(expression); got != want {
		d.Errorf("%s = %s, want %s", expression, got, want)
	}
}

func (d *desk) click(selector string) {
	d.Helper()
	d.do(ownedv1.Click{Selector: selector, TimeoutMS: 15000})
}

func (d *desk) typ(selector, text string) {
	d.Helper()
	d.do(ownedv1.Type{Selector: selector, Text: text, TimeoutMS: 15000})
}

func (d *desk) snapshot(a browser.Snapshot) string {
	d.Helper()
	return d.do(a).Result.(browser.SnapshotResult).Text
}

// with is the desk for a subtest.
func (d *desk) with(t *testing.T) *desk {
	c := *d
	c.TB = t
	return &c
}

func (p *pages) set(path, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body[path] = body
}

// wantSoon waits for an expression's value: of what crosses origins by message.
func (d *desk) wantSoon(expression, want string) {
	d.Helper()
	for end := time.Now().Add(5 * time.Second); d.js(expression) != want && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	d.want(expression, want)
}

func (p *pages) handle(path string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.other[path] = h
}
