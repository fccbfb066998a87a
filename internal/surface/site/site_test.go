package site_test

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"chaperone/internal/surface/site"
)

func get(t *testing.T, b *backend, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, b.server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := b.server.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func TestShell(t *testing.T) {
	b := start(t)
	_, first := get(t, b, "GET", "/")
	for _, path := range []string{"/", "/collections/files", "/collections/files/item?id=a%2Fb", "/automation", "/connections", "/connect/abc", "/agents", "/agents/x", "/approvals", "/audit", "/settings"} {
		answer, body := get(t, b, "GET", path)
		if answer.StatusCode != 200 || body != first {
			t.Errorf("%s: status %d, or another shell", path, answer.StatusCode)
		}
		h := answer.Header
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
			}
		}
		if !strings.HasSuffix(h.Get("Permissions-Policy"), "tools=(self)") {
			t.Errorf("%s: %s", path, h.Get("Permissions-Policy"))
		}
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy lacks %s: %s", path, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: %s", path, csp)
		}
	}
	if strings.Contains(first, "<style") || regexp.MustCompile(`<script>|\son[a-z]+=|style=`).MatchString(first) {
		t.Error("something stands inline in the shell")
	}
}

func TestMissing(t *testing.T) {
	b := start(t)
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/nothing", "text/html", 404, true}, {"GET", "/nothing", "*/*", 404, false}, {"GET", "/assets/app.js", "*/*", 404, false},
		{"GET", "/assets/app.0000000000000000.js", "*/*", 404, false}, {"GET", "/index.html", "text/html", 404, true}, {"GET", "/connections/", "text/html", 404, true},
		{"POST", "/", "*/*", 405, false}, {"DELETE", "/nothing", "*/*", 405, false},
	} {
		answer, body := get(t, b, c.method, c.path, "Accept", c.accept)
		if answer.StatusCode != c.status || (body != "") != c.page {
			t.Errorf("%s %s: status %d, %d bytes", c.method, c.path, answer.StatusCode, len(body))
		}
		if !strings.HasSuffix(answer.Header.Get("Permissions-Policy"), "tools=()") || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %v", c.method, c.path, answer.Header)
		}
	}
}

func TestAssets(t *testing.T) {
	b := start(t)
	_, shell := get(t, b, "GET", "/")
	paths := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(shell, -1)
	if len(paths) != 4 {
		t.Fatalf("the shell names %v", paths)
	}
	for _, m := range paths {
		plain, text := get(t, b, "GET", m[1])
		packed, bytes := get(t, b, "GET", m[1], "Accept-Encoding", "br, gzip;q=0.8")
		if plain.StatusCode != 200 || !strings.Contains(plain.Header.Get("Cache-Control"), "immutable") || plain.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", m[1], plain.StatusCode, plain.Header)
		}
		if packed.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(strings.NewReader(bytes))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); err != nil || string(got) != text {
				t.Errorf("%s: unpacks to something else (%v)", m[1], err)
			}
		} else if !strings.HasSuffix(m[1], ".svg") && len(text) > 1000 {
			t.Errorf("%s: %d bytes, not compressed", m[1], len(text))
		}
		if refused, _ := get(t, b, "GET", m[1], "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: compressed against the reader's word", m[1])
		}
		if again, _ := get(t, b, "GET", m[1], "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s: %d to what is known", m[1], again.StatusCode)
		}
	}
	for _, path := range []string{"/auth/callback.js", "/sw.js"} {
		if answer, _ := get(t, b, "GET", path); answer.StatusCode != 200 || answer.Header.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %v", path, answer.StatusCode, answer.Header)
		}
	}
}

// A build without what the shell names, or with what nobody can serve, fails at
// start and not in a browser.
func TestNewFails(t *testing.T) {
	whole := fstest.MapFS{"app.js": {}, "app.css": {}, "theme.js": {}, "icon.svg": {}}
	fails := func(files fstest.MapFS) bool {
		_, err := site.New(site.Config{Files: files})
		return err != nil
	}
	if fails(whole) {
		t.Error("a whole build fails")
	}
	for name, change := range map[string]func(fstest.MapFS){
		"no script": func(f fstest.MapFS) { delete(f, "app.js") },
		"no style":  func(f fstest.MapFS) { delete(f, "app.css") },
		"a map":     func(f fstest.MapFS) { f["app.js.map"] = &fstest.MapFile{} },
	} {
		files := maps.Clone(whole)
		change(files)
		if !fails(files) {
			t.Errorf("%s: no failure", name)
		}
	}
}
