package ledger

import (
	"errors"
	"fmt"
	"strings"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// checkHistory holds the ledger's rows to what the log tells of each: in which
// state it stands, under which generation, over which selection or input. The log
// is the one that can't be rewritten. A row that is over may be gone: retention
// deletes those.
func checkHistory(tx *tx) error {
	h := history{tx: tx, told: map[string]told{}}
	err := audit.Each(tx, audit.Filter{Kind: "portal."}, h.record)
	if errors.Is(err, refusal.Tampered) {
		return nil // a leaf that doesn't decode: Verify itself tells of it, by its number
	}
	if err != nil {
		return err
	}
	for _, noun := range nouns {
		if err := h.compare(noun); err != nil {
			return err
		}
	}
	for id, t := range h.told {
		if !t.over {
			h.differs(id, "its row is gone")
		}
	}
	return errors.Join(h.broken...)
}

// told is what the log says last of one record: its state, and what binds it.
type told struct {
	state, bound string
	over         bool // no verb leads on
}

type history struct {
	tx     *tx
	told   map[string]told // by subject
	broken []error
}

const maxBroken = 100

func (h *history) differs(id, what string) {
	if len(h.broken) < maxBroken {
		h.broken = append(h.broken, fmt.Errorf("portal %.8s…: the ledger isn't what the log tells: %s: %w", id, what, refusal.Tampered))
	}
}

// record takes one event in.
func (h *history) record(r audit.Record) error {
	kind := strings.TrimPrefix(r.Kind, "portal.")
	text := func(name string) string { s, _ := r.Public[name].(string); return s }
	number := func(name string) int64 { n, _ := r.Public[name].(int64); return n }
	switch {
	case kind == "collection_emptied":
		delete(h.told, r.Subject)
	case strings.HasPrefix(kind, "collection_"):
		tell(h, r.Subject, collections.moves, verb(kind), bind(r.Tenant, r.Actor, text("collection"), text("source"), text("incarnation")))
	case strings.HasPrefix(kind, "review_"):
		tell(h, r.Subject, reviews.moves, verb(kind), bind(r.Tenant, r.Actor, text("connection"), text("session"), text("tool"), text("input"), number("generation")))
	case requestVerb(kind) != "":
		tell(h, r.Subject, requestMoves, requestVerb(kind), bind(r.Tenant, r.Actor, text("connection"), text("request"), text("collection"),
			text("input"), text("mark"), number("generation"), code(r.Code)))
	case kind == "called":
	default:
		tell(h, r.Subject, connectionMoves, verb(kind), bind(r.Tenant, r.Actor, text("transport"), text("selection"), number("generation"), number("expires_ms")))
	}
	return nil
}

// code keeps the outcome's code, which the rows of what is begun don't have.
func code(c refusal.Code) string { return string(c) }

func bind(parts ...any) string { return fmt.Sprintf("%v", parts) }

// requestVerb reads the audit's word of a change, "" where it is another's.
func requestVerb(kind string) verb {
	switch {
	case kind == "written" || kind == "deleted":
		return requestDone
	case strings.HasPrefix(kind, "write_"):
		return verb(strings.TrimPrefix(kind, "write_"))
	case strings.HasPrefix(kind, "delete_"):
		return verb(strings.TrimPrefix(kind, "delete_"))
	}
	return ""
}

// tell moves what is told of a subject; a kind that is no move tells nothing.
func tell[S ~string](h *history, subject string, moves []step[S], v verb, bound string) {
	for _, m := range moves {
		if m.verb != v {
			continue
		}
		t := told{state: string(m.to), bound: bound, over: true}
		for _, on := range moves {
			// A request that was refused can be taken up again, and still be forgotten.
			if on.from == m.to && on.verb != requestAgain {
				t.over = false
			}
		}
		if string(m.to) == string(Removed) && v == collectionRemoved {
			t.over = false // until it is emptied
		}
		h.told[subject] = t
		return
	}
}

// nouns are the tables whose rows the log tells.
var nouns = []struct{ query string }{
	{`select place, state, tenant, actor, collection, kind, incarnation, '', '', 0, 0, '' from portal_collection`},
	{`select connection, state, tenant, actor, transport, '', '', '', '', generation, expires_ms, 'selection' from portal_connection`},
	{`select receipt, state, tenant, actor, connection, session, tool, digest, '', generation, 0, 'review' from portal_review`},
	{`select receipt, state, tenant, actor, connection, request_id, collection, digest, mark, generation, 0, code from portal_request`},
}

// row is one row of such a table.
type row struct {
	id, state, tenant, actor string
	a, b, c, d, e            string
	n, m                     int64
	last                     string
}

// compare holds every row of a table to what was told of it.
func (h *history) compare(noun struct{ query string }) error {
	var all []row
	err := h.tx.Each(noun.query, nil, func(r store.Scanner) error {
		var x row
		if err := r.Scan(&x.id, &x.state, &x.tenant, &x.actor, &x.a, &x.b, &x.c, &x.d, &x.e, &x.n, &x.m, &x.last); err != nil {
			return err
		}
		all = append(all, x)
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range all {
		bound, err := x.bound(h.tx)
		if err != nil {
			return err
		}
		t, known := h.told[x.id]
		switch {
		case !known:
			h.differs(x.id, "the log doesn't tell how it came to be")
		case t.state != x.state:
			h.differs(x.id, "its state")
		case t.bound != bound:
			h.differs(x.id, "what it is bound to")
		}
		delete(h.told, x.id)
	}
	return nil
}

// bound answers what binds a row, as record does of an event.
func (x row) bound(tx *tx) (string, error) {
	actor := audit.Name(x.actor)
	switch {
	case x.last == "selection":
		digest, err := selectionDigest(tx, x.id)
		return bind(x.tenant, actor, x.a, digest, x.n, x.m), err
	case x.last == "review":
		return bind(x.tenant, actor, x.a, audit.Name(x.b), x.c, x.d, x.n), nil
	case x.e != "":
		return bind(x.tenant, actor, x.a, x.b, x.c, x.d, x.e, x.n, x.last), nil
	}
	return bind(x.tenant, actor, x.a, x.b, x.c), nil
}
