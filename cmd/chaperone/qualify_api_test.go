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
	if at["@langchain/langgraph-api"] < 12 || at["langgraph-api"] < 9 || len(at) != 2 {
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
	// Servers that aren't, and drivers that say what they aren't asked.
	write := func(text string, path ...string) {
		file := filepath.Join(path...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	real, err := filepath.Abs(filepath.Join("..", "..", ".cache", "agent-servers", "npm"))
	if err != nil {
		t.Fatal(err)
	}
	const listens = "#!/bin/sh\nexec node -e 'require(\"http\").createServer((q,r)=>r.end(\"{}\")).listen(process.argv[1],\"127.0.0.1\")' $5\n"
	driver := func(does string) string {
		return "#!/bin/sh\ncase $1 in -c) echo 0 turn;; *) " + does + ";; esac\n"
	}
	for name, c := range map[string]struct {
		npm               bool
		langgraph, python string
		code              int
		says              string
	}{
		"a JavaScript server that isn't one": {false, listens, driver("exit 0"), exitFailed, "the agent server didn't start"},
		"a Python server that isn't one":     {true, "#!/bin/sh\necho no such option\nexit 2\n", driver("exit 0"), exitFailed, "no such option"},
		"no chaperone-browser":               {true, listens, "#!/bin/sh\nexit 1\n", exitPrerequisite, "pip install"},
		"a driver that prints something":     {true, listens, driver("echo hello"), exitFailed, "no row"},
		"a driver that fails":                {true, listens, driver("echo broken >&2; exit 1"), exitFailed, "broken"},
		"a scenario that fails": {true, listens, driver(`echo '{"scenario":"turn","status":"failed","seconds":1,"detail":"seen"}'; exit 5`),
			exitVerification, "failed  langgraph-api 0"},
	} {
		servers := t.TempDir()
		write(c.langgraph, servers, "pypi", "bin", "langgraph")
		write(c.python, servers, "pypi", "bin", "python")
		if c.npm {
			if err := os.Symlink(real, filepath.Join(servers, "npm")); err != nil {
				t.Fatal(err)
			}
		} else {
			write(`{"name":"@langchain/langgraph-api","version":"0"}`, servers, "npm", "node_modules", "@langchain", "langgraph-api", "package.json")
		}
		if out, code := run("--servers", servers, "--only", "turn"); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
}
