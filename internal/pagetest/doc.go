// Package pagetest gives tests a real Chromium for the product's own pages: it
// goes to addresses, presses real keys and buttons, reads what a page holds, takes
// pictures in any size, scheme and language, signs in with a virtual passkey, and
// calls the page's WebMCP tools as a browser's agent would.
//
// It contains
//
//	engine.go   Start: one engine for a test binary's test, over a pipe
//	wire.go     the protocol on that pipe
//	page.go     Page: one tab in a browser context of its own
//	input.go    clicks, keys, text
//	look.go     sizes, schemes, languages, pictures, network
//	webmcp.go   the page's tools
//	passkey.go  the virtual authenticator
//	axe.go      axe-core over a page, and the other npm tools of tests
//
// The engine isn't boxed: it meets only the test's own server on this machine, and
// is told to resolve no other name. Whatever a page throws, logs as an error or
// has refused by its policy fails the test at its end, unless the test has taken
// it by [Page.Faults].
//
// Input is the browser's own, so its events are trusted like a person's; what
// [Page.Eval] does is what a script can do.
//
// Floor: test kit.
package pagetest
