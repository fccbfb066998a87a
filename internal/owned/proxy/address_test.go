package proxy_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One look-up per connection; one bad address refuses the name; what was
// judged is what is dialled.
func TestRebinding(t *testing.T) {
	w := newWorld(t, `
allow:
  - host: a.test
    ports: "*"
    resolves_to: [127.0.0.2]
  - host: mixed.test
    ports: "*"
    resolves_to: [127.0.0.2]
`)
	good := w.serve("127.0.0.2", hello, "a.test")
	bad, err := net.Listen("tcp", fmt.Sprintf("127.0.0.66:%d", good.port()))
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	touched := make(chan struct{}, 100)
	go func() {
		for {
			c, err := bad.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			c.Close()
		}
	}()
	w.name("a.test", "127.0.0.2", "127.0.0.66", "127.0.0.2", "127.0.0.66")
	var got []string
	for range 4 {
		c, status := w.connect(fmt.Sprintf("a.test:%d", good.port()))
		got = append(got, status)
		c.Close()
	}
	if diff := cmp.Diff([]string{"200", "403 address", "200", "403 address"}, got); diff != "" {
		t.Error(diff)
	}
	if w.lookups["a.test"] != 4 {
		t.Errorf("%d look-ups for 4 connections", w.lookups["a.test"])
	}
	for _, order := range []string{"127.0.0.2 127.0.0.66", "127.0.0.66 127.0.0.2"} {
		w.name("mixed.test", order)
		if _, status := w.connect(fmt.Sprintf("mixed.test:%d", good.port())); status != "403 address" {
			t.Errorf("one bad address of %s: %s", order, status)
		}
	}
	select {
	case <-touched:
		t.Error("the denied address was dialled")
	default:
	}
}

func TestSpecialAddresses(t *testing.T) {
	w := newWorld(t, openScope)
	c := w.client(false)
	for _, a := range strings.Fields(`0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.1.1 172.16.0.1 192.0.0.1 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
		255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 2001::1 2001:db8::1 2002:7f00:1:: fc00::1 fe80::1 fe80::1%lo ff02::1`) {
		w.name("special.test", a)
		if got := fetch(t, c, "GET", "http://special.test/"); got != "403 address" {
			t.Errorf("plain, %s: got %q", a, got)
		}
		if _, status := w.connect("special.test:443"); status != "403 address" {
			t.Errorf("tunnel, %s: got %q", a, status)
		}
		c.CloseIdleConnections()
	}
	for _, a := range strings.Fields("169.254.169.254 fd00:ec2::254 100.100.100.200 168.63.129.16 64:ff9b::a9fe:a9fe") {
		w.name("special.test", a)
		if _, status := w.connect("special.test:80"); status != "403 metadata" {
			t.Errorf("tunnel, %s: got %q", a, status)
		}
	}
	w.name("special.test")
	if _, status := w.connect("special.test:443"); status != "502 unresolvable" {
		t.Errorf("no address: got %q", status)
	}
	for _, r := range w.recorded() {
		if strings.Contains(r, "allowed") {
			t.Errorf("recorded as allowed: %s", r)
		}
	}
}

// Addresses of this machine's interfaces are no business of a name either.
func TestOwnInterfacesAndListeners(t *testing.T) {
	w := newWorld(t, openScope)
	w.name("a.test", "127.0.0.2")
	s := w.serve("127.0.0.2", hello)
	everywhere := w.serve("0.0.0.0", hello)
	w.mu.Lock()
	w.own = []netip.AddrPort{s.addr, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(everywhere.port()))}
	w.mu.Unlock()
	c := w.client(false)
	for _, target := range []string{
		fmt.Sprintf("http://a.test:%d/", s.port()), fmt.Sprintf("http://a.test:%d/", everywhere.port()), fmt.Sprintf("http://127.0.0.5:%d/", everywhere.port()),
		"http://localhost:" + w.addr[strings.LastIndex(w.addr, ":")+1:] + "/", // the proxy itself
	} {
		w.name("localhost", "127.0.0.1")
		if got := fetch(t, c, "GET", target); got != "403 own_listener" {
			t.Errorf("%s: got %q", target, got)
		}
		c.CloseIdleConnections()
	}
	if len(s.requests())+len(everywhere.requests()) > 0 {
		t.Error("an own listener was reached")
	}
}

// A name whose allowed address depends on the path is judged per request.
func TestAddressGoesWithTheRule(t *testing.T) {
	w := newWorld(t, `
allow:
  - host: a.test
    ports: "*"
    paths: ["/in/**"]
    resolves_to: [127.0.0.2]
  - host: a.test
    ports: "*"
    methods: [GET]
`)
	w.name("a.test", "127.0.0.2")
	secure, plain := w.serve("127.0.0.2", hello, "a.test"), w.serve("127.0.0.2", hello)
	c := w.client(false)
	for _, base := range []string{fmt.Sprintf("https://a.test:%d", secure.port()), fmt.Sprintf("http://a.test:%d", plain.port())} {
		for _, r := range [][2]string{{"/in/x", "200"}, {"/out", "403 address"}, {"/in/y", "200"}} {
			if got := fetch(t, c, "GET", base+r[0]); !strings.HasPrefix(got, r[1]) {
				t.Errorf("%s%s: got %q, want %q", base, r[0], got, r[1])
			}
		}
	}
}
