package pagetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// pins are the npm packages that only tests use, with their lock.
func pins() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "npm")
}

var npmOnce = sync.OnceValues(installNPM)

// NPM answers the node_modules of the pinned test tools, installed into the
// checkout's .cache at first use. Several test binaries may ask at once.
func NPM(t testing.TB) string {
	t.Helper()
	dir, err := npmOnce()
	if err != nil {
		t.Fatalf("the npm tools of the tests (apt-get install -y nodejs npm): %v", err)
	}
	return dir
}

func installNPM() (string, error) {
	from := pins()
	cache := filepath.Join(from, "../../../.cache/pagetest-npm")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	want, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		return "", err
	}
	modules, stamp := filepath.Join(cache, "node_modules"), filepath.Join(cache, "stamp")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, want) {
		return modules, nil
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(cache, name), data, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = cache
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, said)
	}
	return modules, os.WriteFile(stamp, want, 0o644)
}

// Axe runs axe-core over the page as it is and answers what it finds, each with the
// elements it is about. The rules are those of WCAG 2.2 up to AA, and best practice.
func (p *Page) Axe() []string {
	p.t.Helper()
	source, err := os.ReadFile(filepath.Join(NPM(p.t), "axe-core/axe.min.js"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.Eval(string(source)+";0", nil)
	var found []struct {
		ID     string `json:"id"`
		Impact string `json:"impact"`
		Help   string `json:"help"`
		Nodes  []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}
	p.Eval(`axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 4).map(n => ({html: n.html, failureSummary: n.failureSummary}))})))`, &found)
	var out []string
	for _, v := range found {
		var nodes []string
		for _, n := range v.Nodes {
			nodes = append(nodes, n.HTML+" "+n.Summary)
		}
		out = append(out, fmt.Sprintf("%s (%s): %s\n\t%s", v.ID, v.Impact, v.Help, strings.Join(nodes, "\n\t")))
	}
	return out
}
