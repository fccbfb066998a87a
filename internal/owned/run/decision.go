package run

import (
	"context"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Distinct is how many different decisions of one run are told one by one. What
// comes after them is one counted row: a page that asks for a million hosts must
// not grow the trace without bound.
const Distinct = 1000

// Decision is one distinct decision of a run's scope and how often it was made.
type Decision struct {
	Layer   string // proxy or browser
	Scheme  string
	Host    string // "" in the one row of those beyond Distinct
	Port    int
	Address string // the resolved address, "" where none was needed
	Rule    string
	Code    refusal.Code // allowed, or why not
	Fix     string       // the line a person would add; "" where nothing helps
	Count   int64
	First   time.Time
}

// decisionKey is what makes a decision distinct. The path and the method are
// left out on purpose: they are never told.
type decisionKey struct {
	layer, scheme, host string
	port                int
	address, rule       string
	code                refusal.Code
}

// decision is the running count of one distinct decision. Ordinals count from 1;
// 0 is the row of those beyond Distinct.
type decision struct {
	Decision
	ordinal int
	queued  bool // stands in fresh
}

// Record takes one decision of the scope. It never blocks on the database: what
// is new or counted rides the next commit.
func (r *Run) Record(rec scope.Record) {
	key := decisionKey{
		layer: rec.Layer, scheme: rec.Scheme, host: rec.Host, port: rec.Port,
		rule: rec.Decision.Rule, code: rec.Decision.Code,
	}
	if rec.Address.IsValid() {
		key.address = rec.Address.String()
	}
	if rec.Decision.Allowed {
		key.code = refusal.Allowed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.told[key]
	if d == nil {
		d = r.distinct(key, rec)
	}
	d.Count++
	if !d.queued {
		d.queued = true
		r.fresh = append(r.fresh, d)
	}
}

// distinct answers a new entry for key, or the one that counts all the rest.
// r.mu is held.
func (r *Run) distinct(key decisionKey, rec scope.Record) *decision {
	rest := decisionKey{}
	if len(r.told) >= Distinct {
		key = rest
	}
	if d := r.told[key]; d != nil {
		return d
	}
	d := &decision{ordinal: len(r.told) + 1, Decision: Decision{
		Layer: key.layer, Scheme: key.scheme, Host: key.host, Port: key.port,
		Address: key.address, Rule: key.rule, Code: key.code, First: rec.At,
	}}
	if key == rest {
		d.ordinal, d.Code = 0, refusal.TooMany
	} else if !rec.Decision.Allowed {
		d.Fix = rec.Decision.Fix
	}
	r.told[key] = d
	return d
}

// tell writes a decision's count, and the first time its audit event. Counts are
// written whole, never added, so writing one twice is harmless.
func (r *Run) tell(tx *tx, d decision) error {
	rows, err := tx.Exec(`insert into owned_decision (epoch, ordinal, layer, scheme, host, port, address, rule, code, fix, seen, first_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12) on conflict do nothing`,
		r.epoch, d.ordinal, d.Layer, d.Scheme, d.Host, d.Port, d.Address, d.Rule, string(d.Code), d.Fix, d.Count, d.First.UnixMilli())
	if err != nil {
		return err
	}
	if rows == 1 {
		return r.auditDecision(tx, d)
	}
	_, err = tx.Exec(`update owned_decision set seen=$1 where epoch=$2 and ordinal=$3`, d.Count, r.epoch, d.ordinal)
	return err
}

// auditDecision tells a decision: where to, by which rule and how it was decided.
// Host, rule and address are sealed, so that they can be erased with the run and
// the trace still verifies.
func (r *Run) auditDecision(tx *tx, d decision) error {
	e := audit.Event{
		Tenant: r.book.tenant, Kind: "owned_run.decided", Actor: r.reg.StartedBy, Subject: r.reg.RunID, Code: d.Code,
		Public: []audit.Field{audit.ID("epoch", r.epoch), audit.Count("ordinal", d.ordinal), audit.Count("port", d.Port)},
	}
	for _, word := range [][2]string{{"layer", d.Layer}, {"scheme", d.Scheme}} {
		if word[1] != "" {
			e.Public = append(e.Public, audit.Word(word[0], word[1]))
		}
	}
	for _, sealed := range [][2]string{{"host", d.Host}, {"rule", d.Rule}, {"address", d.Address}} {
		if sealed[1] != "" {
			e.Sealed = append(e.Sealed, audit.Seal(sealed[0], sealed[1]))
		}
	}
	return r.book.log.Append(tx, e)
}

// Decisions answers the decisions of the latest run with that id, in the order
// of their first time, the row of the rest last. An id that was never registered
// is [refusal.Unknown].
func (b *Book) Decisions(ctx context.Context, runID string) ([]Decision, error) {
	var all []Decision
	err := b.db.View(ctx, func(tx *tx) error {
		all = nil
		epoch, err := b.latest(tx, runID)
		if err != nil {
			return err
		}
		rows, err := tx.Query(`select layer, scheme, host, port, address, rule, code, fix, seen, first_ms from owned_decision
			where epoch=$1 order by case when ordinal=0 then 1 else 0 end, ordinal`, epoch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var d Decision
			var first int64
			if err := rows.Scan(&d.Layer, &d.Scheme, &d.Host, &d.Port, &d.Address, &d.Rule, &d.Code, &d.Fix, &d.Count, &first); err != nil {
				return err
			}
			d.First = time.UnixMilli(first)
			all = append(all, d)
		}
		return rows.Err()
	})
	return all, err
}

// Suggest answers the lines that a person would add to the scope for what the
// latest run with that id was denied, each once, in the order of their first
// time.
func (b *Book) Suggest(ctx context.Context, runID string) ([]string, error) {
	all, err := b.Decisions(ctx, runID)
	if err != nil {
		return nil, err
	}
	var lines []string
	seen := map[string]bool{"": true}
	for _, d := range all {
		if d.Code != refusal.Allowed && !seen[d.Fix] {
			seen[d.Fix] = true
			lines = append(lines, d.Fix)
		}
	}
	return lines, nil
}
