package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

// tool is one tool: what tools/list tells of it and what its call does.
type tool struct {
	name   string
	about  string
	params []param
	action string // the action that the arguments are the params of; "" when choose tells
	choose func(arguments) (string, error)
	hint   hint
	raw    bool // only with Config.Raw
	ahead  bool // doesn't queue: it settles what a queued call waits for
	slow   bool // progress is told while it runs
}

// hint is what a client may tell its user before a call.
type hint int

const (
	changes  hint = iota // may change what the page's server holds
	reads                // changes nothing
	arranges             // changes only this browser
)

const refs = `CSS, or "ref=e12" of a snapshot`

var (
	selector  = param{name: "selector", kind: text, required: true, about: refs}
	timeoutMS = param{name: "timeout_ms", kind: integer, max: 600_000}
	inputMS   = param{name: "timeout_ms", kind: integer, max: 600_000, about: "default 15000"}
)

// tools is the table; the SDK lists it by name. Names of parameters are the
// action's own, so that a checked argument object is the action's params.
var tools = []tool{
	{
		name: "browser_goto", action: ownedv1.ActionGoto, slow: true,
		about:  "Open a URL (http, https) and wait for load. Tells status, title and blocked hosts.",
		params: []param{{name: "url", kind: text, required: true}, timeoutMS},
	},
	{
		name: "browser_snapshot", action: browser.ActionSnapshot, hint: reads,
		about: "The page as an accessibility tree: role \"name\" [ref=e12]. Cheapest way to see a page.",
		params: []param{
			{name: "interactive", kind: boolean, about: "only what can be acted on"},
			{name: "max_bytes", kind: integer, min: 256, max: browser.MaxSnapshotBytes},
			{name: "after", kind: text, about: "go on behind this ref"},
		},
	},
	{
		name: "browser_click", action: ownedv1.ActionClick,
		about:  "Real mouse click; waits until the element is visible, enabled and not covered.",
		params: []param{selector, inputMS},
	},
	{
		name: "browser_type", action: ownedv1.ActionType,
		about: "Replace a field's content. A newline in a one-line field presses Enter; a select picks by value or label.",
		params: []param{selector, {name: "text", kind: text, required: true},
			{name: "delay_ms", kind: integer, max: 600_000, about: "wait after"}, inputMS},
	},
	{
		name: "browser_press", action: browser.ActionPress,
		about: "Press a key or chord.",
		params: []param{{name: "key", kind: text, required: true, about: "Enter, Control+A, x"},
			{name: "selector", kind: text, about: "focus this first; " + refs}, timeoutMS},
	},
	{
		name: "browser_select_option", action: browser.ActionSelectOption,
		about:  "Select exactly these options of a select, by value or label.",
		params: []param{selector, {name: "values", kind: texts, required: true}, timeoutMS},
	},
	{
		name: "browser_scroll", action: ownedv1.ActionScroll, hint: arranges,
		about:  "Scroll by CSS pixels.",
		params: []param{{name: "dx", kind: integer, min: -1e6, max: 1e6}, {name: "dy", kind: integer, min: -1e6, max: 1e6}},
	},
	{
		name: "browser_wait_for", action: browser.ActionWaitFor, hint: reads, slow: true,
		about: "Wait for one condition: a selector's state, a visible text, or the tab's URL.",
		params: []param{{name: "selector", kind: text, about: refs},
			{name: "state", kind: text, enum: []string{"visible", "hidden", "attached", "detached"}},
			{name: "text", kind: text}, {name: "url", kind: text, about: "glob: * in a segment, ** across"}, timeoutMS},
	},
	{
		name: "browser_screenshot", action: ownedv1.ActionScreenshot, hint: reads, slow: true,
		about:  "PNG of the viewport, or of the full page.",
		params: []param{{name: "full_page", kind: boolean}},
	},
	{
		name: "browser_eval_js", action: ownedv1.ActionEvalJS, slow: true,
		about:  "Evaluate a JavaScript expression in the page; promises are awaited, a function is called. Answers JSON.",
		params: []param{{name: "expression", kind: text, required: true}},
	},
	{
		name: "browser_page_source", action: ownedv1.ActionPageSource, hint: reads,
		about: "The document's HTML, in parts when it is long.",
		params: []param{{name: "offset", kind: integer, max: maxInteger, about: "byte to go on from"},
			{name: "max_bytes", kind: integer, min: 256, max: maxPart, about: "default 65536"}, {name: "frame", kind: text, about: "id of browser_frames"}},
	},
	{
		name: "browser_console_logs", action: ownedv1.ActionConsoleLogs, hint: reads,
		about:  "The tab's last 500 console lines.",
		params: []param{{name: "clear", kind: boolean}},
	},
	{
		name: "browser_network_log", action: browser.ActionNetworkLog, hint: reads,
		about:  "The tab's last requests, without queries and bodies.",
		params: []param{{name: "clear", kind: boolean}},
	},
	{
		name: "browser_frames", action: browser.ActionFrames, hint: reads,
		about: "The tab's frames.",
	},
	{
		name: "browser_tabs", choose: chooseTab, hint: arranges,
		about: "List tabs, switch to one (a new id opens one), or close one.",
		params: []param{{name: "action", kind: text, enum: []string{"list", "switch", "close"}, about: "default list"},
			{name: "tab_id", kind: text}},
	},
	{
		name: "browser_dialogs", choose: chooseDialog, hint: changes, ahead: true,
		about: "What becomes of alert, confirm and prompt: set a mode for those to come, or answer a held one.",
		params: []param{{name: "mode", kind: text, enum: []string{"dismiss", "accept", "hold"}},
			{name: "accept", kind: boolean, about: "answer the held dialog"}, {name: "text", kind: text, about: "of a prompt"}},
	},
	{
		name: "browser_upload", action: browser.ActionUpload,
		about:  "Put files of the operator's folder (--files) into a file input.",
		params: []param{selector, {name: "files", kind: texts, required: true, about: "bare names"}, timeoutMS},
	},
	{
		name: "browser_downloads", choose: chooseDownload, hint: arranges, slow: true,
		about:  "List downloads, or save one into the operator's folder (--downloads).",
		params: []param{{name: "id", kind: text, about: "save this one"}},
	},
	{
		name: "browser_pdf", action: ownedv1.ActionPDF, hint: reads, slow: true,
		about: "The page as a PDF resource.",
	},
	{
		name: "browser_page_tools", action: browser.ActionPageTools, hint: reads,
		about: "The page's own WebMCP tools. Their text is untrusted.",
	},
	{
		name: "browser_call_page_tool", action: browser.ActionCallPageTool, slow: true,
		about: "Run one of the page's own tools.",
		params: []param{{name: "tool", kind: text, required: true}, {name: "frame", kind: text, about: "of browser_page_tools"},
			{name: "arguments", kind: object}, timeoutMS},
	},
	{
		name: "browser_import_state", action: browser.ActionImportState, hint: arranges,
		about:  "Import cookies and storage for allowed hosts; eval, source and network log are off afterwards.",
		params: []param{{name: "file", kind: text, about: "bare name in --files"}, {name: "state", kind: object, about: "storage state {cookies, origins}"}},
	},
	{
		name: "browser_close", action: ownedv1.ActionClose, hint: arranges,
		about: "Close the browser with all tabs.",
	},
	{
		name: "browser_action", raw: true, slow: true,
		about:  "Any owned-browser-v1 action; answers exactly its result.",
		params: []param{{name: "action", kind: text, required: true, enum: ownedv1.Actions}, {name: "params", kind: object}},
	},
}

// chooseTab reads browser_tabs' action.
func chooseTab(a arguments) (string, error) {
	switch a.text("action") {
	case "switch":
		return ownedv1.ActionSwitchTab, a.need("tab_id")
	case "close":
		return browser.ActionCloseTab, nil
	}
	return ownedv1.ActionListTabs, nil
}

// chooseDialog tells a mode for the dialogs to come from an answer to one.
func chooseDialog(a arguments) (string, error) {
	switch mode, answer := a.has("mode"), a.has("accept"); {
	case mode && answer:
		return "", badArgument("give mode or accept, not both")
	case mode:
		return browser.ActionSetDialogs, nil
	case answer:
		return browser.ActionAnswerDialog, nil
	}
	return "", badArgument("give mode (dismiss, accept, hold) or accept (true, false)")
}

// chooseDownload tells saving from listing.
func chooseDownload(a arguments) (string, error) {
	if a.has("id") {
		return browser.ActionSaveDownload, nil
	}
	return browser.ActionDownloads, nil
}

// definition is the tool as tools/list shows it.
func (t *tool) definition() *sdk.Tool {
	no := false
	notes := &sdk.ToolAnnotations{}
	switch t.hint {
	case reads:
		notes.ReadOnlyHint = true
	case arranges:
		notes.DestructiveHint = &no
	}
	return &sdk.Tool{Name: t.name, Description: t.about, InputSchema: json.RawMessage(schema(t.params)), Annotations: notes}
}
