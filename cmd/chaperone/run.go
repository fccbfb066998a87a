package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"chaperone/internal/owned/engagement"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/scope"
)

// turning is the run command's flags.
type turning struct {
	app                            *app
	api, keyFile, assistant        string
	engagement, thread             string
	scopeFile, inputFile, confFile string
	registrations                  string
	wait                           time.Duration
	scope                          []byte // as it was read, and as the host gets it
}

func newRunCmd(a *app) *cobra.Command {
	r := &turning{app: a}
	cmd := &cobra.Command{
		Use:   "run --api URL --assistant A --engagement E --scope FILE --input FILE",
		Short: "One run of an agent server, with its browser around it",
		Long: `Creates one run at a LangGraph-compatible API, starts the contained browser whose
registration carries that run's id, waits for the run's end and prints its final
status and values. The registrations directory must be mounted at the agent
server; see chaperone launch.

Ctrl-C, SIGTERM, a browser that can't start and a run that stays pending cancel
the run at the API too, and if this command is killed the server cancels it by
itself. Whatever happens, the browser and its registration are gone afterwards.

The run's configurable gets desktop_engagement_id; run_id there is the server's
to set. All else of input and config passes as it is.

Exit code 0: the run's status is success. 1: it is another, or the turn failed.`,
		Example: `  echo '{"messages": [{"role": "user", "content": "What is new on the site?"}]}' > input.json
  chaperone run --api http://127.0.0.1:2024 --assistant agent --engagement acme-2026 \
    --scope acme.yaml --input input.json

  chaperone run --json --api https://agents.example.com --api-key-file key --assistant agent \
    --engagement acme-2026 --scope acme.yaml --input next.json --thread "$THREAD"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.do(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.api, "api", "", "the agent API's `URL`")
	f.StringVar(&r.keyFile, "api-key-file", "", "private `FILE` (mode 0600) with the key that is sent as x-api-key")
	f.StringVar(&r.assistant, "assistant", "", "`ID` of the assistant, or the graph's name")
	f.StringVar(&r.engagement, "engagement", "", "the `NAME` of the scope's engagement")
	f.StringVar(&r.scopeFile, "scope", "", "scope `FILE`: what the browser may reach")
	f.StringVar(&r.inputFile, "input", "", "JSON `FILE`: the graph's input; - is standard input")
	f.StringVar(&r.confFile, "config", "", "JSON `FILE`: the run's configuration")
	f.StringVar(&r.thread, "thread", "", "`ID` of the thread to go on with (default a new one)")
	f.DurationVar(&r.wait, "wait", engagement.DefaultWait, "longest time for which the run may be pending")
	f.StringVar(&r.registrations, "registrations", "", "private `DIR` that is mounted at the agent server (default <home>/run/browser-runs)")
	return cmd
}

// do runs the turn from start to end.
func (r *turning) do(ctx context.Context) error {
	c, err := r.read(ctx)
	if err != nil {
		return exit(exitUsage, err)
	}
	// Before a run is made that would have to be cancelled for it.
	if _, err := jail.FindEngine(""); err != nil {
		return withDoctor(err)
	}
	if c.Registrations, err = r.directory(); err != nil {
		return err
	}
	result, err := engagement.Run(ctx, c)
	if result.RunID != "" {
		err = errors.Join(withDoctor(err), r.print(result))
	}
	if err == nil && result.Status != engagement.Success {
		err = fmt.Errorf("the run's status is %s, not success", result.Status)
	}
	return err
}

// read checks the flags and reads the files; nothing has been started yet.
func (r *turning) read(ctx context.Context) (c engagement.Config, err error) {
	for _, flag := range [][2]string{
		{"--api", r.api}, {"--assistant", r.assistant}, {"--engagement", r.engagement}, {"--scope", r.scopeFile}, {"--input", r.inputFile},
	} {
		if flag[1] == "" {
			return c, fmt.Errorf("%s is needed; see chaperone run -h", flag[0])
		}
	}
	if r.wait <= 0 {
		return c, fmt.Errorf("--wait %s: it must be over 0", r.wait)
	}
	if r.scope, err = input(ctx, "scope file", r.scopeFile, nil); err != nil {
		return c, err
	}
	s, err := scope.Parse(r.scopeFile, r.scope)
	if err != nil {
		return c, err
	}
	if s.Engagement() != r.engagement {
		return c, fmt.Errorf("%s is for engagement %q, and --engagement is %q: they must be equal", r.scopeFile, s.Engagement(), r.engagement)
	}
	c = engagement.Config{
		API: r.api, Assistant: r.assistant, Engagement: r.engagement, Thread: r.thread,
		Host: r.host, Wait: r.wait, Progress: r.app.progress(),
	}
	if c.Input, err = input(ctx, "input", r.inputFile, r.app.stdin); err != nil {
		return c, err
	}
	if r.confFile != "" {
		if c.Config, err = input(ctx, "config", r.confFile, nil); err != nil {
			return c, err
		}
	}
	if r.keyFile != "" {
		c.Key, err = engagement.ReadKey(r.keyFile)
	}
	return c, err
}

// directory answers the registrations directory. The home's own is made where
// there is none; any other is its owner's to make.
func (r *turning) directory() (string, error) {
	if r.registrations != "" {
		return r.registrations, nil
	}
	home, err := r.app.homeDir()
	if err == nil {
		err = makeHome(home)
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "run", "browser-runs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("no registrations directory: %w", err)
	}
	return dir, nil
}

// print prints what is known of the run.
func (r *turning) print(result engagement.Result) error {
	if r.app.json {
		return json.NewEncoder(r.app.stdout).Encode(struct {
			RunID    string          `json:"run_id"`
			ThreadID string          `json:"thread_id"`
			Status   string          `json:"status"`
			Values   json.RawMessage `json:"values"`
			Failure  json.RawMessage `json:"error,omitempty"`
		}{result.RunID, result.ThreadID, result.Status, json.RawMessage(result.Values), json.RawMessage(result.Failure)})
	}
	_, err := fmt.Fprintf(r.app.stdout, "status %s\nrun    %s\nthread %s\n", result.Status, result.RunID, result.ThreadID)
	for _, part := range []struct {
		name  string
		value jsontext.Value
	}{{"error", result.Failure}, {"values", result.Values}} {
		if err == nil && part.value != nil {
			err = printValue(r.app.stdout, part.name, part.value)
		}
	}
	return err
}

func printValue(w io.Writer, name string, value jsontext.Value) error {
	value = value.Clone()
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s\n", name, printable(string(value)))
	return err
}
