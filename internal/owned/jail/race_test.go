//go:build race

package jail_test

// slack is what the race detector itself takes in each process, bytes.
const slack = 512 << 20
