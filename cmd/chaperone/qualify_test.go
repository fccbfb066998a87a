package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built builds the command as it is shipped, with tags, into a folder that every
// user of the machine can read.
func built(t *testing.T, tags string) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "chaperone")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", tags, "-o", path, "chaperone/cmd/chaperone")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// qualification is what `qualify --json` says, as far as the tests read it.
type qualification struct {
	Runs []struct {
		UID  int `json:"uid"`
		Rows []struct{ Vector, Verdict, Arrived, Seen string }
	}
	Matrix []struct{ Platform, Engine, Status string }
}

// qualify runs the corpus by the command and answers its report and exit code.
func qualify(t *testing.T, command string, args ...string) (qualification, int, string) {
	t.Helper()
	cmd := exec.Command(command, append([]string{"qualify", "--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	if err != nil && code < 0 {
		t.Fatal(err)
	}
	var q qualification
	if err := json.Unmarshal(out.Bytes(), &q); err != nil {
		t.Fatalf("exit %d, %v\n%s", code, err, errs.String())
	}
	return q, code, errs.String()
}

// TestQualify runs the whole corpus on the real browser: as root and as an
// ordinary user where the tests are root, else as the user that they are.
func TestQualify(t *testing.T) {
	const least = 200 // vectors; the corpus may grow, not shrink
	q, code, errs := qualify(t, built(t, ""))
	want := 1
	if os.Getuid() == 0 {
		want = 2
	}
	if len(q.Runs) != want {
		t.Errorf("%d runs, want %d", len(q.Runs), want)
	}
	for _, r := range q.Runs {
		if len(r.Rows) < least {
			t.Errorf("uid %d: %d vectors, want at least %d", r.UID, len(r.Rows), least)
		}
		for _, row := range r.Rows {
			if row.Verdict != "contained" {
				t.Errorf("uid %d: %s is %s (arrived %q, seen %q)", r.UID, row.Vector, row.Verdict, row.Arrived, row.Seen)
			}
		}
	}
	if code != 0 {
		t.Errorf("exit %d, want 0\n%s", code, errs)
	}
	for _, status := range []string{"not qualified", "rejected"} {
		found := false
		for _, c := range q.Matrix {
			found = found || c.Status == status
		}
		if !found {
			t.Errorf("the matrix has no row that says %q", status)
		}
	}
}

// TestQualifySeesLeaks removes the box: the same corpus must then see what gets
// out, or its silence about the box would mean nothing. A page may lose its moment
// on a busy machine, as in the control, so that each vector has three tries.
func TestQualifySeesLeaks(t *testing.T) {
	command := built(t, "chaperone_leaky")
	for group, leaks := range map[string][]string{
		"ws-":      {"ws-page", "ws-worker", "ws-plain"},
		"datagram": {"webrtc-stun", "webrtc-candidate", "webtransport"},
	} {
		missing := map[string]bool{} // by user and vector
		for try := 0; try == 0 || try < 3 && len(missing) > 0; try++ {
			q, code, errs := qualify(t, command, "--only", group)
			if code != 5 {
				t.Errorf("%s without a box: exit %d, want 5\n%s", group, code, errs)
			}
			if !strings.Contains(errs, "NO BOX") {
				t.Errorf("a build without a box doesn't say so:\n%s", errs)
			}
			for _, r := range q.Runs {
				for _, name := range leaks {
					if try == 0 {
						missing[fmt.Sprintf("uid %d: %s", r.UID, name)] = true
					}
				}
				for _, row := range r.Rows {
					if row.Verdict == "leaked" {
						delete(missing, fmt.Sprintf("uid %d: %s", r.UID, row.Vector))
					}
				}
			}
		}
		for key := range missing {
			t.Errorf("%s got out in none of three tries without a box", key)
		}
	}
}
