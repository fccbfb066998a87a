package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chaperone/internal/owned/jail"
)

// asCommand makes this test's own executable behave as the command.
const asCommand = "CHAPERONE_TEST_COMMAND"

// prompt lets a process under the race detector end at once: by itself it stays
// for a second.
const prompt = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	jail.Init()
	if os.Getenv(asCommand) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"chaperone": main})
}

// command is `chaperone args…` as a process of its own, with a home of its own.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", prompt, "CHAPERONE_HOME="+filepath.Join(t.TempDir(), "home"))
	return cmd
}

// example builds and runs the example site, and answers its two addresses.
func example(t testing.TB) (library, office string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command("go", "build", "-o", program, "chaperone/examples/site").CombinedOutput(); err != nil {
		t.Fatalf("building the example site: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // its end
		if err := cmd.Wait(); err != nil {
			t.Errorf("the example site: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	library, office, _ = strings.Cut(strings.TrimSpace(line), " ")
	return library, office
}

func TestScripts(t *testing.T) {
	library, office := example(t)
	scopes, err := filepath.Abs("../../examples/scopes")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CHAPERONE_HOME", filepath.Join(env.WorkDir, "home"))
			env.Vars = append(env.Vars, prompt)
			env.Setenv("SCOPES", scopes)
			env.Setenv("LIBRARY", library)
			env.Setenv("LIBRARY_HOST", strings.TrimPrefix(library, "http://"))
			env.Setenv("OFFICE", office)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"status": status, "enrolled": enrolled, "revoke-listed": revokeListed},
	})
}

// status runs a command and wants its exit code: status 2 chaperone browse …
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// patience is a generous bound: five times what a busy machine needs.
const patience = 60 * time.Second

// lines delivers a process's output line by line, without their ends.
func lines(r io.Reader) <-chan string {
	ch := make(chan string, 64)
	go func() {
		defer close(ch)
		b := bufio.NewReaderSize(r, 1<<20)
		for {
			line, err := b.ReadString('\n')
			if line != "" {
				ch <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}
