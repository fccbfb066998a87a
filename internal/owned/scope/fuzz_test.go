package scope_test

import (
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/scope"
)

// FuzzParse: whatever is accepted has a canonical form that means the same.
func FuzzParse(f *testing.F) {
	scopes, _ := table(f)
	for _, s := range scopes {
		f.Add(string(s.YAML()))
	}
	data, err := os.ReadFile("testdata/errors.json")
	if err != nil {
		f.Fatal(err)
	}
	var rows []struct {
		File string `json:"file"`
	}
	if err := json.Unmarshal(data, &rows, json.RejectUnknownMembers(false)); err != nil {
		f.Fatal(err)
	}
	for _, r := range rows {
		f.Add(r.File)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scope.Parse("s.yaml", []byte(text))
		if err != nil {
			return
		}
		again, err := scope.Parse("s.yaml", s.YAML())
		if err != nil {
			t.Fatalf("%v\n%s", err, s.YAML())
		}
		if again.Digest() != s.Digest() {
			t.Fatalf("digest changed\n%s\n%s", s.YAML(), again.YAML())
		}
		s.Explain(noon)
	})
}

// FuzzParseURL: a target that was accepted is the host that any other reader
// would go to, and its normal form is the same target.
func FuzzParseURL(f *testing.F) {
	_, rows := table(f)
	for _, list := range rows {
		for _, r := range list {
			f.Add(r.url)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := scope.ParseURL(raw)
		if err != nil {
			return
		}
		again, err := scope.ParseURL(target.String())
		if err != nil || again != target {
			t.Fatalf("%q: normal form %q reads as %+v, %v", raw, target, again, err)
		}
		if strings.ContainsAny(target.Host, "@\\/?#% \t\r\n") || target.Host != strings.ToLower(target.Host) || strings.HasSuffix(target.Host, ".") {
			t.Fatalf("%q: host %q", raw, target.Host)
		}
		other, err := url.Parse(raw)
		if err != nil {
			return // the stricter reader is welcome to refuse
		}
		if other.User != nil || other.Opaque != "" {
			t.Fatalf("%q: another reader sees userinfo or no host", raw)
		}
		// Where the host needs no mapping, another reader must see the same one.
		host := strings.TrimSuffix(strings.ToLower(other.Hostname()), ".")
		plain := !slices.ContainsFunc([]rune(host), func(r rune) bool { return r > 127 }) && !strings.Contains(host, "xn--")
		_, literal := netip.ParseAddr(target.Host)
		if plain && literal != nil && host != target.Host {
			t.Fatalf("%q: %q here, %q to another reader", raw, target.Host, host)
		}
		if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().String() != target.Host {
			t.Fatalf("%q: %q here, %s to another reader", raw, target.Host, addr)
		}
	})
}

// FuzzDecide: over random small scopes, deny wins, widening never takes anything
// away, the normal form of a URL is judged like the URL, and a tunnel is allowed
// whenever a request through it is.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(1), "GET")
	f.Add([]byte{9, 8, 7, 200, 100, 50, 25, 1, 0, 255, 3, 77}, uint8(3), "POST")
	f.Add([]byte("a scope of bytes, rather long, so that many rules come out of it"), uint8(7), "DELETE")
	f.Fuzz(func(t *testing.T, bytes []byte, pick uint8, method string) {
		g := &generator{bytes: bytes}
		allow, deny := g.rules("allow"), g.rules("deny")
		build := func(allow, deny []string) *scope.Scope {
			s, err := scope.Parse("s.yaml", []byte("engagement: x\nallow: ["+strings.Join(allow, ", ")+"]\ndeny: ["+strings.Join(deny, ", ")+"]\n"))
			if err != nil {
				return nil // shadowed by chance
			}
			return s
		}
		s := build(allow, deny)
		if s == nil {
			return
		}
		for i := range fuzzURLs {
			raw := fuzzURLs[(i+int(pick))%len(fuzzURLs)]
			target, err := scope.ParseURL(raw)
			if err != nil {
				t.Fatal(err)
			}
			if method != "" {
				target.Method = method
			}
			d := s.Decide(target, noon)
			normal, err := scope.ParseURL(target.String())
			if err != nil {
				t.Fatal(err)
			}
			normal.Method = target.Method
			if got := s.Decide(normal, noon); got != d {
				t.Fatalf("%s: %+v, its normal form %+v", raw, d, got)
			}
			if d.Allowed {
				if tunnel, _ := s.DecideTunnel(target.Host, target.Port, noon); !tunnel.Allowed {
					t.Fatalf("%s is allowed and its tunnel isn't: %+v", raw, tunnel)
				}
				// An allowed request stays allowed with one deny less, or one rule more.
				for j := range deny {
					if w := build(allow, slices.Delete(slices.Clone(deny), j, j+1)); w != nil && !w.Decide(target, noon).Allowed {
						t.Fatalf("%s: denied once deny[%d] is gone\n%s", raw, j, s.YAML())
					}
				}
				for _, more := range g.rules("allow") {
					if w := build(append(slices.Clone(allow), more), deny); w != nil && !w.Decide(target, noon).Allowed {
						t.Fatalf("%s: denied once %s is allowed\n%s", raw, more, s.YAML())
					}
				}
			}
			// Whatever a deny rule alone means is denied beside any allow rule.
			if only := build([]string{"{host: " + yamlHost(target.Host) + `, ports: "*"}`}, deny); only != nil && !only.Decide(target, noon).Allowed && d.Allowed {
				t.Fatalf("%s: allowed against a deny rule\n%s", raw, s.YAML())
			}
			// A closed tunnel never hides a request that would be denied.
			tunnel := s.Tunnel(target.Host, target.Port, noon)
			tls := target.Scheme == "https" || target.Scheme == "wss"
			if tls && !d.Allowed && tunnel.Allowed && tunnel.TLS && !tunnel.Intercept {
				t.Fatalf("%s %s: denied (%+v), and yet its tunnel isn't opened\n%s", target.Method, raw, d, s.YAML())
			}
			if tls && tunnel.Intercept && !s.NeedsCA() {
				t.Fatalf("%s: opened without an authority\n%s", raw, s.YAML())
			}
		}
	})
}

func yamlHost(host string) string { return `"` + host + `"` }

var fuzzURLs = []string{
	"https://a.test.example/", "https://b.a.test.example/app/x", "http://a.test.example/app/../x", "wss://a.test.example/app/x", "ws://a.test.example:8080/",
	"https://c.test.example:8443/admin", "https://a.test.example//admin/x", "https://a.test.example/%2e%2e/admin;x/y", "http://10.1.0.5/", "https://[fd00::1]/app/x",
	"http://127.0.0.1:8080/", "http://localhost/", "https://8.8.8.8/", "https://a.test.example/a%2fb", "https://b.a.test.example/app/;/../x", "https://B.A.test.example./app/%41",
}

// generator makes rules of bytes.
type generator struct{ bytes []byte }

func (g *generator) pick(n int) int {
	if len(g.bytes) == 0 {
		return 0
	}
	b := int(g.bytes[0])
	g.bytes = g.bytes[1:]
	return b % n
}

func (g *generator) rules(list string) (rules []string) {
	hosts := []string{"host: a.test.example", `host: "*.test.example"`, `host: "*.a.test.example"`, "host: c.test.example", "cidr: 10.0.0.0/8", "cidr: 0.0.0.0/0", "host: 127.0.0.1", "host: localhost", `cidr: "fd00::/8"`}
	ports := []string{"", `, ports: "*"`, ", ports: [443]", `, ports: [80, "8000-8500"]`, ", ports: [8443]"}
	schemes := []string{"", ", schemes: [https]", ", schemes: [https, wss]", ", schemes: [http]", ", schemes: [ws, wss]"}
	paths := []string{"", "", `, paths: ["/app/**"]`, `, paths: ["/admin", "/admin/**"]`, `, paths: ["/*"]`}
	methods := []string{"", "", ", methods: [GET]", ", methods: [GET, POST]"}
	for range g.pick(4) {
		rules = append(rules, "{"+hosts[g.pick(len(hosts))]+ports[g.pick(len(ports))]+schemes[g.pick(len(schemes))]+paths[g.pick(len(paths))]+methods[g.pick(len(methods))]+"}")
	}
	return rules
}

// FuzzImportROE: whatever is imported is a scope file, and denies what the
// roe.json puts out of scope.
func FuzzImportROE(f *testing.F) {
	f.Add(`{"machine_enforcement": {"in_scope": ["a.com", "*.b.com", "10.0.0.0/8"], "out_of_scope": ["c.b.com"]}}`)
	f.Add(`{"machine_enforcement": {"in_scope": [{"target": "https://a.com/x", "type": "auto"}], "authorized_windows": [["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"]], "blackout_windows": [{"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}]}}`)
	f.Add(`{"engagement": "x", "machine_enforcement": {"in_scope": [], "allow_cloud_metadata": true}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scope.ImportROE("roe.json", []byte(text))
		if err != nil {
			return
		}
		again, err := scope.Parse("s.yaml", s.YAML())
		if err != nil {
			t.Fatalf("%v\n%s", err, s.YAML())
		}
		if again.Digest() != s.Digest() {
			t.Fatalf("digest changed\n%s\n%s", s.YAML(), again.YAML())
		}
	})
}
