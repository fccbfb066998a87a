package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// controlKey is the home's secret under which decisions are sealed.
const controlKey = "control.key"

func newPolicyCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check and try the file that says what agents may do, and what must be confirmed",
		Example: `  chaperone policy check acme.cedar
  chaperone policy test acme.cedar cases.yaml
  chaperone policy replay acme.cedar --since 24h`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyCheckCmd(a), newPolicyTestCmd(a), newPolicyReplayCmd(a))
	return cmd
}

// readPolicy reads a file of policies. What is wrong with it is exit 2.
func readPolicy(ctx context.Context, name string) (*policy.Set, error) {
	data, err := input(ctx, "file", name, nil)
	if err != nil {
		return nil, err
	}
	set, err := policy.Parse(name, data)
	return set, exit(exitUsage, err)
}

// checkedRule is a rule as policy check --json prints it.
type checkedRule struct {
	ID      string          `json:"id"`
	Effect  string          `json:"effect"`
	Actions []policy.Action `json:"actions"`
	Confirm policy.Level    `json:"require_confirmation,omitzero"`
	Line    int             `json:"line"`
}

// checkedWarning is a warning as policy check --json prints it.
type checkedWarning struct {
	Rule   string `json:"rule"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Msg    string `json:"message"`
}

func newPolicyCheckCmd(a *app) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Read and validate a policy file, and warn of rules that do nothing",
		Long: `Reads the file as the server would: its syntax, its names, its types. Warns of rules that can
never match, that another rule covers, or that mean less than they seem to. Exit 2 if the file
is bad, or with --strict if there is a warning.`,
		Example: "  chaperone policy check acme.cedar\n  chaperone policy check acme.cedar --strict --json",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := readPolicy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.printPolicy(args[0], set); err != nil {
				return err
			}
			if n := len(set.Lint()); strict && n > 0 {
				return exit(exitUsage, fmt.Errorf("%d warnings", n))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 2 if there is a warning")
	return cmd
}

// printPolicy prints a set's rules and warnings.
func (a *app) printPolicy(name string, set *policy.Set) error {
	rules, warnings := []checkedRule{}, []checkedWarning{}
	for _, r := range set.Rules() {
		rules = append(rules, checkedRule{r.ID, effect(r), r.Actions, r.Level, r.Line})
	}
	for _, w := range set.Lint() {
		warnings = append(warnings, checkedWarning{w.Rule, w.Line, w.Column, w.Msg})
	}
	if a.json {
		return a.printJSON(map[string]any{"policy_version": set.Version(), "rules": rules, "warnings": warnings})
	}
	paint := colours(a.stdout)
	for _, r := range rules {
		fmt.Fprintf(a.stdout, "%-6s  %-24s  %s%s\n", r.Effect, r.ID, actionWords(r.Actions), confirmWords(r.Confirm))
	}
	for _, w := range warnings {
		fmt.Fprintf(a.stdout, "%s %s:%d:%d: %s: %s\n", paint("33", "warning:"), printable(name), w.Line, w.Column, w.Rule, w.Msg)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  policy_version %s\n", paint("32", "ok"), set.Version())
	return err
}

func effect(r policy.Rule) string {
	if r.Permit {
		return "permit"
	}
	return "forbid"
}

func actionWords(actions []policy.Action) string {
	if len(actions) == len(policy.Actions()) {
		return "every action"
	}
	var words []string
	for _, action := range actions {
		words = append(words, string(action))
	}
	return strings.Join(words, ", ")
}

func confirmWords(l policy.Level) string {
	if l == "" {
		return ""
	}
	return ", confirmed by " + string(l)
}

// judgedCase is a case as policy test --json prints it.
type judgedCase struct {
	Name     string       `json:"name"`
	Line     int          `json:"line"`
	Met      bool         `json:"met"`
	Expect   string       `json:"expect"`
	Expected []string     `json:"expect_rules,omitempty"`
	Allow    bool         `json:"allow"`
	Code     refusal.Code `json:"code,omitzero"`
	Level    policy.Level `json:"level"`
	Rules    []string     `json:"rules"`
}

func newPolicyTestCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE CASES",
		Short: "Judge cases by a policy file, and say for each which rule decided",
		Long: `Reads CASES, a YAML file of requests with the answers that you expect, and judges each by FILE.
Exit 1 if one is decided otherwise, 2 if a file is bad. docs/policy.md tells the keys.`,
		Example: "  chaperone policy test acme.cedar cases.yaml\n  chaperone policy test acme.cedar cases.yaml --json",
		Args:    cobra.ExactArgs(2),

		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := readPolicy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			data, err := input(cmd.Context(), "file", args[1], nil)
			if err != nil {
				return err
			}
			cases, err := policy.ParseCases(args[1], data)
			if err != nil {
				return exit(exitUsage, err)
			}
			return a.testPolicy(args[1], set, cases)
		},
	}
	return cmd
}

func (a *app) testPolicy(name string, set *policy.Set, cases []policy.Case) error {
	paint := colours(a.stdout)
	missed := 0
	for _, c := range cases {
		d, met := c.Run(set)
		if !met {
			missed++
		}
		j := judgedCase{c.Name, c.Line, met, c.Expect, c.Rules, d.Allow, d.Code, d.Level, append([]string{}, d.Rules...)}
		if a.json {
			if err := a.printJSON(j); err != nil {
				return err
			}
			continue
		}
		word := paint("32", "met   ")
		if !met {
			word = paint("31", "MISSED")
		}
		fmt.Fprintf(a.stdout, "%s  %s: %s, by %s\n", word, printable(c.Name), j.word(), ruleWords(d.Rules))
		if !met {
			fmt.Fprintf(a.stdout, "        %s:%d expects %s%s\n", printable(name), c.Line, c.Expect, byRules(c.Rules))
		}
	}
	if missed > 0 {
		return exit(exitFailed, fmt.Errorf("%d of %d cases are decided otherwise", missed, len(cases)))
	}
	return nil
}

// word is the decision as cases write it.
func (j judgedCase) word() string {
	switch {
	case j.Allow && j.Level == policy.None:
		return "allow"
	case j.Allow:
		return string(j.Level)
	case j.Code == refusal.PolicyUnavailable:
		return policy.Failing
	}
	return policy.Deny
}

func ruleWords(rules []string) string {
	if len(rules) == 0 {
		return "no rule"
	}
	return strings.Join(rules, ", ")
}

func byRules(rules []string) string {
	if rules == nil {
		return ""
	}
	return ", by " + ruleWords(rules)
}

func newPolicyReplayCmd(a *app) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Say which recorded decisions another policy file would decide otherwise, and by which rule",
		Long: `Judges the decisions that this home's database has recorded by FILE, each at its own time, and
prints those that would be others, then a summary. It changes nothing. Arguments aren't kept:
where they would decide, it says depends. Exit 0 says that it ran; 2 that the file is bad.`,
		Example: "  chaperone policy replay acme.cedar\n  chaperone policy replay acme.cedar --since 24h --json",
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := (&auditFilter{since: since}).filter()
			if err != nil {
				return err
			}
			set, err := readPolicy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.replayPolicy(cmd.Context(), set, filter.Since)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only what was decided from `TIME` on: 24h (ago), 2026-01-31 or 2026-01-31T12:00:00Z")
	return cmd
}

// replayedDecision is a decision as policy replay --json prints it.
type replayedDecision struct {
	Receipt  string        `json:"receipt"`
	Decided  time.Time     `json:"decided"`
	Action   policy.Action `json:"action"`
	Resource string        `json:"resource"`
	Was      string        `json:"was"`
	Would    string        `json:"would"`
	WasRules []string      `json:"was_rules"`
	Rules    []string      `json:"rules"`
}

// replaySummary is the last line of policy replay --json.
type replaySummary struct {
	PolicyVersion string `json:"policy_version"`
	Recorded      int    `json:"recorded"`
	Same          int    `json:"same"`
	Stricter      int    `json:"stricter"`
	Looser        int    `json:"looser"`
	Depends       int    `json:"depends"`
	Unavailable   int    `json:"unavailable"`
	Unreadable    int    `json:"unreadable"`
}

func (a *app) replayPolicy(ctx context.Context, set *policy.Set, since time.Time) (err error) {
	p, err := a.auditPlaces(localTenant)
	if err != nil {
		return err
	}
	secret, err := a.controlSecret()
	if err != nil {
		return err
	}
	db, err := p.open(ctx)
	if errors.Is(err, refusal.NothingVerified) {
		return exit(exitFailed, errors.New("nothing is recorded: there is no database; give --home or --database of the server"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	book, err := policy.NewBook(db, nil, localTenant, policy.Options{Secret: secret})
	if err != nil {
		return err
	}
	summary, err := book.Replay(ctx, set, since, a.printReplayed)
	if errors.Is(err, refusal.OlderDatabase) {
		summary, err = policy.Summary{PolicyVersion: set.Version()}, nil // from before there were policies
	}
	if err != nil {
		return err
	}
	return a.printSummary(replaySummary{summary.PolicyVersion, summary.Recorded, summary.Same, summary.Stricter, summary.Looser,
		summary.Depends, summary.Failing, summary.Unreadable})
}

// controlSecret reads the home's secret. Without one nothing was sealed here, and
// what another home sealed is told as unreadable.
func (a *app) controlSecret() ([]byte, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(filepath.Join(home, controlKey))
	if errors.Is(err, fs.ErrNotExist) {
		return make([]byte, 32), nil
	}
	return secret, err
}

func (a *app) printReplayed(r policy.Replayed) error {
	d := replayedDecision{r.Receipt, r.Decided.UTC(), r.Action, fmt.Sprintf("%s::%q", r.Kind, r.Resource), r.Was, r.Would,
		append([]string{}, r.WasRules...), append([]string{}, r.Rules...)}
	if a.json {
		return a.printJSON(d)
	}
	by := ruleWords(r.Rules)
	if r.Would == policy.Depends || r.Would == policy.Unreadable {
		by = "arguments, which aren't kept"
		if r.Would == policy.Unreadable {
			by = "facts that don't open under this home's key"
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %.8s…  %s %s\n          was %s, by %s; would be %s, by %s\n",
		r.Decided.UTC().Format(time.RFC3339), r.Receipt, r.Action, d.Resource, r.Was, ruleWords(r.WasRules), r.Would, by)
	return err
}

func (a *app) printSummary(s replaySummary) error {
	if a.json {
		return a.printJSON(s)
	}
	_, err := fmt.Fprintf(a.stdout, "%d decisions: %d the same, %d stricter, %d looser, %d depend on arguments, %d can't be judged, %d unreadable\n",
		s.Recorded, s.Same, s.Stricter, s.Looser, s.Depends, s.Unavailable, s.Unreadable)
	return err
}
