package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/store"
)

// homeOf answers the home that command gave a process.
func homeOf(cmd *exec.Cmd) string {
	home := ""
	for _, v := range cmd.Env {
		if value, ok := strings.CutPrefix(v, "CHAPERONE_HOME="); ok {
			home = value // the last one holds
		}
	}
	return home
}

// told answers the state of the newest run in a home's database.
func told(t *testing.T, home string) (state string) {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(home, "chaperone.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(context.Background(), func(tx *store.Tx) error {
		return tx.QueryRow("select state from owned_run order by started_ms desc limit 1").Scan(&state)
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// However a command is told to end, its run is ended and written down.
func TestEveryEndIsWrittenDown(t *testing.T) {
	// Under nohup the commands would inherit an ignored SIGHUP, and outlive it as
	// they should. A signal that is caught here is theirs by default.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	wait := "js=new Promise(next => setTimeout(next, 60000))"
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for name, c := range map[string]struct {
		args []string
		end  func(cmd *exec.Cmd, in io.Writer, out io.Closer) error
	}{
		"browse, SIGHUP": {[]string{"browse", "--json", "--allow", "localhost", "tabs", wait},
			func(cmd *exec.Cmd, _ io.Writer, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGHUP) }},
		"browse, its reader leaves": {[]string{"browse", "--json", "--keep-going", "--allow", "localhost", "tabs", "js=new Promise(next => setTimeout(next, 1000))", "tabs"},
			func(_ *exec.Cmd, _ io.Writer, out io.Closer) error { return out.Close() }},
		"mcp, SIGHUP": {[]string{"mcp", "--allow", "localhost"},
			func(cmd *exec.Cmd, _ io.Writer, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGHUP) }},
		"mcp, its reader leaves": {[]string{"mcp", "--allow", "localhost"},
			func(_ *exec.Cmd, in io.Writer, out io.Closer) error {
				if err := out.Close(); err != nil {
					return err
				}
				_, err := io.WriteString(in, ping)
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, c.args...)
			var said bytes.Buffer
			cmd.Stderr = &said
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
			defer cmd.Process.Kill()
			if c.args[0] == "mcp" {
				// Of the tool's answer, so that the browser is there.
				fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
				fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"browser_tabs"}}`)
				readLines(t, out, 2)
			} else {
				readLines(t, out, 1)
			}
			if err := c.end(cmd, in, out); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
				t.Errorf("died of %v", status.Signal())
			}
			if got := told(t, homeOf(cmd)); got != "ended" {
				t.Errorf("the run is %q, want ended; said: %s", got, said.String())
			}
		})
	}
}

func readLines(t *testing.T, r io.Reader, n int) {
	t.Helper()
	one := make([]byte, 1)
	for n > 0 {
		if _, err := r.Read(one); err != nil {
			t.Fatal(err)
		}
		if one[0] == '\n' {
			n--
		}
	}
}

// A pipe that nobody writes to holds no command.
func TestASilentPipeIsGivenUp(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"scope", "check", fifo, "https://a.example/"},
		{"browse", "--scope", fifo, "tabs"},
		{"browse", "--allow", "a.example", "--steps", fifo},
		{"audit", "verify", "--export", fifo},
	} {
		cmd := command(t, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		time.Sleep(500 * time.Millisecond)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(said.String(), "told to end while reading") {
				t.Errorf("%v: exit %d, said %q", args, code, said.String())
			}
		case <-time.After(patience):
			t.Fatalf("%v goes on", args)
		}
	}
}

// Results that couldn't be written are no success, whoever printed them.
func TestOutputThatIsLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	scope := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(scope, []byte("engagement: x\nallow:\n  - host: a.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"scope", "check", scope, "https://a.example/"},
		{"scope", "explain", scope},
		{"scope", "-h"},
	} {
		cmd := command(t, args...)
		cmd.Stdout = full
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(said.String(), "no space left") {
			t.Errorf("%v: %v, said %q", args, err, said.String())
		}
	}
}
