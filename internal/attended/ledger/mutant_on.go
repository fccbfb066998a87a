//go:build mutant

package ledger

// mutant is the one fault that is in; a test program sets it at its start.
var mutant int
