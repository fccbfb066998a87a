package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// outcome is what one step came to.
type outcome struct {
	number  int
	step    step
	took    time.Duration
	result  any
	saved   string // the file that was written
	failure *browser.Failure
	notes   browser.Notes
}

// reporter prints outcomes for a person, or one line of JSON each.
type reporter struct {
	json     bool
	out, err io.Writer
	terminal bool // err is one: progress may be shown
	paint    func(colour, text string) string
	columns  int // of out; 0 where it is no terminal
}

func newReporter(a *app) reporter {
	file, ok := a.stderr.(*os.File)
	return reporter{a.json, a.stdout, a.stderr, ok && term.IsTerminal(int(file.Fd())), colours(a.stdout), columns(a.stdout)}
}

// jsonLine is a step as --json prints it.
type jsonLine struct {
	Action    string             `json:"action"`
	Result    any                `json:"result,omitzero"`
	Error     refusal.Code       `json:"error,omitzero"`
	Reason    refusal.Code       `json:"reason,omitzero"`
	MS        int64              `json:"ms"`
	Saved     string             `json:"saved,omitzero"`
	Detail    string             `json:"detail,omitzero"`
	Rule      string             `json:"rule,omitzero"`
	Fix       string             `json:"fix,omitzero"`
	Blocked   []browser.Blocked  `json:"blocked,omitzero"` // of a goto always, empty or not
	Dialogs   []browser.Dialog   `json:"dialogs,omitempty"`
	NewTabs   []string           `json:"new_tabs,omitempty"`
	Downloads []browser.Download `json:"downloads,omitempty"`
}

func (r reporter) print(o outcome) error {
	if r.json {
		return r.printJSON(o)
	}
	_, err := io.WriteString(r.out, r.person(o))
	return err
}

func (r reporter) printJSON(o outcome) error {
	line := jsonLine{
		Action: o.step.action.Name(), Result: o.result, MS: o.took.Milliseconds(), Saved: o.saved,
		Blocked: o.notes.Blocked, Dialogs: o.notes.Dialogs, NewTabs: o.notes.NewTabs, Downloads: o.notes.Downloads,
	}
	if _, ok := o.step.action.(ownedv1.Goto); ok && line.Blocked == nil {
		line.Blocked = []browser.Blocked{}
	}
	if f := o.failure; f != nil {
		line.Error, line.Reason, line.Detail, line.Rule, line.Fix = f.Code, f.Reason, f.Detail, f.Rule, f.Fix
	}
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(data, '\n'))
	return err
}

// headColumns is the width of a step's name and object where there is room.
const headColumns = 60

// person is a step as a person reads it: one line, and what belongs to it
// indented below.
func (r reporter) person(o outcome) string {
	var b strings.Builder
	below := func(label, text string) { fmt.Fprintf(&b, "      %-8s %s\n", label, text) }
	said, body := saying(o)
	room, took := headColumns, fmt.Sprintf("(%d ms)", o.took.Milliseconds())
	if r.columns > 0 {
		room = max(24, min(room, r.columns/2-5))
		said = short(said, max(12, r.columns-room-len(took)-9))
	}
	head := strings.TrimSpace(fmt.Sprintf("%-12s %s", o.step.action.Name(), printable(short(o.step.told, room-13))))
	said = printable(said)
	if o.failure != nil {
		said = r.paint("31", said)
	}
	fmt.Fprintf(&b, "%3d  %-*s  %s  %s\n", o.number, room, head, said, took)
	if f := o.failure; f != nil {
		if f.Detail != "" {
			below("why", f.Detail)
		}
		if f.Rule != "" {
			below("rule", f.Rule)
		}
		if f.Fix != "" {
			below("to allow", f.Fix)
		}
	}
	if o.saved != "" {
		below("saved", o.saved)
	}
	for _, x := range o.notes.Blocked {
		if o.failure != nil && x.Rule == o.failure.Rule {
			continue // that is the refusal itself
		}
		below("blocked", fmt.Sprintf("%s, %d× (%s)", x.Host, x.Count, x.Rule))
	}
	for _, d := range o.notes.Dialogs {
		below("dialog", fmt.Sprintf("%s %q %s", d.Type, d.Message, d.Outcome))
	}
	for _, t := range o.notes.NewTabs {
		below("new tab", t)
	}
	for _, d := range o.notes.Downloads {
		below("download", fmt.Sprintf("%q %s %s", d.Name, d.State, d.Saved))
	}
	if r.columns > 0 {
		body = printable(body) // a page wrote it, and a terminal obeys
	}
	if body != "" {
		b.WriteString(strings.TrimRight(body, "\n") + "\n")
	}
	return b.String()
}

// saying is a result in a few words, and the text that a step was asked for.
func saying(o outcome) (said, body string) {
	if o.failure != nil {
		if o.failure.Reason == refusal.ScopeDenied {
			return "REFUSED by the scope", ""
		}
		return "FAILED: " + string(o.failure.Reason), ""
	}
	switch r := o.result.(type) {
	case ownedv1.GotoResult:
		if r.Status == nil {
			return fmt.Sprintf("loaded %q", r.Title), ""
		}
		return fmt.Sprintf("%d %q", *r.Status, r.Title), ""
	case ownedv1.ClickResult:
		return "at " + r.URL, ""
	case ownedv1.TypeResult:
		return fmt.Sprintf("%d characters", r.Chars), ""
	case ownedv1.ScrollResult:
		return "scrolled", ""
	case savedFile:
		return fmt.Sprintf("%d bytes", r.Bytes), ""
	case ownedv1.EvalResult:
		if value := string(r.Result); len(value) <= 60 {
			return value, ""
		}
		return fmt.Sprintf("%d bytes", len(r.Result)), string(r.Result)
	case ownedv1.ConsoleResult:
		return fmt.Sprintf("%d lines", r.Count), strings.Join(r.Lines, "\n")
	case ownedv1.SourceResult:
		return fmt.Sprintf("%d bytes", r.Bytes), r.HTML
	case ownedv1.TabsResult:
		return strings.Join(r.Tabs, ", "), ""
	case ownedv1.LaunchResult:
		return strings.Join(r.Tabs, ", "), ""
	case ownedv1.SwitchResult:
		return "active " + r.Active, ""
	case ownedv1.CloseResult:
		return "closed", ""
	case browser.SnapshotResult:
		return "", r.Text
	}
	return "done", ""
}

// waiting shows what is being waited for once that takes over a second and a
// person is watching. The returned function ends it.
func (r reporter) waiting(what string) (stop func()) {
	if !r.terminal {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for seconds := 1; ; seconds++ {
			select {
			case <-ticker.C:
				fmt.Fprintf(r.err, "\r\033[K… %s (%d s)", short(what, 60), seconds)
			case <-quit:
				if seconds > 1 {
					fmt.Fprint(r.err, "\r\033[K")
				}
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
