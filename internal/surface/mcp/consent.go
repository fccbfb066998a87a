package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chaperone/internal/oauth"
	"chaperone/internal/portal/ledger"
	catalog "chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// MaxDays is how long an app's connection lasts at most, and a script's token.
const MaxDays = 365

// Consents joins the two authorities that a person's yes concerns: the account's
// ledger, which holds what a connection may reach, and oauth, which holds who may
// act through it. The connection is made first and the token after it, so that a
// crash between them leaves a connection without a token, which nobody can use and
// its owner can revoke; the other way round would leave a token without a limit.
type Consents struct {
	Tokens *oauth.Book
	Ledger Connections
}

// Connections is what a consent needs of the ledger; *ledger.Book is one.
type Connections interface {
	Connect(ctx context.Context, actor, clientID, clientName string, selection []catalog.Selected, expires time.Time) (ledger.Connection, error)
	Revoke(ctx context.Context, actor, id string) error
}

// Owner is the signed-in person. Whoever calls has seen to it that their step-up
// is younger than five minutes.
type Owner struct {
	Actor string
	Roles []string
}

// Request answers what a person is asked; see [oauth.Book.Request].
func (c Consents) Request(ctx context.Context, id string) (oauth.Pending, error) {
	return c.Tokens.Request(ctx, id)
}

// Approve makes the connection and the code, and answers where the browser goes
// next. scopes are of those asked, at least one; the selection is needed with the
// scope collections and nowhere else; days are 1..[MaxDays]. Refusals: those of
// Request, invalid_input, and those of ledger.Connect.
func (c Consents) Approve(ctx context.Context, id string, owner Owner, selection []catalog.Selected, scopes []string, days int) (string, error) {
	p, err := c.Tokens.Request(ctx, id)
	if err != nil {
		return "", err
	}
	if days < 1 || days > MaxDays {
		return "", catalog.Fail(catalog.InvalidInput, "path", "/days", "rule", "maximum")
	}
	if len(scopes) == 0 || slices.ContainsFunc(scopes, unknownScope) || slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(p.Scopes, oauth.Base(s)) }) {
		return "", catalog.Fail(catalog.InvalidInput, "path", "/scopes", "rule", "enum")
	}
	ends := time.Now().Add(time.Duration(days) * 24 * time.Hour)
	connection, err := c.connect(ctx, owner, p.Client.ID, p.Client.Name, selection, scopes, ends)
	if err != nil {
		return "", err
	}
	next, err := c.Tokens.Approve(ctx, id, oauth.Approval{Actor: owner.Actor, Roles: owner.Roles, Scopes: scopes, Connection: connection, Ends: ends})
	if err != nil { // answered by another tab, or the commit's outcome isn't known: nothing must act through it
		return "", errors.Join(err, c.abandon(ctx, owner.Actor, connection))
	}
	return next, nil
}

// Deny records a no and answers where the browser goes next.
func (c Consents) Deny(ctx context.Context, id string, owner Owner) (string, error) {
	return c.Tokens.Deny(ctx, id, owner.Actor)
}

// Script is a token that a person makes for a program of theirs.
type Script struct {
	Name      string
	Scopes    []string
	Selection []catalog.Selected
	Life      time.Duration // at most [MaxDays]
}

// unknownScope tells a scope that doesn't exist.
func unknownScope(scope string) bool { return !slices.Contains(oauth.Scopes, oauth.Base(scope)) }

// Issue makes a connection and a script's token over it. The token is answered
// here and nowhere again.
func (c Consents) Issue(ctx context.Context, owner Owner, s Script) (token, connection string, err error) {
	switch {
	case !oauth.ValidName(s.Name):
		return "", "", catalog.Fail(catalog.InvalidInput, "path", "/name", "rule", "text")
	case s.Life <= 0 || s.Life > MaxDays*24*time.Hour:
		return "", "", catalog.Fail(catalog.InvalidInput, "path", "/expires_in_s", "rule", "maximum")
	case len(s.Scopes) == 0 || slices.ContainsFunc(s.Scopes, unknownScope):
		return "", "", catalog.Fail(catalog.InvalidInput, "path", "/scopes", "rule", "enum")
	}
	client, ends := oauth.NewScript(), time.Now().Add(s.Life)
	if connection, err = c.connect(ctx, owner, client, s.Name, s.Selection, s.Scopes, ends); err != nil {
		return "", "", err
	}
	token, err = c.Tokens.Issue(ctx, oauth.Script{Client: client, Actor: owner.Actor, Name: s.Name, Roles: owner.Roles,
		Scopes: s.Scopes, Connection: connection, Ends: ends})
	if err != nil {
		return "", "", errors.Join(err, c.abandon(ctx, owner.Actor, connection))
	}
	return token, connection, nil
}

// connect makes what a token will act through. Without the scope collections that
// is a name alone: the account has nothing for it.
func (c Consents) connect(ctx context.Context, owner Owner, client, name string, selection []catalog.Selected, scopes []string, ends time.Time) (string, error) {
	if !slices.Contains(scopes, oauth.ScopeCollections) {
		if len(selection) > 0 {
			return "", catalog.Fail(catalog.InvalidInput, "path", "/selection", "rule", "maxItems")
		}
		return ledger.NewID(), nil
	}
	made, err := c.Ledger.Connect(ctx, owner.Actor, client, name, selection, ends)
	return made.ID, err
}

// Revoke ends a connection of that person and everything that was given for it.
// One that isn't theirs is [refusal.Unknown]. A mutation that was accepted before
// may still complete.
func (c Consents) Revoke(ctx context.Context, actor, connection string) error {
	err := c.Ledger.Revoke(ctx, actor, connection)
	if errors.Is(err, refusal.Unknown) {
		err = c.ownsFamily(ctx, actor, connection) // one without collections
	}
	if err != nil {
		return err
	}
	return c.Tokens.RevokeConnection(ctx, connection)
}

func (c Consents) ownsFamily(ctx context.Context, actor, connection string) error {
	all, err := c.Tokens.Families(ctx, actor)
	if err == nil && !slices.ContainsFunc(all, func(f oauth.Family) bool { return f.Connection == connection }) {
		err = fmt.Errorf("no such connection: %w", refusal.Unknown)
	}
	return err
}

// abandon takes back a connection whose token nobody got, also where the caller
// has gone.
func (c Consents) abandon(ctx context.Context, actor, connection string) error {
	ctx = context.WithoutCancel(ctx)
	err := c.Ledger.Revoke(ctx, actor, connection)
	if errors.Is(err, refusal.Unknown) {
		err = nil
	}
	return errors.Join(err, c.Tokens.RevokeConnection(ctx, connection))
}

// Sweep ends what time has ended, in both authorities. Run it about hourly.
func (c Consents) Sweep(ctx context.Context) error {
	ended, err := c.Tokens.Sweep(ctx)
	for _, f := range ended {
		if e := c.Ledger.Revoke(ctx, f.Actor, f.Connection); !errors.Is(e, refusal.Unknown) {
			err = errors.Join(err, e)
		}
	}
	return err
}
