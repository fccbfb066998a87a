package mcp

import (
	"context"
	"errors"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// desk is where calls become actions of the one browser.
type desk struct {
	starting *starting
	queue    *queue
	raw      bool
}

// call runs one tools/call. What is wrong with it is a result, not an error of
// the protocol: only results reach the model, which can then do better.
func (d *desk) call(ctx context.Context, t *tool, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	args, err := t.parse(req.Params.Arguments)
	if err != nil {
		return refused(err), nil
	}
	if t.raw {
		return d.wire(ctx, t, args, req)
	}
	action, err := t.decode(args)
	if err != nil {
		return refused(err), nil
	}
	answer, err := d.run(ctx, t, action, req)
	if err != nil {
		return refused(err), nil
	}
	return &sdk.CallToolResult{Content: render(answer)}, nil
}

// decode reads checked arguments as the action that the tool stands for.
func (t *tool) decode(args arguments) (ownedv1.Action, error) {
	name, skip := t.action, ""
	if t.choose != nil {
		chosen, err := t.choose(args)
		if err != nil {
			return nil, err
		}
		name, skip = chosen, "action"
	}
	if name == ownedv1.ActionPageSource {
		return browser.SourcePart{Frame: args.text("frame"), Offset: args.integer("offset", 0), MaxBytes: args.integer("max_bytes", defaultPart)}, nil
	}
	if !slices.Contains(ownedv1.Actions, name) {
		return browser.DecodeExtra(name, args.encode(skip))
	}
	action, err := ownedv1.DecodeParams(name, args.encode(skip))
	if open, ok := action.(ownedv1.Goto); ok && !args.has("timeout_ms") {
		// The wire's default of 30 s would be a hidden limit below --timeout.
		open.TimeoutMS = 0
		return open, err
	}
	return action, err
}

// run waits for the call's turn and for the browser, then runs the action.
func (d *desk) run(ctx context.Context, t *tool, a ownedv1.Action, req *sdk.CallToolRequest) (browser.Answer, error) {
	if t.slow {
		defer tell(ctx, req, a.Name())()
	}
	if !t.ahead {
		if err := d.queue.wait(ctx, idOf(req.Extra)); err != nil {
			return browser.Answer{}, err
		}
	}
	select {
	case <-d.starting.ready:
	case <-ctx.Done():
		return browser.Answer{}, ctx.Err()
	}
	if err := d.starting.err; err != nil {
		return browser.Answer{}, &browser.Failure{Code: refusal.BrowserActionFailed, Reason: refusal.NoBrowser, Detail: err.Error()}
	}
	answer, err := d.starting.browser.Do(ctx, a)
	var failure *browser.Failure
	if errors.As(err, &failure) && failure.Reason == refusal.NoBrowser && !failure.Sent && !t.raw {
		// Closed before: launch is implied here, as it was at the start.
		if _, err := d.starting.browser.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
			return browser.Answer{}, err
		}
		return d.starting.browser.Do(ctx, a)
	}
	return answer, err
}

// wire runs browser_action: the result is the protocol's own, also for a
// failure, and nothing is added to it.
func (d *desk) wire(ctx context.Context, t *tool, args arguments, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	params := args["params"]
	if params == nil {
		params = []byte("{}")
	}
	action, err := ownedv1.DecodeParams(args.text("action"), params)
	var answer browser.Answer
	if err == nil {
		answer, err = d.run(ctx, t, action, req)
	}
	if err == nil {
		return &sdk.CallToolResult{Content: []sdk.Content{textPart(string(encode(answer.Result)))}}, nil
	}
	code := refusal.BrowserActionFailed
	var failure *browser.Failure
	if errors.As(err, &failure) && failure.Code == refusal.BrowserScopeDenied {
		code = refusal.BrowserScopeDenied
	}
	return &sdk.CallToolResult{
		Content: []sdk.Content{textPart(string(encode(ownedv1.FailureResult{Error: code})))},
		IsError: true,
	}, nil
}

// beat is how often a running call tells that it is running.
const beat = time.Second

// tell sends progress while an action runs, to a client that asked for it. The
// returned function ends that and waits for it: no progress follows an answer.
func tell(ctx context.Context, req *sdk.CallToolRequest, action string) func() {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for seconds := 1.0; ; seconds++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: seconds, Message: action + " is running",
			})
			if err != nil {
				return // the client is gone; its calls are cancelled by that
			}
		}
	}()
	return func() { cancel(); <-done }
}
