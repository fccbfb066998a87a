package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// examined runs `chaperone doctor --json` and answers its findings and exit code.
func examined(t *testing.T, args ...string) (map[string]finding, int) {
	t.Helper()
	out, err := command(t, append([]string{"doctor", "--json"}, args...)...).Output()
	var exited *exec.ExitError
	code := 0
	if errors.As(err, &exited) {
		code = exited.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var sheet struct {
		OK     bool      `json:"ok"`
		Checks []finding `json:"checks"`
	}
	if err := json.Unmarshal(out, &sheet); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if sheet.OK != (code == 0) {
		t.Errorf("ok %v with exit code %d", sheet.OK, code)
	}
	found := map[string]finding{}
	for _, f := range sheet.Checks {
		if (f.State == missing) != (f.Mend != "") {
			t.Errorf("%+v: exactly what is missing has a command", f)
		}
		found[f.Name] = f
	}
	return found, code
}

func TestDoctorFindsAll(t *testing.T) {
	found, code := examined(t)
	if code != 0 || found["box"].State != fine || !strings.Contains(found["browser"].Detail, "Chrome/") {
		t.Errorf("exit %d: %+v", code, found)
	}
}

func TestDoctorNamesWhatIsMissing(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(open, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		check, mend string
		args        []string
	}{
		{"home", "chmod 700 '" + open + "'", []string{"--home", open}},
		{"home", "mv '" + file + "' '" + file + ".old'", []string{"--home", file}},
		{"home", "chaperone doctor --home DIR, with a directory of yours", []string{"--home", "/tmp"}},
		{"browser", "apt-get install -y chromium-headless-shell", []string{"--browser", "/nowhere/chromium"}},
		{"browser", "apt-get install -y chromium-headless-shell", []string{"--browser", "/usr/bin/ldd"}}, // a script
	} {
		found, code := examined(t, c.args...)
		if code != exitPrerequisite || found[c.check].State != missing || found[c.check].Mend != c.mend {
			t.Errorf("%v: exit %d, %+v", c.args, code, found[c.check])
		}
	}
}

// TestDoctorForAPerson reads the sheet as it goes to a file: without colours.
func TestDoctorForAPerson(t *testing.T) {
	out, err := command(t, "doctor").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "\033") || !strings.Contains(string(out), "Everything Chaperone needs is here.") {
		t.Errorf("%s", out)
	}
}
