// Package spec is the project's protocols as data: the normative pages, the
// vectors that every implementation of an encoding must reproduce, and the
// transcripts of conversations that every host must hold.
//
// Contents: [Files] is this folder (the pages, vectors/*.json and
// transcripts/*.txtar); [ParseTranscript], [Names.Expand] and [Names.Match] read
// the transcripts, in the format that transcripts/README.md fixes. Go, TypeScript
// and Python read the same files, so an example can't be right in one language
// only.
//
// The package opens no connection: who plays a transcript does.
//
// Floor: wire contract.
package spec

import "embed"

// Files holds the pages, vectors and transcripts under their paths in this
// folder.
//
//go:embed *.md vectors/*.json transcripts/README.md transcripts/*.txtar transcripts/attended/*.txtar transcripts/control/*.txtar
var Files embed.FS
