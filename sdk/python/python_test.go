// Package python_test runs the tests of the Python package, each case as a test
// of its own, so that they count, fail and can't be skipped like all others.
package python_test

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python is the interpreter that scripts/install-agent-servers.sh installs.
const python = "../../.cache/agent-servers/pypi/bin/python"

// suite is what pytest writes of its cases.
type suite struct {
	Cases []struct {
		Class   string  `xml:"classname,attr"`
		Name    string  `xml:"name,attr"`
		Failure *string `xml:"failure"`
		Error   *string `xml:"error"`
		Skipped *string `xml:"skipped"`
	} `xml:"testsuite>testcase"`
}

func TestPython(t *testing.T) {
	for need, how := range map[string]string{python: "scripts/install-agent-servers.sh pypi", "../../bin/chaperone": "make build"} {
		if _, err := os.Stat(need); err != nil {
			t.Fatalf("%v\nIt comes by %s", err, how)
		}
	}
	program, err := filepath.Abs(python)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "cases.xml")
	cmd := exec.CommandContext(t.Context(), program, "-B", "-m", "pytest", "-q", "--junitxml", report)
	said, failed := cmd.CombinedOutput()
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("pytest: %v\n%s", failed, said)
	}
	var s suite
	if err := xml.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, c := range s.Cases {
		t.Run(strings.TrimPrefix(c.Class, "tests.")+"/"+c.Name, func(t *testing.T) {
			for word, what := range map[string]*string{"failed": c.Failure, "broke": c.Error, "skipped": c.Skipped} {
				if what != nil {
					bad++
					t.Errorf("%s: %s", word, *what)
				}
			}
		})
	}
	if len(s.Cases) == 0 || failed != nil && bad == 0 {
		t.Errorf("pytest: %v\n%s", failed, said)
	}
}
