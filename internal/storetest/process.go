package storetest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"chaperone/internal/leaktest"
)

// roleVariable names the role that a copy of the test program plays.
const roleVariable = "CHAPERONE_TEST_ROLE"

// Role is what a process of its own does in a test. Lines that it prints are the
// test's to read.
type Role func(args []string) error

// Main is a package's TestMain: the copies that Start started play their roles,
// everything else runs the tests.
func Main(m *testing.M, roles map[string]Role) {
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(leaktest.Check(m.Run()))
	}
	if err := roles[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a copy of the test program that plays a role.
type Process struct {
	*exec.Cmd
	Lines  *bufio.Scanner // its standard output
	stderr bytes.Buffer
}

// Start starts a copy in that role. It is killed with the test, and by the
// kernel where the test program dies first.
func Start(t testing.TB, role string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command("/proc/self/exe", args...)}
	p.Env = append(os.Environ(), roleVariable+"="+role)
	p.Stderr = &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.StdinPipe() // a role that lasts ends at its end
	if err != nil {
		t.Fatal(err)
	}
	p.Lines = bufio.NewScanner(out)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Cmd.Wait()
		}
	})
	return p
}

// End reads what it still prints and waits for the process; the test fails
// where it failed.
func (p *Process) End(t testing.TB) (lines []string) {
	t.Helper()
	lines = p.drain()
	if err := p.Cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.stderr.Bytes())
	}
	return lines
}

// Crash kills the process at once and waits until it is gone. It answers what
// the process had printed and the test had not read.
func (p *Process) Crash(t testing.TB) (lines []string) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Error(err)
	}
	// Before Wait, which closes the pipe.
	lines = p.drain()
	if err := p.Cmd.Wait(); err == nil {
		t.Error("the process ended before it was killed")
	}
	return lines
}

func (p *Process) drain() (lines []string) {
	for p.Lines.Scan() {
		lines = append(lines, p.Lines.Text())
	}
	return lines
}

// Rounds is how often a test that looks for rare interleavings repeats: few in
// every run, many in make torture (CHAPERONE_TORTURE=1).
func Rounds(few, many int) int {
	if os.Getenv("CHAPERONE_TORTURE") == "1" {
		return many
	}
	return few
}
