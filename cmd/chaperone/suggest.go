package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"chaperone/internal/owned/run"
	"chaperone/internal/refusal"
)

// suggestion is one line that a person might change, and what it would allow.
type suggestion struct {
	Fix   string       `json:"fix"`
	Host  string       `json:"host"`
	Port  int          `json:"port"`
	Code  refusal.Code `json:"code"`
	Count int64        `json:"count"` // refusals that it would have spared
}

// addRule begins the fix of a request that no rule knows; the rule follows.
const addRule = "add under allow:  "

// suggested is each fix once, most often wanted first.
func suggested(all []run.Decision) []suggestion {
	var list []suggestion
	for _, d := range all {
		if d.Code == refusal.Allowed || d.Fix == "" {
			continue
		}
		i := slices.IndexFunc(list, func(s suggestion) bool { return s.Fix == d.Fix })
		if i < 0 {
			i = len(list)
			list = append(list, suggestion{Fix: d.Fix, Host: d.Host, Port: d.Port, Code: d.Code})
		}
		list[i].Count += d.Count
	}
	slices.SortStableFunc(list, func(a, b suggestion) int { return int(b.Count - a.Count) })
	return list
}

// printSuggestions prints new rules as YAML to paste, and changes of present
// rules as sentences.
func printSuggestions(w io.Writer, list []suggestion) {
	var rules, changes []string
	for _, s := range list {
		times := fmt.Sprintf("refused %d times", s.Count)
		if s.Count == 1 {
			times = "refused once"
		}
		if rule, ok := strings.CutPrefix(s.Fix, addRule); ok {
			rules = append(rules, fmt.Sprintf("  %-48s # %s", rule, times))
		} else {
			changes = append(changes, fmt.Sprintf("# %s (%s)", s.Fix, times))
		}
	}
	switch {
	case len(list) == 0:
		fmt.Fprintln(w, "# Nothing was refused that a line of the scope would allow.")
	case len(rules) > 0:
		fmt.Fprintln(w, "# These rules would allow what the run was refused. Add what you mean, not all of it.")
		fmt.Fprintln(w, "allow:")
		fmt.Fprintln(w, strings.Join(rules, "\n"))
	}
	if len(changes) > 0 {
		fmt.Fprintln(w, "# Changes of present rules:")
		fmt.Fprintln(w, strings.Join(changes, "\n"))
	}
}
