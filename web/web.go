// Package web is the code that runs in a browser's pages, as it is served.
//
// Contents: [Dist] holds dist/, which `go generate ./web` builds from the strict
// TypeScript in src/ by esbuild as a Go library, so that neither a user nor a
// build needs Node. dist/ is committed; a test builds it again and compares.
//
//	app.js       the portal: one shell, its pages, the page adapter for WebMCP
//	app.css      its look, light and dark
//	theme.js     what must be known before the first paint
//	callback.js  the end of a sign-in
//	sw.js        the service worker, which keeps the other files and nothing else
//	attended.js  attended control for pages that aren't ours
//	canon.js     canonical JSON by itself, which Go's tests hold to the same vectors
//	idp.js       the built-in provider's pages
//	icon.svg     the mark
//
// In src/, files in the folder itself are what pages load; folders hold what those
// are made of: portal (session, routes, frame, keys), ui (elements, dialogs, messages),
// text (the catalogues), pages (one file a page), adapter (registration, dispatch,
// review), attended (the protocol, arming, the channel, confirmations).
//
// The package serves nothing itself.
//
// Floor: wire contract.
package web

import "embed"

//go:generate go run ./build

// Dist holds the built files under their names in dist/.
//
//go:embed dist/*
var Dist embed.FS
