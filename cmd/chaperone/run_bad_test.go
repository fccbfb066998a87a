package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"chaperone/internal/agenttest"
)

// What a person gave wrongly is told with its remedy and the right exit code,
// and no thread is made for it.
func TestBadRuns(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"--registrations", open}, exitUsage, `has mode 0755, and must be closed to others: chmod 700 ` + open},
		{[]string{"--registrations", dir + "/none"}, exitUsage, `doesn't exist: mkdir -p -m 700`},
		{[]string{"--api-key-file", file("key", "canary-key", 0o644)}, exitUsage, `has mode 0644, which lets others read it: chmod 600`},
		{[]string{"--api-key-file", dir + "/none"}, exitUsage, `can't be opened`},
		{[]string{"--scope", file("bad.yaml", "engagement: acme-2026\nalow: []\n", 0o600)}, exitUsage, `bad.yaml:2:1`},
		{[]string{"--scope", file("other.yaml", "engagement: other\nallow: []\n", 0o600)}, exitUsage, `they must be equal`},
		{[]string{"--input", file("in.json", "{", 0o600)}, exitUsage, `the input is no JSON value`},
		{[]string{"--config", file("conf.json", "[]", 0o600)}, exitUsage, `the config is no JSON object`},
		{[]string{"--config", dir + "/none.json"}, exitUsage, `can't read the config ` + dir},
		{[]string{"--thread", "../x"}, exitUsage, `must be a UUID`},
		{[]string{"--thread", "01a22f39-e4d4-7645-85d4-4d77090cc0e7"}, exitFailed, `the thread 01a22f39-e4d4-7645-85d4-4d77090cc0e7: refused with 404`},
		{[]string{"--assistant", "nobody"}, exitFailed, `knows no assistant or graph of that name`},
		{[]string{"--wait", "0"}, exitUsage, `invalid|must be over 0`},
		{[]string{"--api", "http://127.0.0.1:1"}, exitFailed, `connection refused`},
		{[]string{"--api", ""}, exitUsage, `--api is needed`},
	} {
		r := turn(t, turnArgs(t, a.URL, a.Registrations, `["open"]`, c.args...))
		if r.exit != c.exit || r.out != "" || strings.Contains(r.said, "canary") {
			t.Errorf("%v: exit %d, want %d; %s%s", c.args, r.exit, c.exit, r.out, r.said)
		}
		want(t, strings.Join(c.args, " "), r.said, c.want)
	}
	if threads := a.Threads(); len(threads) != 0 {
		t.Errorf("threads were made: %v", threads)
	}
	agenttest.Empty(t, a.Registrations)
}

// The key reaches the server, and nothing that the command says or leaves.
func TestRunWithAKey(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("canary-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out, said := begin(t, turnArgs(t, a.URL, a.Registrations, `["open","config",{"sleep":1000}]`, "--api-key-file", key))
	appears(t, a.Registrations)
	for _, pid := range append(descendants(cmd.Process.Pid), cmd.Process.Pid) {
		for _, name := range []string{"cmdline", "environ"} {
			if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil && strings.Contains(string(data), "canary-key") {
				t.Errorf("the key is in the %s of %d", name, pid)
			}
		}
	}
	r := ended(t, cmd, out, said)
	if r.exit != 0 || strings.Contains(r.out+r.said, "canary-key") {
		t.Errorf("exit %d: %s%s", r.exit, r.out, r.said)
	}
	filepath.WalkDir(homeOf(cmd), func(path string, d os.DirEntry, err error) error {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "canary-key") {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
}

// Another's directory is refused to an ordinary user, whatever its mode.
func TestRunInAnothersDirectory(t *testing.T) {
	t.Parallel()
	for dir, wanted := range map[string]string{"/usr": `belongs to uid 0, not to you \(uid \d+\)`, "/root": `can't be opened \(permission denied\): it must be yours`} {
		cmd := command(t, turnArgs(t, "http://127.0.0.1:1", dir, `["open"]`)...)
		if os.Getuid() == 0 {
			asOrdinary(t, cmd)
		}
		said, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage {
			t.Errorf("%s: exit %d", dir, cmd.ProcessState.ExitCode())
		}
		want(t, dir, string(said), wanted)
	}
}

// asOrdinary makes root's command an ordinary user's: with the executable and
// the files that it names where everybody may read them.
func asOrdinary(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	const uid = 64998
	shared, err := os.MkdirTemp("/var/tmp", "chaperone-run-")
	if err == nil {
		err = os.Chmod(shared, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) })
	share := func(from, name string, mode os.FileMode) string {
		to := filepath.Join(shared, name)
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	cmd.Path = share("/proc/self/exe", "chaperone", 0o755)
	for i, arg := range cmd.Args {
		if arg == "--scope" || arg == "--input" {
			cmd.Args[i+1] = share(cmd.Args[i+1], filepath.Base(cmd.Args[i+1]), 0o644)
		}
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// A directory that is full holds no registration: the run is cancelled, and what
// stood there before is all that stands there afterwards.
func TestRunInAFullDirectory(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	for name, options := range map[string]string{"no room": "size=4k,mode=700", "no inodes": "size=1m,nr_inodes=2,mode=700"} {
		cmd := command(t, turnArgs(t, a.URL, a.Registrations, `["open"]`)...)
		script := `mount -t tmpfs -o ` + options + ` none "$DIR" && head -c 4096 /dev/zero >"$DIR/filler" || exit 9
"$0" "$@"; code=$?; ls -A "$DIR" >&2; exit $code`
		around := []string{"unshare", "-m", "sh", "-c", script, cmd.Path}
		if os.Getuid() != 0 {
			around = append([]string{"unshare", "--map-root-user"}, around[1:]...)
		}
		cmd.Args, cmd.Path = append(around, cmd.Args[1:]...), "/usr/bin/unshare"
		cmd.Env = append(cmd.Env, "DIR="+a.Registrations)
		var out, said strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &said
		cmd.Run()
		if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(out.String(), `"status":"interrupted"`) {
			t.Errorf("%s: exit %d: %s%s", name, cmd.ProcessState.ExitCode(), out.String(), said.String())
		}
		want(t, name, said.String(), `the browser's host didn't start: .*no space left on device(?s:.*)\nfiller\n$`)
	}
	for _, r := range a.Settled() {
		if r.Status != "interrupted" {
			t.Errorf("run %s is %s", r.ID, r.Status)
		}
	}
}
