// Package web is the code that runs in a browser's pages, as it is served.
//
// Contents: [Dist] holds dist/, which `go generate ./web` builds from the strict
// TypeScript in src/ by esbuild as a Go library, so that neither a user nor a
// build needs Node. dist/ is committed; a test builds it again and compares.
//
// The package serves nothing itself.
//
// Floor: wire contract.
package web

import "embed"

//go:generate go run ./build

// Dist holds the built scripts under their file names in dist/.
//
//go:embed dist/*.js
var Dist embed.FS
