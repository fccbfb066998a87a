package ledger_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestMutantsAreFound builds this test program with the faults of mutant.go, and
// puts each in. The test that docs/model/README.md names beside it must fail on it,
// and pass without it.
func TestMutantsAreFound(t *testing.T) {
	page, err := os.ReadFile("../../../docs/model/README.md")
	ok(t, err)
	found := map[string]string{} // a mutant's number -> the test
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d+) \\|.*\\| `ledger\\.(Test\\w+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		found[m[1]] = m[2]
	}
	source, err := os.ReadFile("mutant.go")
	ok(t, err)
	there := regexp.MustCompile(`(?m)^\t\w+ += (\d+)`).FindAllStringSubmatch(string(source), -1)
	if len(there) < 8 || len(there) != len(found) {
		t.Errorf("mutant.go has %d mutants, docs/model/README.md names tests for %d", len(there), len(found))
	}
	program := filepath.Join(t.TempDir(), "ledger.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "mutant", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(mutant, test string) string {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^("+test+")$/^sqlite", "-test.timeout=2m", "-rapid.nofailfile", "-rapid.shrinktime=10ms")
		cmd.Env = append(os.Environ(), "CHAPERONE_MUTANT="+mutant)
		out, err := cmd.CombinedOutput()
		if _, ended := err.(*exec.ExitError); err != nil && !ended {
			t.Fatal(err)
		}
		return string(out)
	}
	var all []string
	for _, m := range there {
		test := found[m[1]]
		all = append(all, test)
		if _, err := strconv.Atoi(m[1]); err != nil || test == "" {
			t.Errorf("no test is named for mutant %s", m[1])
			continue
		}
		if out := run(m[1], test); !strings.Contains(out, "--- FAIL: "+test) {
			t.Errorf("%s doesn't find mutant %s:\n%s", test, m[1], out)
		}
	}
	if out := run("0", strings.Join(all, "|")); !strings.HasSuffix(out, "PASS\n") {
		t.Errorf("without a mutant:\n%s", out)
	}
}
