package jail_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"
)

func TestProcessMemory(t *testing.T) {
	b := startHelper(t, jail.Limits{ProcessBytes: slack + 256<<20})
	answer := b.ask(t, "hog 0")
	var got int
	if _, err := fmt.Sscanf(answer, "%d MiB then cannot allocate memory", &got); err != nil || got > slack>>20+256 || got < 128 {
		t.Errorf("under 256 MiB: %s", answer)
	}
	if answer := b.ask(t, "env"); !strings.Contains(answer, "HOME") {
		t.Error("the engine didn't survive its limit")
	}
}

// TestTreeMemory has children take more together than any may alone; a box beside
// them must not notice.
func TestTreeMemory(t *testing.T) {
	bystander := startHelper(t, jail.Limits{})
	b := startHelper(t, jail.Limits{ProcessBytes: slack + 200<<20, TreeBytes: 300 << 20})
	b.ask(t, "hog 4")
	begin := time.Now()
	err := b.ended(t)
	if !errors.Is(err, refusal.OverLimit) || !strings.Contains(err.Error(), "of 300 MiB") {
		t.Error(err)
	}
	t.Logf("%v after %v", err, time.Since(begin))
	bystander.ask(t, "env")
}

// TestPageTakesAllMemory has a real page do what hogs do.
func TestPageTakesAllMemory(t *testing.T) {
	engine, err := jail.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, jail.Config{Engine: engine, Args: flags, Limits: jail.Limits{TreeBytes: 500 << 20}})
	page := "data:text/html,<script>let x=[];for(;;)x.push(new Uint8Array(16<<20).fill(1))</script>"
	fmt.Fprintf(b.Pipe(), `{"id":1,"method":"Target.createTarget","params":{"url":%q}}`+"\x00", page)
	if err := b.ended(t); !errors.Is(err, refusal.OverLimit) {
		t.Error(err)
	} else {
		t.Log(err)
	}
}

func TestProcessorTime(t *testing.T) {
	b := startHelper(t, jail.Limits{CPU: time.Second})
	b.ask(t, "spin")
	if err := b.ended(t); !errors.Is(err, refusal.OverLimit) {
		t.Error(err)
	}
}

func TestForkBomb(t *testing.T) {
	bystander := startHelper(t, jail.Limits{})
	b := startHelper(t, jail.Limits{Processes: 60})
	answer := b.ask(t, "bomb")
	if !strings.Contains(answer, "resource temporarily unavailable") {
		t.Error(answer)
	}
	use, err := b.Usage()
	if err != nil || use.Threads > 60 || use.Processes < 3 {
		t.Errorf("%+v %v", use, err)
	}
	pids := tree(b.PID())
	if err := b.Close(); err != nil || len(alive(pids)) > 0 {
		t.Error(err, alive(pids))
	}
	bystander.ask(t, "env")
}

func TestBigFiles(t *testing.T) {
	b := startHelper(t, jail.Limits{FileBytes: 8 << 20, TmpBytes: 20 << 20, ShmBytes: 4 << 20})
	for _, c := range []struct{ ask, want string }{
		{"fill /tmp/a", "8388608 write /tmp/a: file too large"},
		{"fill /tmp/b", "8388608 write /tmp/b: file too large"},
		{"fill /dev/shm/a", "4194304 write /dev/shm/a: no space left on device"},
	} {
		if got := b.ask(t, c.ask); got != c.want {
			t.Errorf("%s: got %q, want %q", c.ask, got, c.want)
		}
	}
	if got := b.ask(t, "fill /tmp/c"); !strings.HasSuffix(got, "no space left on device") {
		t.Error(got)
	}
}

func TestUsage(t *testing.T) {
	b := startChromium(t)
	b.ask(t, `{"id":1,"method":"Browser.getVersion"}`)
	use, err := b.Usage()
	if err != nil || use.Processes < 4 || use.Threads < 20 || use.RSSBytes < 20<<20 || use.RSSBytes > 500<<20 {
		t.Errorf("%+v %v", use, err)
	}
}

func BenchmarkUsage(b *testing.B) {
	box := startChromium(b)
	box.ask(b, `{"id":1,"method":"Browser.getVersion"}`)
	for b.Loop() {
		if _, err := box.Usage(); err != nil {
			b.Fatal(err)
		}
	}
}
