package runsock_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// evidence is what `make torture` commits.
type evidence struct {
	Commit    string           `json:"commit"`
	Began     time.Time        `json:"began"`
	Rounds    int              `json:"rounds"`
	Slowest   map[string]int64 `json:"slowest_ms"` // by victim: from the kill until nothing was left
	Histogram map[string]int   `json:"histogram"`  // victim, run's state and last outcome
}

// newEvidence begins one. The commit is that of the beginning, which is what the
// binary was built from.
func newEvidence(t *testing.T, rounds int) evidence {
	t.Helper()
	ev := evidence{Rounds: rounds, Began: time.Now().UTC(), Slowest: map[string]int64{}, Histogram: map[string]int{}}
	if os.Getenv("CHAPERONE_EVIDENCE") == "" {
		return ev
	}
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("evidence needs the commit: %v", err)
	}
	ev.Commit = strings.TrimSpace(string(commit))
	return ev
}

// keep tells what happened, and writes it where the environment says.
func (ev evidence) keep(t *testing.T, name string) {
	t.Helper()
	for what, n := range ev.Histogram {
		t.Logf("%3d %s", n, what)
	}
	t.Logf("slowest, in ms: %v", ev.Slowest)
	dir := os.Getenv("CHAPERONE_EVIDENCE")
	if dir == "" {
		return
	}
	data, err := json.MarshalIndent(ev, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
