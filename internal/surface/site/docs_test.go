package site_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"chaperone/internal/pagetest"
	"chaperone/internal/surface/site"
)

// Every page of the documentation is served, and each link in it leads somewhere.
func TestDocs(t *testing.T) {
	pages, err := site.New(site.Config{Origin: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", "text/html")
		pages.ServeHTTP(w, r)
		return w
	}
	seen, todo := map[string]bool{}, []string{"/docs"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		w := get(path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<h1") {
			t.Errorf("%s: %d", path, w.Code)
		}
		if !strings.Contains(w.Header().Get("Permissions-Policy"), "tools=()") {
			t.Errorf("%s may register tools", path)
		}
		for _, m := range regexp.MustCompile(`href="(/docs/[^"#]+)`).FindAllStringSubmatch(w.Body.String(), -1) {
			todo = append(todo, m[1])
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d pages", len(seen))
	}
	if w := get("/docs/none"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown page: %d", w.Code)
	}
}

// The documentation reads well, with nothing for axe to find.
func TestDocsAreAccessible(t *testing.T) {
	pages, err := site.New(site.Config{Origin: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	defer server.Close()
	p := pagetest.Start(t).Page(pagetest.Look{})
	for _, look := range []pagetest.Look{{Width: 1280, Height: 900}, {Width: 320, Height: 700, Dark: true}} {
		p.Look(look)
		p.Goto(server.URL + "/docs/server")
		p.BypassPolicy(true)
		p.Goto(server.URL + "/docs/server")
		for _, finding := range p.Axe() {
			t.Error(finding)
		}
		p.BypassPolicy(false)
	}
	p.Save("../../../out/screens/docs-320-dark.png")
}
