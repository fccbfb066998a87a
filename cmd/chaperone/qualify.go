package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"chaperone/internal/owned/corpus"
	"chaperone/internal/owned/jail"
)

// ordinaryUID is whom a qualification that root started becomes for its second
// half. No account is needed: to the kernel a user is a number.
const ordinaryUID = 64998

func newQualifyCmd(a *app) *cobra.Command {
	var engine, evidence, only, pages, servers string
	var write, webmcp, api bool
	c := &cobra.Command{
		Use:   "qualify",
		Short: "Run the containment corpus against the real browser on this machine",
		Long: `Tries every known way out of the box against the real browser here, in
a network namespace of its own where every address is a sink. Each vector must
first arrive in a control; then nothing of it may be seen outside the box. As
root it runs twice: as root, and as an ordinary user.

It takes two to four minutes, reaches no network, and leaves nothing behind.
Exit code 0: every vector contained. 5: something leaked, or proved nothing.

With --webmcp it instead asks this browser's own WebMCP for each behaviour that the
portal's pages rely on, which takes seconds.

With --api it runs agents without a model at real LangGraph API servers, JavaScript
graphs by chaperone run and Python graphs by the package chaperone-browser, and
breaks what can break: some two minutes. The servers are the caller's; in a
checkout scripts/install-agent-servers.sh puts them where --servers looks.`,
		Example: `  chaperone qualify
  chaperone qualify --json >matrix.json
  chaperone qualify --evidence evidence/ --write
  chaperone qualify --only ws-
  chaperone qualify --webmcp --write
  chaperone qualify --api --json >turns.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if webmcp && api {
				return exit(exitUsage, errors.New("--webmcp and --api are two qualifications: one at a time"))
			}
			if write && only != "" {
				return exit(exitUsage, errors.New("--write records whole runs: leave --only out"))
			}
			path, err := jail.FindEngine(engine)
			if err != nil {
				return err
			}
			if webmcp {
				return qualifyWebMCP(cmd.Context(), a, path, evidence, pages, write)
			}
			if api {
				return (&turnsQualified{app: a, servers: servers, only: only, engine: path}).do(cmd.Context(), evidence, pages, write)
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
				if err := writePage(filepath.Join(pages, "qualification.md"), reports); err != nil {
					return err
				}
			}
			return tellQualification(a, reports, only)
		},
	}
	f := c.Flags()
	f.StringVar(&engine, "engine", "", "the browser's executable `FILE` (default the installed headless-shell)")
	f.StringVar(&evidence, "evidence", "", "keep each vector's raw record in `DIR`")
	f.BoolVar(&write, "write", false, "write the run's section of qualification.md")
	f.StringVar(&pages, "docs", "docs", "`DIR` where --write finds qualification.md")
	f.BoolVar(&webmcp, "webmcp", false, "native WebMCP: what the page adapter relies on, against this browser")
	f.BoolVar(&api, "api", false, "turns at real agent API servers")
	f.StringVar(&servers, "servers", filepath.Join(".cache", "agent-servers"), "`DIR` with the servers: npm/node_modules, pypi/bin/python")
	f.StringVar(&only, "only", "", "only vectors (with --api: scenarios) whose name or group begins with `PREFIX`; qualifies nothing")
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

// engineVersion is what the engine says of itself; "" where it says nothing.
func engineVersion(ctx context.Context, engine string) string {
	out, err := exec.CommandContext(ctx, engine, "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// tellQualification prints the matrix and chooses the exit code. Of a part of the
// corpus there is no matrix: it qualifies nothing.
func tellQualification(a *app, reports []corpus.Report, only string) error {
	ok := true
	for _, r := range reports {
		ok = ok && r.OK()
	}
	matrix := corpus.Matrix(reports)
	if only != "" {
		matrix = corpus.Matrix(nil)
	}
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{
			"revision": revision(), "model_free": true, "release_claim": false,
			"only": only, "matrix": matrix, "runs": reports,
		}); err != nil {
			return err
		}
	} else {
		for _, r := range reports {
			corpus.WriteText(a.stdout, r)
			fmt.Fprintln(a.stdout)
		}
		for _, c := range matrix {
			fmt.Fprintf(a.stdout, "%-13s  %s, %s\n               %s\n", c.Status, c.Platform, c.Engine, c.Why)
		}
		if only != "" {
			fmt.Fprintf(a.stdout, "\na part of the corpus (--only %s) qualifies nothing\n", printable(only))
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

// writePage replaces the containment section of the page.
func writePage(path string, reports []corpus.Report) error {
	var section bytes.Buffer
	corpus.WriteMarkdown(&section, revision(), reports)
	return writeSection(path, "Containment", sectionBegin, sectionEnd, section.Bytes())
}

// writeSection replaces what stands between two lines of the page, and leaves the
// rest alone. A section that isn't there yet is added under its title.
func writeSection(path, title, begin, end string, section []byte) error {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		old, err = []byte("# Qualification\n"), nil
	}
	if err != nil {
		return err
	}
	if !bytes.Contains(old, []byte(begin)) {
		old = append(old, []byte("\n## "+title+"\n\n"+begin+"\n"+end+"\n")...)
	}
	head, rest, _ := bytes.Cut(old, []byte(begin))
	_, tail, closed := bytes.Cut(rest, []byte(end))
	if !closed {
		return fmt.Errorf("%s has no section between %s and %s", path, begin, end)
	}
	var page bytes.Buffer
	page.Write(head)
	page.WriteString(begin + "\n")
	page.Write(section)
	page.WriteString(end)
	page.Write(tail)
	return os.WriteFile(path, page.Bytes(), 0o644)
}
