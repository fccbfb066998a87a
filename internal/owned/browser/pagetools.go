package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webmcp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Bounds of what a page may register, and of what is passed to it.
const (
	maxPageTools     = 100
	maxToolArguments = 64 << 10
)

// PageToolsResult answers PageTools. Text is the page's own description of its
// tools, fenced as untrusted; nothing of it may become a tool of ours.
type PageToolsResult struct {
	Tools []PageTool `json:"tools"`
	Text  string     `json:"text,omitzero"`
	More  int        `json:"more,omitzero"` // tools over the limit of 100
}

// PageTool is one tool that a page registered. Its name has the characters that
// the browser allows: letters, digits, and _ - . only.
type PageTool struct {
	Tool          string `json:"tool"`
	Frame         string `json:"frame"`
	URL           string `json:"url"` // of the frame, without query
	ReadOnly      bool   `json:"read_only,omitzero"`
	Consequential bool   `json:"consequential,omitzero"`
}

// CallPageToolResult answers CallPageTool. Text is what the tool returned, fenced
// as untrusted and cut to MaxPageToolBytes.
type CallPageToolResult struct {
	Tool      string `json:"tool"`
	Frame     string `json:"frame"`
	Status    string `json:"status"` // completed, or error: the tool itself failed
	Text      string `json:"text"`
	Bytes     int    `json:"bytes"` // of the whole answer
	Truncated bool   `json:"truncated,omitzero"`
}

// registered is a tool with the session that can run it.
type registered struct {
	webmcp.Tool
	s *session
	f *frame
}

func pageTools(ctx context.Context, on *act, _ ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	tools, err := t.pageTools(ctx)
	if err != nil {
		return nil, err
	}
	defer t.forgetTools()
	r := PageToolsResult{Tools: []PageTool{}}
	var text strings.Builder
	for _, tool := range tools {
		if len(r.Tools) == maxPageTools {
			r.More++
			continue
		}
		entry := PageTool{Tool: tool.Name, Frame: string(tool.FrameID), URL: bareURL(tool.f.address())}
		if hints := tool.Annotations; hints != nil {
			entry.ReadOnly, entry.Consequential = hints.ReadOnly, hints.Consequential
		}
		r.Tools = append(r.Tools, entry)
		fmt.Fprintf(&text, "%s: %s\n", tool.Name, cleanText(tool.Description, 300))
		if tool.InputSchema != nil {
			fmt.Fprintf(&text, " input %s\n", cleanText(string(tool.InputSchema), 1000))
		}
	}
	if text.Len() > 0 {
		r.Text, _ = fenced(text.String())
	}
	return r, nil
}

// pageTools asks every process of the tab for the tools of its frames. Enabling
// tells of all of them anew, before it is answered.
func (t *tab) pageTools(ctx context.Context) ([]registered, error) {
	var list []registered
	for _, s := range t.processes() {
		added, done := s.Subscribe(webmcp.ToolsAdded.Method)
		_, err := cdp.Call(ctx, s, webmcp.Enable, cdp.Empty{})
		done()
		if err != nil {
			if documentGone(err) {
				continue
			}
			return nil, err
		}
		for raw := range added {
			var e webmcp.EventToolsAdded
			if err := json.Unmarshal(raw, &e, lenientText); err != nil {
				return nil, refusal.Malformed
			}
			for _, tool := range e.Tools {
				f := t.frameOf(string(tool.FrameID))
				if tool == nil || f == nil || !toolName(tool.Name) || slices.ContainsFunc(list, func(r registered) bool {
					return r.Name == tool.Name && r.FrameID == tool.FrameID
				}) {
					continue
				}
				list = append(list, registered{*tool, s, f})
			}
		}
	}
	return list, nil
}

// forgetTools stops the events that enabling has started.
func (t *tab) forgetTools() {
	for _, s := range t.processes() {
		s.post(webmcp.CommandDisable, nil)
	}
}

// toolName holds a page to the characters that the browser promises.
func toolName(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

func (f *frame) address() string {
	f.tab.b.mu.Lock()
	defer f.tab.b.mu.Unlock()
	return f.url
}

// callPageTool runs a page's tool and waits for its answer. A page that navigates
// meanwhile makes the browser call anything completed, so such an answer is never
// believed: the outcome is unknown, and nothing is sent again.
func callPageTool(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	p := a.(CallPageTool)
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	input, err := toolArguments(p.Arguments)
	if err != nil {
		return nil, err
	}
	tools, err := t.pageTools(ctx)
	if err != nil {
		return nil, err
	}
	defer t.forgetTools()
	tool, err := oneTool(tools, p)
	if err != nil {
		return nil, err
	}
	watch, document := t.beginNavigationWatch(), tool.f.document()
	responses, done := tool.s.Subscribe(webmcp.ToolResponded.Method)
	defer done()
	on.sent = true
	call, err := cdp.Call(ctx, tool.s, webmcp.InvokeTool, webmcp.InvokeToolParams{
		FrameID: tool.FrameID, ToolName: tool.Name, Input: input,
	})
	if err != nil {
		return nil, on.confirmed(ctx, watch, err)
	}
	response, err := tool.response(ctx, t, document, call.InvocationID, responses)
	if err != nil {
		if ctx.Err() != nil {
			tool.s.post(webmcp.CommandCancelInvocation, webmcp.CancelInvocationParams{InvocationID: call.InvocationID})
		}
		if errors.Is(err, refusal.DialogOpen) {
			err = unknownOutcome("a dialog is open; the tool hasn't answered")
		}
		return nil, on.confirmed(ctx, watch, err)
	}
	if err := on.confirmed(ctx, watch, nil); err != nil {
		return nil, err
	}
	if tool.f.document() != document {
		return nil, unknownOutcome("the page navigated during the call")
	}
	return tool.result(response)
}

func toolArguments(raw jsontext.Value) (jsontext.Value, error) {
	if raw == nil {
		return jsontext.Value("{}"), nil
	}
	if len(raw) > maxToolArguments || !raw.IsValid() || raw.Kind() != '{' {
		return nil, failed(refusal.Failed, "arguments is a JSON object of at most 64 KiB")
	}
	return raw, nil
}

// oneTool finds the tool that is meant; a name in two frames needs the frame.
func oneTool(tools []registered, p CallPageTool) (registered, error) {
	var found []registered
	for _, tool := range tools {
		if tool.Name == p.Tool && (p.Frame == "" || string(tool.FrameID) == p.Frame) {
			found = append(found, tool)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return registered{}, failed(refusal.NotFound, "the page has no such tool now; page_tools lists them")
	}
	return registered{}, failed(refusal.Failed, "several frames have a tool of that name: give its frame too")
}

// document tells a frame's documents apart.
func (f *frame) document() cdp.LoaderID {
	f.tab.b.mu.Lock()
	defer f.tab.b.mu.Unlock()
	if f.tab.frames[f.id] != f {
		return "gone"
	}
	return f.loader
}

// response waits for the answer to one invocation, for the document's end, or
// for ctx's.
func (r registered) response(ctx context.Context, t *tab, document cdp.LoaderID, id string, responses <-chan jsontext.Value) (webmcp.EventToolResponded, error) {
	for {
		t.b.mu.Lock()
		changed := t.b.changed
		t.b.mu.Unlock()
		if r.f.document() != document {
			return webmcp.EventToolResponded{}, unknownOutcome("the page navigated during the call")
		}
		select {
		case raw, open := <-responses:
			if !open {
				return webmcp.EventToolResponded{}, unknownOutcome("the page's frame is gone")
			}
			var e webmcp.EventToolResponded
			if err := json.Unmarshal(raw, &e, lenientText); err != nil {
				return e, refusal.Malformed
			}
			if e.InvocationID == id {
				return e, nil
			}
		case <-changed:
		case <-ctx.Done():
			return webmcp.EventToolResponded{}, context.Cause(ctx)
		}
	}
}

func unknownOutcome(why string) *Failure {
	f := failed(refusal.SentUnconfirmed, "the tool was called; its outcome is unknown: %s", why)
	f.Sent = true
	return f
}

// result shapes an answer. A cancelled call may have had its effect.
func (r registered) result(e webmcp.EventToolResponded) (any, error) {
	answer := CallPageToolResult{Tool: r.Name, Frame: string(r.FrameID), Status: "completed"}
	text := string(e.Output)
	if e.Output.Kind() == '"' {
		if s, err := jsontext.AppendUnquote(nil, e.Output); err == nil {
			text = string(s)
		}
	}
	switch e.Status {
	case webmcp.InvocationStatusCompleted:
	case webmcp.InvocationStatusError:
		answer.Status, text = "error", e.ErrorText
		if e.Exception != nil && text == "" {
			text, _, _ = strings.Cut(e.Exception.Description, "\n") // the rest is its stack
		}
	default:
		return nil, unknownOutcome("the page cancelled it")
	}
	answer.Bytes = len(text)
	answer.Text, answer.Truncated = fenced(text)
	return answer, nil
}
