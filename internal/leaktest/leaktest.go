// Package leaktest fails a package's tests when a goroutine outlives them: each
// has an owner who waits for it, and this is where that is held to be true.
//
// Floor: test kit.
package leaktest

import (
	"fmt"
	"net/http"
	"os"

	"go.uber.org/goleak"
)

// server is the test kit's own database server: it lives as long as the process,
// and its lifeline ends it.
var server = goleak.IgnoreAnyFunction("chaperone/internal/storetest.start.func1")

// Check takes the exit code of m.Run and answers it, or 1 with the stacks on
// standard error where a goroutine is left. goleak itself waits for one that is
// just ending, about half a second; a loaded machine gets a few of those.
func Check(code int) int {
	http.DefaultClient.CloseIdleConnections() // the tests' own, not the product's
	var left error
	for range 10 {
		if left = goleak.Find(server); left == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, left)
	return max(code, 1)
}
