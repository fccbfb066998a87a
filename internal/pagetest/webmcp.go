package pagetest

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a tool that the page has registered, as the browser tells it.
type Tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
	Annotations map[string]any `json:"annotations"`
	Frame       string         `json:"frameId"`
}

// Answer is how a call ended, as the browser tells it.
type Answer struct {
	Invocation string         `json:"invocationId"`
	Status     string         `json:"status"` // Completed, Canceled or Error
	Output     jsontext.Value `json:"output"`
	ErrorText  string         `json:"errorText"`
}

// webmcp keeps the tools and answers. The caller holds the lock.
func (p *Page) webmcp(method string, params jsontext.Value) {
	switch method {
	case "WebMCP.toolsAdded":
		var e struct {
			Tools []Tool `json:"tools"`
		}
		if json.Unmarshal(params, &e, lenient) == nil {
			for _, t := range e.Tools {
				p.tools[t.Name] = t
			}
		}
	case "WebMCP.toolsRemoved":
		var e struct {
			Tools []Tool `json:"tools"`
		}
		if json.Unmarshal(params, &e, lenient) == nil {
			for _, t := range e.Tools {
				delete(p.tools, t.Name)
			}
		}
	case "WebMCP.toolResponded":
		var a Answer
		if json.Unmarshal(params, &a, lenient) != nil {
			return
		}
		if waiting := p.answers[a.Invocation]; waiting != nil {
			waiting <- a
			delete(p.answers, a.Invocation)
		} else {
			p.early[a.Invocation] = a
		}
	case "Page.frameNavigated":
		// The browser tells nothing of the tools that a navigation removed.
		p.tools = map[string]Tool{}
	}
}

// Tools answers the page's tools by name, in order.
func (p *Page) Tools() []Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Tool
	for _, name := range slices.Sorted(maps.Keys(p.tools)) {
		out = append(out, p.tools[name])
	}
	return out
}

// Call is a tool's call under way.
type Call struct {
	p          *Page
	invocation string
	answer     chan Answer
}

// Invoke begins a call as the browser's agent does. toolName is sent by hand: newer
// bindings know only a tool's id, which this browser doesn't.
func (p *Page) Invoke(tool string, input any) *Call {
	p.t.Helper()
	var begun struct {
		ID string `json:"invocationId"`
	}
	p.Do("WebMCP.invokeTool", object{"frameId": p.frame, "toolName": tool, "input": input}, &begun)
	c := &Call{p, begun.ID, make(chan Answer, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.early[begun.ID]; ok {
		c.answer <- a
	} else {
		p.answers[begun.ID] = c.answer
	}
	return c
}

// Cancel asks the browser to cancel the call.
func (c *Call) Cancel() {
	c.p.t.Helper()
	c.p.Do("WebMCP.cancelInvocation", object{"invocationId": c.invocation}, nil)
}

// Answer waits for the end.
func (c *Call) Answer() Answer {
	c.p.t.Helper()
	select {
	case a := <-c.answer:
		return a
	case <-time.After(waits):
		c.p.t.Fatal("the tool's call didn't end")
	}
	return Answer{}
}

// Result waits for the end and reads the object that the tool answered.
func (c *Call) Result() map[string]any {
	c.p.t.Helper()
	a := c.Answer()
	var out map[string]any
	if a.Status != "Completed" {
		c.p.t.Fatalf("the call ended %s: %s", a.Status, a.ErrorText)
	}
	if err := json.Unmarshal(a.Output, &out, lenient); err != nil {
		c.p.t.Fatalf("the tool answered no object: %s", a.Output)
	}
	return out
}
