package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"chaperone/internal/owned/browser"
)

// probe is one behaviour. Its script runs in the page; agent, where it is set, acts
// as the browser's own agent does, through the protocol.
type probe struct {
	name, fact, want string
	page             string
	script           string
	agent            func(ctx context.Context, b Browser) (string, error)
}

var probes = []probe{
	{name: "present", fact: "`document.modelContext` has registerTool, getTools and executeTool; `navigator.modelContext` isn't there", want: "function function function undefined",
		script: `const m = document.modelContext; return [typeof m.registerTool, typeof m.getTools, typeof m.executeTool, typeof navigator.modelContext].join(" ");`},
	{name: "registers", fact: "registerTool answers a promise of nothing, and the tool is listed then", want: "true undefined probe",
		script: `const p = tool(); const is = p instanceof Promise; const r = await p; return [is, String(r), (await document.modelContext.getTools()).map((t) => t.name)].join(" ");`},
	{name: "duplicate", fact: "a second tool of the same name is refused, so a squatted name is seen", want: "threw InvalidStateError: ",
		script: `await tool(); try { await tool(); } catch (e) { return "threw " + e.name + ": "; } return "taken";`},
	{name: "declarative squat", fact: "a form that was there first keeps its name against registerTool", want: "threw InvalidStateError: ",
		script: `const f = document.createElement("div"); f.innerHTML = "<form toolname=probe tooldescription=x><input name=a></form>"; document.body.append(f); await new Promise((r) => setTimeout(r, 300)); try { await tool(); } catch (e) { return "threw " + e.name + ": "; } return "taken";`},
	{name: "executes", fact: "executeTool answers the JSON text of the callback's object", want: `{"ok":true,"input":{"a":"x"}}`,
		script: `await tool(); return await run({a: "x"});`},
	{name: "validates nothing", fact: "input outside the schema reaches the callback, so the adapter and the server judge it", want: `{"ok":true,"input":{"a":7,"b":[1]}}`,
		script: `await tool(); return await run({a: 7, b: [1]});`},
	{name: "input is a copy", fact: "what the caller changes afterwards doesn't reach the callback", want: `{"ok":true,"input":{"a":"x"}}`,
		script: `await tool(); const found = (await document.modelContext.getTools())[0]; const input = {a: "x"}; const r = document.modelContext.executeTool(found, input); input.a = "y"; return await r;`},
	{name: "thrown errors are dull", fact: "a thrown error loses its code, so errors are returned", want: "threw UnknownError: ",
		script: `await tool({execute: async () => { throw new Error("secret"); }}); try { await run({}); } catch (e) { return "threw " + e.name + ": " + (e.message.includes("secret") ? "secret" : ""); } return "no";`},
	{name: "empty is success", fact: "an empty text is told as success, so an object is always returned", want: "Operation succeeded",
		script: `await tool({execute: async () => ""}); return await run({});`},
	{name: "unregisters", fact: "aborting the registration's signal removes the tool at once", want: "0",
		script: `const c = new AbortController(); await tool({}, {signal: c.signal}); c.abort(); return (await document.modelContext.getTools()).length;`},
	{name: "runs on", fact: "aborting the registration doesn't stop a running call, so the adapter checks its generation before it answers", want: `{"late":true,"aborted":false}`,
		script: `const c = new AbortController(); let go, begun; const wait = new Promise((r) => { go = r; }), began = new Promise((r) => { begun = r; }); await tool({execute: async (i, o) => { begun(); await wait; return {late: true, aborted: o.signal.aborted}; }}, {signal: c.signal}); const r = run({}); await began; c.abort(); go(); return await r;`},
	{name: "cancels", fact: "aborting an execution rejects it at once and aborts the callback's signal", want: "threw AbortError: true",
		script: `let begun; const began = new Promise((r) => { begun = r; }); await tool({execute: (i, o) => { begun(o.signal); return new Promise(() => {}); }}); const c = new AbortController(); const r = run({}, {signal: c.signal}); r.catch(() => {}); const signal = await began; c.abort(); try { await r; } catch (e) { if (!signal.aborted) await new Promise((x) => signal.addEventListener("abort", x)); return "threw " + e.name + ": " + signal.aborted; } return "no";`},
	{name: "stale handle", fact: "a handle is name and window: an old one runs the newer tool, so the callback checks its generation", want: `{"v":2}`,
		script: `const c = new AbortController(); await tool({execute: async () => ({v: 1})}, {signal: c.signal}); const old = (await document.modelContext.getTools())[0]; c.abort(); await tool({execute: async () => ({v: 2})}); return await document.modelContext.executeTool(old, {});`},
	{name: "scripted submit", fact: "button.click() gives an untrusted click and a trusted submit, so both are asked for", want: "false true",
		script: `document.getElementById("button").click(); return clicked + " " + submitted;`},
	{name: "requestSubmit", fact: "requestSubmit gives a trusted submit without a click", want: "null true",
		script: `document.getElementById("form").requestSubmit(document.getElementById("button")); return clicked + " " + submitted;`},
	{name: "policy", page: "/denied", fact: "under Permissions-Policy tools=() nothing registers", want: "threw NotAllowedError: ",
		script: `try { await tool(); } catch (e) { return "threw " + e.name + ": "; } return "taken";`},
	{name: "frames see", fact: "a same-origin frame lists the page's tools, so no user content is served on the portal's origin", want: "probe",
		script: `await tool(); const f = document.createElement("iframe"); f.src = "/"; const loaded = new Promise((r) => { f.onload = r; }); document.body.append(f); await loaded; return (await f.contentDocument.modelContext.getTools()).map((t) => t.name).join(",");`},
	{name: "agent discovers", fact: "the browser's own agent is told of the tool, its hints with it", want: "probe read_only",
		agent: func(ctx context.Context, b Browser) (string, error) {
			if _, err := eval(ctx, b, `await tool({annotations: {readOnlyHint: true}}); return "";`); err != nil {
				return "", err
			}
			answer, err := b.Do(ctx, browser.PageTools{})
			if err != nil {
				return "", err
			}
			found, ok := answer.Result.(browser.PageToolsResult)
			if !ok || len(found.Tools) != 1 {
				return fmt.Sprintf("%+v", answer.Result), nil
			}
			if found.Tools[0].ReadOnly {
				return found.Tools[0].Tool + " read_only", nil
			}
			return found.Tools[0].Tool, nil
		}},
	{name: "agent executes", fact: "the browser's own agent gets the object that the callback answered", want: "completed",
		agent: func(ctx context.Context, b Browser) (string, error) {
			return call(ctx, b, ``, func(r browser.CallPageToolResult) string {
				if !strings.Contains(r.Text, `"a":"x"`) {
					return r.Text
				}
				return r.Status
			})
		}},
	{name: "agent's errors", fact: "a thrown error reaches the agent as a failed call", want: "error",
		agent: func(ctx context.Context, b Browser) (string, error) {
			return call(ctx, b, `{execute: async () => { throw new Error("x"); }}`, func(r browser.CallPageToolResult) string { return r.Status })
		}},
}

// call registers a tool and runs it as the browser's agent.
func call(ctx context.Context, b Browser, change string, tell func(browser.CallPageToolResult) string) (string, error) {
	if _, err := eval(ctx, b, `await tool(`+change+`); return "";`); err != nil {
		return "", err
	}
	answer, err := b.Do(ctx, browser.CallPageTool{Tool: "probe", Arguments: []byte(`{"a":"x"}`)})
	var failed *browser.Failure
	if errors.As(err, &failed) {
		return string(failed.Reason), nil
	}
	if err != nil {
		return "", err
	}
	r, ok := answer.Result.(browser.CallPageToolResult)
	if !ok {
		return fmt.Sprintf("%T", answer.Result), nil
	}
	return tell(r), nil
}
