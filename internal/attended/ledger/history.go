package ledger

import (
	"errors"
	"fmt"
	"strings"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// told is what the log says last of a record: the log is the one that can't be
// rewritten.
type told struct {
	state   string
	version int64
	facts   string
}

// checkHistory holds every record to the log: its state, how often it moved, and
// the digest of its facts. No record is ever deleted.
func checkHistory(tx *tx) error {
	log := map[string]told{}
	err := audit.Each(tx, audit.Filter{Kind: "attended."}, func(r audit.Record) error {
		noun, _, _ := strings.Cut(strings.TrimPrefix(r.Kind, "attended."), "_")
		var t told
		t.state, _ = r.Public["state"].(string)
		t.version, _ = r.Public["version"].(int64)
		t.facts, _ = r.Public["facts"].(string)
		// The log's order is decided when it is integrated; a record's own is its version.
		if key := noun + " " + r.Subject; t.version > log[key].version {
			log[key] = t
		}
		return nil
	})
	if errors.Is(err, refusal.Tampered) {
		return nil // a leaf that doesn't decode: Verify itself tells of it, by its number
	}
	if err != nil {
		return err
	}
	var broken []error
	for _, n := range nouns {
		if err := n.compare(tx, log, &broken); err != nil {
			return err
		}
	}
	for key := range log {
		broken = append(broken, fmt.Errorf("attended %.32s…: its row is gone: %w", key, refusal.Tampered))
		if len(broken) > maxBroken {
			break
		}
	}
	return errors.Join(broken...)
}

const maxBroken = 100

// compare holds a table's rows to what was told of them, and takes those from log.
func (n *noun) compare(tx *tx, log map[string]told, broken *[]error) error {
	width := strings.Count(n.facts, ",") + 1
	return tx.Each(`select `+n.key+`, state, version, `+n.facts+` from `+n.table, nil, func(r store.Scanner) error {
		var id string
		var is told
		values, into := make([]any, width), []any{&id, &is.state, &is.version}
		for i := range values {
			into = append(into, &values[i])
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		var err error
		if is.facts, err = factsDigest(values); err != nil {
			return err
		}
		key := n.name + " " + id
		if was := log[key]; was != is && len(*broken) < maxBroken {
			*broken = append(*broken, fmt.Errorf("attended %s %.20s…: its row isn't what the log tells: %w", n.name, id, refusal.Tampered))
		}
		delete(log, key)
		return nil
	})
}
