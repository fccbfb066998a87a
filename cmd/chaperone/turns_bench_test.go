package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chaperone/internal/agenttest"
	"chaperone/internal/owned/client"
	"chaperone/internal/owned/ownedv1"
)

// BenchmarkTurns measures what a turn's browser costs: from the host's start to its
// first action, an action by the Go client and by the Python package in one and the
// same kind of session, and ten runs at once at the npm server. Run it with
// -benchtime 1x: each case counts for itself.
func BenchmarkTurns(b *testing.B) {
	b.Run("first-action", func(b *testing.B) {
		var ready, first []time.Duration
		for range 20 {
			began := time.Now()
			path, end := registered(b)
			ready = append(ready, time.Since(began))
			s := connected(b, path)
			first = append(first, time.Since(began))
			s.Close()
			end()
		}
		figures(b, "ready", ready)
		figures(b, "first-action", first)
	})
	const actions = 300
	b.Run("go", func(b *testing.B) {
		path, end := registered(b)
		defer end()
		s := connected(b, path)
		defer s.Close()
		for name, action := range map[string]ownedv1.Action{"list_tabs": ownedv1.ListTabs{}, "eval_js": ownedv1.EvalJS{Expression: "1+1"}} {
			var all []time.Duration
			for range actions {
				began := time.Now()
				if _, err := s.Do(context.Background(), action); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(began))
			}
			figures(b, name, all)
		}
	})
	b.Run("python", func(b *testing.B) {
		path, end := registered(b)
		defer end()
		python, err := filepath.Abs("../../.cache/agent-servers/pypi/bin/python")
		if err != nil {
			b.Fatal(err)
		}
		// As a graph calls it: the tool's own coroutine, in an event loop.
		out, err := exec.Command(python, "-c", `
import asyncio, json, sys, time
from chaperone_browser import browser_action, native_browser_session
async def main():
    with native_browser_session(sys.argv[1]):
        assert "tabs" in await browser_action.ainvoke({"action": "launch", "params": {}})
        out = {}
        for name, params in (("list_tabs", {}), ("eval_js", {"expression": "1+1"})):
            all = []
            for _ in range(`+fmt.Sprint(actions)+`):
                began = time.perf_counter()
                answer = await browser_action.ainvoke({"action": name, "params": params})
                assert "error" not in answer, answer
                all.append(time.perf_counter() - began)
            out[name] = all
        print(json.dumps(out))
asyncio.run(main())
`, path).CombinedOutput()
		var seconds map[string][]float64
		if err != nil || json.Unmarshal(out, &seconds) != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		for name, list := range seconds {
			var all []time.Duration
			for _, s := range list {
				all = append(all, time.Duration(s*float64(time.Second)))
			}
			figures(b, name, all)
		}
	})
	b.Run("ten-runs", func(b *testing.B) {
		a := agenttest.Start(b, "")
		site := workbench(b)
		steps := fmt.Sprintf(`["open",{"action":"goto","params":{"url":%q}},{"action":"eval_js","params":{"expression":"document.title"}},{"action":"screenshot"}]`, site.URL("/sent"))
		one := func() time.Duration {
			began := time.Now()
			if r := turn(b, turnArgs(b, a.URL, a.Registrations, steps)); r.exit != 0 {
				b.Errorf("exit %d: %s", r.exit, r.said)
			}
			return time.Since(began)
		}
		var alone []time.Duration
		for range 5 {
			alone = append(alone, one())
		}
		figures(b, "alone", alone)
		began, together := time.Now(), make(chan time.Duration, 10)
		for range 10 {
			go func() { together <- one() }()
		}
		var all []time.Duration
		for range 10 {
			all = append(all, <-together)
		}
		figures(b, "of-ten", all)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ten-ms")
	})
}

// registered starts a host and answers its descriptor's path, once that is published.
func registered(b *testing.B) (path string, end func()) {
	b.Helper()
	dir := agenttest.Private(b)
	scope := filepath.Join(b.TempDir(), "scope.yaml")
	if err := os.WriteFile(scope, []byte("engagement: acme-2026\nallow:\n  - host: 127.0.0.1\n    ports: [\"*\"]\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	const run = "5f0c9f9e-3c5e-4f0e-9d3e-6f3a2f1f8a11"
	cmd := command(b, "host", "--engagement", "acme-2026", "--run-id", run, "--dir", dir, "--scope", scope)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return filepath.Join(dir, run, "browser.json"), func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}

// connected makes the handshake and the first action.
func connected(b *testing.B, path string) *client.Session {
	b.Helper()
	s, err := client.Connect(context.Background(), path)
	if err == nil {
		_, err = s.Do(context.Background(), ownedv1.Launch{Headless: true})
	}
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func figures(b *testing.B, name string, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
	b.ReportMetric(0, "ns/op")
}
