package oauth

import (
	"errors"
	"fmt"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// checkHistory holds families to what the log tells of them, which can't be
// rewritten: each was given to that actor, for that connection, with those scopes
// until then, and one that was ended stays ended. A family whose row is gone may
// have been dropped long after its end.
func checkHistory(tx *tx) error {
	h := history{rows: map[string]family{}, born: map[string]bool{}}
	if err := h.read(tx); err != nil {
		return err
	}
	err := audit.Each(tx, audit.Filter{Kind: "oauth."}, h.record)
	if errors.Is(err, refusal.Tampered) {
		err = nil // a leaf that doesn't decode: Verify itself tells of it, by its number
	}
	if err != nil {
		return err
	}
	for id := range h.rows {
		if !h.born[id] {
			h.differs(id, "nobody gave it")
		}
	}
	return errors.Join(h.broken...)
}

type history struct {
	rows   map[string]family
	born   map[string]bool
	broken []error
}

const maxBroken = 100

func (h *history) differs(id, what string) {
	if len(h.broken) < maxBroken {
		h.broken = append(h.broken, fmt.Errorf("oauth family %.8s…: it isn't what the log tells: %s: %w", id, what, refusal.Tampered))
	}
}

func (h *history) read(tx *tx) error {
	rows, err := tx.Query(`select ` + familyColumns + ` from oauth_family`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var f family
		if err := rows.Scan(f.into()...); err != nil {
			return err
		}
		h.rows[f.id] = f
	}
	return rows.Err()
}

func (h *history) record(r audit.Record) error {
	f, known := h.rows[r.Subject]
	if !known {
		return nil // a request's, or one that was dropped
	}
	switch r.Kind {
	case "oauth." + string(verbApprove), "oauth." + string(verbIssue):
		h.born[f.id] = true
		if audit.Name(f.actor) != r.Actor || f.connection != r.Public["connection"] || f.ends != r.Public["ends_ms"] ||
			digestOf(f.scopes) != r.Public["granted"] || digestOf(f.client) != r.Public["client"] {
			h.differs(f.id, "who gave it, to whom, for what or until when")
		}
	case "oauth." + string(verbRevoke), "oauth." + string(verbBurn):
		if f.state == Live || f.reason != r.Code {
			h.differs(f.id, "how it ended")
		}
	}
	return nil
}
