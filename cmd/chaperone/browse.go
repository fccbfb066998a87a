package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// browseRun is one `chaperone browse`.
type browseRun struct {
	contained
	out       string
	stepsFile string
	keepGoing bool

	report reporter
	folder string // where files are saved; "" until the first
}

// maxSaved bounds a result that is saved or printed here, in bytes of JSON: no
// message has to carry it.
const maxSaved = 128 << 20

// newBrowseCmd is `chaperone browse`: one contained browser for a person or a
// script.
func newBrowseCmd(a *app) *cobra.Command {
	r := &browseRun{contained: contained{app: a, surface: "browse", maxResult: maxSaved}}
	cmd := &cobra.Command{
		Use:   "browse (--scope FILE | --allow HOST[:PORT]…) STEP…",
		Short: "One contained browser: runs steps, prints results, saves files",
		Long: `Runs steps in order in one contained browser, prints what each one did, and saves screenshots and PDFs.
The first step that fails ends it (exit 1, or 3 where the scope refused it) unless --keep-going.

Steps, each one argument:
  goto=URL              click=SELECTOR         type=SELECTOR=TEXT   scroll=DX,DY
  js=EXPRESSION         screenshot[=NAME.png]  pdf[=NAME.pdf]       source
  console               tabs                   tab=ID               wait=SELECTOR   snapshot
In type, the selector ends at the first = outside brackets, quotes and parentheses.
A selector may be a reference of a snapshot: click=ref=e12.`,
		Example: `  chaperone browse --allow example.com goto=https://example.com/ screenshot
  chaperone browse --scope acme.yaml goto=https://app.example.com/ 'type=input[name=q]=tea' 'click=#go' source
  chaperone browse --allow 'localhost:*' --json --steps steps.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&r.out, "out", "", "`DIR` for files (default a new folder)")
	cmd.Flags().StringVar(&r.stepsFile, "steps", "", "read steps from `FILE`: [{\"action\":…,\"params\":{…}}]; - is standard input")
	cmd.Flags().BoolVar(&r.keepGoing, "keep-going", false, "go on after a step that failed")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return stepWords(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return cmd
}

func (r *browseRun) run(ctx context.Context, args []string) (err error) {
	steps, err := r.steps(ctx, args)
	if err != nil {
		return exit(exitUsage, err)
	}
	s, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.report = newReporter(r.app)
	waited := r.report.waiting("starting the contained browser")
	b, err := r.start(ctx, s)
	waited()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	var first error
	for i, st := range steps {
		if err := r.step(ctx, b, i+1, st); err != nil {
			if first == nil {
				first = err
			}
			if !r.keepGoing || ctx.Err() != nil {
				break
			}
		}
	}
	return first
}

// steps reads the steps from the arguments or from --steps.
func (r *browseRun) steps(ctx context.Context, args []string) ([]step, error) {
	switch {
	case r.stepsFile != "" && len(args) > 0:
		return nil, errors.New("give steps as arguments or --steps FILE, not both")
	case r.stepsFile == "" && len(args) == 0:
		return nil, errors.New("no steps. Steps are: " + grammar)
	case r.stepsFile == "":
		return parseSteps(args)
	}
	data, err := input(ctx, "steps file", r.stepsFile, r.app.stdin)
	if err != nil {
		return nil, err
	}
	steps, err := parseStepsFile(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.stepsFile, err)
	}
	return steps, nil
}

// step runs one step and reports it. Its error says that it failed; why was
// reported already.
func (r *browseRun) step(ctx context.Context, b *browsing, number int, st step) error {
	started := time.Now()
	waited := r.report.waiting(st.action.Name() + " " + st.told)
	answer, err := b.Do(ctx, st.action)
	waited()
	line := outcome{number: number, step: st, took: time.Since(started), result: answer.Result, notes: answer.Notes}
	var failure *browser.Failure
	switch {
	case errors.As(err, &failure):
		line.failure, line.notes = failure, failure.Notes
	case err != nil:
		return err
	default:
		if line.saved, err = r.save(&line); err != nil {
			return fmt.Errorf("step %d: %w", number, err)
		}
	}
	if err := r.report.print(line); err != nil {
		return err
	}
	if failure == nil {
		return nil
	}
	code := exitFailed
	if failure.Code == refusal.BrowserScopeDenied || failure.Reason == refusal.ScopeDenied {
		code = exitRefused
	}
	return exit(code, fmt.Errorf("step %d, %s: %s", number, st.action.Name(), failure.Reason))
}

// save writes a picture or a PDF and takes its base64 out of the result.
func (r *browseRun) save(line *outcome) (string, error) {
	var encoded, suffix string
	switch result := line.result.(type) {
	case ownedv1.ScreenshotResult:
		encoded, suffix = result.Base64, ".png"
		line.result = savedFile{result.Format, result.Bytes}
	case ownedv1.PDFResult:
		encoded, suffix = result.Base64, ".pdf"
		line.result = savedFile{result.Format, result.Bytes}
	default:
		return "", nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	if err := r.makeFolder(); err != nil {
		return "", err
	}
	name := line.step.name
	if name == "" {
		name = fmt.Sprintf("step-%d%s", line.number, suffix)
	}
	path := filepath.Join(r.folder, name)
	return path, replace(path, data)
}

// savedFile is a screenshot's or PDF's result without its content.
type savedFile struct {
	Format string `json:"format"`
	Bytes  int    `json:"bytes"`
}

// makeFolder makes --out, or a new folder named by the time.
func (r *browseRun) makeFolder() error {
	if r.folder != "" {
		return nil
	}
	if r.out != "" {
		r.folder = r.out
		return os.MkdirAll(r.out, 0o755)
	}
	base := "chaperone-" + time.Now().Format("20060102-150405")
	for i := 1; ; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		err := os.Mkdir(name, 0o755)
		if err == nil {
			r.folder = name
			return nil
		}
		if !errors.Is(err, os.ErrExist) || i == 100 {
			return err
		}
	}
}

// replace puts a file in place whole, and follows no link that stands there.
func replace(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".chaperone-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// short cuts what is shown beside a step's name to one line.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}
