package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
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
	err := tx.Each(`select collection, functions from portal_selected where connection=$1`, []any{connection}, func(r store.Scanner) error {
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
	err := tx.Each(`select collection, incarnation, functions from portal_selected where connection=$1`, []any{connection}, func(r store.Scanner) error {
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
