//go:build chaperone_leaky

package jail_test

import (
	"io"
	"strings"
	"testing"

	"chaperone/internal/owned/jail"
)

// TestLeakyBuildLeaks shows that this build contains nothing: the corpus is only
// worth something if it sees that.
func TestLeakyBuildLeaks(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	if got := b.ask(t, "read /etc/passwd"); !strings.Contains(got, "root:") {
		t.Error(got)
	}
	go func() {
		if c, err := b.Listener().Accept(); err == nil {
			io.WriteString(c, "from the host")
			c.Close()
		}
	}()
	if got := b.ask(t, "dial tcp "+jail.ProxyAddr); got != "from the host" {
		t.Error(got)
	}
}
