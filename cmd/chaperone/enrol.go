package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"chaperone/internal/credential"
	"chaperone/internal/node"
)

// newEnrolCmd is `chaperone enrol`: a one-time link for one more person, or for one
// who has lost their passkeys.
func newEnrolCmd(a *app) *cobra.Command {
	var person string
	cmd := &cobra.Command{
		Use:   "enrol [NAME]",
		Short: "A one-time link with which a person gets a passkey",
		Long: `Prints a link for one more person of the built-in sign-in, or with --for one for somebody who
has lost every passkey: it adds a passkey to the same person and draws new recovery codes. The link works
once, for 15 minutes; whoever opens it becomes that person, so hand it over in person.
It works on the home's own database, with the server running or not.`,
		Example: "  chaperone enrol 'Grace Hopper'\n  chaperone enrol --for 'Ada Lovelace'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("one name at a time, in quotes where it has spaces: chaperone enrol 'Grace Hopper'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if person != "" && len(args) > 0 {
				return exit(exitUsage, errors.New("give a NAME for a new person, or --for one who is there; not both"))
			}
			return a.enrol(cmd.Context(), strings.Join(args, ""), person)
		},
	}
	cmd.Flags().StringVar(&person, "for", "", "a `PERSON` who is there already, by name or id")
	return cmd
}

func (a *app) enrol(ctx context.Context, name, person string) (err error) {
	home, config, err := a.settings()
	if err != nil {
		return err
	}
	if config.Issuer.URL != "" {
		return exit(exitUsage, errors.New("people sign in at the configured issuer, so they are enrolled there"))
	}
	l, err := a.openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	people, err := node.OpenPeople(home, config, l.db, l.log)
	if err != nil {
		return err
	}
	secret, err := link(ctx, people, name, person)
	if err != nil {
		return err
	}
	url := node.EnrolmentLink(config, secret)
	if a.json {
		return a.printJSON(struct {
			Link string `json:"link"`
		}{url})
	}
	if _, err := fmt.Fprintln(a.stdout, url); err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, "It works once, for 15 minutes. Whoever opens it becomes that person.")
	return nil
}

// link makes the secret, for a new person or for the one that is meant.
func link(ctx context.Context, people *credential.Book, name, person string) (string, error) {
	if person == "" {
		return people.Enrolment(ctx, name)
	}
	all, err := people.People(ctx)
	if err != nil {
		return "", err
	}
	var found []credential.Person
	for _, p := range all {
		if p.ID == person || strings.EqualFold(p.Name, person) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 1:
		return people.EnrolmentFor(ctx, "uid:"+strconv.Itoa(os.Getuid()), found[0].ID)
	case 0:
		return "", exit(exitUsage, fmt.Errorf("--for: there is nobody of that name or id; %s", known(all)))
	}
	return "", exit(exitUsage, errors.New("--for: several people have that name; give the id"))
}

// known names the people there are, where they are few.
func known(all []credential.Person) string {
	if len(all) == 0 {
		return "nobody has enrolled yet: the link that `chaperone serve` prints is for the first"
	}
	const most = 10
	var names []string
	for _, p := range all[:min(len(all), most)] {
		names = append(names, strconv.Quote(p.Name))
	}
	text := "there is " + strings.Join(names, ", ")
	if rest := len(all) - len(names); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}
