package run

import (
	"errors"
	"fmt"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// checkHistory holds the ledger's rows to what the log tells of each run: how it
// was born, and what it came to. The log is the one that can't be rewritten.
func checkHistory(tx *tx) error {
	h := history{tx: tx}
	err := audit.Each(tx, audit.Filter{Kind: "owned_run."}, h.record)
	if errors.Is(err, refusal.Tampered) {
		err = nil // a leaf that doesn't decode: Verify itself tells of it, by its number
	}
	if err != nil {
		return err
	}
	var rows int64
	if err := tx.QueryRow(`select count(*) from owned_run`).Scan(&rows); err != nil {
		return err
	}
	if rows != h.births && len(h.broken) == 0 {
		h.differs("", fmt.Sprintf("%d runs stand in the ledger and %d were begun", rows, h.births))
	}
	return errors.Join(h.broken...)
}

// history compares record by record. Runs that differ are told up to a bound.
type history struct {
	tx     *tx
	births int64
	broken []error
}

const maxBroken = 100

func (h *history) differs(epoch, what string) {
	if len(h.broken) < maxBroken {
		h.broken = append(h.broken, fmt.Errorf("owned run %.8s…: the ledger isn't what the log tells: %s: %w", epoch, what, refusal.Tampered))
	}
}

func (h *history) record(r audit.Record) error {
	epoch, _ := r.Public["epoch"].(string)
	for _, m := range moves {
		if r.Kind != "owned_run."+string(m.verb) {
			continue
		}
		if m.from == Absent {
			h.births++
			return h.birth(epoch, r)
		}
		if m.to != Open {
			return h.end(epoch, m.to, r)
		}
		return nil
	}
	return nil // an action or decision: the end counts them
}

// birth compares what a run was registered as.
func (h *history) birth(epoch string, r audit.Record) error {
	var tenant, id, engagement, surface, by, digest string
	var at int64
	known, err := h.tx.One(`select tenant, run_id, engagement, surface, started_by, scope_digest, started_ms from owned_run where epoch=$1`,
		[]any{epoch}, &tenant, &id, &engagement, &surface, &by, &digest, &at)
	switch {
	case err != nil:
		return err
	case !known:
		h.differs(epoch, "its row is gone")
	case tenant != r.Tenant, id != r.Subject, engagement != r.Public["engagement"], surface != r.Public["surface"],
		by != r.Public["started_by"], digest != r.Public["scope"], at != r.Public["at_ms"]:
		h.differs(epoch, "who began it, when, or for what")
	}
	return nil
}

// end compares what a run came to. What is told late, an outcome or a count that
// rode behind the end, only ever adds to it.
func (h *history) end(epoch string, state State, r audit.Record) error {
	var stands, reason string
	known, err := h.tx.One(`select state, reason from owned_run where epoch=$1`, []any{epoch}, &stands, &reason)
	if err != nil || !known {
		return err // its birth tells of a row that is gone
	}
	if stands != string(state) || reason != string(r.Code) {
		h.differs(epoch, "how it ended")
	}
	var sum totals
	if err := sum.read(h.tx, epoch); err != nil {
		return err
	}
	told := func(name string) int64 { n, _ := r.Public[name].(int64); return n }
	if sum.actions < told("actions") || sum.sequence < told("last_sequence") || sum.decisions < told("decisions") ||
		sum.allowed < told("allowed") || sum.denied < told("denied") {
		h.differs(epoch, "less was done or decided in it")
	}
	return nil
}
