package jail_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"

	"github.com/google/go-cmp/cmp"
)

var namespaces = []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}

// TestEveryProcessIsContained takes the inventory of a real browser with a page.
func TestEveryProcessIsContained(t *testing.T) {
	b := startChromium(t)
	b.ask(t, `{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`)
	waitRenderer(t, b)
	renderers := 0
	for _, pid := range tree(b.PID()) {
		s := status(pid)
		if s["Pid"] == "" {
			continue // ended meanwhile
		}
		got := map[string]string{}
		for _, name := range []string{"NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "CapAmb"} {
			got[name] = s[name]
		}
		none := "0000000000000000"
		want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": none, "CapPrm": none, "CapInh": none, "CapAmb": none}
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		what := strings.ReplaceAll(string(command), "\x00", " ")
		if diff := cmp.Diff(want, got); diff != "" && !brokers(pid, what) {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if root := os.Geteuid() == 0; root && (s["Groups"] != "" || strings.Contains(s["Uid"]+s["Gid"], "\t0")) {
			t.Errorf("%s has groups %q, uid %q, gid %q", what, s["Groups"], s["Uid"], s["Gid"])
		}
		for _, ns := range namespaces {
			theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
			ours, _ := os.Readlink("/proc/self/ns/" + ns)
			if theirs == ours || theirs == "" {
				t.Errorf("%s shares its %s namespace", what, ns)
			}
		}
		limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if !regexp.MustCompile(`Max core file size +0 +0`).Match(limits) {
			t.Errorf("%s may dump core", what)
		}
		if strings.Contains(what, "--type=renderer") {
			renderers++
			// Chromium adds its own filter once the renderer has warmed up.
			for wait := time.Now(); status(pid)["Seccomp_filters"] < "2"; time.Sleep(10 * time.Millisecond) {
				if time.Since(wait) > 30*time.Second {
					t.Fatal("renderer has one filter; Chromium's own is missing")
				}
			}
			if root, _ := os.Readlink(fmt.Sprintf("/proc/%d/root", pid)); root == "/" {
				t.Error("renderer sees the box's root; Chromium's own sandbox is off")
			}
		}
		if strings.Contains(what, "--no-sandbox") {
			t.Errorf("%s", what)
		}
	}
	if renderers == 0 {
		t.Error("no renderer to look at")
	}
}

// waitRenderer waits until the page has its process.
func waitRenderer(t *testing.T, b boxed) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(5 * time.Millisecond) {
		for _, pid := range tree(b.PID()) {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(command), "--type=renderer") {
				return
			}
		}
	}
	t.Fatal("no renderer")
}

// brokers says whether pid is Chromium's zygote helper, which keeps a capability
// in a user namespace of its own, inside the box's.
func brokers(pid int, what string) bool {
	return strings.Contains(what, "--type=zygote") && len(strings.Fields(status(pid)["NSpid"])) > 2
}

// TestEngineSees looks from inside at what there is.
func TestEngineSees(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	for _, c := range []struct{ ask, want string }{
		{"env", "HOME=/tmp/home TMPDIR=/tmp LANG=C.UTF-8 TZ=UTC"},
		{"fds", "0 /dev/null, 1 /dev/null, 2 pipe, 3 pipe, 4 pipe"},
		{"list /", "dev engine etc lib lib64 proc tmp usr var"},
		{"list /engine", "jail.test"}, // and nothing that lies beside it on the host
		{"list /etc", "fonts ld.so.cache"},
		{"list /dev", "fd full null random shm urandom zero"},
		{"list /tmp", "down home profile up"},
		{"read /etc/passwd", "open /etc/passwd: no such file or directory"},
		{"read /proc/1/environ", "open /proc/1/environ: permission denied"},
		{"write /usr/lib/x", "open /usr/lib/x: read-only file system"},
		{"write /x", "open /x: read-only file system"},
		{"write /tmp/x", "done"},
		{"write /dev/shm/x", "done"},
		{"exec /bin/sh", "fork/exec /bin/sh: no such file or directory"},
		{"dial tcp 10.0.0.1:80", "dial tcp 10.0.0.1:80: connect: network is unreachable"},
		{"dial tcp [2001:db8::1]:80", "dial tcp [2001:db8::1]:80: connect: network is unreachable"},
		{"dial udp 169.254.169.254:53", "dial udp 169.254.169.254:53: connect: network is unreachable"},
		{"dial tcp 127.0.0.1:22", "dial tcp 127.0.0.1:22: connect: connection refused"},
	} {
		got := b.ask(t, c.ask)
		if c.ask == "list /" {
			got = strings.NewReplacer(" lib32", "", " libx32", "").Replace(got)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.ask, got, c.want)
		}
	}
}

func TestFilter(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	const no, family = "operation not permitted", "address family not supported by protocol"
	var want []string
	for _, name := range []string{
		"bpf", "io_uring_setup", "keyctl", "userfaultfd", "perf_event_open", "finit_module", "mount", "fsopen", "setns", "ptrace",
		"process_vm_readv", "open_by_handle_at", "memfd_create", "shmget",
	} {
		want = append(want, name+": "+no)
	}
	want = append(want, "clone3: function not implemented", "unshare mount: "+no, "clone mount: "+no)
	for _, name := range []string{"unix", "inet", "inet6", "route"} {
		want = append(want, "socket "+name+": ok")
	}
	for _, name := range []string{"netfilter", "vsock", "packet", "alg"} {
		want = append(want, "socket "+name+": "+family)
	}
	if diff := cmp.Diff(want, strings.Split(b.ask(t, "syscalls"), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestListener serves the box's only way out from the host.
func TestListener(t *testing.T) {
	b := startHelper(t, jail.Limits{})
	go func() {
		c, err := b.Listener().Accept()
		if err != nil {
			return
		}
		io.WriteString(c, "from the host")
		c.Close()
	}()
	if got := b.ask(t, "dial tcp "+jail.ProxyAddr); got != "from the host" {
		t.Error(got)
	}
}

// TestBrowserReachesTheProxyOnly loads a page through a proxy on the listener,
// and a file of the host.
func TestBrowserReachesTheProxyOnly(t *testing.T) {
	for engine, more := range map[string][]string{
		jail.UsualEngine:             nil,
		"/usr/lib/chromium/chromium": {"--headless=new", "--disable-features=HttpsUpgrades"},
	} {
		t.Run(filepath.Base(engine), func(t *testing.T) {
			reachProxyOnly(t, start(t, jail.Config{Engine: engine, Args: append(more, flags...)}))
		})
	}
}

func reachProxyOnly(t *testing.T, b boxed) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<title>%s</title>", r.URL)
	})}
	go server.Serve(b.Listener())
	defer server.Close()
	target := b.ask(t, `{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`)
	id := regexp.MustCompile(`"targetId":"(\w+)"`).FindStringSubmatch(target)[1]
	session := b.ask(t, `{"id":2,"method":"Target.attachToTarget","params":{"targetId":"`+id+`","flatten":true}}`)
	for !strings.Contains(session, `"sessionId"`) {
		session, _ = b.answers.ReadString(0)
	}
	sid := regexp.MustCompile(`"sessionId":"(\w+)"`).FindStringSubmatch(session)[1]
	for i, c := range []struct{ url, want string }{
		{"http://app.example/x", `"loaderId"`},
		{"file:///etc/passwd", "net::ERR_FILE_NOT_FOUND"},
		{"https://other.example/", "net::ERR_TUNNEL_CONNECTION_FAILED"},
	} {
		n := 10 + i
		answer := b.ask(t, fmt.Sprintf(`{"id":%d,"sessionId":%q,"method":"Page.navigate","params":{"url":%q}}`, n, sid, c.url))
		for !strings.Contains(answer, fmt.Sprintf(`"id":%d,`, n)) {
			answer, _ = b.answers.ReadString(0)
		}
		if !strings.Contains(answer, c.want) {
			t.Errorf("%s: %s", c.url, answer)
		}
	}
}

func TestTwoBoxesShareNoUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // an ordinary user has one uid to give; see the package comment
	}
	seen := map[string]bool{}
	for range 5 {
		uid := status(startHelper(t, jail.Limits{}).PID())["Uid"]
		if seen[uid] || strings.HasPrefix(uid, "0") {
			t.Errorf("uid %s", uid)
		}
		seen[uid] = true
	}
}

func TestEndings(t *testing.T) {
	t.Run("engine exits", func(t *testing.T) {
		b := startHelper(t, jail.Limits{})
		b.ask(t, "say farewell")
		io.WriteString(b.Pipe(), "exit 7\x00")
		err := b.ended(t)
		if !errors.Is(err, refusal.EngineExited) || !strings.Contains(err.Error(), "exit status 7") {
			t.Error(err)
		}
		if b.LastWords() != "farewell" {
			t.Errorf("%q", b.LastWords())
		}
		if _, err := b.Pipe().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("pipe of an ended box: %v", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		b := startHelper(t, jail.Limits{})
		if err := b.Err(); err != nil {
			t.Error(err)
		}
		pids := tree(b.PID())
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left := alive(pids); len(left) > 0 {
			t.Errorf("Close answered before %v ended", left)
		}
		if !errors.Is(b.Err(), refusal.Ended) {
			t.Error(b.Err())
		}
		if _, err := b.Usage(); !errors.Is(err, refusal.NoBrowser) {
			t.Error(err)
		}
		if _, err := b.Listener().Accept(); err == nil {
			t.Error("listener of an ended box accepts")
		}
	})
	t.Run("pipe closed", func(t *testing.T) {
		b := startHelper(t, jail.Limits{})
		if err := b.Pipe().Close(); err != nil {
			t.Error(err)
		}
		if err := b.ended(t); !errors.Is(err, refusal.EngineExited) {
			t.Error(err)
		}
	})
}

// TestLongTMPDIR starts a browser although the host's TMPDIR is too long for a
// socket's path: the box has a /tmp of its own.
func TestLongTMPDIR(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	b := startChromium(t)
	if answer := b.ask(t, `{"id":1,"method":"Browser.getVersion"}`); !strings.Contains(answer, "HeadlessChrome") {
		t.Error(answer)
	}
	b.Close()
	if left, _ := filepath.Glob(long + "/*"); len(left) > 0 {
		t.Errorf("left in TMPDIR: %v", left)
	}
}

func TestRefusedConfigs(t *testing.T) {
	script := filepath.Join(t.TempDir(), "chromium")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		engine, want string
	}{
		{"chromium", "isn't absolute"},
		{"/nowhere/chromium", "apt-get install -y chromium-headless-shell"},
		{script, "the engine"},
	} {
		_, err := jail.Start(t.Context(), jail.Config{Engine: c.engine})
		if !errors.Is(err, refusal.PrerequisiteMissing) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.engine, err)
		}
		if _, err := jail.FindEngine(c.engine); !errors.Is(err, refusal.PrerequisiteMissing) {
			t.Errorf("%s: %v", c.engine, err)
		}
	}
	if found, err := jail.FindEngine("/usr/lib/chromium/../chromium/chromium-headless-shell"); err != nil || found != "/usr/lib/chromium/chromium-headless-shell" {
		t.Error(found, err)
	}
}

func TestProbe(t *testing.T) {
	if err := jail.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkBox(b *testing.B) {
	c := jail.Config{Engine: publicCopy(b), Args: []string{"engine"}}
	for b.Loop() {
		box, err := jail.Start(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		box.Close()
		b.StartTimer()
	}
}

// BenchmarkFirstAnswer is from nothing to the browser's first answer over CDP.
func BenchmarkFirstAnswer(b *testing.B) {
	for b.Loop() {
		begin := time.Now()
		box := startChromium(b)
		box.ask(b, `{"id":1,"method":"Browser.getVersion"}`)
		b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, "ms/answer")
		b.StopTimer()
		box.Close()
		b.StartTimer()
	}
}

// TestEngineElsewhere starts a Chromium that isn't installed where packages go.
func TestEngineElsewhere(t *testing.T) {
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/usr/lib/chromium/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range files {
		info, err := os.Stat(from)
		if err != nil || info.IsDir() || filepath.Base(from) == "chromium" {
			continue
		}
		data, err := os.ReadFile(from)
		if err != nil {
			continue // not for everybody to read
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(from)), data, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	b := start(t, jail.Config{Engine: filepath.Join(dir, "chromium-headless-shell"), Args: flags})
	if answer := b.ask(t, `{"id":1,"method":"Browser.getVersion"}`); !strings.Contains(answer, "HeadlessChrome") {
		t.Error(answer)
	}
}
