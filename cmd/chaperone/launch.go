package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
)

// launching is the launch command's flags.
type launching struct {
	app                       *app
	engagement                string
	registrations, descriptor string
	workspaces                []string
	services, composeFiles    []string
	composeOut                string
}

func newLaunchCmd(a *app) *cobra.Command {
	l := &launching{app: a}
	cmd := &cobra.Command{
		Use:   "launch --engagement E (--browser-registrations DIR | --browser-descriptor FILE) (-- CMD… | --compose-out FILE --service NAME)",
		Short: "Start an agent server with the registrations mounted read-only",
		Long: `Mounts the registrations of an engagement's browsers where agents look for them,
read-only and for one agent server only: DIR at /run/chaperone/browser-runs, or
FILE and the browser.sock beside it at /run/chaperone. DIR may be empty: what
chaperone run or chaperone host registers later is seen.

With CMD the mount is a namespace around it: nobody else sees it, nothing of it
is left when CMD has ended, and CMD dies with this command. CMD keeps its user,
terminal and signals, and its exit code is this command's.

With --compose-out the mount is an override file for Docker Compose, which adds to
the one service's volumes and touches nothing else; the line to run is printed.
The project's own files are those of --compose-file, of $COMPOSE_FILE, or the
usual ones in this folder, and are read for what would show the mount to others.

Exit code 2: a path or file that is refused, or a CMD that isn't there. 4: this
machine can't do it. See docs/runs.md.`,
		Example: `  mkdir -p -m 700 ~/.chaperone/run/browser-runs
  chaperone launch --engagement acme-2026 --browser-registrations ~/.chaperone/run/browser-runs \
    -- langgraph dev --no-browser

  chaperone launch --engagement acme-2026 --browser-registrations ~/.chaperone/run/browser-runs \
    --compose-out chaperone.override.yaml --service langgraph --workspace ~/work/acme`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return exit(exitUsage, fmt.Errorf("put -- before the command: chaperone launch … -- %s", printable(args[0])))
			}
			return l.do(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.engagement, "engagement", "", "the engagement's `NAME`")
	f.StringVar(&l.registrations, "browser-registrations", "", "private `DIR` of registrations (mode 0700), which may be empty")
	f.StringVar(&l.descriptor, "browser-descriptor", "", "one registered descriptor `FILE` directly below <home>/run, browser.sock beside it")
	f.StringArrayVar(&l.workspaces, "workspace", nil, "`DIR` that agents or their tools can see (repeatable): the mount must be no part of it")
	f.StringVar(&l.composeOut, "compose-out", "", "write a Compose override `FILE` in place of starting CMD")
	f.StringArrayVar(&l.services, "service", nil, "the one Compose service `NAME` that gets the mount")
	f.StringArrayVar(&l.composeFiles, "compose-file", nil, "the project's Compose `FILE` (repeatable, in Compose's order)")
	return cmd
}

// do judges everything and then starts the command or writes the file.
func (l *launching) do(ctx context.Context, args []string) error {
	if err := l.check(args); err != nil {
		return exit(exitUsage, err)
	}
	binds, owner, err := l.judge()
	if err != nil {
		return exit(exitUsage, err)
	}
	if l.composeOut != "" {
		return exit(exitUsage, l.compose(ctx, binds, owner))
	}
	return l.around(binds, args)
}

// check judges the flags alone.
func (l *launching) check(args []string) error {
	switch {
	case l.engagement == "":
		return errors.New("--engagement is needed; see chaperone launch -h")
	case !ownedv1.ValidID(l.engagement):
		return errors.New("--engagement must match ^[A-Za-z0-9_-]{1,128}$")
	case (l.registrations == "") == (l.descriptor == ""):
		return errors.New("give --browser-registrations DIR or --browser-descriptor FILE, one of them")
	case l.composeOut == "" && len(args) == 0:
		return errors.New("say what gets the mount: -- CMD…, or --compose-out FILE --service NAME")
	case l.composeOut != "" && len(args) > 0:
		return errors.New("give a CMD or --compose-out, not both: containers are started outside of CMD's namespace")
	case l.composeOut == "" && len(l.services)+len(l.composeFiles) > 0:
		return errors.New("--service and --compose-file go with --compose-out")
	case l.composeOut != "" && len(l.services) == 0:
		return errors.New("--compose-out needs --service NAME: the one service that runs the agent")
	case len(l.services) > 1:
		return fmt.Errorf("a second service (%s) can't have the mount: registrations are for one agent server; name one --service", printable(l.services[1]))
	case len(l.services) == 1 && !serviceName.MatchString(l.services[0]):
		return errors.New("--service is one Compose service's name: letters, digits, dot, - and _")
	}
	return nil
}

// judge answers what is to be mounted, and whose it is.
func (l *launching) judge() (binds []jail.Bind, owner uint32, err error) {
	home, err := l.app.homeDir()
	if err != nil {
		return nil, 0, err
	}
	var spots []spot
	if l.registrations != "" {
		spots, err = registrationsAt(l.registrations, home)
	} else {
		spots, err = descriptorAt(l.descriptor, home, l.engagement)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, dir := range l.workspaces {
		if _, err := os.Stat(dir); err != nil {
			return nil, 0, cantRead("workspace", dir, err)
		}
		if err := apart(spots, "the workspace "+dir, dir); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range spots {
		binds = append(binds, p.bind())
	}
	return binds, spots[0].stat.Uid, nil
}
