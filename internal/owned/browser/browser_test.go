package browser_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"chaperone/internal/leaktest"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/sitetest"
)

func TestMain(m *testing.M) {
	jail.Init()
	code := m.Run()
	if common.run != nil {
		if err := common.run.Stop(); err != nil {
			panic(err)
		}
	}
	os.Exit(leaktest.Check(code))
}

// common is the browser that most tests share, one after another.
var common struct {
	once sync.Once
	run  *sitetest.Run
	err  error
}

// shared answers the common browser with nothing open but "main", in a context
// that holds nothing of the test before.
func shared(t *testing.T) *sitetest.Run {
	t.Helper()
	common.once.Do(func() {
		common.run, common.err = sitetest.Start(context.Background(), sitetest.Options{})
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	must(t, common.run, ownedv1.Close{})
	must(t, common.run, ownedv1.Launch{Headless: true})
	return common.run
}

// do does one action within a generous deadline.
func do(run *sitetest.Run, a ownedv1.Action) (browser.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return run.Do(ctx, a)
}

// must does an action that succeeds.
func must(t *testing.T, run *sitetest.Run, a ownedv1.Action) browser.Answer {
	t.Helper()
	answer, err := do(run, a)
	if err != nil {
		t.Fatalf("%s: %v", a.Name(), err)
	}
	return answer
}

// fails does an action that fails.
func fails(t *testing.T, run *sitetest.Run, a ownedv1.Action) *browser.Failure {
	t.Helper()
	answer, err := do(run, a)
	var f *browser.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%s: got %v and error %v, want a failure", a.Name(), answer.Result, err)
	}
	return f
}

// eval evaluates an expression and answers its value as JSON text.
func eval(t *testing.T, run *sitetest.Run, expression string) string {
	t.Helper()
	return string(must(t, run, ownedv1.EvalJS{Expression: expression}).Result.(ownedv1.EvalResult).Result)
}

// visit goes to a page.
func visit(t *testing.T, run *sitetest.Run, url string) ownedv1.GotoResult {
	t.Helper()
	return must(t, run, ownedv1.Goto{URL: url}).Result.(ownedv1.GotoResult)
}

func asFailure(t *testing.T, err error) *browser.Failure {
	t.Helper()
	var f *browser.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a failure", err)
	}
	return f
}

// eventually waits for a condition, for at most ten seconds.
func eventually(t *testing.T, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came true")
		}
	}
}

// renderers lists the host's ids of the renderers below a box's init.
func renderers(t *testing.T, init int) []int {
	t.Helper()
	var list []int
	for _, pid := range children(t, init) {
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && bytes.Contains(line, []byte("--type=renderer")) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, n)
		}
	}
	return list
}

// children lists the processes below init, all generations.
func children(t *testing.T, init int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent := map[string]string{}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parent[filepath.Base(filepath.Dir(name))] = fields[1]
	}
	var list []string
	for pid := range parent {
		for up := parent[pid]; up != ""; up = parent[up] {
			if up == strconv.Itoa(init) {
				list = append(list, pid)
				break
			}
		}
	}
	return list
}
