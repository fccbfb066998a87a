package main

import (
	"github.com/spf13/cobra"
)

// newRoot builds the command tree. One line a subcommand, in the order in which
// a newcomer meets them.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "chaperone",
		Short:         "AI agents use browsers and web apps under supervision",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.home, "home", "", "Chaperone's directory (default $CHAPERONE_HOME, else ~/.chaperone)")
	flags.StringVar(&a.database, "database", "", "SQLite path or postgres:// URL (default <home>/chaperone.db)")
	flags.BoolVar(&a.json, "json", false, "print machine-readable JSON on stdout")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit(exitUsage, err) })
	root.AddCommand(
		newBrowseCmd(a),
		newMCPCmd(a),
		newHostCmd(a),
		newScopeCmd(a),
		newQualifyCmd(a),
		newAuditCmd(a),
		newDoctorCmd(a),
	)
	usageErrors(root)
	return root
}

// usageErrors makes wrong arguments of c and what is below it exit 2.
func usageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			return exit(exitUsage, check(cmd, args))
		}
	}
	for _, sub := range c.Commands() {
		usageErrors(sub)
	}
}
