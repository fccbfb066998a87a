package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// Connect makes an app's grant, which a person has just consented to. client is
// the app's id and clientName what it calls itself. The selection names exact
// collections of now and functions that they offer, at least one: unknown_collection,
// function_unavailable, source_disconnected or invalid_input otherwise. An expiry
// that is past is [refusal.Expired].
func (b *Book) Connect(ctx context.Context, actor, clientID, clientName string, selection []tool.Selected, expires time.Time) (Connection, error) {
	c := Connection{ID: NewID(), Actor: actor, Transport: Bearer, Provenance: FromConsent, Client: clientID,
		ClientName: clip(strings.ToValidUTF8(clientName, "\uFFFD"), 200), Generation: 1, Expires: expires}
	if clientID == "" || len(clientID) > 2048 {
		return Connection{}, fmt.Errorf("a connection needs the client's id: %w", refusal.BadDocument)
	}
	err := b.db.Update(ctx, func(tx *tx) error {
		now := time.Now()
		if !expires.After(now) {
			return fmt.Errorf("that expiry is past: %w", refusal.Expired)
		}
		if err := b.open(tx, actor); err != nil {
			return err
		}
		if err := b.room(tx, actor); err != nil {
			return err
		}
		if err := b.choose(tx, c, selection); err != nil {
			return err
		}
		return b.insert(tx, c, connectionMade, now)
	})
	if err != nil {
		return Connection{}, err
	}
	return b.Connection(ctx, c.ID)
}

// room refuses one connection too many.
func (b *Book) room(tx *tx, actor string) error {
	var n int64
	err := tx.QueryRow(`select count(*) from portal_connection where tenant=$1 and actor=$2 and state in ($3,$4)`,
		b.tenant, actor, string(Live), string(Off)).Scan(&n)
	if err == nil && n >= MaxConnections {
		err = tool.Fail(tool.QuotaExceeded, "what", "connections", "limit", MaxConnections, "used", n)
	}
	return err
}

// Enable turns the browser surface of a session on, with that selection: bound to
// this session, for 12 hours at most. generation is the one that its owner saw:
// that of [Book.Selection], or 0 where they saw that it is off; another is
// [refusal.Conflict]. On a surface that is on it is Select. The caller has seen to
// it that step-up is fresh. Refusals of the selection are those of Connect.
func (b *Book) Enable(ctx context.Context, session, actor string, selection []tool.Selected, generation int64) (Connection, error) {
	return b.put(ctx, session, actor, selection, generation, connectionEnabled)
}

// Select changes what the surface that is on may do. Where it isn't on: disabled.
func (b *Book) Select(ctx context.Context, session, actor string, selection []tool.Selected, generation int64) (Connection, error) {
	return b.put(ctx, session, actor, selection, generation, connectionSelected)
}

func (b *Book) put(ctx context.Context, session, actor string, selection []tool.Selected, generation int64, v verb) (Connection, error) {
	if session == "" {
		return Connection{}, fmt.Errorf("no session: %w", tool.SessionExpired)
	}
	var c Connection
	err := b.db.Update(ctx, func(tx *tx) (err error) {
		now := time.Now()
		if err := b.open(tx, actor); err != nil {
			return err
		}
		if err := b.mine(tx, session, actor); err != nil {
			return err
		}
		if c, err = b.ofSession(tx, session, actor); err != nil {
			return err
		}
		switch live := c.State == Live && now.Before(c.Expires); {
		case c.State == Ended:
			return fmt.Errorf("session is over: %w", tool.SessionExpired)
		case c.Generation != generation && (live || generation != 0):
			return fmt.Errorf("the selection was changed meanwhile: %w", refusal.Conflict)
		case v == connectionSelected && !live:
			return fmt.Errorf("the browser surface is off: %w", tool.Disabled)
		case c.ID == "" || c.State.Over():
			return b.enableNew(tx, &c, session, actor, selection, now)
		case c.State == Live && !live:
			if err := b.move(tx, &c, connectionExpired, refusal.Expired, now); err != nil {
				return err
			}
			return b.enableNew(tx, &c, session, actor, selection, now)
		case live:
			if err := b.choose(tx, c, selection); err != nil {
				return err
			}
			return b.move(tx, &c, connectionSelected, "", now)
		}
		if err := b.choose(tx, c, selection); err != nil {
			return err
		}
		c.Expires = now.Add(SessionTime)
		return b.move(tx, &c, connectionEnabled, "", now)
	})
	if err != nil {
		return Connection{}, err
	}
	return b.Connection(ctx, c.ID)
}

// enableNew makes the session's next grant. Its generation goes on from the last
// one's, so no receipt or callback of that can mean this one.
func (b *Book) enableNew(tx *tx, c *Connection, session, actor string, selection []tool.Selected, now time.Time) error {
	*c = Connection{ID: NewID(), Actor: actor, Transport: Browser, Provenance: FromBrowser, Session: session,
		Generation: c.Generation + 1, Expires: now.Add(SessionTime)}
	if err := b.room(tx, actor); err != nil {
		return err
	}
	if err := b.choose(tx, *c, selection); err != nil {
		return err
	}
	return b.insert(tx, *c, connectionEnabled, now)
}

// mine refuses a session that was another person's: their grants can't share one
// count of generations.
func (b *Book) mine(tx *tx, session, actor string) error {
	others, err := b.find(tx, `session=$2 and actor<>$3 and transport=$4`, session, actor, string(Browser))
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("session is another person's: %w", tool.SessionExpired)
	}
	return err
}

// ofSession answers the session's latest grant; its zero value is none. A session
// that is another person's is none.
func (b *Book) ofSession(tx *tx, session, actor string) (Connection, error) {
	all, err := b.find(tx, `session=$2 and actor=$3 and transport=$4`, session, actor, string(Browser))
	if err != nil || len(all) == 0 {
		return Connection{}, err
	}
	latest := slices.MaxFunc(all, func(a, c Connection) int { return int(a.Generation - c.Generation) })
	return latest, nil
}

// Selection answers the session's grant that is on. Where none is, it is
// [refusal.Unknown], beside the last one that was (or the zero Connection).
func (b *Book) Selection(ctx context.Context, session string) (c Connection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		c = Connection{}
		all, err := b.find(tx, `session=$2 and transport=$3`, session, string(Browser))
		if err != nil || len(all) == 0 {
			return err
		}
		c = slices.MaxFunc(all, func(a, c Connection) int { return int(a.Generation - c.Generation) })
		c.Selection, err = selected(tx, c.ID)
		return err
	})
	if err == nil && !c.Enabled(time.Now()) {
		err = fmt.Errorf("the browser surface is off: %w", refusal.Unknown)
	}
	return c, err
}

// Enabled tells whether c is a grant that can be used now.
func (c Connection) Enabled(now time.Time) bool { return c.State == Live && now.Before(c.Expires) }

// Disable turns the session's browser surface off; nothing that was prepared can
// be executed any more. Where it is off already nothing happens.
func (b *Book) Disable(ctx context.Context, session string) error {
	return b.over(ctx, connectionDisabled, tool.Disabled, `session=$2 and transport=$3 and state=$4`, session, string(Browser), string(Live))
}

// EndSession ends what a session may do, since it was signed out or replaced.
func (b *Book) EndSession(ctx context.Context, session string) error {
	return b.over(ctx, connectionEnded, tool.SessionExpired, `session=$2 and transport=$3 and state in ($4,$5)`, session, string(Browser), string(Live), string(Off))
}

// Revoke takes a connection of that person back. One that is over already stays as
// it is; one that isn't theirs is [refusal.Unknown]. What was accepted before may
// still complete.
func (b *Book) Revoke(ctx context.Context, actor, id string) error {
	err := b.over(ctx, connectionRevoked, tool.GrantRevoked, `connection=$2 and actor=$3 and state in ($4,$5)`, id, actor, string(Live), string(Off))
	if err != nil {
		return err
	}
	c, err := b.Connection(ctx, id)
	if err == nil && c.Actor != actor {
		err = fmt.Errorf("no such connection: %w", refusal.Unknown)
	}
	return err
}

// over moves every connection that where finds.
func (b *Book) over(ctx context.Context, v verb, why refusal.Code, where string, args ...any) error {
	return b.db.Update(ctx, func(tx *tx) error {
		all, err := b.find(tx, where, args...)
		if err != nil {
			return err
		}
		for _, c := range all {
			if err := b.move(tx, &c, v, why, time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// choose writes what c selects, in place of what it did. Each collection is one of
// now, and is written with its incarnation.
func (b *Book) choose(tx *tx, c Connection, selection []tool.Selected) error {
	ordered, err := tool.Order(selection)
	if err != nil {
		return err
	}
	if len(ordered) == 0 {
		return tool.Fail(tool.InvalidInput, "path", "/selection", "rule", "minItems")
	}
	if _, err := tx.Exec(`delete from portal_selected where connection=$1`, c.ID); err != nil {
		return err
	}
	for _, s := range ordered {
		there, err := b.current(tx, c.Actor, s.Collection)
		switch {
		case err != nil:
			return err
		case there.Collection == "":
			return fmt.Errorf("no such collection: %w", tool.UnknownCollection)
		case there.State == Disconnected:
			return fmt.Errorf("collection is disconnected: %w", tool.SourceDisconnected)
		}
		for _, f := range s.Functions {
			if !slices.Contains(offers[there.Kind], f) {
				return fmt.Errorf("collection has no such function: %w", tool.FunctionUnavailable)
			}
		}
		if _, err := tx.Exec(`insert into portal_selected (connection, collection, incarnation, functions) values ($1,$2,$3,$4)`,
			c.ID, s.Collection, there.Incarnation, join(s.Functions)); err != nil {
			return err
		}
	}
	return nil
}

// join and split write a list of functions in one column.
func join(functions []tool.Name) string {
	all := make([]string, len(functions))
	for i, f := range functions {
		all[i] = string(f)
	}
	return strings.Join(all, " ")
}

func split(text string) []tool.Name {
	var all []tool.Name
	for f := range strings.FieldsSeq(text) {
		all = append(all, tool.Name(f))
	}
	return all
}

// selected answers what a connection selects, in its one order.
func selected(tx *tx, connection string) ([]tool.Selected, error) {
	var all []tool.Selected
	err := each(tx, `select collection, functions from portal_selected where connection=$1`, []any{connection}, func(r *sql.Rows) error {
		var s tool.Selected
		var functions string
		if err := r.Scan(&s.Collection, &functions); err != nil {
			return err
		}
		s.Functions = split(functions)
		all = append(all, s)
		return nil
	})
	slices.SortFunc(all, func(a, c tool.Selected) int { return strings.Compare(a.Collection, c.Collection) })
	return all, err
}

// selectionDigest names what a connection selects, incarnations too: the log holds
// it, so a row that somebody adds is found.
func selectionDigest(tx *tx, connection string) (string, error) {
	var all []string
	err := each(tx, `select collection, incarnation, functions from portal_selected where connection=$1`, []any{connection}, func(r *sql.Rows) error {
		var collection, incarnation, functions string
		if err := r.Scan(&collection, &incarnation, &functions); err != nil {
			return err
		}
		all = append(all, collection+" "+incarnation+" "+functions)
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(all)
	return canon.Digest([]byte(strings.Join(all, "\n"))), nil
}
