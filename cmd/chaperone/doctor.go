package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"chaperone/internal/owned/jail"
	"chaperone/internal/refusal"
)

// finding is what doctor found out about one thing.
type finding struct {
	Name   string `json:"name"`
	State  state  `json:"state"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // the exact command; set when State is missing
}

// state is how a finding stands.
type state string

const (
	fine    state = "ok"      // nothing to do
	noted   state = "note"    // works, but worth knowing
	missing state = "missing" // Chaperone can't work without it: exit 4
)

// newDoctorCmd makes `chaperone doctor`.
func newDoctorCmd(a *app) *cobra.Command {
	var engine string
	var profile bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is missing here, and the exact command that mends it",
		Long: "Tries what Chaperone needs of this machine, a contained browser included, and\n" +
			"prints what is missing with the command that mends it. Exit 0: all is there;\n" +
			"4: something is missing.",
		Example: "  chaperone doctor\n  chaperone doctor --json\n  chaperone doctor --browser /opt/chromium/headless_shell",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile {
				_, err := io.WriteString(a.stdout, profileHere(engine))
				return err
			}
			return a.doctor(cmd.Context(), engine)
		},
	}
	cmd.Flags().StringVar(&engine, "browser", "", "the browser's executable `FILE` (default the installed headless-shell)")
	cmd.Flags().BoolVar(&profile, "apparmor", false, "print the AppArmor profile that the box needs where user namespaces are restricted")
	return cmd
}

// doctor makes every examination and prints what came of it.
func (a *app) doctor(ctx context.Context, engine string) error {
	found := a.examine(ctx, engine)
	ok := true
	for _, f := range found {
		ok = ok && f.State != missing
	}
	var err error
	if a.json {
		err = printFindings(a.stdout, ok, found)
	} else {
		_, err = io.WriteString(a.stdout, sheet(found, profileHere(engine), colours(a.stdout), columns(a.stdout)))
	}
	switch {
	case err != nil:
		return err
	case !ok:
		return exit(exitPrerequisite, errors.New("")) // the findings have said it
	}
	return nil
}

func printFindings(w io.Writer, ok bool, found []finding) error {
	data, err := json.Marshal(struct {
		OK     bool      `json:"ok"`
		Checks []finding `json:"checks"`
	}{ok, found})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// sheet is the findings for a person: a line each, what mends it below, and one
// sentence at the end.
func sheet(found []finding, profile string, paint func(colour, text string) string, width int) string {
	const margin = 22 // of the details
	var b strings.Builder
	count := 0
	for _, f := range found {
		mark := paint(hues[f.State], fmt.Sprintf("%-7s", f.State))
		fmt.Fprintf(&b, "%s  %-11s  %s\n", mark, f.Name, wrapped(f.Detail, margin, margin, width))
		if f.State == missing {
			count++
			fmt.Fprintf(&b, "%*smend: %s\n", margin, "", f.Mend) // never broken: it is to be copied
		}
	}
	if wantsProfile(found) {
		b.WriteString("\nThe box needs this AppArmor profile (chaperone doctor --apparmor prints it):\n\n" + profile)
	}
	switch count {
	case 0:
		b.WriteString("\nEverything Chaperone needs is here. (Node, npm, Docker and a display are not needed.)\n")
	case 1:
		b.WriteString("\nOne thing is missing. Run the command beside \"mend:\", then chaperone doctor again.\n")
	default:
		fmt.Fprintf(&b, "\n%d things are missing. Run the commands beside \"mend:\", then chaperone doctor again.\n", count)
	}
	return b.String()
}

// hues are the states' colours.
var hues = map[state]string{fine: "32", noted: "33", missing: "1;31"}

// wantsProfile says whether a missing profile is the cause of what is missing.
func wantsProfile(found []finding) bool {
	for _, f := range found {
		if f.Mend == jail.AppArmorMend {
			return true
		}
	}
	return false
}

// profileHere is the AppArmor profile for this program and its engine; where one
// of them isn't found, for where Debian has it.
func profileHere(engine string) string {
	self, err := os.Executable()
	if err != nil {
		self = "/usr/local/bin/chaperone"
	}
	found, err := jail.FindEngine(engine)
	if err != nil {
		found = jail.UsualEngine
	}
	return jail.AppArmorProfile(self, found)
}

// judged turns an error into a finding: what it says is missing, and the command.
func judged(name string, err error, fallback string) finding {
	var m *jail.Missing
	if errors.As(err, &m) {
		return finding{name, missing, m.What, m.Mend}
	}
	if refusal.Of(err) == "" {
		return finding{name, missing, err.Error(), fallback}
	}
	return finding{name, missing, strings.ReplaceAll(err.Error(), "\n", "; "), fallback}
}
