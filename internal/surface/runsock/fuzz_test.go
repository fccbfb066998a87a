package runsock_test

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzRequests sends any bytes to a living host. Without its credential nothing
// may ever be a success, whatever the bytes, and the session goes on.
func FuzzRequests(f *testing.F) {
	h := start(f, options{})
	s := h.open()
	head := "POST /v1/browser/action HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Type: application/json\r\n"
	for _, request := range []string{
		head + "Authorization: Bearer " + strings.Repeat("0", 64) + "\r\nContent-Length: 2\r\n\r\n{}",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST /v1/browser/handshake HTTP/1.0\r\n\r\n",
	} {
		f.Add([]byte(request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("unix", filepath.Join(h.registry, "browser.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			conn.Write(request)
			conn.(*net.UnixConn).CloseWrite()
		}()
		answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
		if err != nil || len(answer) == 0 {
			return // cut off: that is an answer too
		}
		_, rest, _ := strings.Cut(string(answer), " ")
		status, err := strconv.Atoi(rest[:min(3, len(rest))])
		if err != nil || !slices.Contains([]int{100, 400, 401, 403, 404, 405, 413, 415, 417, 431, 501, 505}, status) {
			t.Errorf("%q got %q", request, answer[:min(200, len(answer))])
		}
	})
	s.must("list_tabs", "{}")
}
