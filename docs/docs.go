// Package docs embeds the documentation, so that the binary serves and prints
// exactly the pages of its own revision. It holds Markdown and nothing else;
// what a page claims was run, and the generated one says by which command.
//
// Floor: wire contract.
package docs

import "embed"

// Pages holds every Markdown page of this folder, by its file name.
//
//go:embed *.md
var Pages embed.FS
