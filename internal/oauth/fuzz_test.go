package oauth_test

import (
	"net/url"
	"strings"
	"testing"

	"chaperone/internal/oauth"
)

// FuzzRedirect: what is admitted has the registered host, path and query, and is
// something that a browser may be sent to.
func FuzzRedirect(f *testing.F) {
	for _, pair := range [][2]string{
		{"https://app.example/cb", "https://app.example/cb"}, {"http://127.0.0.1/cb", "http://127.0.0.1:7/cb"},
		{"http://localhost", "http://localhost:7@evil.example/"}, {"com.example.app:/cb", "com.example.app:/cb"}, {"http://[::1]/?a", "http://[::1]:7/?a"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, registered, asked string) {
		if oauth.CheckRedirect(registered) != nil || !oauth.Admits([]string{registered}, asked) {
			return
		}
		r, err := url.Parse(registered)
		if err != nil {
			t.Fatal(err)
		}
		a, err := url.Parse(asked)
		if err != nil {
			t.Fatal(err)
		}
		if a.Scheme != r.Scheme || a.Hostname() != r.Hostname() || a.EscapedPath() != r.EscapedPath() || a.RawQuery != r.RawQuery || a.User != nil || a.Fragment != "" {
			t.Errorf("%q admits %q", registered, asked)
		}
		if a.Scheme == "javascript" || a.Scheme == "data" || strings.ContainsAny(asked, " \n\r<>\"") {
			t.Errorf("%q was admitted", asked)
		}
		if asked != registered && (a.Scheme != "http" || a.Host == r.Host && a.Port() != r.Port()) {
			t.Errorf("%q admits %q", registered, asked)
		}
	})
}

// FuzzMetadata: whatever a client says of itself, what is kept is what may be kept.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"client_name":"Probe","redirect_uris":["https://a.example/","http://127.0.0.1/"]}`))
	f.Add([]byte(`{"redirect_uris":["com.example:/x"],"client_name":"\u202e"}`))
	f.Add([]byte(`{"client_id":"https://a.example/c","redirect_uris":["https://a.example/"],"client_secret":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, redirects, err := oauth.ReadMetadata(data)
		if err != nil {
			return
		}
		if len(name) > 100 || strings.ContainsAny(name, "\x00\n\u202e\u200b") || len(redirects) == 0 || len(redirects) > 10 {
			t.Errorf("%q: kept %q, %q", data, name, redirects)
		}
		for _, uri := range redirects {
			if !oauth.Admits(redirects, uri) {
				t.Errorf("%q doesn't admit itself", uri)
			}
		}
	})
}

// FuzzClientID: a URL that names a client is https with a path and nothing else.
func FuzzClientID(f *testing.F) {
	f.Add("https://app.example/client.json")
	f.Add("https://app.example/a/../b")
	f.Fuzz(func(t *testing.T, id string) {
		if oauth.CheckClientID(id) != nil {
			return
		}
		u, err := url.Parse(id)
		if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path == "" || strings.Contains(u.Path, "/../") && !strings.Contains(u.EscapedPath(), "%") {
			t.Errorf("%q names a client", id)
		}
	})
}
