package main

import (
	"testing"

	"chaperone/internal/sitetest"
)

// Two runs at the same time are two browsers: neither sees the other's cookies or
// storage, and neither ends the other.
func TestCaseTwoRunsShareNothing(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	one, two := connect(t, newest, "--allow", site.Host()), connect(t, newest, "--allow", site.Host())
	for _, a := range []*agent{one, two} {
		a.do("browser_goto", args{"url": site.URL("/")})
	}
	const seen = "[document.cookie, localStorage.k ?? null]"
	one.do("browser_eval_js", args{"expression": "document.cookie='k=v'; localStorage.k='v'"})
	want(t, "the first", one.do("browser_eval_js", args{"expression": seen}), `^\["k=v","v"\]`)
	want(t, "the second", two.do("browser_eval_js", args{"expression": seen}), `^\["",null\]`)
	one.leave()
	want(t, "the second alone", two.do("browser_eval_js", args{"expression": "1"}), `^1`)
}
