package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"chaperone/internal/surface/mcp"
)

// newMCPCmd is `chaperone mcp`: one contained browser for one local agent.
func newMCPCmd(a *app) *cobra.Command {
	c := &contained{app: a, surface: "mcp"}
	var raw bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "One contained browser for one local agent: MCP over stdio",
		Long: `Speaks MCP over standard input and output (2026-07-28 and older), one tool an action.
The browser starts with the process, so it is ready at the first call, and ends with the input.
What the scope doesn't allow is refused, and the refusal says which line would allow it.`,
		Example: `  chaperone mcp --scope acme.yaml
  chaperone mcp --allow app.example.com --allow 'localhost:*' --timeout 2m

  In a client's configuration:
  {"mcpServers":{"browser":{"command":"chaperone","args":["mcp","--allow","app.example.com"]}}}`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), raw) },
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "also offer browser_action, exactly as owned-browser-v1")
	return cmd
}

// serve runs until the client leaves. A browser that didn't start is told to the
// client call by call, to a person at once, and to the shell at the end.
func (c *contained) serve(ctx context.Context, raw bool) error {
	s, err := c.read(ctx)
	if err != nil {
		return err
	}
	var browser *browsing
	var failed error
	served := mcp.Serve(ctx, mcp.Config{
		Raw:     raw,
		Version: buildVersion(),
		Open: func(ctx context.Context) (mcp.Browser, error) {
			b, err := c.start(ctx, s)
			if err != nil {
				if ctx.Err() == nil { // not because the client left meanwhile
					failed = err
					fmt.Fprintln(c.app.stderr, "chaperone: the browser didn't start:", err)
				}
				return nil, err
			}
			browser = b
			return b, nil
		},
	}, c.app.stdin, c.app.stdout)
	if browser != nil {
		served = errors.Join(served, browser.end())
	}
	if failed != nil {
		return exit(exitCode(failed), errors.New("")) // said already
	}
	return served
}

// buildVersion is the module's version, or the revision it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}
