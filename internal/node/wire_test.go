package node_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"chaperone/internal/node"
	"chaperone/internal/storetest"
)

// said is what a server answered on a bare connection.
type said struct {
	responses []*http.Response
	closed    bool // by the server, without being asked
}

// say writes bytes to the server's port as they are, and reads what comes of them.
func (s *server) say(text string) said {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.config.Listen)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "HOST", strings.TrimPrefix(s.origin, "http://"))); err != nil {
		s.t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	var out said
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			ne, ok := err.(net.Error)
			out.closed = !ok || !ne.Timeout()
			return out
		}
		io.Copy(io.Discard, r.Body)
		out.responses = append(out.responses, r)
	}
}

// What a request line can say reaches no other host and no private path by another
// way, and whatever is answered is for nobody to keep.
func TestRequestLines(t *testing.T) {
	s := stand(t, nil)
	address := s.config.Listen
	for line, want := range map[string]int{
		"GET /api/session HTTP/1.1\r\nHost: HOST":                     401,
		"GET http://HOST/api/session HTTP/1.1\r\nHost: evil.test":     401, // the line decides, and it is ours
		"GET http://evil.test/api/session HTTP/1.1\r\nHost: HOST":     421,
		"GET /readyz HTTP/1.0":                                        421,
		"GET x:@evil.test/ HTTP/1.1\r\nHost: " + address:              421,
		"GET x:@evil.test/ HTTP/1.1\r\nHost: HOST":                    400,
		"GET //evil.test/x HTTP/1.1\r\nHost: " + address:              307,
		"GET /x?next=//evil.test HTTP/1.1\r\nHost: " + address:        307,
		"OPTIONS * HTTP/1.1\r\nHost: evil.test":                       421,
		"OPTIONS * HTTP/1.1\r\nHost: HOST":                            400,
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443":       421,
		"GET //api/session HTTP/1.1\r\nHost: HOST":                    307,
		"GET /x/../api/session HTTP/1.1\r\nHost: HOST":                307,
		"GET /api/../api/session HTTP/1.1\r\nHost: HOST":              404,
		"GET /%2e%2e/api/session HTTP/1.1\r\nHost: HOST":              404,
		"GET /api/session%00 HTTP/1.1\r\nHost: HOST":                  400,
		"GET /collections/%ff HTTP/1.1\r\nHost: HOST":                 400,
		"GET /api/session;x HTTP/1.1\r\nHost: HOST":                   404,
		"GET /api/audit?limit=5&limit=%zz HTTP/1.1\r\nHost: HOST":     400,
		"GET /api/audit?before=%00 HTTP/1.1\r\nHost: HOST":            400,
		"GET /API/session HTTP/1.1\r\nHost: HOST":                     404,
		"GET /assets/..%5c..%5cetc HTTP/1.1\r\nHost: HOST":            400,
		"GET /docs//server HTTP/1.1\r\nHost: HOST":                    307,
		"GET /idp/../api/session HTTP/1.1\r\nHost: HOST":              404,
		"TRACE / HTTP/1.1\r\nHost: HOST":                              405,
		"OPTIONS /api/session HTTP/1.1\r\nHost: HOST\r\nOrigin: null": 405,
	} {
		got := s.say(line + "\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
		if len(got.responses) != 1 {
			t.Errorf("%q: %d answers", line, len(got.responses))
			continue
		}
		r := got.responses[0]
		if r.StatusCode != want {
			t.Errorf("%q: %d, want %d", line, r.StatusCode, want)
		}
		if to := r.Header.Get("Location"); to != "" && !strings.HasPrefix(to, s.origin+"/") && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//")) {
			t.Errorf("%q: sent to %q", line, to)
		}
		for name, value := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%q: %s is %q", line, name, got)
			}
		}
		if !strings.Contains(r.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: headers %v", line, r.Header)
		}
	}
}

// A body that two readers could end at different places ends its connection, so
// that what stands behind it is nobody's request.
func TestBodiesThatEndTwice(t *testing.T) {
	s := stand(t, nil)
	const head = "POST /idp/api/enrol/open HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
	const behind = "GET /readyz HTTP/1.1\r\nHost: HOST\r\n\r\n"
	for name, text := range map[string]string{
		"chunked and a length":   head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + behind,
		"chunked":                head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + behind,
		"two lengths":            head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}\r\n" + behind,
		"a list of lengths":      head + "Content-Length: 2, 4\r\n\r\n{}\r\n" + behind,
		"a signed length":        head + "Content-Length: +2\r\n\r\n{}" + behind,
		"an encoding of old":     head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + behind,
		"chunked by HTTP/1.0":    strings.Replace(head, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + behind,
		"a space before :":       head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + behind,
		"a chunk's length in 0x": head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + behind,
	} {
		if got := s.say(text); len(got.responses) != 1 || !got.closed {
			t.Errorf("%s: %d answers, closed: %v", name, len(got.responses), got.closed)
		}
	}
	if got := s.say(head + "Content-Length: 2\r\n\r\n{}" + behind); len(got.responses) != 2 {
		t.Errorf("one after the other: %d answers", len(got.responses))
	}
}

// Text that a database can't look up is refused as such, whichever it is: NUL and
// what isn't UTF-8, in a path, a query or a body.
func TestTextThatNoDatabaseTakes(t *testing.T) {
	url := storetest.Postgres(t)
	s := stand(t, func(c *node.Config) { c.Database = url })
	o := s.settle("Ada")
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/api/connections/%00", nil}, {"DELETE", "/api/connections/%00", map[string]any{}}, {"DELETE", "/api/tokens/%ff", map[string]any{}},
		{"GET", "/api/collections/%ff/items", nil}, {"GET", "/api/oauth/requests/%00", nil}, {"DELETE", "/api/sessions/%00", map[string]any{}},
		{"GET", "/api/audit?before=%00", nil}, {"GET", "/api/collections/files/items?query=%00", nil}, {"GET", "/api/collections/files/items?cursor=%ff", nil},
		{"POST", "/api/collections", map[string]any{"title": "a\x00b"}},
		{"PUT", "/api/collections/files/item", map[string]any{"item": "a\x00b", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a01", "content": "", "if_absent": true}},
		{"PUT", "/api/collections/files/item", map[string]any{"item": "a", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a02", "content": "", "if_absent": true, "metadata": map[string]any{"k\x00": "v\x00"}}},
		{"PUT", "/api/collections/files/item", map[string]any{"item": "a", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a03", "content": "", "if_absent": true, "media_type": "text/\x00"}},
		{"PUT", "/api/collections/files/item", map[string]any{"item": "a", "request_id": "0b7e3a52-0b0c-4c53-9d0e-7f7f2b1f9a04", "content": "", "if_version": "\x00"}},
		{"POST", "/api/tokens", map[string]any{"name": "a\x00b", "scopes": []string{"collections"}, "expires_in_s": 60, "selection": []any{map[string]any{"collection": "files", "functions": []string{"item_read"}}}}},
		{"POST", "/api/tokens", map[string]any{"name": "a", "scopes": []string{"collections"}, "expires_in_s": 60, "selection": []any{map[string]any{"collection": "\x00", "functions": []string{"item_read"}}}}},
		{"POST", "/api/tokens", map[string]any{"name": "a", "scopes": []string{"owned:\x00"}, "expires_in_s": 60}},
		{"POST", "/api/automation/confirm", map[string]any{"receipt_id": "\x00", "digest": "\x00"}},
		{"POST", "/api/automation/prepare", map[string]any{"tool": "\x00", "arguments": map[string]any{}}},
		{"POST", "/api/step-up", map[string]any{"next": "/\x00"}},
		{"POST", "/api/oauth/requests/x/approve", map[string]any{"scopes": []string{"\x00"}, "days": 1}},
		{"POST", "/idp/api/login/begin", map[string]any{"request": "\x00"}}, {"POST", "/idp/api/login/recover", map[string]any{"request": "\x00", "code": "aaaa-aaaa-aaaa-aaaa"}},
		{"POST", "/idp/api/enrol/open", map[string]any{"secret": "\x00"}}, {"POST", "/idp/api/enrol/begin", map[string]any{"secret": "\x00", "name": "\x00"}},
		{"GET", "/idp/login?authRequestID=%00", nil}, {"GET", "/idp/authorize/callback?id=%ff", nil}, {"GET", "/auth/callback?state=%00&code=%00", nil},
		{"GET", "/oauth/authorize?client_id=%00&redirect_uri=x", nil}, {"POST", "/oauth/register", map[string]any{"redirect_uris": []string{"https://x.example/\x00"}, "client_name": "\x00"}},
	} {
		status, body := o.send(c.method, c.path, c.body, o.dress)
		if status < 400 || status > 499 {
			t.Errorf("%s %s %v: %d %s", c.method, c.path, c.body, status, body)
		}
	}
	for _, form := range []string{"grant_type=authorization_code&client_id=%00&code=%00&redirect_uri=x&code_verifier=x", "grant_type=refresh_token&client_id=%ff&refresh_token=chap_rt_" + strings.Repeat("a", 64),
		"token=%00&client_id=%00", "token=%ff&client_id=x"} {
		for _, path := range []string{"/oauth/token", "/oauth/revoke", "/idp/oauth/token", "/idp/revoke", "/idp/oauth/introspect", "/auth/backchannel-logout"} {
			r, err := http.Post(s.origin+path, "application/x-www-form-urlencoded", strings.NewReader(form))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode > 499 {
				t.Errorf("%s %s: %d", path, form, r.StatusCode)
			}
		}
	}
}
