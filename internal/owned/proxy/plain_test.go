package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const openScope = `
allow:
  - host: a.test
    ports: "*"
    resolves_to: [127.0.0.0/8]
  - host: b.test
    ports: "*"
    resolves_to: [127.0.0.0/8]
  - host: 127.0.0.5
    ports: "*"
  - host: localhost
    ports: "*"
  - host: special.test
    ports: "*"
`

func TestPlainRequests(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	w.name("b.test", "127.0.0.3")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(rw, r, "http://evil.test/", http.StatusFound)
		case "/fake":
			rw.Header().Set("X-Chaperone-Refusal", "no_rule")
			rw.Header().Set("Trailer", "X-After")
			io.WriteString(rw, "x")
			rw.Header().Set("X-After", "1")
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s", r.Host, body)
		}
	})
	c := w.client(false)
	base := fmt.Sprintf("http://a.test:%d", s.port())
	if got, want := fetch(t, c, "GET", base+"/x?q=1", "X-Forwarded-For", "1.2.3.4", "X-HTTP-Method-Override", "DELETE"), fmt.Sprintf("200 a.test:%d ", s.port()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	answer, err := c.Post(base+"/post", "text/plain", strings.NewReader(strings.Repeat("y", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if len(body) < 1<<20 {
		t.Errorf("a megabyte became %d bytes", len(body))
	}
	// Each hop of a redirect is a request of its own.
	if got := fetch(t, c, "GET", base+"/redirect"); !strings.HasPrefix(got, "302") {
		t.Errorf("got %q", got)
	}
	if got := fetch(t, c, "GET", "http://evil.test/"); got != "403 no_rule" {
		t.Errorf("the redirect's hop: got %q", got)
	}
	// Only the proxy says that it refused.
	if got := fetch(t, c, "GET", base+"/fake"); got != "200 x" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff([]string{"GET /x?q=1", "POST /post", "GET /redirect", "GET /fake"}, s.requests()); diff != "" {
		t.Error(diff)
	}
	if s.head[0].Get("X-Forwarded-For") != "1.2.3.4" || s.head[0].Get("X-HTTP-Method-Override") != "DELETE" {
		t.Errorf("a page's own headers were lost without any rule that asks for it: %v", s.head[0])
	}
	for _, h := range s.head {
		if h.Get("Via") != "" || h.Get("Proxy-Connection") != "" {
			t.Errorf("the site was told of the proxy: %v", h)
		}
	}
}

func TestRefusalTellsRuleAndFix(t *testing.T) {
	w := newWorld(t, "allow:\n  - host: a.test\n    resolves_to: [127.0.0.0/8]\n")
	w.name("a.test", "127.0.0.2")
	c := w.client(false)
	get := func(accept, url string) (string, http.Header) {
		r, _ := http.NewRequest("GET", url, nil)
		r.Header.Set("Accept", accept)
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return string(body), answer.Header
	}
	text, header := get("*/*", "http://a.test:8080/secret?token=1")
	want := "The scope of this run doesn't allow this request.\nReason: port\nRule: allow[0] a.test\nTo change that: add 8080 to ports of allow[0] a.test\n"
	if diff := cmp.Diff(want, text); diff != "" || header.Get("X-Chaperone-Refusal") != "port" || header.Get("Cache-Control") != "no-store" {
		t.Error(diff, header)
	}
	page, header := get("text/html,*/*", "http://a.test:8080/secret?token=1")
	if !strings.Contains(page, "add 8080 to ports") || strings.Contains(page, "secret") || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("page: %s", page)
	}
	if got := fetch(t, c, "GET", "http://a.test/"); got != "502 unreachable" {
		t.Errorf("nothing listens there: got %q", got)
	}
}

func TestMalformedRequests(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	port := s.port()
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                                // not a proxy request
		fmt.Sprintf("GET https://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                            // https in the clear
		fmt.Sprintf("GET ws://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                               // goes by CONNECT
		"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                    //
		fmt.Sprintf("GET http://u:p@a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                         // userinfo
		fmt.Sprintf("GET http://evil.test\\@a.test:%d/ HTTP/1.1\r\nHost: a.test\r\n\r\n", port),                                 // backslash
		"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                            //
		"GET http:/// HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                         //
		"CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                       // no port
		"CONNECT u@a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                 //
		"CONNECT http://a.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                           //
		"CONNECT a.test:0 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                     //
		"CONNECT a.test:99999 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                                 //
		"CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",                                                           //
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", port), // two lengths
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nX : y\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", port),
		fmt.Sprintf("GET http://a.test:%d/ HTTP/1.1\r\nHost: a.test\r\nX: %s\r\n\r\n", port, strings.Repeat("y", 100<<10)),
	} {
		c := w.dial()
		io.WriteString(c, head)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%.60q: %v", head, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("%.60q: %s", head, answer.Status)
		}
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("the site was reached: %v", got)
	}
}

// A request in a request's body stays in the body, however its length is told.
func TestSmuggling(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", func(rw http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	inner := fmt.Sprintf("GET /smuggled HTTP/1.1\r\nHost: a.test:%d\r\n\r\n", s.port())
	for _, head := range []string{
		fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner), // CL.TE
		fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
		fmt.Sprintf("Connection: Content-Length\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
	} {
		c := w.dial()
		fmt.Fprintf(c, "POST http://a.test:%d/outer HTTP/1.1\r\nHost: ignored.test\r\nConnection: close\r\n%s", s.port(), head)
		io.Copy(io.Discard, c)
	}
	for _, r := range s.requests() {
		if r != "POST /outer" {
			t.Errorf("the site saw %q", r)
		}
	}
	for _, h := range s.host {
		if h != fmt.Sprintf("a.test:%d", s.port()) {
			t.Errorf("the site saw Host %q: the URL's must win", h)
		}
	}
}
