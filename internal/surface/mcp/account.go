package mcp

import (
	"context"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/operation"
	catalog "chaperone/internal/portal/tool"
)

// Desk runs the account's tools; *operation.Desk is one.
type Desk interface {
	Call(ctx context.Context, c operation.Caller, name string, arguments []byte) ([]byte, error)
}

// Selections tells what a connection reaches now; *ledger.Book is one.
type Selections interface {
	Visible(ctx context.Context, c ledger.Caller) ([]ledger.Allowed, ledger.Grant, error)
}

// account is the offer of the five account tools. Their texts and schemas are the
// catalog's own bytes.
type account struct {
	desk       Desk
	selections Selections
	all        []Descriptor
}

// NewAccount makes the account's offer.
func NewAccount(d Desk, s Selections) Offer {
	a := &account{desk: d, selections: s}
	for _, t := range catalog.All() {
		a.all = append(a.all, Descriptor{Name: string(t.Name), Title: t.Title, Description: t.Description, Input: t.Input, Output: t.Output,
			ReadOnly: !t.Mutates(), Destructive: t.Mutates(), Idempotent: t.Mutates(), // by their request_id
			Untrusted: true})
	}
	return a
}

func (a *account) Scope() string { return oauth.ScopeCollections }

func (a *account) Has(name string) bool { _, ok := catalog.Lookup(name); return ok }

// Tools lists collections_list and every function that some collection of the
// connection's offers now.
func (a *account) Tools(ctx context.Context, g oauth.Grant) ([]Descriptor, error) {
	visible, _, err := a.selections.Visible(ctx, ledger.Caller{Actor: g.Principal.Actor(), Transport: ledger.Bearer, Connection: g.Connection})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(a.all), func(d Descriptor) bool {
		return d.Name != string(catalog.ListCollections) && !slices.ContainsFunc(visible, func(v ledger.Allowed) bool {
			return slices.Contains(v.Functions, catalog.Name(d.Name))
		})
	}), nil
}

// Call hands the arguments to the desk as they stood; it decodes and judges.
func (a *account) Call(ctx context.Context, g oauth.Grant, name string, arguments []byte) (*sdk.CallToolResult, error) {
	if arguments == nil || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	data, err := a.desk.Call(ctx, operation.Caller{Principal: g.Principal, Transport: operation.Bearer, Connection: g.Connection}, name, arguments)
	if err != nil {
		return nil, err
	}
	return Structured(data, false), nil
}
