package mcp

import (
	"context"
	"errors"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/refusal"
)

// badArguments is the reason of a call whose arguments don't fit its tool.
const badArguments refusal.Code = "bad_arguments"

// told is a failed call for programs; the text part says the same to a model.
type told struct {
	Error   refusal.Code      `json:"error"`
	Reason  refusal.Code      `json:"reason"`
	Detail  string            `json:"detail,omitempty"`
	Rule    string            `json:"rule,omitempty"`
	Fix     string            `json:"fix,omitempty"` // what a person would add to the scope
	Next    string            `json:"next,omitempty"`
	Sent    bool              `json:"sent,omitempty"` // it may have had an effect
	Tab     string            `json:"tab,omitempty"`
	Blocked []browser.Blocked `json:"blocked,omitempty"`
}

// next is the step that helps an agent, by reason.
var next = map[refusal.Code]string{
	refusal.ScopeDenied:     "Stay inside the scope, or ask the person; another way to the same host is refused as well.",
	refusal.TimedOut:        "Wait for a condition with browser_wait_for, or give a longer timeout_ms.",
	refusal.NotFound:        "Take a browser_snapshot and use a ref of it.",
	refusal.Covered:         "Close or wait for what covers it; browser_snapshot shows it.",
	refusal.Stale:           "Take a new browser_snapshot: the element or its page is gone.",
	refusal.TabGone:         "List tabs with browser_tabs and switch to one.",
	refusal.TabCrashed:      "browser_goto brings the tab back.",
	refusal.DialogOpen:      "Answer it with browser_dialogs (accept true or false).",
	refusal.TooLarge:        "Ask for less: a part, or a smaller area.",
	refusal.SentUnconfirmed: "It may have happened: look with browser_snapshot before anything is repeated.",
}

// refused answers a failed call. The first word is the machine code.
func refused(err error) *sdk.CallToolResult {
	t := reading(err)
	text := join(string(t.Reason), ": ", t.Detail)
	for _, line := range []struct{ label, what string }{
		{"Rule: ", t.Rule}, {"A person can widen the scope with: ", t.Fix}, {"Next: ", t.Next}, {"", beside(err, t.Rule)},
	} {
		if line.what != "" {
			text += "\n" + line.label + line.what
		}
	}
	return &sdk.CallToolResult{Content: []sdk.Content{textPart(text)}, StructuredContent: t, IsError: true}
}

// beside describes what happened besides the failure: what its own rule blocked
// is the failure itself.
func beside(err error, rule string) string {
	var failure *browser.Failure
	if !errors.As(err, &failure) {
		return ""
	}
	notes := failure.Notes
	notes.Blocked = slices.DeleteFunc(slices.Clone(notes.Blocked), func(b browser.Blocked) bool { return b.Rule == rule })
	return describe(notes)
}

// reading finds the codes in an error. One without any is failed, and its text
// stays here: it may hold what mustn't leave.
func reading(err error) told {
	var failure *browser.Failure
	var bad argumentError
	switch {
	case errors.As(err, &failure):
		return told{
			Error: failure.Code, Reason: failure.Reason, Detail: failure.Detail, Rule: failure.Rule, Fix: failure.Fix,
			Next: next[failure.Reason], Sent: failure.Sent, Tab: failure.Notes.Tab, Blocked: failure.Notes.Blocked,
		}
	case errors.As(err, &bad):
		return told{Error: refusal.BrowserActionFailed, Reason: badArguments, Detail: bad.Error()}
	case errors.Is(err, context.Canceled):
		return told{Error: refusal.BrowserActionFailed, Reason: refusal.Cancelled, Detail: "stopped at your wish; nothing of it runs any more"}
	case errors.Is(err, context.DeadlineExceeded):
		return told{Error: refusal.BrowserTimeout, Reason: refusal.TimedOut, Next: next[refusal.TimedOut]}
	}
	code := refusal.Of(err)
	if code == "" {
		code = refusal.Failed
	}
	return told{Error: refusal.BrowserActionFailed, Reason: code}
}
