package guard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"chaperone/internal/surface/guard"
)

// pipes is a listener of net.Pipe, whose deadlines run by a bubble's clock.
type pipes struct {
	net.Listener
	in chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.in
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// A caller who sends no body, or doesn't take its answer, holds nothing for long;
// one whose stream goes on, and one whose handler takes its time, are left alone.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type end struct {
			err  error
			took time.Duration
		}
		ended := make(chan end, 1)
		over := func(began time.Time, err error) { ended <- end{err, time.Since(began)} }
		server := &http.Server{Handler: guard.New(guard.Config{Origin: origin},
			guard.Route{Method: "POST", Path: "/oauth/token", Who: guard.Nobody, Handler: func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				_, err := io.ReadAll(r.Body)
				time.Sleep(2 * time.Minute) // the work itself
				if err == nil {
					err = r.Context().Err()
				}
				over(began, err)
			}},
			guard.Route{Method: "GET", Path: "/oauth/much", Who: guard.Nobody, Handler: func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				_, err := w.Write(make([]byte, 1<<20))
				over(began, err)
			}},
			guard.Route{Method: "GET", Path: "/oauth/stream", Who: guard.Nobody, Handler: func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				var err error
				for range 3 {
					fmt.Fprint(w, "x\n")
					err = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Minute)
				}
				over(began, err)
			}})}
		l := pipes{in: make(chan net.Conn)}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		open := func(text string) net.Conn {
			mine, theirs := net.Pipe()
			l.in <- theirs
			if _, err := io.WriteString(mine, text); err != nil {
				t.Fatal(err)
			}
			return mine
		}
		const post = "POST /oauth/token HTTP/1.1\r\nHost: localhost:7080\r\nContent-Length: 4\r\n\r\n"

		c := open(post + "ab")
		if e := <-ended; e.err == nil || e.took > 3*time.Minute {
			t.Errorf("half a body: %v after %v", e.err, e.took)
		}
		c.Close()
		c = open("GET /oauth/much HTTP/1.1\r\nHost: localhost:7080\r\n\r\n")
		if e := <-ended; e.err == nil || e.took > time.Minute {
			t.Errorf("an answer that nobody reads: %v after %v", e.err, e.took)
		}
		c.Close()

		c = open(post + "abcd")
		in := bufio.NewReader(c)
		if e := <-ended; e.err != nil {
			t.Errorf("a handler that takes its time: %v", e.err)
		}
		if r, err := http.ReadResponse(in, nil); err != nil || r.StatusCode != 200 {
			t.Errorf("its answer: %v %v", r, err)
		}
		go io.WriteString(c, "GET /oauth/stream HTTP/1.1\r\nHost: localhost:7080\r\nConnection: close\r\n\r\n")
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r.Body); err != nil || string(data) != "x\nx\nx\n" {
			t.Errorf("a stream: %q %v", data, err)
		}
		if e := <-ended; e.err != nil {
			t.Errorf("a stream: %v", e.err)
		}
		c.Close()
		close(l.in)
		server.Close()
		<-served
	})
}

// Whose rate counts can't be chosen: not by a header of one's own, and not by the
// many addresses that one customer of IPv6 has.
func TestPeer(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}
	for _, c := range []struct {
		from string
		told []string
		want string
	}{
		{"192.0.2.1:5", nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1"},
		{"[::ffff:192.0.2.1]:5", nil, "192.0.2.1"},
		{"[2001:db8:1:2:3::4]:5", nil, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::1]:5", nil, "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:5", nil, "fe80::/64"},
		{"10.0.0.9:5", nil, "10.0.0.9"},
		{"10.0.0.9:5", []string{"198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.9:5", []string{"1.1.1.1, 198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.9:5", []string{"1.1.1.1", "198.51.100.7"}, "198.51.100.7"}, // the proxy added a line
		{"10.0.0.9:5", []string{"198.51.100.7", ""}, "10.0.0.9"},
		{"10.0.0.9:5", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{"[fd00::9]:5", []string{"198.51.100.7"}, "198.51.100.7"},
		{"@", nil, "@"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.from
		for _, told := range c.told {
			r.Header.Add("X-Forwarded-For", told)
		}
		if got := guard.Peer(proxies, r); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.from, c.told, got, c.want)
		}
	}
}
