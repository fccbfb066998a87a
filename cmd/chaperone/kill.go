package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"chaperone/internal/attended/controlv1"
	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/policy"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// newKillCmd makes `chaperone kill`: whoever is at the machine is the operator, and
// may stop all of attended control. It works while the server does, and while it
// doesn't.
func newKillCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kill",
		Short: "The kill switch of attended control: set, list, lift",
		Long: `Stops what agents do in people's open tabs, and lets nothing new begin until it is lifted. What is
stopped stays over. A running server hears of it within seconds; nothing new is admitted from the
moment that this command has answered. People have their own switch in the portal.`,
		Example: "  chaperone kill set all\n  chaperone kill set principal principal_0f1e…\n  chaperone kill list\n  chaperone kill lift kill_0f1e…",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKillSetCmd(a), newKillListCmd(a), newKillLiftCmd(a))
	return cmd
}

// shownKill is a switch as --json prints it.
type shownKill struct {
	ID       string             `json:"kill_id"`
	Scope    attended.KillScope `json:"scope"`
	Ref      string             `json:"ref,omitzero"`
	SetMS    int64              `json:"set_ms"`
	InFlight []string           `json:"in_flight"`
	Unknown  []string           `json:"unknown"`
}

func showKill(k attended.Kill) shownKill {
	s := shownKill{k.ID.String(), k.Scope, k.Ref, k.SetMS, []string{}, []string{}}
	for _, c := range k.InFlight {
		s.InFlight = append(s.InFlight, c.String())
	}
	for _, c := range k.Unknown {
		s.Unknown = append(s.Unknown, c.String())
	}
	return s
}

// killing runs f over the server's ledger of attended control.
func (a *app) killing(ctx context.Context, f func(*attended.Book) error) (err error) {
	l, err := a.openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	secret := make([]byte, 32) // nothing is decided here, so nothing is sealed by it
	rand.Read(secret)
	receipts, err := policy.NewBook(l.db, l.log, localTenant, policy.Options{Secret: secret})
	if err != nil {
		return err
	}
	book, err := attended.NewBook(l.db, l.log, localTenant, attended.Options{Receipts: receipts})
	if err != nil {
		return err
	}
	return f(book)
}

func newKillSetCmd(a *app) *cobra.Command {
	scopes := []string{"call", "lease", "arm", "principal", "tenant", "all"}
	return &cobra.Command{
		Use:       "set SCOPE [REF]",
		Short:     "Stop a call, lease, arm, principal, the tenant, or all",
		Example:   "  chaperone kill set all\n  chaperone kill set call call_0f1e…",
		Args:      cobra.RangeArgs(1, 2),
		ValidArgs: scopes,
		RunE: func(cmd *cobra.Command, args []string) error {
			target := ""
			if len(args) == 2 {
				target = args[1]
			}
			return a.killing(cmd.Context(), func(b *attended.Book) error {
				k, err := b.Kill(cmd.Context(), attended.KillScope(args[0]), target, ref.Principal{})
				if refusal.Of(err) == refusal.InvalidRequest {
					return exit(exitUsage, fmt.Errorf("SCOPE is one of %s, and REF is what it names: a call_, lease_, attended_ (arm) or principal_ reference, and nothing for the tenant and all", strings.Join(scopes, ", ")))
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.printLine(showKill(k))
				}
				fmt.Fprintf(a.stdout, "%s is on over %s\n", k.ID, strings.TrimSpace(string(k.Scope)+" "+k.Ref))
				for _, c := range k.InFlight {
					fmt.Fprintf(a.stdout, "in flight, told to stop: %s\n", c)
				}
				for _, c := range k.Unknown {
					fmt.Fprintf(a.stdout, "nobody knows what became of: %s\n", c)
				}
				fmt.Fprintf(a.stderr, "To lift it: chaperone kill lift %s\n", k.ID)
				return nil
			})
		},
	}
}

func newKillListCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "The switches that are on, with what is in flight and unknown under each",
		Example: "  chaperone kill list\n  chaperone kill list --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.killing(cmd.Context(), func(b *attended.Book) error {
				all, err := b.Kills(cmd.Context())
				if err != nil {
					return err
				}
				shown := []shownKill{}
				for _, k := range all {
					shown = append(shown, showKill(k))
				}
				if a.json {
					return a.printLine(struct {
						Kills []shownKill `json:"kills"`
					}{shown})
				}
				if len(shown) == 0 {
					fmt.Fprintln(a.stderr, "no kill switch is on")
					return nil
				}
				table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "KILL\tSCOPE\tREF\tSET\tIN FLIGHT\tUNKNOWN")
				for _, k := range shown {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\n", k.ID, k.Scope, k.Ref, time.UnixMilli(k.SetMS).UTC().Format("2006-01-02 15:04"), len(k.InFlight), len(k.Unknown))
				}
				return table.Flush()
			})
		},
	}
}

func newKillLiftCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "lift ID",
		Short:   "Lift a switch; what it ended stays over",
		Example: "  chaperone kill lift kill_0f1e…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := controlv1.ParseID(args[0])
			if err != nil {
				return exit(exitUsage, errors.New("no kill switch's id; chaperone kill list has them"))
			}
			return a.killing(cmd.Context(), func(b *attended.Book) error {
				switch err := b.Lift(cmd.Context(), id, ref.Principal{}); {
				case errors.Is(err, refusal.Unknown):
					return errors.New("no such kill switch; chaperone kill list has them")
				case err != nil:
					return err
				}
				if a.json {
					return a.printLine(struct {
						Lifted string `json:"lifted"`
					}{id.String()})
				}
				_, err := fmt.Fprintln(a.stdout, "lifted", id)
				return err
			})
		},
	}
}
