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
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("evidence needs the commit: %v", err)
	}
	ev.Commit = strings.TrimSpace(string(commit))
	data, err := json.MarshalIndent(ev, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
