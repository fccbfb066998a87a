package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"chaperone/internal/owned/client"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/surface/runsock"
)

// asAgent makes this test's own executable behave as an agent server that takes
// one turn: it waits for the registration where agents look, acts, says so, and
// ends with its standard input.
const asAgent = "CHAPERONE_TEST_AGENT"

func init() {
	if os.Getenv(asAgent) == "" {
		return
	}
	if err := act(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("acted")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(17)
}

func act(runID string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var s *client.Session
	if runID == "" {
		s, err = client.Connect(ctx, "/run/chaperone/browser.json")
	} else {
		s, err = client.NewMount("/run/chaperone/browser-runs").Session(ctx, "acme-2026", runID)
	}
	if err != nil {
		return err
	}
	for _, a := range []ownedv1.Action{ownedv1.Launch{Headless: true}, ownedv1.ListTabs{}} {
		if _, err := s.Do(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// ground is a folder that a user owns, with the program, a home, a scope and a
// directory of registrations whose sockets' paths are too long to be named.
type ground struct {
	uid                             int
	dir, program, home, scope, regs string
}

func newGround(t *testing.T, uid int) ground {
	t.Helper()
	// Not below TMPDIR, through which another user mightn't come.
	dir, err := os.MkdirTemp("/var/tmp", "chaperone-launch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := ground{
		uid: uid, dir: dir, program: dir + "/chaperone", home: dir + "/home", scope: dir + "/scope.yaml",
		regs: dir + "/" + strings.Repeat("long", 30) + "/browser-runs",
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		// No fork of a parallel test may inherit the file while it is open for
		// writing: until that child's exec, nobody could execute it.
		syscall.ForkLock.RLock()
		err = os.WriteFile(g.program, data, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err == nil {
		err = os.WriteFile(g.scope, []byte("engagement: acme-2026\nallow:\n  - host: 127.0.0.1\n    ports: [\"*\"]\n"), 0o600)
	}
	if err == nil {
		err = os.MkdirAll(g.regs, 0o700)
	}
	if err == nil {
		err = os.MkdirAll(g.home, 0o700)
	}
	if err == nil && uid != os.Geteuid() {
		err = filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
			return os.Chown(path, uid, uid)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// command is `chaperone args…` as the ground's user.
func (g ground) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, args...)
	cmd.Path, cmd.Dir = g.program, g.dir
	cmd.Env = append(cmd.Env, "CHAPERONE_HOME="+g.home, "HOME="+g.dir, "DOCKER_HOST=", "DOCKER_CONTEXT=", "DOCKER_CONFIG=", "COMPOSE_FILE=")
	if g.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(g.uid), Gid: uint32(g.uid)}}
	}
	return cmd
}

// said runs `chaperone args…` to its end.
func (g ground) said(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return outcomeOf(t, g.command(t, args...))
}

func outcomeOf(t *testing.T, cmd *exec.Cmd) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer stop.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// running is a process whose output is read line by line.
type running struct {
	*exec.Cmd
	in   io.WriteCloser
	out  <-chan string
	errs *bytes.Buffer
}

func started(t *testing.T, cmd *exec.Cmd) running {
	t.Helper()
	r := running{Cmd: cmd, errs: &bytes.Buffer{}}
	cmd.Stderr = r.errs
	var err error
	if r.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.out = lines(out)
	return r
}

func (r running) says(t *testing.T, wanted string) {
	t.Helper()
	select {
	case line := <-r.out:
		if !strings.Contains(line, wanted) {
			r.in.Close()
			r.Wait()
			t.Fatalf("said %q, want %q; %s", line, wanted, r.errs)
		}
	case <-time.After(patience):
		t.Fatalf("said nothing, want %q", wanted)
	}
}

// users are whom the mounts are tried as.
func users() []int {
	if os.Geteuid() == 0 {
		return []int{0, ordinaryUID}
	}
	return []int{os.Geteuid()}
}

func (g ground) agent(runID string) []string {
	return []string{"--", "/usr/bin/env", "-u", asCommand, asAgent + "=1", g.program, runID}
}

// An agent in there, which is started first, handshakes and acts through the
// mount; neither its environment nor an argument has a credential, nobody else
// sees the mount, and nothing is left of it.
func TestLaunchRegistrations(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			t.Parallel()
			g := newGround(t, uid)
			const runID = "5f0c9f9e-3c5e-4f0e-9d3e-6f3a2f1f8a11"
			server := started(t, g.command(t, append([]string{"launch", "--engagement", "acme-2026", "--browser-registrations", g.regs,
				"--workspace", g.home}, g.agent(runID)...)...))
			host := started(t, g.command(t, "host", "--engagement", "acme-2026", "--run-id", runID, "--dir", g.regs, "--scope", g.scope))
			host.says(t, `"ready":true`)
			token := tokenIn(t, filepath.Join(g.regs, runID, "browser.json"))
			server.says(t, "acted")
			g.keepsSecret(t, server.Process.Pid, token)
			if _, err := os.Stat("/run/chaperone"); err == nil {
				t.Error("the host has the mount too")
			}
			server.in.Close()
			server.Wait()
			if code := server.ProcessState.ExitCode(); code != 17 {
				t.Errorf("exit %d, want the command's 17; %s", code, server.errs)
			}
			host.in.Close()
			if err := host.Wait(); err != nil {
				t.Errorf("the host: %v %s", err, host.errs)
			}
			if left, err := os.ReadDir(g.regs); err != nil || len(left) > 0 {
				t.Errorf("left in the registrations: %v %v", left, err)
			}
		})
	}
}

// tokenIn is the credential of a descriptor.
func tokenIn(t *testing.T, path string) string {
	t.Helper()
	var d struct {
		Token string `json:"bootstrap_token"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil || len(d.Token) != 64 {
		t.Fatalf("%v: no credential", err)
	}
	return d.Token
}

// keepsSecret looks for a credential in what other processes could read.
func (g ground) keepsSecret(t *testing.T, pid int, secret string) {
	t.Helper()
	all := append(descendants(pid), pid)
	if len(all) < 2 {
		t.Error("the launcher has no command")
	}
	for _, pid := range all {
		for _, file := range []string{"environ", "cmdline"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil || bytes.Contains(data, []byte(secret)) {
				t.Errorf("%v: process %d tells the credential in its %s", err, pid, file)
			}
		}
	}
}

// One descriptor, and its socket, for a run that is registered already.
func TestLaunchDescriptor(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		t.Run(fmt.Sprint(uid), func(t *testing.T) {
			t.Parallel()
			g := newGround(t, uid)
			host := started(t, g.command(t, "host", "--engagement", "acme-2026", "--run-id", "run", "--dir", g.home, "--scope", g.scope))
			host.says(t, `"ready":true`)
			server := started(t, g.command(t, append([]string{"launch", "--engagement", "acme-2026",
				"--browser-descriptor", g.home + "/run/browser.json"}, g.agent("")...)...))
			server.says(t, "acted")
			// Killed, it takes the agent with it, and the mount with that.
			pids := descendants(server.Process.Pid)
			server.Process.Kill()
			server.Wait()
			gone(t, pids)
			host.in.Close()
			if err := host.Wait(); err != nil {
				t.Errorf("the host: %v %s", err, host.errs)
			}
		})
	}
}

// Signals are the command's, and its death is the launcher's.
func TestLaunchSignals(t *testing.T) {
	t.Parallel()
	// Where this process was told to ignore one (nohup), its children don't.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	for _, uid := range users() {
		g := newGround(t, uid)
		launch := func(script string) running {
			return started(t, g.command(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--", "sh", "-c", script))
		}
		for sig, name := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGUSR1: "USR1"} {
			r := launch("trap 'echo " + name + "; exit 9' " + name + "; echo up; while :; do sleep 0.02; done")
			r.says(t, "up")
			r.Process.Signal(sig)
			r.says(t, name)
			r.Wait()
			if code := r.ProcessState.ExitCode(); code != 9 {
				t.Errorf("%s: exit %d, want 9", name, code)
			}
		}
		r := launch("kill -TERM $$")
		r.Wait()
		if status := r.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
			t.Errorf("ended by %v, want SIGTERM", r.ProcessState)
		}
		if code, _, errs := g.said(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--", "sh", "-c", "kill -ABRT $$"); code != 128+6 || errs != "" {
			t.Errorf("exit %d, want 134; said %q", code, errs)
		}
	}
}

// The terminal is the command's, and one Ctrl-C is one.
func TestLaunchTerminal(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		g := newGround(t, uid)
		keys, tty := terminal(t, uid)
		cmd := g.command(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--", "sh", "-c",
			`n=0; trap 'n=$((n+1))' INT; test -t 0 && test -t 1 && echo terminal; i=0; while test $i -lt 40; do sleep 0.05; i=$((i+1)); done; echo "interrupts $n"`)
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tty.Close()
		shown := lines(keys)
		if line := <-shown; !strings.Contains(line, "terminal") {
			t.Errorf("said %q", line)
		}
		time.Sleep(100 * time.Millisecond) // into the loop
		if _, err := keys.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		if line := <-shown; !strings.Contains(line, "interrupts 1") {
			t.Errorf("said %q, want one interrupt", line)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// What isn't fit to be mounted is refused with its reason, before anything is
// started.
func TestLaunchRefusals(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	at := func(name string) string { return filepath.Join(g.dir, name) }
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok := at("ok")
	for _, dir := range []string{"ok", "work", "work/regs", "run", "linked", "odd", "home/run", "home/run/regs", "open"} {
		do(os.Mkdir(at(dir), 0o700))
	}
	do(os.Chmod(at("open"), 0o777))
	do(os.Mkdir(at("open/regs"), 0o700))
	do(os.Mkdir(at("wide"), 0o755))
	do(os.Chmod(at("odd"), os.ModeSticky|0o700))
	do(os.Symlink(ok, at("link")))
	do(os.Symlink(ok, at("linked/run")))
	do(os.WriteFile(at("file"), nil, 0o600))
	cases := []struct {
		name string
		code int
		want string
		args []string
	}{
		{"no engagement", 2, "--engagement is needed", []string{"--engagement", "", "--browser-registrations", ok, "--", "true"}},
		{"a path for an engagement", 2, "--engagement must match", []string{"--engagement", "../x", "--browser-registrations", ok, "--", "true"}},
		{"neither form", 2, "one of them", []string{"--", "true"}},
		{"both forms", 2, "one of them", []string{"--browser-registrations", ok, "--browser-descriptor", at("file"), "--", "true"}},
		{"nothing to start", 2, "say what gets the mount", []string{"--browser-registrations", ok}},
		{"no dashes", 2, "put -- before the command", []string{"--browser-registrations", ok, "true"}},
		{"no such command", 2, `"no-such-command": executable file not found`, []string{"--browser-registrations", ok, "--", "no-such-command"}},
		{"a folder for a command", 2, "can't be run", []string{"--browser-registrations", ok, "--", g.dir}},
		{"a container's client", 2, "use --compose-out", []string{"--browser-registrations", ok, "--", at("docker"), "run"}},
		{"missing", 2, "doesn't exist: mkdir -p -m 700", []string{"--browser-registrations", at("none"), "--", "true"}},
		{"a file", 2, "is no directory", []string{"--browser-registrations", at("file"), "--", "true"}},
		{"a mode", 2, "has mode 0755, and must have 0700: chmod 700", []string{"--browser-registrations", at("wide"), "--", "true"}},
		{"an odd mode", 2, "has mode 1700, and must have 0700", []string{"--browser-registrations", at("odd"), "--", "true"}},
		{"a link", 2, "is a symbolic link: name what it leads to", []string{"--browser-registrations", at("link"), "--", "true"}},
		{"a link in it", 2, "holds a symbolic link", []string{"--browser-registrations", at("linked"), "--", "true"}},
		{"an open folder above", 2, "can be swapped by others: .*/open has mode 0777: chmod go-w it", []string{"--browser-registrations", at("open/regs"), "--", "true"}},
		{"the home's run", 2, "is or holds the home's own run/", []string{"--browser-registrations", at("home/run"), "--", "true"}},
		{"the home", 2, "is or holds the home's own run/", []string{"--browser-registrations", g.home, "--", "true"}},
		{"in the workspace", 2, "overlap: whoever works there would read the credentials", []string{"--browser-registrations", at("work/regs"), "--workspace", ok, "--workspace", at("work"), "--", "true"}},
		{"the workspace in it", 2, "overlap", []string{"--browser-registrations", at("work"), "--workspace", at("work/regs"), "--", "true"}},
		{"no workspace", 2, "can't read the workspace", []string{"--browser-registrations", ok, "--workspace", at("none"), "--", "true"}},
		{"a second service", 2, `a second service \(kali\)`, []string{"--browser-registrations", ok, "--compose-out", at("o.yaml"), "--service", "langgraph", "--service", "kali"}},
		{"two in one", 2, "one Compose service's name", []string{"--browser-registrations", ok, "--compose-out", at("o.yaml"), "--service", "langgraph,kali"}},
		{"no service", 2, "needs --service NAME", []string{"--browser-registrations", ok, "--compose-out", at("o.yaml")}},
		{"a service alone", 2, "go with --compose-out", []string{"--browser-registrations", ok, "--service", "langgraph", "--", "true"}},
		{"both ways", 2, "not both", []string{"--browser-registrations", ok, "--compose-out", at("o.yaml"), "--service", "a", "--", "true"}},
	}
	do(os.WriteFile(at("docker"), []byte("#!/bin/sh\n"), 0o755))
	for _, c := range cases {
		code, out, errs := g.said(t, append([]string{"launch", "--engagement", "acme-2026"}, c.args...)...)
		if code != c.code || out != "" {
			t.Errorf("%s: exit %d, want %d; printed %q", c.name, code, c.code, out)
		}
		want(t, c.name, errs, c.want)
	}
	if _, err := os.Lstat(at("o.yaml")); err == nil {
		t.Error("a refused launch wrote a file")
	}
}

// An ordinary user can't mount another's directory.
func TestLaunchAnothers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // nobody else's is at hand
	}
	g := newGround(t, ordinaryUID)
	theirs := g.dir + "/theirs"
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	code, _, errs := g.said(t, "launch", "--engagement", "e", "--browser-registrations", theirs, "--", "true")
	if code != 2 {
		t.Errorf("exit %d", code)
	}
	want(t, "another's", errs, `belongs to uid 0, not to you \(uid 64998\)`)
	// Root may mount a user's: that user's runs are for an agent that root started.
	g.uid = 0
	if code, _, errs := g.said(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--", "true"); code != 0 {
		t.Errorf("root: exit %d: %s", code, errs)
	}
}

// Where the kernel gives no user namespace, an ordinary user is told what doctor
// tells.
func TestLaunchWithoutNamespaces(t *testing.T) {
	t.Parallel()
	g := newGround(t, users()[len(users())-1])
	cmd := g.command(t, "launch", "--engagement", "e", "--browser-registrations", g.regs, "--", "true")
	// The limit is that of a namespace around it, in which its user is the same.
	script, first, size := `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`, g.uid, 1
	if os.Geteuid() == 0 {
		first, size = 0, g.uid+1
		script = strings.Replace(script, "exec", fmt.Sprintf("exec setpriv --reuid %d --regid %[1]d --clear-groups", g.uid), 1)
	}
	cmd.Args, cmd.Path = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...), "/bin/sh"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: first, HostID: first, Size: size}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: first, HostID: first, Size: size}}, GidMappingsEnableSetgroups: os.Geteuid() == 0,
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
	code, _, errs := outcomeOf(t, cmd)
	if code != exitPrerequisite {
		t.Errorf("exit %d, want 4", code)
	}
	want(t, "no namespaces", errs, `user.max_user_namespaces is 0.*sysctl -w user.max_user_namespaces=(?s:.*)chaperone doctor`)
}

// published puts a descriptor and a socket where the static form takes them.
func published(t *testing.T, g ground, change func(*ownedv1.Descriptor)) string {
	t.Helper()
	run := g.home + "/run"
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	l, err := runsock.ListenUnix(folder, "browser.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := ownedv1.Descriptor{
		Identity: ownedv1.Identity{Protocol: ownedv1.Protocol, EngagementID: "acme-2026", RunID: "r", Epoch: strings.Repeat("a", 64)},
		Endpoint: ownedv1.UnixEndpoint, Transport: ownedv1.TransportUnix,
		BootstrapToken: strings.Repeat("c", 64), ExpiresAtMS: time.Now().UnixMilli() + 50_000, HostCommit: strings.Repeat("b", 40),
	}
	change(&d)
	path := run + "/browser.json"
	if err := os.WriteFile(path, d.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLaunchDescriptorRefusals(t *testing.T) {
	t.Parallel()
	g := newGround(t, os.Geteuid())
	for _, c := range []struct {
		name, want string
		change     func(*ownedv1.Descriptor)
		then       func(path string) (string, error)
	}{
		{"as it should be", "", nil, nil},
		{"expired", "\"expires_at_ms\" is past: start the run again", func(d *ownedv1.Descriptor) { d.ExpiresAtMS = time.Now().UnixMilli() - 1 }, nil},
		{"loopback", "transport loopback, which no mount carries", func(d *ownedv1.Descriptor) {
			d.Transport, d.Endpoint = ownedv1.TransportDirect, "http://127.0.0.1:4242"
		}, nil},
		{"another endpoint", "\"endpoint\" must be http://127.0.0.1:1", func(d *ownedv1.Descriptor) { d.Endpoint = "http://127.0.0.1:2" }, nil},
		{"another engagement", "is for another engagement", func(d *ownedv1.Descriptor) { d.EngagementID = "other" }, nil},
		{"no descriptor", "can't be used", nil, func(p string) (string, error) { return p, os.WriteFile(p, []byte("{}"), 0o600) }},
		{"open", "has mode 0644 and is open to others", nil, func(p string) (string, error) { return p, os.Chmod(p, 0o644) }},
		{"a link", "is a symbolic link", nil, func(p string) (string, error) { return p + ".link", os.Symlink(p, p+".link") }},
		{"a folder", "is no regular file", nil, func(p string) (string, error) { return filepath.Dir(p) + "/d", os.Mkdir(filepath.Dir(p)+"/d", 0o700) }},
		{"elsewhere", "isn't directly in .*/home/run", nil, func(p string) (string, error) { return g.dir + "/browser.json", os.Rename(p, g.dir+"/browser.json") }},
		{"no socket", "the descriptor's socket .*doesn't exist", nil, func(p string) (string, error) { return p, os.Remove(filepath.Dir(p) + "/browser.sock") }},
		{"no socket but a file", "has no socket beside it", nil, func(p string) (string, error) {
			sock := filepath.Dir(p) + "/browser.sock"
			return p, os.WriteFile(sock, nil, 0o600)
		}},
	} {
		change := c.change
		if change == nil {
			change = func(*ownedv1.Descriptor) {}
		}
		path := published(t, g, change)
		if c.name == "no socket but a file" {
			os.Remove(filepath.Dir(path) + "/browser.sock")
		}
		if c.then != nil {
			var err error
			if path, err = c.then(path); err != nil {
				t.Fatal(err)
			}
		}
		code, _, errs := g.said(t, "launch", "--engagement", "acme-2026", "--browser-descriptor", path, "--", "true")
		if wanted := map[bool]int{true: 0, false: 2}[c.want == ""]; code != wanted {
			t.Errorf("%s: exit %d, want %d; %s", c.name, code, wanted, errs)
		}
		want(t, c.name, errs, c.want)
		if strings.Contains(errs, strings.Repeat("c", 64)) {
			t.Errorf("%s: the refusal tells the credential", c.name)
		}
	}
}
