//go:build !mutant

package ledger

const mutant = 0
