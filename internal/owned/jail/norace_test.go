//go:build !race

package jail_test

const slack = 0
