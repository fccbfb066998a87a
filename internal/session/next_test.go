package session_test

import (
	"net/url"
	"strings"
	"testing"

	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

func TestNext(t *testing.T) {
	for _, good := range []string{"/", "/a", "/a/b?c=d&e=%2F", "/connect/0123abcd", "/a%20b", "/a..b", "/.well-known/x", "/x?next=http://other.example/"} {
		if got, err := session.Next(good); err != nil || got != good {
			t.Errorf("%q: got %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{
		"", "a", "//", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "http://evil.example/", "https:evil.example",
		"javascript:alert(1)", "/%5Cevil.example", "/%2F%2Fevil.example", "/%2fevil.example", "/a\nb", "/a\tb", "/a b", "/a\x00", "/%00", "/%0d%0aSet-Cookie:x", "/a\x7f",
		"/ñ", "/a#b", "/../a", "/a/..", "/a/./b", "/%2e%2e/a", " /a", "/\xff", "/%zz", "?a", "/" + strings.Repeat("a", 2048),
	} {
		if got, err := session.Next(bad); refusal.Of(err) != refusal.BadDocument || got != "" {
			t.Errorf("%q: got %q, %v", bad, got, err)
		}
	}
}

// FuzzNext: whatever is accepted leads a browser to this origin, as the URL
// standard's parser would have it: "\" is "/", and tabs and newlines vanish.
func FuzzNext(f *testing.F) {
	for _, seed := range []string{"/", "/a?b=c", "//evil.example", "/\\evil.example", "/%2F/x", "/a/../b", "/\t/evil.example", "/%5c%5cevil"} {
		f.Add(seed)
	}
	base, err := url.Parse("https://us.example/auth/callback")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := session.Next(path)
		if err != nil {
			if got != "" || refusal.Of(err) != refusal.BadDocument {
				t.Fatalf("%q: %q, %v", path, got, err)
			}
			return
		}
		as := strings.NewReplacer("\t", "", "\n", "", "\r", "", "\\", "/").Replace(got)
		u, err := url.Parse(as)
		if err != nil {
			t.Fatalf("%q was accepted and doesn't parse: %v", path, err)
		}
		if to := base.ResolveReference(u); to.Host != base.Host || to.Scheme != base.Scheme || strings.HasPrefix(to.Path, "//") {
			t.Fatalf("%q leads to %s", path, to)
		}
	})
}
