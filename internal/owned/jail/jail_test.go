package jail_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"chaperone/internal/leaktest"
	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"

	"golang.org/x/sys/unix"
)

// TestMain also gives this binary two more lives: as an engine inside a box, and
// as a host that a test kills.
func TestMain(m *testing.M) {
	jail.Init()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "engine":
			engineMain()
			os.Exit(0)
		case "host":
			hostMain(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(leaktest.Check(m.Run()))
}

// flags are Chromium's, as the browser package has them in essence.
var flags = []string{
	"--remote-debugging-pipe", "--user-data-dir=" + jail.ProfileDir, "--no-first-run", "--no-default-browser-check",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
	"--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--disable-extensions", "--metrics-recording-only",
	"--disable-field-trial-config", "--password-store=basic", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
	"--proxy-server=http://" + jail.ProxyAddr, "--proxy-bypass-list=<-loopback>",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
}

// publicCopy copies this test binary to where every user can execute it.
func publicCopy(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jail")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "beside"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "jail.test")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// boxed is a box and a reader of its pipe.
type boxed struct {
	*jail.Box
	answers *bufio.Reader
}

// start starts engine in a box that ends with the test.
func start(t testing.TB, c jail.Config) boxed {
	t.Helper()
	b, err := jail.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return boxed{b, bufio.NewReaderSize(b.Pipe(), 1<<20)}
}

func startChromium(t testing.TB) boxed {
	t.Helper()
	engine, err := jail.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, jail.Config{Engine: engine, Args: flags})
}

// startHelper starts this binary as the engine.
func startHelper(t testing.TB, limits jail.Limits) boxed {
	t.Helper()
	return start(t, jail.Config{Engine: publicCopy(t), Args: []string{"engine"}, Limits: limits})
}

// ask sends one message and answers the next one.
func (b boxed) ask(t testing.TB, message string) string {
	t.Helper()
	if _, err := io.WriteString(b.Pipe(), message+"\x00"); err != nil {
		t.Fatal(err)
	}
	answer, err := b.answers.ReadString(0)
	if err != nil {
		t.Fatalf("%v; box: %v; words: %s", err, b.Err(), b.LastWords())
	}
	return strings.TrimSuffix(answer, "\x00")
}

// ended waits for the box to end by itself and answers why.
func (b boxed) ended(t testing.TB) error {
	t.Helper()
	select {
	case <-b.Done():
	case <-time.After(60 * time.Second):
		t.Fatal("the box didn't end")
	}
	return b.Err()
}

// tree answers the host's pids of a process and of all its descendants.
func tree(pid int) []int {
	found := []int{pid}
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(data)) {
			child, _ := strconv.Atoi(word)
			found = append(found, tree(child)...)
		}
	}
	return found
}

// status answers the fields of a process's status file.
func status(pid int) map[string]string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// alive answers those pids that run still. A zombie of a killed host waits for
// the machine's init and is gone all the same.
func alive(pids []int) []int {
	var left []int
	for _, pid := range pids {
		if s := status(pid)["State"]; s != "" && s[0] != 'Z' && s[0] != 'X' {
			left = append(left, pid)
		}
	}
	return left
}

// waitGone waits until none of pids runs and answers how long that took.
func waitGone(t testing.TB, pids []int) time.Duration {
	t.Helper()
	begin := time.Now()
	for len(alive(pids)) > 0 {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after 10 s %v of %v live on", alive(pids), pids)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin)
}

// hostMain starts a box and says so; then it waits to be killed.
func hostMain(args []string) {
	switch args[0] {
	case "chromium":
		engine, err := jail.FindEngine("")
		must(err)
		hostBox(jail.Config{Engine: engine, Args: flags})
	case "helper":
		hostBox(jail.Config{Engine: args[1], Args: []string{"engine"}})
	case "guardian":
		dir, err := os.Open(args[1])
		must(err)
		g, err := jail.Guard(background, dir, args[2:]...)
		must(err)
		fmt.Println("pid", g.PID())
		<-g.Done()
		fmt.Println("guardian gone")
	case "mounted":
		must(hostMounted(args[1], args[2:]...))
		return
	case "mounted-broken":
		must(breakMachine("filter"))
		err := hostMounted(args[1], "/bin/true")
		fmt.Println(errors.Is(err, refusal.PrerequisiteMissing), err)
		return
	case "peer":
		must(tellPeer(args[1]))
		return
	case "probe":
		must(breakMachine(args[1]))
		err := jail.Probe(background)
		fmt.Println(errors.Is(err, refusal.PrerequisiteMissing), err)
		return
	}
	time.Sleep(time.Hour)
}

// breakMachine makes this process's machine one that can't box.
func breakMachine(how string) error {
	switch how {
	case "limit":
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	case "mask":
		return syscall.Mount("tmpfs", "/proc/sys", "tmpfs", syscall.MS_RDONLY, "")
	}
	policy := []unix.SockFilter{ // mount is refused, as by container runtimes
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MOUNT, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(policy)), Filter: &policy[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

func hostBox(c jail.Config) {
	b, err := jail.Start(background, c)
	must(err)
	if strings.Contains(c.Args[0], "remote-debugging") {
		_, err = io.WriteString(b.Pipe(), `{"id":1,"method":"Target.createTarget","params":{"url":"about:blank"}}`+"\x00")
		must(err)
		_, err = bufio.NewReader(b.Pipe()).ReadString(0)
		must(err)
	}
	fmt.Println("pid", b.PID())
}

func must(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

// startHost runs hostMain in a process of its own and answers the pid it tells.
func startHost(t *testing.T, attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, *bufio.Reader, int) {
	t.Helper()
	cmd := exec.Command(publicCopy(t), append([]string{"host"}, args...)...)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r := bufio.NewReader(out)
	var pid int
	if _, err := fmt.Fscanf(r, "pid %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	return cmd, r, pid
}
