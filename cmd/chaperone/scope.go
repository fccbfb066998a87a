package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

func newScopeCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scope",
		Short: "Check, explain, import and widen the file that says what a run may reach",
		Example: `  chaperone scope check acme.yaml https://app.example.com/ https://elsewhere.example/
  chaperone scope explain acme.yaml
  chaperone scope suggest browse-ebf8f87c3acea41b
  chaperone scope import roe.json --out acme.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newScopeCheckCmd(a), newScopeExplainCmd(a), newScopeSuggestCmd(a), newScopeImportCmd(a))
	return cmd
}

// readScope reads a file for decode. What is wrong with it is exit 2, with the
// absolute path where it can't be read at all.
func readScope(ctx context.Context, name string, decode func(string, []byte) (*scope.Scope, error)) (*scope.Scope, error) {
	data, err := input(ctx, "file", name, nil)
	if err != nil {
		return nil, err
	}
	s, err := decode(name, data)
	return s, exit(exitUsage, err)
}

func newScopeCheckCmd(a *app) *cobra.Command {
	var method, at string
	cmd := &cobra.Command{
		Use:   "check FILE URL…",
		Short: "Say for each URL whether the scope allows it, by which rule, and what would change that",
		Long: `Judges each URL as the proxy and the browser would, and resolves no names: that a name's
address is special is found out by a run. Exit 3 if any URL is denied, 2 if the file is bad.`,
		Example: `  chaperone scope check acme.yaml https://app.example.com/
  chaperone scope check acme.yaml --method POST https://api.example.com/v1/orders
  chaperone scope check acme.yaml --json wss://app.example.com/live`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			moment := time.Now()
			if at != "" {
				var err error
				if moment, err = time.Parse(time.RFC3339, at); err != nil {
					return exit(exitUsage, errors.New("--at must be a date and time with zone, as in 2026-12-01T09:00:00Z"))
				}
			}
			s, err := readScope(cmd.Context(), args[0], scope.Parse)
			if err != nil {
				return err
			}
			return a.checkURLs(s, args[1:], strings.ToUpper(method), moment)
		},
	}
	cmd.ValidArgsFunction = oneFile
	cmd.Flags().StringVar(&method, "method", "GET", "judge the URLs as requests by `METHOD`")
	cmd.Flags().StringVar(&at, "at", "", "judge them at `TIME`, as in 2026-12-01T09:00:00Z (default now)")
	return cmd
}

// verdict is one URL of scope check, as --json prints it.
type verdict struct {
	URL     string       `json:"url"`
	Method  string       `json:"method"`
	Allowed bool         `json:"allowed"`
	Code    refusal.Code `json:"code"`
	Rule    string       `json:"rule"`
	Why     string       `json:"why"`
	Fix     string       `json:"fix,omitzero"`
}

func (a *app) checkURLs(s *scope.Scope, urls []string, method string, at time.Time) error {
	var verdicts []verdict
	denied, width := 0, 0
	for _, raw := range urls {
		v := judgeURL(s, raw, method, at)
		if !v.Allowed {
			denied++
		}
		verdicts = append(verdicts, v)
		width = max(width, min(utf8.RuneCountInString(raw), 60))
	}
	paint := colours(a.stdout)
	for _, v := range verdicts {
		if a.json {
			if err := a.printJSON(v); err != nil {
				return err
			}
			continue
		}
		word := paint("32", "allowed")
		if !v.Allowed {
			word = paint("31", "denied ")
		}
		fmt.Fprintf(a.stdout, "%s  %-*s  %s\n", word, width, printable(v.URL), v.Rule)
		if !v.Allowed {
			fmt.Fprintf(a.stdout, "         why  %s\n", wrapped(v.Why, 14, 14, columns(a.stdout)))
			if v.Fix != "" {
				fmt.Fprintf(a.stdout, "         fix  %s\n", v.Fix)
			}
		}
	}
	if denied > 0 {
		return exit(exitRefused, fmt.Errorf("%d of %d denied", denied, len(urls)))
	}
	return nil
}

func judgeURL(s *scope.Scope, raw, method string, at time.Time) verdict {
	raw = strings.ToValidUTF8(raw, "\ufffd")
	t, err := scope.ParseURL(raw)
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ")
		return verdict{URL: raw, Method: method, Code: refusal.Of(err), Rule: "no rule", Why: why}
	}
	t.Method = method
	d := s.Decide(t, at)
	return verdict{raw, method, d.Allowed, d.Code, d.Rule, reasons[d.Code], d.Fix}
}

// reasons are the codes of a decision in plain words.
var reasons = map[refusal.Code]string{
	refusal.Allowed:       "the rule allows it",
	refusal.NoRule:        "nothing in the scope allows this host",
	refusal.DeniedByRule:  "a deny rule holds it",
	refusal.BadScheme:     "the nearest rule doesn't allow this scheme",
	refusal.BadPort:       "the nearest rule doesn't allow this port",
	refusal.BadMethod:     "the nearest rule doesn't allow this method",
	refusal.BadPath:       "the nearest rule doesn't allow this path, or the path can be read in more than one way",
	refusal.BadAddress:    "a special address, which a wide network doesn't name",
	refusal.Metadata:      "cloud metadata, which hands out credentials",
	refusal.OutsideWindow: "outside the scope's time window",
	refusal.Malformed:     "not a URL that can be judged",
}

func newScopeExplainCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "explain FILE",
		Short:   "Tell in plain sentences what the scope allows, denies, opens, and when",
		Example: "  chaperone scope explain acme.yaml",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readScope(cmd.Context(), args[0], scope.Parse)
			if err != nil {
				return err
			}
			lines := s.Explain(time.Now())
			if a.json {
				return a.printJSON(map[string]any{
					"engagement": s.Engagement(), "digest": s.Digest(), "opens_tls": s.NeedsCA(), "sentences": lines,
				})
			}
			for _, line := range lines {
				fmt.Fprintln(a.stdout, wrapped(line, 0, 4, cmp.Or(columns(a.stdout), 100)))
			}
			return nil
		},
	}
}

// printJSON prints v as one line.
func (a *app) printJSON(v any) error {
	line, err := json.Marshal(v, json.Deterministic(true))
	if err == nil {
		_, err = a.stdout.Write(append(line, '\n'))
	}
	return err
}

func newScopeImportCmd(a *app) *cobra.Command {
	var out, engagement string
	cmd := &cobra.Command{
		Use:   "import ROE.json",
		Short: "Make a scope of a roe.json's machine_enforcement",
		Long: `Reads machine_enforcement of a roe.json and prints the scope file that means the same. What
can't be kept exactly is an error; an empty in_scope denies everything.`,
		Example: "  chaperone scope import roe.json --engagement acme-2026 --out acme.yaml",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readScope(cmd.Context(), args[0], scope.ImportROE)
			if err != nil {
				return err
			}
			if engagement != "" {
				if s, err = s.WithEngagement(engagement); err != nil {
					return exit(exitUsage, err)
				}
			}
			if out == "" {
				_, err := a.stdout.Write(s.YAML())
				return err
			}
			return writeNew(out, s.YAML())
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write to `FILE`, which mustn't exist (default standard output)")
	cmd.Flags().StringVar(&engagement, "engagement", "", "the engagement's `NAME` (default what the file says)")
	return cmd
}

// writeNew never overwrites: an approved scope isn't replaced by accident.
func writeNew(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; choose another --out or remove it", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func newScopeSuggestCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "suggest RUN",
		Short: "Print the lines that would allow what a run was refused",
		Long: `Reads the decisions of a run from the database and prints the lines that a person would add
to the scope file, most often refused first. It changes nothing: whoever owns the scope decides.
RUN is a subject that ` + "`chaperone audit show --kind owned_run.started`" + ` tells.`,
		Example: "  chaperone scope suggest browse-ebf8f87c3acea41b",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.suggest(cmd.Context(), args[0]) },
	}
}

func (a *app) suggest(ctx context.Context, id string) (err error) {
	l, err := a.openLedger(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	book, err := l.book()
	if err != nil {
		return err
	}
	all, err := book.Decisions(ctx, id)
	if errors.Is(err, refusal.Unknown) {
		return fmt.Errorf("no run %s in this database; give --home or --database of the command that ran it", printable(id))
	}
	if err != nil {
		return err
	}
	suggestions := suggested(all)
	if a.json {
		for _, s := range suggestions {
			if err := a.printJSON(s); err != nil {
				return err
			}
		}
		return nil
	}
	printSuggestions(a.stdout, suggestions)
	return nil
}
