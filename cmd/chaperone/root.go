package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot builds the command tree. One line a subcommand, in the order in which
// a newcomer meets them.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "chaperone",
		Short: "AI agents use browsers and web apps under supervision",
		Example: `  chaperone serve
  chaperone doctor
  chaperone browse --allow example.com goto=https://example.com/ screenshot
  chaperone mcp --scope acme.yaml
  chaperone audit verify`,
		Version:       revision(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cobra.EnableCommandSorting = false
	root.SetVersionTemplate("chaperone {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.home, "home", "", "the home `DIR`: records, keys, checkpoints (default $CHAPERONE_HOME, else ~/.chaperone)")
	flags.StringVar(&a.database, "database", "", "SQLite path or postgres:// `URL` (default the home's chaperone.yaml, else <home>/chaperone.db)")
	flags.BoolVar(&a.json, "json", false, "print machine-readable JSON on stdout")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit(exitUsage, err) })
	root.AddCommand(
		newBrowseCmd(a),
		newMCPCmd(a),
		newServeCmd(a),
		newEnrolCmd(a),
		newHostCmd(a),
		newRunCmd(a),
		newLaunchCmd(a),
		newScopeCmd(a),
		newPolicyCmd(a),
		newQualifyCmd(a),
		newTokenCmd(a),
		newKillCmd(a),
		newAuditCmd(a),
		newDoctorCmd(a),
	)
	usageErrors(root)
	return root
}

// usageErrors makes wrong arguments of c and what is below it exit 2, and says
// how they would be right.
func usageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasAvailableSubCommands():
				cmd.SuggestionsMinimumDistance = 2
				if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
					return exit(exitUsage, fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or ")))
				}
				return exit(exitUsage, fmt.Errorf("%w; see %s -h", err, cmd.CommandPath()))
			}
			return exit(exitUsage, fmt.Errorf("%w; usage: %s", err, cmd.UseLine()))
		}
	}
	for _, sub := range c.Commands() {
		usageErrors(sub)
	}
}

// oneFile completes a file's name, and nothing after it.
func oneFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
