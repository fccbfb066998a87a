package browser_test

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/internal/sitetest"
)

// Deadlines and hangs: a renderer that stays deaf is killed and its tab told as
// crashed; the run lives on.
func TestCaseDeafRendererIsKilled(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/", `<title>Home</title>`)
	run := shared(t)
	visit(t, run, site.URL("/"))
	deaf := renderers(t, run.Box.PID())
	for _, pid := range deaf {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := run.Do(ctx, ownedv1.EvalJS{Expression: `1`})
	if f := asFailure(t, err); f.Code != refusal.BrowserTimeout || len(f.Notes.GoneTabs) != 1 {
		t.Errorf("got %v %+v", f, f.Notes)
	}
	within(t, start, 200*time.Millisecond, 5*time.Second)
	if f := fails(t, run, ownedv1.EvalJS{Expression: `1`}); f.Reason != refusal.TabCrashed {
		t.Errorf("the next call: %v", f)
	}
	if got := visit(t, run, site.URL("/")); got.Title != "Home" {
		t.Errorf("got %+v", got)
	}
	for _, pid := range deaf {
		eventually(t, func() bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return err != nil || stat[len(strconv.Itoa(pid))+len(" (chromium-headle) ")] == 'Z'
		})
	}
}
