package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/oauth"
	"chaperone/internal/surface/guard"
)

// control is the offer of attended control: one tool, whose arguments are the body
// of POST /browser/control too (spec/attended-control.md, section 6).
type control struct{ of *guard.Control }

// NewControl makes the offer of attended control. It is made only where control
// is constructed, so that elsewhere the tool doesn't exist.
func NewControl(c *guard.Control) Offer { return &control{c} }

const controlTool = "browser_control"

// controlParams is the flat list of every action's fields: clients that drop a
// tool with alternatives in its schema keep this one. Which belong to which action,
// and what they may hold, controlv1 judges.
var controlParams = []param{
	{name: "action", kind: text, required: true, enum: []string{"list_documents", "issue_lease", "revoke_lease", "execute_call", "cancel_call", "reconcile_call", "get_call"}},
	{name: "document_ref", kind: text, about: "issue_lease"},
	{name: "tool_ids", kind: texts, about: "issue_lease: only what you need"},
	{name: "requested_ttl_seconds", kind: integer, min: 1, about: "issue_lease, up to 900"},
	{name: "lease_id", kind: text, about: "execute_call, revoke_lease"},
	{name: "request_id", kind: text, about: "execute_call: yours, new for each intent, the same to ask again"},
	{name: "tool_id", kind: text, about: "execute_call"},
	{name: "schema_digest", kind: text, about: "execute_call: the tool's"},
	{name: "arguments", kind: object, about: "execute_call: by the tool's input_schema, integers only"},
	{name: "timeout_seconds", kind: integer, min: 1, about: "execute_call, up to 120"},
	{name: "catalog_digest", kind: text, about: "execute_call, optional: the document's that you saw"},
	{name: "call_id", kind: text, about: "get_call, cancel_call, reconcile_call"},
	{name: "wait_seconds", kind: integer, about: "get_call, up to 50"},
	{name: "reason", kind: text, about: "cancel_call, revoke_lease: a lower-case code"},
}

// controlDescriptor is what tools/list tells of it.
var controlDescriptor = Descriptor{
	Name: controlTool, Title: "Use the person's open pages",
	Description: "Use tools of pages that the person has open and armed for you. list_documents shows pages and tools; issue_lease over the tools you need; " +
		"then execute_call. A change waits for the person: pending_confirmation, then get_call with wait_seconds until it is over. " +
		"The receipt's status and effect are what is known: where effect is unknown, reconcile_call, and never ask again under a new request_id.",
	Input: schema(controlParams), Destructive: true, Untrusted: true,
}

func (c *control) Scope() string { return oauth.ScopeControl }

func (c *control) Has(name string) bool { return name == controlTool }

// Loose leaves the arguments to controlv1, which refuses them by its own codes, as
// over REST.
func (c *control) Loose(name string) bool { return name == controlTool }

func (c *control) Tools(context.Context, oauth.Grant) ([]Descriptor, error) {
	return []Descriptor{controlDescriptor}, nil
}

// Call hands the arguments on as they stood. What was refused is a result that a
// model can read.
func (c *control) Call(ctx context.Context, g oauth.Grant, _ string, arguments []byte) (*sdk.CallToolResult, error) {
	answer, err := c.of.Do(ctx, g, arguments)
	var refused *guard.Refused
	switch {
	case errors.As(err, &refused):
		return Structured(refused.JSON(), true), nil
	case err != nil:
		return nil, err
	}
	return Structured(answer, false), nil
}
