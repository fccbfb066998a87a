package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQualifyTurns runs the qualification of turns whole, at both servers, the long
// waits included: every scenario passes, and the page says what ran.
func TestQualifyTurns(t *testing.T) {
	t.Parallel()
	servers, pages, evidence := filepath.Join("..", "..", ".cache", "agent-servers"), t.TempDir(), t.TempDir()
	cmd := command(t, "qualify", "--api", "--json", "--servers", servers, "--write", "--docs", pages, "--evidence", evidence)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), said.String())
	}
	var told struct {
		Turns turnReport `json:"turns"`
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, row := range told.Turns.Rows {
		name, _, _ := strings.Cut(row.Server, " ")
		if at[name]++; row.Status != "passed" {
			t.Errorf("%s: %s: %s", row.Server, row.Scenario, row.Detail)
		}
	}
	if at["@langchain/langgraph-api"] < 12 || at["langgraph-api"] < 10 || len(at) != 2 {
		t.Errorf("scenarios: %v", at)
	}
	page, err := os.ReadFile(filepath.Join(pages, "qualification.md"))
	if err != nil || strings.Count(string(page), "| passed |") != len(told.Turns.Rows) || !strings.Contains(string(page), "rejected") {
		t.Errorf("the page: %v\n%s", err, page)
	}
	if _, err := os.Stat(filepath.Join(evidence, "turns.json")); err != nil {
		t.Error(err)
	}
}

// TestQualifyTurnsRefuses: no server is a prerequisite, and what fails is told by its
// scenario, with the exit code of a verification.
func TestQualifyTurnsRefuses(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, int) {
		cmd := command(t, append([]string{"qualify", "--api"}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("--servers", t.TempDir()); code != exitPrerequisite || !strings.Contains(out, "install-agent-servers.sh") {
		t.Errorf("no server: exit %d: %s", code, out)
	}
	if out, code := run("--webmcp"); code != exitUsage {
		t.Errorf("two at once: exit %d: %s", code, out)
	}
	// A server that isn't one, and a driver that says what it isn't asked.
	servers := t.TempDir()
	modules := filepath.Join(servers, "npm", "node_modules", "@langchain", "langgraph-api")
	for path, text := range map[string]string{
		filepath.Join(modules, "package.json"):                   `{"name":"@langchain/langgraph-api","version":"0"}`,
		filepath.Join(servers, "pypi", "bin", "python"):          "#!/bin/sh\necho '{\"server\":\"langgraph-api 0\",\"scenario\":\"turn\",\"status\":\"failed\",\"seconds\":1,\"detail\":\"seen\"}'\nexit 5\n",
		filepath.Join(servers, "other", "pypi", "bin", "python"): "#!/bin/sh\necho hello\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := run("--servers", servers); code != exitFailed || !strings.Contains(out, "the agent server didn't start") {
		t.Errorf("a server that isn't one: exit %d: %s", code, out)
	}
	real, err := filepath.Abs(filepath.Join("..", "..", ".cache", "agent-servers", "npm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{servers, filepath.Join(servers, "other")} {
		if err := os.RemoveAll(filepath.Join(dir, "npm")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(dir, "npm")); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := run("--servers", servers, "--only", "turn"); code != exitVerification || !strings.Contains(out, "failed  langgraph-api 0") || !strings.Contains(out, "seen") {
		t.Errorf("a scenario that fails: exit %d: %s", code, out)
	}
	if out, code := run("--servers", filepath.Join(servers, "other"), "--only", "turn"); code != exitFailed || !strings.Contains(out, "no row") {
		t.Errorf("a driver that prints something else: exit %d: %s", code, out)
	}
}
