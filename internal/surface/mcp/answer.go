package mcp

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

// Limits of what one answer puts before a model.
const (
	defaultPart = 64 << 10 // bytes of a page's source or of a result
	maxPart     = 4 << 20
	maxQuote    = 200 // bytes of a title or a dialog's message in a note
)

// pdfs numbers PDFs, so that each has an id of its own.
var pdfs atomic.Int64

// render writes an answer as few tokens as it takes. What a page wrote stands
// alone in the first part; Chaperone's own words come last, so that a page that
// imitates them stays in its own part.
func render(answer browser.Answer) []sdk.Content {
	notes := describe(answer.Notes)
	said := func(format string, a ...any) []sdk.Content {
		return []sdk.Content{textPart(join(fmt.Sprintf(format, a...), " ", notes))}
	}
	shown := func(first *part, more string) []sdk.Content {
		return []sdk.Content{first, textPart(join(more, " ", notes))}
	}
	switch r := answer.Result.(type) {
	case ownedv1.GotoResult:
		if r.Status == nil {
			return said("loaded %s %s", r.URL, quote(r.Title))
		}
		return said("%d %s %s", *r.Status, r.URL, quote(r.Title))
	case ownedv1.ClickResult:
		return said("clicked, at %s", r.URL)
	case ownedv1.TypeResult:
		return said("typed %d characters", r.Chars)
	case ownedv1.ScrollResult:
		return said("scrolled")
	case ownedv1.ScreenshotResult:
		return shown(imagePart(r.Base64), "")
	case ownedv1.PDFResult:
		return shown(pdfPart("chaperone://pdf/"+strconv.FormatInt(pdfs.Add(1), 10), r.Base64), fmt.Sprintf("PDF, %d bytes", r.Bytes))
	case ownedv1.EvalResult:
		value, whole := cut(string(r.Result), defaultPart)
		if whole {
			return shown(textPart(value), "")
		}
		return shown(textPart(value), fmt.Sprintf("cut: %d of %d bytes; return less, or slices", len(value), len(r.Result)))
	case ownedv1.ConsoleResult:
		return shown(textPart(strings.Join(r.Lines, "\n")), fmt.Sprintf("%d lines", r.Count))
	case browser.SourcePartResult:
		return shown(textPart(r.HTML), goOn(r))
	case browser.SnapshotResult:
		if r.More == 0 {
			return shown(textPart(r.Text), "")
		}
		return shown(textPart(r.Text), fmt.Sprintf("%d more, pass after=%s", r.More, r.After))
	case browser.PressResult:
		return said("pressed, at %s", r.URL)
	case browser.SelectResult:
		return said("%d selected", r.Selected)
	case browser.WaitResult:
		return said("%s, at %s", r.Met, r.URL)
	case browser.UploadResult:
		return said("%d uploaded, at %s", len(r.Uploaded), r.URL)
	case browser.ImportResult:
		return said("imported %d cookies, %d items of %d origins", r.Cookies, r.Items, r.Origins)
	case browser.NetworkResult:
		return shown(textPart(requests(r)), "")
	case browser.PageToolsResult:
		return shown(textPart(pageTools(r)), "")
	case browser.CallPageToolResult:
		return shown(textPart(r.Text), r.Status)
	case browser.DialogModeResult:
		return said("dialogs: %s", r.Mode)
	case browser.AnsweredResult:
		return said("%s %s %s", r.Answered.Type, quote(r.Answered.Message), r.Answered.Outcome)
	case ownedv1.TabsResult:
		return said("%s", listTabs(r.Tabs, r.Active))
	case ownedv1.LaunchResult:
		return said("%s", listTabs(r.Tabs, r.Active))
	case ownedv1.SwitchResult:
		return said("active: %s", r.Active)
	case ownedv1.CloseResult:
		return said("closed")
	}
	return shown(textPart(string(encode(answer.Result))), "")
}

// goOn tells how much of a page's source was shown, and how to get the rest.
func goOn(r browser.SourcePartResult) string {
	switch {
	case r.Next > 0:
		return fmt.Sprintf("%d of %d bytes; go on with offset=%d", len(r.HTML), r.Bytes, r.Next)
	case r.Offset > 0:
		return fmt.Sprintf("the end of %d bytes", r.Bytes)
	}
	return ""
}

// requests lists a network log, a line each.
func requests(r browser.NetworkResult) string {
	var b strings.Builder
	for _, q := range r.Requests {
		fmt.Fprintf(&b, "%s %d %s %s %dB %dms", q.Method, q.Status, q.URL, q.Type, q.Bytes, q.TookMS)
		for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
			fmt.Fprintf(&b, " %s=%s", name, strconv.Quote(q.Headers[name]))
		}
		b.WriteByte('\n')
	}
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "%d older ones were dropped\n", r.Dropped)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pageTools lists a page's tools, and then what the page says of them, in the
// fence that the browser put around it.
func pageTools(r browser.PageToolsResult) string {
	if len(r.Tools) == 0 {
		return "the page has none"
	}
	var b strings.Builder
	for _, t := range r.Tools {
		fmt.Fprintf(&b, "%s frame=%s %s", t.Tool, t.Frame, t.URL)
		if t.ReadOnly {
			b.WriteString(" read-only")
		}
		if t.Consequential {
			b.WriteString(" consequential")
		}
		b.WriteByte('\n')
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "%d more\n", r.More)
	}
	return b.String() + r.Text
}

// cut answers at most n bytes of s, whole characters only, and whether that is
// all.
func cut(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, true
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], false
}

func listTabs(tabs []string, active *string) string {
	if active == nil {
		return "tabs: " + strings.Join(tabs, ", ") + "; none active"
	}
	return "tabs: " + strings.Join(tabs, ", ") + "; active " + *active
}

// join puts the separator between two texts that aren't empty.
func join(a, separator, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + separator + b
}

// describe writes the notes as one line: the tab, and what happened besides.
func describe(n browser.Notes) string {
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if n.Tab != "" {
		note("[%s]", n.Tab)
	}
	if len(n.NewTabs) > 0 {
		note("new tabs: %s", strings.Join(n.NewTabs, ", "))
	}
	if len(n.GoneTabs) > 0 {
		note("gone tabs: %s", strings.Join(n.GoneTabs, ", "))
	}
	if n.TabsRefused > 0 {
		note("%d popups refused", n.TabsRefused)
	}
	for _, d := range n.Dialogs {
		note("%s %s in %s %s", d.Type, quote(d.Message), d.Tab, d.Outcome)
	}
	for _, d := range n.Downloads {
		note("%s", download(d))
	}
	if len(n.Blocked) > 0 {
		hosts := make([]string, len(n.Blocked))
		for i, x := range n.Blocked {
			hosts[i] = fmt.Sprintf("%s x%d (%s)", x.Host, x.Count, x.Rule)
		}
		note("blocked: %s", strings.Join(hosts, ", "))
	}
	if n.Reformatted {
		note("the page changed how it is written")
	}
	if n.FontsPending {
		note("fonts still loading")
	}
	return strings.Join(notes, "; ")
}

// download is one file in a few words.
func download(d browser.Download) string {
	s := fmt.Sprintf("download %s %s %s", d.ID, quote(d.Name), d.State)
	if d.Saved != "" {
		s += " as " + quote(d.Saved)
	}
	return s
}

// quote is page text inside a note: short, one line, and with everything that
// isn't printable (bidi controls too) escaped.
func quote(s string) string {
	s, whole := cut(s, maxQuote)
	if !whole {
		s += "…"
	}
	return strconv.Quote(s)
}

// encode is a result as JSON without escaped < > &. Results always encode.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("mcp: a result that doesn't encode: " + err.Error())
	}
	return data
}
