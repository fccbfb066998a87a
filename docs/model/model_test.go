package model_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chaperone/internal/storetest"
)

// faithful are the models without a fault, by the arguments that they are made with.
var faithful = [][]string{{"authority.pml"}, {"call.pml", "-DMUTATION=0"}, {"call.pml", "-DMUTATION=1"}}

// events is how much may go wrong in one run of call.pml.
func events() string { return fmt.Sprintf("-DEVENTS=%d", storetest.Rounds(2, 3)) }

// TestModelHolds verifies the models exhaustively, and that each move of the ledger's
// tables is made in some run of them: nothing holds because nothing happens.
func TestModelHolds(t *testing.T) {
	made := map[string]bool{}
	for _, of := range faithful {
		t.Run(strings.Join(of, " "), func(t *testing.T) {
			out, trail := verify(t, of[0], append(of[1:], events())...)
			if !strings.Contains(out, "errors: 0") {
				t.Fatalf("the model doesn't hold:\n%s\n%s", out, trail)
			}
			if strings.Contains(out, "max search depth too small") || !strings.Contains(out, "Full statespace search") {
				t.Fatalf("the search wasn't whole:\n%s", out)
			}
			t.Log(regexp.MustCompile(`\d+ states, stored`).FindString(out))
			for _, m := range regexp.MustCompile(`(?m)^moved (.*)$`).FindAllStringSubmatch(out, -1) {
				made[m[1]] = true
			}
		})
	}
	for _, m := range regexp.MustCompile(`printf\("moved ([^\\]*)\\n"\)`).FindAllStringSubmatch(read(t, "moves.pml"), -1) {
		if !made[m[1]] {
			t.Errorf("no run of the models makes the move %s", m[1])
		}
	}
}

// mutant is a row of README.md: a fault, and the property that it breaks.
type mutant struct{ number, file, property string }

func mutants(t *testing.T) (all []mutant) {
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d+) \\| ([a-z]+\\.pml) \\| [^|]+ \\| `([a-z_]+)` \\|").FindAllStringSubmatch(read(t, "README.md"), -1) {
		all = append(all, mutant{m[1], m[2], m[3]})
	}
	return all
}

// TestMutantsAreFound puts in each fault of README.md's table; verification must
// find it, by the property that the table names.
func TestMutantsAreFound(t *testing.T) {
	all := mutants(t)
	if len(all) < 8 {
		t.Fatalf("README.md has %d mutants", len(all))
	}
	for _, m := range all {
		t.Run(m.number, func(t *testing.T) {
			t.Parallel()
			out, _ := verify(t, m.file, "-DMUTANT="+m.number, "-DEVENTS=2")
			if !strings.Contains(out, "broken "+m.property+"\n") || !strings.Contains(out, "errors: 1") {
				t.Errorf("%s isn't found by %s:\n%s", m.number, m.property, out)
			}
		})
	}
}

// TestModelSources: the mutants of the models are those of README.md, and no state
// is written but by the moves that the ledger's tables make.
func TestModelSources(t *testing.T) {
	var told, there []string
	for _, m := range mutants(t) {
		told = append(told, m.file+" "+m.number)
	}
	for _, file := range []string{"authority.pml", "call.pml"} {
		text := read(t, file)
		for _, m := range regexp.MustCompile(`MUTANT [!=]= (\d+)`).FindAllStringSubmatch(text, -1) {
			there = append(there, file+" "+m[1])
		}
		for n, line := range strings.Split(text, "\n") {
			if regexp.MustCompile(`\w+_is(\[[^= ]*\])? = `).MatchString(line) {
				t.Errorf("%s:%d writes a state past the moves: %s", file, n+1, line)
			}
		}
	}
	slices.Sort(told)
	slices.Sort(there)
	if there = slices.Compact(there); !slices.Equal(told, there) {
		t.Errorf("README.md tells the mutants %v, the models have %v", told, there)
	}
}

// verify makes a verifier of a model and runs it. Where it finds something trail is
// the way there.
func verify(t *testing.T, file string, defines ...string) (out, trail string) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []string{"moves.pml", file} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(read(t, f)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "spin", append(append([]string{}, defines...), "-a", file)...)
	optimize := "-O2"
	if slices.ContainsFunc(defines, func(d string) bool { return strings.HasPrefix(d, "-DMUTANT") }) {
		optimize = "-O0" // it ends soon
	}
	run(t, dir, "cc", optimize, "-w", "-DSAFETY", "-DNOREDUCE", "-DCOLLAPSE", "-o", "pan", "pan.c")
	out = run(t, dir, "./pan", "-m100000", "-E", "-w22")
	if strings.Contains(out, "errors: 1") {
		trail = run(t, dir, "./pan", "-r", "-n")
	}
	return out, trail
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	// A verifier that found something may end with another code than 0.
	if _, ended := err.(*exec.ExitError); err != nil && !(ended && name == "./pan") {
		t.Fatalf("%s %v: %v (make test installs spin and a compiler)\n%s", name, args, err, out)
	}
	return string(out)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
