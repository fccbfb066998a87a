// Package agent is a graph for a LangGraph API server that acts in its run's own
// browser, in plain Node and without a model: it does the steps of its input.
// browser.mjs is the protocol's client, as an agent in another language writes it
// for itself; graph.mjs the graph; serve.mjs the npm server in one process.
//
// `chaperone qualify --api` runs it, and so do the tests.
//
// Floor: wire contract.
package agent

import "embed"

// Files holds the three.
//
//go:embed *.mjs
var Files embed.FS
