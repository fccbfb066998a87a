package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fences   = regexp.MustCompile("(?s)```.*?```")
)

// TestLinksLeadSomewhere follows every relative link of every page.
func TestLinksLeadSomewhere(t *testing.T) {
	followed := 0
	for _, glob := range []string{"../*.md", "*.md", "../spec/*.md", "../examples/*.md", "../bench/*/*.md"} {
		pages, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(read(t, page), ""), -1) {
				if !strings.Contains(m[1], "://") {
					follow(t, page, m[1])
					followed++
				}
			}
		}
	}
	if followed < 10 {
		t.Errorf("only %d links found: the expressions are wrong", followed)
	}
}

// follow wants a page's link to lead to a file, and to a heading where it names one.
func follow(t *testing.T, page, link string) {
	t.Helper()
	file, anchor, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s: the link to %s leads nowhere", page, link)
		return
	}
	if anchor == "" {
		return
	}
	var names []string
	for _, m := range headings.FindAllStringSubmatch(read(t, target), -1) {
		names = append(names, anchorOf(m[1]))
	}
	if !slices.Contains(names, anchor) {
		t.Errorf("%s: there is no heading for the link to %s", page, link)
	}
}

// anchorOf is a heading as its links name it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f:
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
