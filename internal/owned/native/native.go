// Package native asks a real browser what its own WebMCP does: each behaviour that
// the page adapter relies on, tried once, with what the browser answered
// (spec/portal-tools.md, section 5; facts of Chromium 156).
//
// It contains
//
//	native.go  Run, Report: a browser and two pages, probe by probe
//	probe.go   the probes: one behaviour each, with the answer that is relied on
//	page.go    the two pages
//
// A probe passes when the browser answered exactly what the adapter takes for
// granted. One that doesn't is a change of the browser's: the adapter's assumption
// has to be looked at, and until then this version isn't qualified. A browser
// without the API is told as that, and nothing is emulated.
//
// It says nothing about the adapter itself, which has tests of its own, and reaches
// nothing but the pages that it serves.
//
// Floor: runtime.
package native

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

// Browser does one action; *host.Host is one.
type Browser interface {
	Do(ctx context.Context, a ownedv1.Action) (browser.Answer, error)
}

// Row is what came of one probe.
type Row struct {
	Name string `json:"name"`
	Fact string `json:"fact"` // what the adapter relies on
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
}

// Report is what a browser was seen to do.
type Report struct {
	Engine  string    `json:"engine"`
	Flags   []string  `json:"flags"` // those of them that concern WebMCP
	Started time.Time `json:"started"`
	Rows    []Row     `json:"rows"`
}

// OK tells whether every behaviour is as the adapter takes it to be.
func (r Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK {
			return false
		}
	}
	return len(r.Rows) > 0
}

// Run tries every probe on a page of origin, where Handler is served.
func Run(ctx context.Context, b Browser, origin, engine string) (Report, error) {
	r := Report{Engine: engine, Flags: []string{"--enable-features=WebMCP"}, Started: time.Now().UTC()}
	for _, p := range probes {
		got, err := p.ask(ctx, b, origin)
		if err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
		r.Rows = append(r.Rows, Row{p.name, p.fact, p.want, got, got == p.want})
	}
	return r, nil
}

// ask loads the probe's page afresh, so that none sees another's tools, and runs it.
func (p probe) ask(ctx context.Context, b Browser, origin string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	page := "/"
	if p.page != "" {
		page = p.page
	}
	if _, err := b.Do(ctx, ownedv1.Goto{URL: origin + page}); err != nil {
		return "", err
	}
	if p.agent != nil {
		return p.agent(ctx, b)
	}
	return eval(ctx, b, p.script)
}

// eval runs an expression that answers a text. What it throws is its answer.
func eval(ctx context.Context, b Browser, script string) (string, error) {
	answer, err := b.Do(ctx, ownedv1.EvalJS{Expression: `(async () => { try { return String(await (async () => {` + script + `})()); } catch (e) { return "threw " + (e.name ?? "") + ": " + (e.message ?? e); } })()`})
	if err != nil {
		return "", err
	}
	result, ok := answer.Result.(ownedv1.EvalResult)
	if !ok {
		return fmt.Sprintf("%T", answer.Result), nil
	}
	var text string
	if err := json.Unmarshal(result.Result, &text); err != nil {
		return string(result.Result), nil
	}
	return text, nil
}

// WriteText prints a report for a terminal.
func WriteText(w io.Writer, r Report) {
	fmt.Fprintf(w, "%s, %s\n", r.Engine, strings.Join(r.Flags, " "))
	for _, row := range r.Rows {
		mark := "as relied on"
		if !row.OK {
			mark = fmt.Sprintf("OTHERWISE: %s, not %s", row.Got, row.Want)
		}
		fmt.Fprintf(w, "  %-22s %s\n", row.Name, mark)
	}
}

// WriteMarkdown writes the section of the qualification page.
func WriteMarkdown(w io.Writer, revision string, r Report) {
	status := "qualified"
	if !r.OK() {
		status = "not qualified"
	}
	fmt.Fprintf(w, "Written by `chaperone qualify --webmcp --write`, revision `%s`, %s: %s, started as `chromium %s`: **%s**. Registration, discovery, execution and cancellation are the browser's own; no fixture stands in for any of it.\n\n",
		revision, r.Started.Format(time.DateOnly), r.Engine, strings.Join(r.Flags, " "), status)
	fmt.Fprintln(w, "| behaviour | relied on | seen |\n|---|---|---|")
	for _, row := range r.Rows {
		seen := "as relied on"
		if !row.OK {
			seen = "`" + strings.NewReplacer("|", `\|`, "`", "'", "\n", " ").Replace(row.Got) + "`"
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", row.Name, row.Fact, seen)
	}
}
