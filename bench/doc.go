// Package bench compares parts of Chaperone with other implementations of the
// same thing. It is a module of its own, so that what it compares with is no
// dependency of the product. Run it by `go test ./...` and `go test -bench .` in
// this folder.
package bench
