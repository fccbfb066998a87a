package corpus

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Status is a combination's place in the qualification matrix.
type Status string

const (
	Qualified    Status = "qualified"     // every vector contained, in this run
	NotQualified Status = "not qualified" // tried and failed, or not tried
	Rejected     Status = "rejected"      // refused at start, by design
)

// Combination is one row of the matrix: a platform with an engine.
type Combination struct {
	Platform string `json:"platform"`
	Engine   string `json:"engine"`
	Status   Status `json:"status"`
	Why      string `json:"why"`
}

// Matrix is what a qualification says of every combination. The rows that
// nothing was run for are always there, so that silence is never taken for a yes.
func Matrix(reports []Report) []Combination {
	var rows []Combination
	for _, r := range reports {
		who := "an ordinary user"
		if r.UID == 0 {
			who = "root"
		}
		c, l, u := r.Counts()
		row := Combination{Platform: r.Kernel + ", as " + who, Engine: "headless-shell, " + r.Version, Status: NotQualified}
		if r.OK() {
			row.Status = Qualified
		}
		row.Why = fmt.Sprintf("%d vectors contained, %d leaked, %d unproven, %d strays; %s", c, l, u, len(r.Strays), schemeCount(r))
		rows = append(rows, row)
	}
	if len(reports) == 0 {
		rows = append(rows, Combination{"Linux", "headless-shell", NotQualified, "not run here"})
	}
	return append(rows,
		Combination{"Linux", "desktop Chromium", NotQualified, "not run; Chaperone starts headless-shell only"},
		Combination{"Windows, Docker Desktop forwarding", "any", Rejected, "container loopback isn't the host's; no transport is qualified"},
	)
}

func schemeCount(r Report) string {
	right := 0
	for _, x := range r.Refusals {
		if x.Got == x.Want {
			right++
		}
	}
	return fmt.Sprintf("%d of %d typed schemes and malformed addresses refused", right, len(r.Refusals))
}

// WriteText prints a report for a terminal: a line a group, and each vector that
// wasn't contained.
func WriteText(w io.Writer, r Report) {
	who := fmt.Sprintf("uid %d", r.UID)
	if r.UID == 0 {
		who = "root"
	}
	fmt.Fprintf(w, "%s, %s, as %s, %.0f s\n", r.Version, r.Kernel, who, r.Seconds)
	for _, g := range groups(r) {
		mark := "contained"
		if g.contained < g.total {
			mark = "FAILED"
		}
		fmt.Fprintf(w, "  %-10s %3d of %3d  %s\n", g.name, g.contained, g.total, mark)
	}
	fmt.Fprintf(w, "  %-10s %s\n", "schemes", schemeCount(r))
	for _, row := range r.Rows {
		switch row.Verdict {
		case Leaked:
			fmt.Fprintf(w, "  leaked: %s: %s\n", row.Vector, row.Seen)
		case Unproven:
			fmt.Fprintf(w, "  unproven: %s never arrived in its control (%s)\n", row.Vector, row.Control)
		}
	}
	for _, x := range r.Refusals {
		if x.Got != x.Want {
			fmt.Fprintf(w, "  scheme: %s answered %q, not %s\n", x.URL, x.Got, x.Want)
		}
	}
	for i, x := range r.Strays {
		if i == 20 {
			fmt.Fprintf(w, "  … and %d more\n", len(r.Strays)-i)
			break
		}
		fmt.Fprintf(w, "  stray: %s\n", x)
	}
}

type group struct {
	name             string
	contained, total int
}

func groups(r Report) []group {
	var out []group
	for _, row := range r.Rows {
		i := slices.IndexFunc(out, func(g group) bool { return g.name == row.Group })
		if i < 0 {
			out = append(out, group{name: row.Group})
			i = len(out) - 1
		}
		out[i].total++
		if row.Verdict == Contained {
			out[i].contained++
		}
	}
	return out
}

// WriteMarkdown writes the containment section of docs/qualification.md.
func WriteMarkdown(w io.Writer, revision string, reports []Report) {
	fmt.Fprintf(w, "Written by `chaperone qualify --write`, revision `%s`. It is free of any model, says only what that run did on that machine, and is no claim about a release.\n\n", revision)
	fmt.Fprint(w, "| platform | engine | status | what was seen |\n|---|---|---|---|\n")
	for _, c := range Matrix(reports) {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", c.Platform, c.Engine, c.Status, c.Why)
	}
	for _, r := range reports {
		who := "an ordinary user"
		if r.UID == 0 {
			who = "root"
		}
		fmt.Fprintf(w, "\nAs %s, %s:\n\n| group | contained | of | vectors |\n|---|---|---|---|\n", who, r.Started.Format("2006-01-02"))
		for _, g := range groups(r) {
			var names []string
			for _, row := range r.Rows {
				if row.Group == g.name {
					names = append(names, row.Vector)
				}
			}
			fmt.Fprintf(w, "| %s | %d | %d | %s |\n", g.name, g.contained, g.total, strings.Join(names, ", "))
		}
	}
}
