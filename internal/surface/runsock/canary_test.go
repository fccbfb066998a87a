package runsock_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// canary is a secret that a search looks for, as text and as the bytes it
// stands for.
type canary struct {
	name  string
	forms [][]byte
}

func newCanary(name, token string) canary {
	raw, err := hex.DecodeString(token)
	if err != nil {
		panic(err)
	}
	return canary{name, [][]byte{[]byte(token), []byte(strings.ToUpper(token)), raw}}
}

// search looks for canaries and keeps where it found which.
type search struct {
	canaries []canary
	found    map[string]bool // "name in place"
	read     int             // places that could be read
	seen     map[string]bool
}

// look reads one place. What can't be read (a socket, a process that has just
// gone) is no place.
func (s *search) look(place string, r io.Reader) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<30))
	if err != nil {
		return
	}
	s.read++
	for _, c := range s.canaries {
		for _, form := range c.forms {
			if bytes.Contains(data, form) {
				s.found[c.name+" in "+place] = true
			}
		}
	}
}

func (s *search) file(place, path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|0x800 /* O_NONBLOCK: a pipe must not hold us */, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeType != 0 && !strings.HasPrefix(place, "/proc") {
		return
	}
	s.look(place, f)
}

// process searches what anybody with the rights may read of a process without
// stopping it: its command line, environment, mapped files and open files.
func (s *search) process(p proc) {
	root := "/proc/" + strconv.Itoa(p.pid)
	s.file(p.name+" cmdline", root+"/cmdline")
	s.file(p.name+" environ", root+"/environ")
	for _, kind := range [][2]string{{"mapped", "map_files"}, {"open", "fd"}} {
		links, _ := filepath.Glob(root + "/" + kind[1] + "/*")
		for _, link := range links {
			info, err := os.Stat(link) // through the link: also what was deleted
			target, _ := os.Readlink(link)
			if err == nil && info.Mode().IsRegular() && s.first(kind[0], target, info) {
				s.file(p.name+" "+kind[0]+" "+filepath.Base(target), link)
			}
		}
	}
}

// first tells whether this file wasn't searched yet: a library is mapped by
// every process.
func (s *search) first(kind, target string, info fs.FileInfo) bool {
	key := fmt.Sprintf("%s %s %d %d", kind, target, info.Size(), info.ModTime().UnixNano())
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	return true
}

// tree searches every file below a folder.
func (s *search) tree(place, root string) {
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			s.file(place+" "+filepath.Base(path), path)
		}
		return nil
	})
}

func (s *search) places() (list []string) {
	for place := range s.found {
		list = append(list, place)
	}
	slices.Sort(list)
	return list
}

// TestCredentialsAreNowhere searches everything that a run leaves or shows while
// an action is under way: processes, files, logs, audit and database. A search
// that can't find what was planted proves nothing, so that comes first.
func TestCredentialsAreNowhere(t *testing.T) {
	t.Parallel()
	h := start(t, options{})
	s := h.open()
	s.must("launch", "{}")
	s.must("goto", fmt.Sprintf(`{"url":%q}`, newSite(t).URL+"/form"))
	planted := newHex(32)
	decoy := plant(t, planted)
	look := &search{
		canaries: []canary{newCanary("session", s.token), newCanary("bootstrap", s.d.BootstrapToken), newCanary("planted", planted)},
		found:    map[string]bool{}, seen: map[string]bool{},
	}
	under := make(chan struct{})
	go func() {
		defer close(under)
		s.act(context.Background(), "eval_js", `{"expression":"new Promise(done => setTimeout(() => done(1), 4000))"}`)
	}()
	time.Sleep(300 * time.Millisecond)
	living := append(family(h.cmd.Process.Pid), decoy)
	for _, p := range living {
		look.process(p)
	}
	look.tree("home", h.home)
	look.tree("registration", h.dir)
	<-under
	h.stop()
	look.look("stdout", strings.NewReader(h.ready))
	look.look("stderr", bytes.NewReader(h.stderr.Bytes()))
	look.tree("home afterwards", h.home)

	want := []string{
		"bootstrap in registration browser.json",
		"planted in " + decoy.name + " cmdline", "planted in " + decoy.name + " environ",
		"planted in " + decoy.name + " mapped canary", "planted in " + decoy.name + " open canary", // mmap keeps it open
		"planted in " + decoy.name + " open opened",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, look.places()); diff != "" {
		t.Errorf("credentials found (-want +got):\n%s", diff)
	}
	if len(living) < 6 || look.read < 50 {
		t.Errorf("only %d processes and %d places were searched", len(living), look.read)
	}
	t.Logf("%d processes, %d places", len(living), look.read)
}

// plant starts a process that has the secret in its command line, environment,
// a mapped file and an open one.
func plant(t *testing.T, secret string) proc {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"canary", "opened"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", 5000)+secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("python3", "-I", "-c", `
import mmap, sys
f = open("canary", "rb"); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); f.close()
g = open("opened", "rb")
print("planted", flush=True)
sys.stdin.read()`, secret)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CANARY="+secret)
	stdin, err := cmd.StdinPipe()
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
		stdin.Close()
		cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("planted"))); err != nil {
		t.Fatal(err)
	}
	p, ok := readProc(cmd.Process.Pid)
	if !ok {
		t.Fatal("the decoy is gone")
	}
	return p
}
