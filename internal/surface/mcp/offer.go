package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/oauth"
)

// Offer is a group of tools that grants of one scope may reach over HTTP. The
// account's five are one; each offer judges every call by itself, and being
// listed permits nothing.
type Offer interface {
	// Scope is the scope without which none of its tools can be called.
	Scope() string
	// Has tells whether a tool of that name is this offer's, for whomever.
	Has(name string) bool
	// Tools lists those that this grant can use now, in their order.
	Tools(ctx context.Context, g oauth.Grant) ([]Descriptor, error)
	// Call runs one. arguments is what stood in the request, byte for byte, and was
	// read strictly before (see [border]); nil where there were none. ctx ends with
	// the caller's wish. An error is a *tool.Error for what an agent can read, and
	// anything else is told as failed.
	Call(ctx context.Context, g oauth.Grant, name string, arguments []byte) (*sdk.CallToolResult, error)
}

// loose is an offer some of whose tools take numbers that aren't integers.
type loose interface{ Loose(name string) bool }

// Descriptor is a tool as tools/list tells it. Input and Output are JSON Schemas,
// and go out as they are.
type Descriptor struct {
	Name, Title, Description string
	Input, Output            []byte
	ReadOnly                 bool // changes nothing
	Destructive              bool // can overwrite or delete what is there
	Idempotent               bool // the same arguments again change nothing more
	Untrusted                bool // its results hold other people's text
}

// listed is the descriptor as the SDK writes it.
func (d Descriptor) listed() *sdk.Tool {
	t := &sdk.Tool{Name: d.Name, Title: d.Title, Description: d.Description, InputSchema: json.RawMessage(d.Input),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: d.ReadOnly}}
	if d.Output != nil {
		t.OutputSchema = json.RawMessage(d.Output)
	}
	if !d.ReadOnly {
		t.Annotations.DestructiveHint, t.Annotations.IdempotentHint = &d.Destructive, d.Idempotent
	}
	if d.Untrusted {
		t.Meta = sdk.Meta{"untrustedContentHint": true} // MCP's annotations have no word for it
	}
	return t
}

// Structured answers a call by JSON text, with the same text for models.
func Structured(data []byte, failed bool) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{textPart(string(data))}, StructuredContent: json.RawMessage(data), IsError: failed}
}
