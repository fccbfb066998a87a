// Command tally reads `go test -json` on standard input and tells what ran: a
// line a package, the whole output of what failed, and at the end
// "N passed, N failed, N skipped". It fails when a test failed or was skipped,
// and when fewer tests ran than the number committed in the file named by -min,
// so that a suite can't shrink unnoticed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// event is one line of test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// tally is what is known so far.
type tally struct {
	passed, failed, skipped int
	output                  map[string][]string // "package test" -> its lines
	out                     io.Writer
	slow                    []string
}

func main() {
	minimum := flag.String("min", "", "file that holds the least number of tests that must run")
	flag.Parse()
	t := &tally{output: map[string][]string{}, out: os.Stdout}
	start := time.Now()
	if err := t.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	code := t.close(*minimum)
	fmt.Printf("took %s\n%d passed, %d failed, %d skipped\n", time.Since(start).Round(time.Second), t.passed, t.failed, t.skipped)
	os.Exit(code)
}

// read consumes events. A line that isn't JSON (a build error, say) is shown.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, lines.Text())
			continue
		}
		t.take(e)
	}
	return lines.Err()
}

func (t *tally) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			key = e.ImportPath + " "
		}
		t.output[key] = append(t.output[key], e.Output)
		return
	case "build-fail":
		t.failed++
		t.show(e.ImportPath + " ")
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test == "" {
		t.closePackage(e, key)
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
		fmt.Fprintf(t.out, "--- SKIP %s\n", key)
		t.show(key)
	case "fail":
		t.failed++
		fmt.Fprintf(t.out, "--- FAIL %s\n", key)
		t.show(key)
	}
	if e.Elapsed > 10 && !strings.Contains(e.Test, "/") {
		t.slow = append(t.slow, fmt.Sprintf("%6.1fs %s", e.Elapsed, key))
	}
	delete(t.output, key)
}

func (t *tally) closePackage(e event, key string) {
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "none"}[e.Action]
	fmt.Fprintf(t.out, "%s %s %.1fs\n", word, e.Package, e.Elapsed)
	if e.Action == "fail" {
		t.failed++
		t.show(key)
	}
}

func (t *tally) show(key string) {
	for _, line := range t.output[key] {
		fmt.Fprint(t.out, "    ", line)
	}
}

// close judges the whole and answers the exit code.
func (t *tally) close(minimum string) int {
	sort.Sort(sort.Reverse(sort.StringSlice(t.slow)))
	for _, s := range t.slow {
		fmt.Fprintln(t.out, "slow:", s)
	}
	code := 0
	if t.failed > 0 || t.skipped > 0 || t.passed == 0 {
		code = 1
	}
	if minimum == "" {
		return code
	}
	raw, err := os.ReadFile(minimum)
	if err != nil {
		fmt.Fprintln(t.out, "tally:", err)
		return 1
	}
	least, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || t.passed < least {
		fmt.Fprintf(t.out, "tally: %d tests passed, but %s asks for %s\n", t.passed, minimum, strings.TrimSpace(string(raw)))
		return 1
	}
	return code
}
