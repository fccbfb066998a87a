package scope_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Every mistake is told with its place, its key and what would be right.
func TestMistakesAreToldWithTheirPlace(t *testing.T) {
	data, err := os.ReadFile("testdata/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		File string `json:"file"`
		Want string `json:"want"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		_, err := scope.Parse("s.yaml", []byte(r.File))
		if err == nil {
			t.Errorf("accepted:\n%s\nwant %s", r.File, r.Want)
			continue
		}
		var placed *scope.Error
		if !errors.As(err, &placed) || !errors.Is(err, refusal.BadDocument) {
			t.Errorf("%T is no *scope.Error: %v", err, err)
			continue
		}
		if got := err.Error(); !strings.Contains(got, r.Want) {
			t.Errorf("of\n%s\n got %s\nwant %s", r.File, got, r.Want)
		}
		if placed.Line == 0 && !strings.Contains(r.Want, "NUL") {
			t.Errorf("no line: %v", err)
		}
	}
}

// Files that a person wouldn't write are refused in a moment, whatever they cost
// a parser.
func TestFilesMadeToBeSlow(t *testing.T) {
	rules := func(n int) string {
		var b strings.Builder
		b.WriteString("engagement: x\nallow:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - host: h%d.example.com\n", i)
		}
		return b.String()
	}
	var list strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&list, `{"host":"h%d.example.com"},`, i)
	}
	for name, c := range map[string]struct{ file, want string }{
		"brackets": {"engagement: " + strings.Repeat("[", 500_000), ":1:269: nested too deep"},
		"braces":   {"engagement: x\nallow: " + strings.Repeat("{a: ", 200_000), ":2:1032: nested too deep"},
		"dashes":   {"engagement: x\nallow: \n" + strings.Repeat("- ", 400_000) + "x\n", ":3:513: nested too deep"},
		"rules":    {rules(30_000), ":5003:5: allow[5000]: a scope has at most 5000 rules"},
		"one line of JSON": {`{"engagement":"x","allow":[` + strings.TrimSuffix(list.String(), ",") + `]}`,
			"allow[5000]: a scope has at most 5000 rules"},
	} {
		began := time.Now()
		_, err := scope.Parse("s.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
	if _, err := scope.Parse("s.yaml", []byte(rules(1000))); err != nil {
		t.Errorf("1000 rules: %v", err)
	}
}

// JSON and YAML of one meaning are one scope; so are spellings of one host.
func TestDigestIsOfTheMeaning(t *testing.T) {
	same := []string{
		"engagement: x\nallow:\n  - host: a.example.com\n    ports: [443, 8443]\n    methods: [POST, GET]\nnot_after: 2026-12-24T00:00:00Z\n",
		"not_after: 2026-12-24T01:00:00+01:00\nallow: [{methods: [GET, POST], ports: [8443, 443], host: A.EXAMPLE.com.}]\nengagement: x\ndeny: []\nallow_metadata: false\n",
		"\xef\xbb\xbfengagement: x\r\nallow:\r\n  - host: a.example.com\r\n    ports: [443, 8443]\r\n    methods: [POST, GET]\r\nnot_after: 2026-12-24T00:00:00Z\r\n",
		"{\n\t\"engagement\": \"x\",\n\t\"allow\": [{\"host\": \"\\u0061.example.com\", \"ports\": [443, \"8443\"], \"methods\": [\"GET\", \"POST\"]}],\n\t\"not_after\": \"2026-12-24T00:00:00Z\"\n}",
	}
	var digests []string
	for _, text := range same {
		s, err := scope.Parse("s.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, s.Digest())
	}
	if slices.ContainsFunc(digests, func(d string) bool { return d != digests[0] }) || !strings.HasPrefix(digests[0], "sha256:") || len(digests[0]) != 71 {
		t.Errorf("digests differ: %v", digests)
	}
	other, err := scope.Parse("s.yaml", []byte(strings.Replace(same[0], "8443", "8444", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if other.Digest() == digests[0] {
		t.Error("another port has the same digest")
	}
}

func TestActions(t *testing.T) {
	all, err := scope.Parse("s.yaml", []byte("engagement: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	some, err := scope.Parse("s.yaml", []byte("engagement: x\nactions: [goto, page_source, snapshot]\n"))
	if err != nil {
		t.Fatal(err)
	}
	type answer struct{ AllAllow, SomeAllow, AllName, SomeName bool }
	got := map[string]answer{}
	for _, a := range []string{"goto", "page_source", "click", "launch", "close", "snapshot"} {
		got[a] = answer{all.ActionAllowed(a), some.ActionAllowed(a), all.NamesAction(a), some.NamesAction(a)}
	}
	want := map[string]answer{
		"goto": {true, true, false, true}, "page_source": {true, true, false, true}, "snapshot": {true, true, false, true},
		"click": {true, false, false, false}, "launch": {true, true, false, false}, "close": {true, true, false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromHosts(t *testing.T) {
	s, err := scope.FromHosts("adhoc", "app.example.com", "app.example.com", "localhost:*", "127.0.0.1:8080", "[::1]:99", "::1", "10.0.0.5", "*.example.org:8443", "bücher.example")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, u := range []string{
		"https://app.example.com/", "ws://app.example.com/", "https://app.example.com:8443/", "http://localhost:5173/x", "ws://localhost/", "http://127.0.0.1:8080/", "http://127.0.0.1/",
		"http://[::1]:99/", "http://[::1]/", "http://[::1]:98/", "http://10.0.0.5/", "http://10.0.0.6/", "https://a.example.org:8443/", "https://a.example.org/", "https://example.org:8443/", "https://bücher.example/", "https://other.example/",
	} {
		got[u] = strings.Fields(judge(s, row{"GET", u, "", noon}))[0]
	}
	want := map[string]string{
		"https://app.example.com/": "allowed", "ws://app.example.com/": "allowed", "https://app.example.com:8443/": "port", "http://localhost:5173/x": "allowed", "ws://localhost/": "allowed",
		"http://127.0.0.1:8080/": "allowed", "http://127.0.0.1/": "port", "http://[::1]:99/": "allowed", "http://[::1]/": "allowed", "http://[::1]:98/": "port", "http://10.0.0.5/": "allowed", "http://10.0.0.6/": "no_rule",
		"https://a.example.org:8443/": "allowed", "https://a.example.org/": "port", "https://example.org:8443/": "no_rule", "https://bücher.example/": "allowed", "https://other.example/": "no_rule",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.NeedsCA() || s.LimitsMethods() {
		t.Error("--allow looks at host and port alone, and yet TLS would be opened")
	}
	for text, want := range map[string]string{
		"https://app.example.com/": "not a URL", "*": "leading *.", "*.com": "public suffix", "a.com:0": "the port must", "a.com:": "the port must", "a.com:80-90": "the port must",
		"10.0.0.0/8": "scope file", "": "no host", "a b": "no host", "user@a.com": "no host", "a\xff.com": "a\\xff.com: \"a\\xff.com\" is no host: malformed: the host isn't UTF-8", "a\nb": `--allow: a\nb: `, "127.1": "odd spelling", "[::1": "no host",
	} {
		if _, err := scope.FromHosts("adhoc", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--allow %q: got %v, want %q", text, err, want)
		}
	}
	if _, err := scope.FromHosts("no good"); err == nil {
		t.Error("accepted an engagement with a space")
	}
}
