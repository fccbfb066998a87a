package proxy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/owned/proxy"
	"chaperone/internal/owned/scope"
)

// Decisions are recorded when they are made, not when a connection ends.
func TestRecordedAtTheStart(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello, "a.test")
	c, status := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	if status != "200" {
		t.Fatal(status)
	}
	defer c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.records) != 1 {
		t.Fatalf("%d records while the tunnel is open", len(w.records))
	}
	got := w.records[0]
	want := scope.Record{
		At: got.At, Layer: "proxy", Host: "a.test", Port: s.port(), Method: "CONNECT", Address: netip.MustParseAddr("127.0.0.2"),
		Decision: scope.Decision{Allowed: true, Code: "allowed", Rule: "allow[0] a.test"},
	}
	if got != want || time.Since(got.At) > time.Minute {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// At not_after everything open is closed, and nothing new opens.
func TestTunnelsEndWithTheWindow(t *testing.T) {
	end := time.Now().Add(1500 * time.Millisecond)
	w := newWorld(t, openScope+"not_after: "+end.UTC().Format(time.RFC3339Nano)+"\n")
	w.name("a.test", "127.0.0.2")
	hang := func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s, plain := w.serve("127.0.0.2", hang, "a.test"), w.serve("127.0.0.2", hang)
	raw, status := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	if status != "200" {
		t.Fatal(status)
	}
	c := tls.Client(raw, &tls.Config{ServerName: "a.test", RootCAs: w.pool})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan string)
	go func() { waiting <- fetch(t, w.client(false), "GET", fmt.Sprintf("http://a.test:%d/", plain.port())) }()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := c.Read(make([]byte, 1))
	if timeout, ok := err.(net.Error); err == nil || ok && timeout.Timeout() {
		t.Errorf("the tunnel outlived not_after: %v", err)
	}
	if time.Now().Before(end) {
		t.Error("closed too early")
	}
	if got := <-waiting; !strings.HasPrefix(got, "error") {
		t.Errorf("a request outlived not_after: %q", got)
	}
	if _, status := w.connect(fmt.Sprintf("a.test:%d", s.port())); status != "403 window" {
		t.Errorf("a new tunnel: %s", status)
	}
}

// A header that never ends, and a tunnel that never says anything, don't keep
// others out; 1,000 connections at once are served, and one over the limit is
// told so.
func TestManyAndSlowConnections(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	var slow []net.Conn
	for i := range 900 {
		c := w.dial()
		if i%2 == 0 {
			io.WriteString(c, "GET http://a.test/ HTT")
		}
		slow = append(slow, c)
	}
	var wait sync.WaitGroup
	results := make(chan string, 100)
	for range 100 {
		wait.Go(func() {
			c := w.client(false)
			results <- fetch(t, c, "GET", fmt.Sprintf("http://a.test:%d/", s.port()))
			c.CloseIdleConnections()
		})
	}
	wait.Wait()
	close(results)
	for got := range results {
		if !strings.HasPrefix(got, "200") {
			t.Fatalf("beside 900 slow ones: %q", got)
		}
	}
	full := false
	for range 300 {
		c := w.dial()
		slow = append(slow, c)
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		b := make([]byte, 512)
		if n, _ := c.Read(b); strings.Contains(string(b[:n]), "X-Chaperone-Refusal: too_many") {
			full = true
			break
		}
	}
	if !full {
		t.Error("there is no limit of connections")
	}
	for _, c := range slow {
		c.Close()
	}
}

// What never finishes its header, its ClientHello or its handshake is closed.
func TestSlowLoris(t *testing.T) {
	w := newHastyWorld(t, openScope+"  - host: c.test\n    ports: \"*\"\n    paths: [/]\n    resolves_to: [127.0.0.0/8]\n", 300*time.Millisecond)
	w.name("a.test", "127.0.0.2")
	w.name("c.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello, "a.test")
	plain := w.dial()
	silent, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	halfHello, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	handshake, _ := w.connect(fmt.Sprintf("c.test:%d", s.port()))
	inside, _ := w.connect(fmt.Sprintf("c.test:%d", s.port()))
	flight := clientHello(t, &tls.Config{ServerName: "a.test"})
	io.WriteString(plain, "GET http://a.test/ HTTP/1.1\r\nX: ")
	halfHello.Write(flight[:100])
	handshake.Write(flight[:100])
	io.WriteString(inside, "GET / HTTP/1.1\r\nX: ")
	for name, c := range map[string]net.Conn{"header": plain, "nothing in a tunnel": silent, "half a ClientHello": halfHello, "half a handshake": handshake, "header in a tunnel": inside} {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := io.ReadAll(c)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Errorf("%s: kept open", name)
		}
	}
}

// Whichever side goes first, the other one is told and nothing is left.
func TestEitherSideEndsEarly(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	gone := make(chan struct{}, 1)
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			io.WriteString(rw, "half")
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/wait":
			<-r.Context().Done()
			gone <- struct{}{}
		}
	})
	c := w.client(false)
	base := fmt.Sprintf("http://a.test:%d", s.port())
	answer, err := c.Get(base + "/cut")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("half an answer passed for a whole one")
	}
	answer.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", base+"/wait", nil)
	if _, err := c.Do(r); err == nil {
		t.Error("no error for the client that left")
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the site still works for a client that left")
	}
	// An upstream that closes at once ends the tunnel.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	raw, _ := w.connect(fmt.Sprintf("a.test:%d", l.Addr().(*net.TCPAddr).Port))
	if err := tls.Client(raw, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("a handshake with nobody")
	}
}

// Close ends what is open and leaves nothing running (see TestMain).
func TestClose(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "a.test")
	raw, _ := w.connect(fmt.Sprintf("a.test:%d", s.port()))
	c := tls.Client(raw, &tls.Config{ServerName: "a.test", RootCAs: w.pool})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := w.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel outlived the proxy")
	}
	if err := w.proxy.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.proxy.Serve(l); err == nil {
		t.Error("served after Close")
	}
	if _, err := proxy.New(proxy.Config{}); err == nil {
		t.Error("a proxy without a scope")
	}
}
