package idptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// root answers the checkout's root: where go.mod is.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test's directory")
		}
	}
}

// once makes the folder .cache/name by install, unless its stamp says that it was
// made from the same pins. Test binaries that run at once take turns.
func once(name string, pins []byte, install func(dir string) error) (string, error) {
	base, err := root()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(base, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	dir, stamp := filepath.Join(cache, name), filepath.Join(cache, name+".stamp")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, pins) {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	if err := install(dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(stamp, pins, 0o644) // last: what was interrupted is made anew
}

// panvaModules answers the folder with the npm package installed.
func panvaModules() (string, error) {
	base, err := root()
	if err != nil {
		return "", err
	}
	source := filepath.Join(base, "internal", "idptest", "npm")
	pins, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(filepath.Join(source, "provider.mjs"))
	if err != nil {
		return "", err
	}
	dir, err := once("idptest-npm", pins, func(dir string) error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			data, err := os.ReadFile(filepath.Join(source, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				return err
			}
		}
		cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("npm ci: %w (run `scripts/need.sh test`, or apt-get install nodejs npm)\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	// Beside its modules, since that is where Node looks for them.
	return filepath.Join(dir, "provider.mjs"), os.WriteFile(filepath.Join(dir, "provider.mjs"), script, 0o644)
}

// Panva is the npm package oidc-provider, running.
type Panva struct {
	URL                    string // its issuer
	ClientID, ClientSecret string
}

// NewPanva starts it for a client at origin whose back-channel logout is at the
// other URL; it ends with the test.
func NewPanva(t testing.TB, origin, backchannel string) *Panva {
	t.Helper()
	script, err := panvaModules()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]string{"origin": origin, "backchannel": backchannel})
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, exec.Command("node", script, string(config)))
	return &Panva{URL: url, ClientID: "client", ClientSecret: "a secret: with + and %"}
}

// serve runs a provider that prints its URL as its first line and ends with its
// standard input; it is gone when the test ends.
func serve(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (run `scripts/need.sh test`)", err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	t.Cleanup(func() {
		in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // its own group, all of it ours
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the provider said:\n%s", log.Bytes())
		}
	})
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the provider didn't start: %v\n%s", err, log.Bytes())
	}
	return string(bytes.TrimSpace([]byte(line)))
}
