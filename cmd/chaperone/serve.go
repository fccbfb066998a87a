package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"chaperone/internal/node"
)

// newServeCmd is `chaperone serve`: everything on one node.
func newServeCmd(a *app) *cobra.Command {
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "The server: portal, sign-in, MCP, owner API, owned browsers",
		Long: `Serves the portal, sign-in, HTTP MCP, the owner API and owned browsers, on embedded defaults:
SQLite, the built-in sign-in with passkeys, a mailbox fed over LMTP and hosted storage in the home.
A chaperone.yaml in the home changes them; --print-config writes the defaults with what each key is for.
The first start prints a one-time link with which the first owner enrols.`,
		Example: `  chaperone serve
  chaperone serve --print-config > ~/.chaperone/chaperone.yaml
  chaperone serve --home /srv/chaperone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !printConfig {
				return a.serve(cmd.Context())
			}
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, node.ConfigText(home))
			return err
		},
	}
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the default chaperone.yaml, and end")
	return cmd
}

// serve runs the server until it is told to end. It greets once it listens: a link
// for an address that another server has would be opened there.
func (a *app) serve(ctx context.Context) error {
	if err := forbidDumps(); err != nil {
		return err
	}
	home, config, err := a.settings()
	if err != nil {
		return err
	}
	if err := makeHome(home); err != nil {
		return err
	}
	os.Unsetenv("MCPGODEBUG") // it changes the protocol under a server's feet
	n, err := node.Open(ctx, home, config, buildVersion())
	if err != nil {
		return withDoctor(err)
	}
	n.WhenListening(func() error {
		welcome, err := n.Welcome(ctx)
		if err != nil {
			return err
		}
		return a.greet(welcome)
	})
	return n.Serve(ctx)
}

// greet says where the portal is and how to begin.
func (a *app) greet(w node.Welcome) error {
	if a.json {
		return a.printJSON(w)
	}
	out := a.stdout
	fmt.Fprintf(out, "Chaperone is at %s\nIts home is %s\n", w.Origin, w.Home)
	if w.Enrolment != "" {
		fmt.Fprintf(out, "\nEnrol the first owner with this link. It works once, for %s, and nobody but you should see it:\n  %s\n", w.EnrolmentFor, w.Enrolment)
	}
	if w.Chromium != "" {
		fmt.Fprintf(out, "\nA Chromium whose pages can offer tools to agents (native WebMCP):\n  %s\n", w.Chromium)
	}
	fmt.Fprintf(out, "\nFor an MCP client:\n  %s\n", w.Client)
	for _, note := range w.Notes {
		fmt.Fprintf(out, "\n%s\n", note)
	}
	_, err := fmt.Fprintln(out, "\nCtrl-C ends it.")
	return err
}
