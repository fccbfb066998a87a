package mcp

import (
	"context"
	"errors"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/identity"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Fleet is the server's owned browsers; *fleet.Fleet is one.
type Fleet interface {
	Open(ctx context.Context, o fleet.Opening) (*fleet.Browser, error)
	Find(p identity.Principal, connection, handle string) (*fleet.Browser, error)
	List(p identity.Principal, connection string) []*fleet.Browser
}

// owned is the offer of contained browsers: one tool opens a browser for an
// engagement that the grant names, the others are those of the stdio surface with
// the browser's handle beside their own parameters. A handle reaches the browser
// only for the connection that opened it; anybody else's is told like one that
// doesn't exist.
type owned struct{ fleet Fleet }

// NewOwned makes the offer of owned browsers.
func NewOwned(f Fleet) Offer { return &owned{f} }

const (
	openTool  = "browser_open"
	listTool  = "browser_list"
	closeTool = "browser_close"
)

// handle is the parameter that every tool on a browser takes.
var handle = param{name: "browser", kind: text, required: true, about: "handle of browser_open"}

// remote is the table of tools over HTTP. Files of the operator's folders belong
// to local browsers, so what needs them isn't here, and closing ends the run.
var remote = func() []tool {
	out := []tool{
		{
			name: openTool, hint: arranges,
			about:  "Open a contained browser for one of your engagements. Answers its handle, which the other browser tools take. It ends when it is closed, after 30 idle minutes, or with your grant.",
			params: []param{{name: "engagement", kind: text, required: true}},
		},
		{name: listTool, hint: reads, about: "Your open browsers, and the engagements that you may open one for."},
		{name: closeTool, hint: arranges, about: "End a browser, with everything in it.", params: []param{handle}},
	}
	for _, t := range tools {
		if t.raw || t.name == closeTool || t.action == browser.ActionUpload || t.name == "browser_downloads" || t.action == browser.ActionImportState {
			continue
		}
		t.params = append([]param{handle}, t.params...)
		out = append(out, t)
	}
	return out
}()

func remoteTool(name string) *tool {
	for i := range remote {
		if remote[i].name == name {
			return &remote[i]
		}
	}
	return nil
}

func (o *owned) Scope() string        { return oauth.ScopeOwned }
func (o *owned) Has(name string) bool { return remoteTool(name) != nil }

// Loose tells the tools whose arguments a page reads, floats and all.
func (o *owned) Loose(name string) bool { return name == "browser_call_page_tool" }

func (o *owned) Tools(context.Context, oauth.Grant) ([]Descriptor, error) {
	out := make([]Descriptor, 0, len(remote))
	for i := range remote {
		t := &remote[i]
		out = append(out, Descriptor{Name: t.name, Description: t.about, Input: schema(t.params),
			ReadOnly: t.hint == reads, Destructive: t.hint == changes, Untrusted: t.name != openTool && t.name != closeTool})
	}
	return out, nil
}

// Call runs one tool. As over stdio, what is wrong with a call is a result.
func (o *owned) Call(ctx context.Context, g oauth.Grant, name string, raw []byte) (*sdk.CallToolResult, error) {
	t := remoteTool(name)
	args, err := t.parse(raw)
	if err != nil {
		return refused(err), nil
	}
	switch name {
	case openTool:
		return o.open(ctx, g, args.text("engagement"))
	case listTool:
		return o.list(g), nil
	}
	b, err := o.fleet.Find(g.Principal, g.Connection, args.text(handle.name))
	if err != nil {
		return refused(&browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.NoBrowser, Detail: "no browser of yours has that handle; browser_open opens one"}), nil
	}
	delete(args, handle.name)
	if name == closeTool {
		if err := b.End(ctx, refusal.Ended); err != nil {
			return nil, err
		}
		return say("closed"), nil
	}
	return o.act(ctx, t, b, args)
}

// act runs one action of a browser.
func (o *owned) act(ctx context.Context, t *tool, b *fleet.Browser, args arguments) (*sdk.CallToolResult, error) {
	action, err := t.decode(args)
	if err != nil {
		return refused(err), nil
	}
	answer, err := b.Do(ctx, action)
	var failure *browser.Failure
	if errors.As(err, &failure) && failure.Reason == refusal.NoBrowser && !failure.Sent && b.State() == fleet.Running {
		if _, err := b.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
			return refused(err), nil
		}
		answer, err = b.Do(ctx, action)
	}
	if err != nil {
		return refused(err), nil
	}
	return &sdk.CallToolResult{Content: render(answer)}, nil
}

// open starts a browser. An engagement that the grant doesn't name is told like
// one that isn't there.
func (o *owned) open(ctx context.Context, g oauth.Grant, engagement string) (*sdk.CallToolResult, error) {
	if !slices.Contains(g.Scopes, oauth.Engagement(engagement)) {
		return refused(argumentError("no such engagement; browser_list tells yours")), nil
	}
	b, err := o.fleet.Open(ctx, fleet.Opening{Engagement: engagement, Principal: g.Principal, Connection: g.Connection, Surface: "mcp"})
	switch {
	case errors.Is(err, refusal.TooMany):
		return refused(&browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.TooMany, Detail: "this server runs as many browsers as it may; close one"}), nil
	case errors.Is(err, refusal.PolicyDenied), errors.Is(err, refusal.PolicyUnavailable):
		return refused(&browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.Of(err), Detail: "the operator's policies don't allow it; ask the operator"}), nil
	case errors.Is(err, refusal.Unknown), errors.Is(err, refusal.BadDocument):
		return refused(argumentError("no such engagement now; ask the operator")), nil
	case err != nil:
		return nil, err
	}
	return Structured(encode(struct {
		Browser     string `json:"browser"`
		RunID       string `json:"run_id"`
		ScopeDigest string `json:"scope_digest"`
	}{b.Handle(), b.RunID(), b.ScopeDigest()}), false), nil
}

func (o *owned) list(g oauth.Grant) *sdk.CallToolResult {
	type row struct {
		Browser    string      `json:"browser"`
		RunID      string      `json:"run_id"`
		Engagement string      `json:"engagement"`
		State      fleet.State `json:"state"`
	}
	out := struct {
		Browsers    []row    `json:"browsers"`
		Engagements []string `json:"engagements"`
	}{[]row{}, oauth.Engagements(g.Scopes)}
	for _, b := range o.fleet.List(g.Principal, g.Connection) {
		out.Browsers = append(out.Browsers, row{b.Handle(), b.RunID(), b.Engagement(), b.State()})
	}
	return Structured(encode(out), false)
}

func say(words string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{textPart(words)}}
}
