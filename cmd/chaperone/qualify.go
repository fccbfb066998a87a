package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"chaperone/internal/owned/corpus"
	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"
)

// ordinaryUID is whom a qualification that root started becomes for its second
// half. No account is needed: to the kernel a user is a number.
const ordinaryUID = 64998

// worldWord is the hidden argument that makes this executable the process inside
// the corpus' own network; its report goes to file descriptor 3.
const worldWord = "in-world"

func newQualifyCmd(a *app) *cobra.Command {
	var engine, evidence, only, pages string
	var write bool
	c := &cobra.Command{
		Use:   "qualify",
		Short: "run the containment corpus against the real browser on this machine",
		Long: `qualify tries every known way out of the box against the real browser here, in
a network namespace of its own where every address is a sink. Each vector must
first arrive in a control; then nothing of it may be seen outside the box. As
root it runs twice: as root, and as an ordinary user.

It takes two to four minutes, reaches no network, and leaves nothing behind.
Exit code 0: every vector contained. 5: something leaked, or proved nothing.`,
		Example: `  chaperone qualify
  chaperone qualify --json >matrix.json
  chaperone qualify --evidence evidence/ --write
  chaperone qualify --only ws-`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := jail.FindEngine(engine)
			if err != nil {
				return err
			}
			reports, err := qualifyAll(cmd.Context(), a, path, only)
			if err != nil {
				return err
			}
			if evidence != "" {
				if err := writeEvidence(evidence, reports); err != nil {
					return err
				}
			}
			if write {
				if only != "" {
					return exit(exitUsage, errors.New("--write records whole runs: leave --only out"))
				}
				if err := writePage(filepath.Join(pages, "qualification.md"), reports); err != nil {
					return err
				}
			}
			return tellQualification(a, reports)
		},
	}
	f := c.Flags()
	f.StringVar(&engine, "engine", "", "the browser's executable (default: Debian's chromium-headless-shell)")
	f.StringVar(&evidence, "evidence", "", "keep each vector's raw record in this folder")
	f.BoolVar(&write, "write", false, "write the containment section of qualification.md")
	f.StringVar(&pages, "docs", "docs", "where --write finds qualification.md")
	f.StringVar(&only, "only", "", "only vectors whose name or group begins so")
	c.AddCommand(newWorldCmd())
	return c
}

// qualifyAll runs the corpus as this user and, where this is root, as an
// ordinary one too.
func qualifyAll(ctx context.Context, a *app, engine, only string) ([]corpus.Report, error) {
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 {
		uids = append(uids, ordinaryUID)
	}
	var reports []corpus.Report
	for _, uid := range uids {
		r, err := qualifyAs(ctx, a, uid, engine, only)
		if err != nil {
			return nil, fmt.Errorf("as uid %d: %w", uid, err)
		}
		r.UID = uid
		reports = append(reports, r)
	}
	return reports, nil
}

// qualifyAs starts the process that lives in the world and reads its report. An
// ordinary user makes the namespaces by itself, so a step as that user comes
// first where root asks.
func qualifyAs(ctx context.Context, a *app, uid int, engine, only string) (corpus.Report, error) {
	stage := "enter"
	if os.Getuid() == 0 && uid != 0 {
		stage = "become"
	}
	out, in, err := os.Pipe()
	if err != nil {
		return corpus.Report{}, err
	}
	defer out.Close()
	cmd := worldCommand(ctx, stage, uid, engine, only, in)
	cmd.Stderr = a.stderr
	if err := cmd.Start(); err != nil {
		in.Close()
		return corpus.Report{}, fmt.Errorf("a network of its own for the corpus: %w: %w", err, refusal.PrerequisiteMissing)
	}
	in.Close()
	raw, readErr := io.ReadAll(out)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() == exitPrerequisite {
		return corpus.Report{}, exit(exitPrerequisite, errors.New("this machine lacks what the box needs: see `chaperone doctor`"))
	} else if err != nil {
		return corpus.Report{}, fmt.Errorf("the corpus ended early: %w", err)
	}
	if readErr != nil {
		return corpus.Report{}, readErr
	}
	var r corpus.Report
	if err := json.Unmarshal(raw, &r); err != nil {
		return corpus.Report{}, fmt.Errorf("the corpus' report: %w", err)
	}
	return r, nil
}

// worldCommand is this executable again: as another user (stage become), or in
// fresh namespaces (stage enter).
func worldCommand(ctx context.Context, stage string, uid int, engine, only string, report *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "qualify", worldWord, stage, engine, only)
	cmd.Args[0] = os.Args[0]
	cmd.ExtraFiles = []*os.File{report}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=/tmp", "HOME=/tmp", "TERM=" + os.Getenv("TERM")}
	cmd.Dir = "/"
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch {
	case stage == "become":
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: false}
	case os.Getuid() == 0:
		attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	default:
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}}
		attr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// newWorldCmd is the hidden process inside (or on the way into) the world.
func newWorldCmd() *cobra.Command {
	return &cobra.Command{
		Use: worldWord, Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			stage, engine, only := args[0], args[1], args[2]
			report := os.NewFile(3, "report")
			if stage == "become" {
				next := worldCommand(cmd.Context(), "enter", os.Getuid(), engine, only, report)
				next.Stderr = os.Stderr
				err := next.Run()
				return exit(next.ProcessState.ExitCode(), err)
			}
			if err := corpus.Enter(); err != nil {
				return err
			}
			config := corpus.Config{Engine: engine, Version: engineVersion(cmd.Context(), engine), Unboxed: unboxedEngine(cmd.Context(), engine)}
			if only != "" {
				config.Only = func(v corpus.Vector) bool {
					return strings.HasPrefix(v.Name, only) || strings.HasPrefix(v.Group, only)
				}
			}
			if term.IsTerminal(int(os.Stderr.Fd())) {
				config.Progress = func(done, of int, vector string) {
					fmt.Fprintf(os.Stderr, "\r\x1b[K%3d of %d  %s", done, of, vector)
				}
				defer fmt.Fprint(os.Stderr, "\r\x1b[K")
			}
			r, err := corpus.Run(cmd.Context(), config)
			if err != nil {
				return err
			}
			return json.NewEncoder(report).Encode(r)
		},
	}
}

// enginePipe is the debugging pipe of an engine without a box; Close ends it.
type enginePipe struct {
	io.Reader
	io.Writer
	end func() error
}

func (p enginePipe) Close() error { return p.end() }

// unboxedEngine starts the engine bare, for the control. It is reachable only in
// the world, which has no way out either.
func unboxedEngine(ctx context.Context, engine string) func([]string) (io.ReadWriteCloser, error) {
	return func(args []string) (io.ReadWriteCloser, error) {
		fromUs, toEngine, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		toUs, fromEngine, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		cmd := exec.CommandContext(ctx, engine, args...)
		cmd.ExtraFiles = []*os.File{fromUs, fromEngine}
		cmd.Env = []string{"HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		err = cmd.Start()
		fromUs.Close()
		fromEngine.Close()
		if err != nil {
			cancel()
			return nil, err
		}
		return enginePipe{toUs, toEngine, func() error {
			cancel()
			_ = cmd.Wait() // killed on purpose
			return errors.Join(toEngine.Close(), toUs.Close())
		}}, nil
	}
}

// engineVersion is what the engine says of itself; "" where it says nothing.
func engineVersion(ctx context.Context, engine string) string {
	out, err := exec.CommandContext(ctx, engine, "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// tellQualification prints the matrix and chooses the exit code.
func tellQualification(a *app, reports []corpus.Report) error {
	ok := true
	for _, r := range reports {
		ok = ok && r.OK()
	}
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{
			"revision": revision(), "model_free": true, "release_claim": false,
			"matrix": corpus.Matrix(reports), "runs": reports,
		}); err != nil {
			return err
		}
	} else {
		for _, r := range reports {
			corpus.WriteText(a.stdout, r)
			fmt.Fprintln(a.stdout)
		}
		for _, c := range corpus.Matrix(reports) {
			fmt.Fprintf(a.stdout, "%-13s  %s, %s\n               %s\n", c.Status, c.Platform, c.Engine, c.Why)
		}
		fmt.Fprintf(a.stdout, "\nrevision %s; model-free; says what this run did on this machine, and is no claim about a release\n", revision())
	}
	if !ok {
		return exit(exitVerification, errors.New("not qualified: see the vectors above"))
	}
	return nil
}

// writeEvidence keeps one file a vector and one for the whole run.
func writeEvidence(dir string, reports []corpus.Report) error {
	for _, r := range reports {
		folder := filepath.Join(dir, fmt.Sprintf("uid-%d", r.UID))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, row := range r.Rows {
			if err := writeJSON(filepath.Join(folder, row.Vector+".json"), row); err != nil {
				return err
			}
		}
		if err := writeJSON(filepath.Join(folder, "run.json"), r); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// The containment section stands between these two lines of qualification.md.
const (
	sectionBegin = "<!-- containment -->"
	sectionEnd   = "<!-- /containment -->"
)

// writePage replaces the section of the page, and leaves the others alone.
func writePage(path string, reports []corpus.Report) error {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		old, err = []byte("# Qualification\n\n## Containment\n\n"+sectionBegin+"\n"+sectionEnd+"\n"), nil
	}
	if err != nil {
		return err
	}
	head, rest, found := bytes.Cut(old, []byte(sectionBegin))
	_, tail, closed := bytes.Cut(rest, []byte(sectionEnd))
	if !found || !closed {
		return fmt.Errorf("%s has no section between %s and %s", path, sectionBegin, sectionEnd)
	}
	var page bytes.Buffer
	page.Write(head)
	page.WriteString(sectionBegin + "\n")
	corpus.WriteMarkdown(&page, revision(), reports)
	page.WriteString(sectionEnd)
	page.Write(tail)
	return os.WriteFile(path, page.Bytes(), 0o644)
}
