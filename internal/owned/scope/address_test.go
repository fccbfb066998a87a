package scope_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/scope"
)

const addressScope = `engagement: x
allow:
  - host: public.example.com
  - host: inner.example.com
    resolves_to: [10.1.0.0/24, "fd00::/8", 203.0.113.7]
  - host: wide.example.com
    resolves_to: [0.0.0.0/0, "::/0"]
  - host: localhost
  - host: 192.168.7.7
  - cidr: 172.16.0.0/12
  - host: meta.example.com
    resolves_to: [169.254.169.254, 168.63.129.16]
  - host: paths.example.com
    paths: ["/in/**"]
    resolves_to: [10.9.0.0/16]
  - host: paths.example.com
  - host: mapped.example.com
    resolves_to: ["::ffff:10.1.0.0/120", "64:ff9b::/96"]
deny:
  - cidr: 10.1.0.128/25
  - host: 93.184.216.66
  - cidr: 10.9.9.0/24
    paths: ["/in/secret"]
`

// What a name may resolve to, with "own" where the address is one of this
// host's interfaces.
func TestAddresses(t *testing.T) {
	s, err := scope.Parse("s.yaml", []byte(addressScope))
	if err != nil {
		t.Fatal(err)
	}
	rows := `
https://public.example.com/ 93.184.216.34 allowed
https://public.example.com/ 2606:4700::1111 allowed
https://public.example.com/ 93.184.216.66 denied_by_rule
https://public.example.com/ ::ffff:93.184.216.66 denied_by_rule
https://public.example.com/ 64:ff9b::5db8:d842 denied_by_rule
https://public.example.com/ 2002:5db8:d842:: denied_by_rule
https://public.example.com/ 93.184.216.34 address own
https://public.example.com/ 2606:4700::1111 address own
https://inner.example.com/ 203.0.113.7 allowed own
https://inner.example.com/ 10.1.0.5 allowed own
https://inner.example.com/ 10.1.0.5 allowed
https://inner.example.com/ 10.1.0.200 denied_by_rule
https://inner.example.com/ 10.1.1.5 address
https://inner.example.com/ 127.0.0.1 address
https://inner.example.com/ fd00::1 allowed
https://inner.example.com/ fc00::1 address
https://inner.example.com/ fe80::1 address
https://inner.example.com/ fd00:ec2::254 metadata
https://wide.example.com/ 8.8.8.8 allowed
https://wide.example.com/ 10.0.0.1 address
https://wide.example.com/ ::1 address
https://wide.example.com/ 169.254.169.254 metadata
http://localhost/ 127.0.0.1 allowed
http://localhost/ 127.0.0.9 allowed
http://localhost/ ::1 allowed
http://localhost/ 127.0.0.1 allowed own
http://localhost/ ::ffff:127.0.0.1 address
http://localhost/ 10.0.0.1 address
http://localhost/ 0.0.0.0 address
http://192.168.7.7/ 192.168.7.7 allowed
http://192.168.7.7/ 192.168.7.7 allowed own
http://172.20.0.1/ 172.20.0.1 allowed
http://172.20.0.1/ 192.168.0.1 address
https://meta.example.com/ 169.254.169.254 metadata
https://meta.example.com/ 168.63.129.16 metadata
https://paths.example.com/in/x 10.9.0.1 allowed
https://paths.example.com/out 10.9.0.1 address
https://paths.example.com/in/x 10.9.9.1 allowed
https://paths.example.com/in/secret 10.9.9.1 denied_by_rule
https://mapped.example.com/ ::ffff:10.1.0.5 allowed
https://mapped.example.com/ 10.1.0.5 address
https://mapped.example.com/ ::ffff:10.1.0.200 denied_by_rule
https://mapped.example.com/ 64:ff9b::808:808 allowed
https://mapped.example.com/ 64:ff9b::a9fe:a9fe metadata
https://other.example.com/ 8.8.8.8 no_rule
`
	for line := range strings.Lines(strings.TrimSpace(rows)) {
		f := strings.Fields(line)
		target, err := scope.ParseURL(f[0])
		if err != nil {
			t.Fatal(err)
		}
		decide := s.DecideAddress
		if len(f) > 3 {
			decide = s.DecideOwnAddress
		}
		if got := decide(target, netip.MustParseAddr(f[1]), noon); string(got.Code) != f[2] || got.Allowed != (f[2] == "allowed") {
			t.Errorf("%s got %s (%s)", strings.TrimSpace(line), got.Code, got.Rule)
		}
	}
}

// Every special range is refused for a name that names none.
func TestSpecialRanges(t *testing.T) {
	s, err := scope.FromHosts("x", "a.example.com")
	if err != nil {
		t.Fatal(err)
	}
	target, err := scope.ParseURL("https://a.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range strings.Fields(`0.0.0.0 0.1.1.1 10.0.0.1 100.64.0.1 127.0.0.1 127.255.0.1 169.254.1.1 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1
		192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:8.8.8.8 64:ff9b::808:808 64:ff9b:1::808:808
		100::1 2001::1 2001:2::1 2001:10::1 2001:db8::1 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 fe80::1%lo`) {
		if d := s.DecideAddress(target, netip.MustParseAddr(a), noon); d.Allowed || d.Code != "address" {
			t.Errorf("%s: %+v", a, d)
		}
	}
	for _, a := range strings.Fields(`169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: ::a9fe:a9fe`) {
		if d := s.DecideAddress(target, netip.MustParseAddr(a), noon); d.Allowed || d.Code != "metadata" {
			t.Errorf("%s: %+v", a, d)
		}
	}
	if d := s.DecideAddress(target, netip.Addr{}, noon); d.Allowed {
		t.Error("no address at all is allowed")
	}
}

func TestTunnels(t *testing.T) {
	s, err := scope.Parse("s.yaml", []byte(`engagement: x
allow:
  - host: free.example.com
  - host: any.example.com
    ports: "*"
  - host: path.example.com
    paths: ["/in/**"]
  - host: method.example.com
    methods: [GET]
  - host: https.example.com
    schemes: [https]
  - host: plain.example.com
    schemes: [http, ws]
    ports: [8080]
  - host: both.example.com
    paths: ["/in/**"]
  - host: both.example.com
  - host: halfdenied.example.com
  - host: nosocket.example.com
  - host: closed.example.com
  - host: inner.example.com
    resolves_to: [10.0.0.0/8]
  - host: innerpath.example.com
    paths: ["/in/**"]
    resolves_to: [10.0.0.0/8]
  - host: innerpath.example.com
    schemes: [https, wss]
deny:
  - host: halfdenied.example.com
    paths: ["/admin/**"]
  - host: nosocket.example.com
    schemes: [ws, wss]
  - host: closed.example.com
    ports: [443]
`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range strings.Fields(`free.example.com:443 FREE.example.com.:443 free.example.com:80 free.example.com:8443 any.example.com:8443 path.example.com:443 path.example.com:80 method.example.com:443
		https.example.com:443 https.example.com:80 plain.example.com:8080 plain.example.com:443 both.example.com:443 halfdenied.example.com:443 halfdenied.example.com:80 nosocket.example.com:443
		nosocket.example.com:80 closed.example.com:443 closed.example.com:80 other.example.com:443 innerpath.example.com:443`) {
		host, port, err := scope.ParseAuthority(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		tn := s.Tunnel(host, port, noon)
		d, intercept := s.DecideTunnel(host, port, noon)
		if d != tn.Decision || intercept != tn.Intercept {
			t.Errorf("%s: DecideTunnel differs from Tunnel", a)
		}
		text := string(tn.Code)
		for _, f := range []struct {
			on   bool
			name string
		}{{tn.TLS, "tls"}, {tn.Plain, "plain"}, {tn.Intercept, "opened"}} {
			if f.on {
				text += " " + f.name
			}
		}
		got[a] = text
	}
	want := map[string]string{
		"free.example.com:443": "allowed tls", "FREE.example.com.:443": "allowed tls", "free.example.com:80": "allowed plain", "free.example.com:8443": "port",
		"any.example.com:8443": "allowed tls plain", "path.example.com:443": "allowed tls opened", "path.example.com:80": "allowed plain", "method.example.com:443": "allowed tls opened",
		"https.example.com:443": "allowed tls opened", "https.example.com:80": "port", "plain.example.com:8080": "allowed plain", "plain.example.com:443": "port",
		"both.example.com:443": "allowed tls", "halfdenied.example.com:443": "allowed tls opened", "halfdenied.example.com:80": "allowed plain",
		"nosocket.example.com:443": "allowed tls opened", "nosocket.example.com:80": "allowed plain", "closed.example.com:443": "denied_by_rule", "closed.example.com:80": "allowed plain",
		"other.example.com:443": "no_rule", "innerpath.example.com:443": "allowed tls",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !s.NeedsCA() || !s.LimitsMethods() {
		t.Error("NeedsCA and LimitsMethods must be true here")
	}
	// In a tunnel that stays closed, a rule for some paths names no address.
	ten := netip.MustParseAddr("10.0.0.1")
	for host, want := range map[string]bool{"inner.example.com": true, "innerpath.example.com": false, "free.example.com": false} {
		if d := s.DecideAddress(scope.Target{Host: host, Port: 443}, ten, noon); d.Allowed != want {
			t.Errorf("tunnel to %s at %s: %+v", host, ten, d)
		}
	}
	for _, host := range []string{"", "a b", "a@b", "user:1", "*.example.com", "a%2eb"} {
		if tn := s.Tunnel(host, 443, noon); tn.Allowed || tn.Code != "malformed" {
			t.Errorf("tunnel to %q: %+v", host, tn)
		}
	}
	for _, port := range []int{0, -1, 65536} {
		if tn := s.Tunnel("any.example.com", port, noon); tn.Allowed {
			t.Errorf("tunnel to port %d is allowed", port)
		}
	}
}

// A refusal names the rule, and its fix, followed, widens the scope.
func TestFixes(t *testing.T) {
	s, err := scope.Parse("s.yaml", []byte("engagement: x\nallow:\n  - host: a.example.com\n    schemes: [https]\n    ports: [443]\n    methods: [GET]\n    paths: [/p]\ndeny:\n  - host: d.example.com\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, q := range []string{"GET https://b.example.com/", "GET https://b.example.com:8443/x", "GET http://[2606:4700::1]:81/", "GET http://a.example.com:443/p", "GET https://a.example.com:444/p", "POST https://a.example.com/p", "BAD\nMETHOD https://a.example.com/p", "GET https://a.example.com/secret-token", "GET https://d.example.com/"} {
		method, url, _ := strings.Cut(q, " ")
		target, err := scope.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		target.Method = method
		got[q] = s.Decide(target, noon).Fix
	}
	want := map[string]string{
		"GET https://b.example.com/":             "add under allow:  - host: b.example.com",
		"GET https://b.example.com:8443/x":       "add under allow:  - {host: b.example.com, ports: [8443]}",
		"GET http://[2606:4700::1]:81/":          `add under allow:  - {host: "2606:4700::1", ports: [81]}`,
		"GET http://a.example.com:443/p":         "add http to schemes of allow[0] a.example.com",
		"GET https://a.example.com:444/p":        "add 444 to ports of allow[0] a.example.com",
		"POST https://a.example.com/p":           "add POST to methods of allow[0] a.example.com",
		"BAD\nMETHOD https://a.example.com/p":    "add the method to methods of allow[0] a.example.com",
		"GET https://a.example.com/secret-token": "add this path to paths of allow[0] a.example.com",
		"GET https://d.example.com/":             "remove deny[0] d.example.com: a deny rule always wins",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	target, _ := scope.ParseURL("https://a.example.com/p")
	if d := s.DecideAddress(target, netip.MustParseAddr("fd00::7"), noon); d.Fix != `add resolves_to: ["fd00::7"] to allow[0] a.example.com` {
		t.Error(d.Fix)
	}
	for _, text := range []string{fmt.Sprint(got)} {
		if strings.Contains(strings.ReplaceAll(text, "https://a.example.com/secret-token", ""), "secret") {
			t.Error("a fix holds a path")
		}
	}
}
