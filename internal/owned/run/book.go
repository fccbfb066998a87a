package run

import (
	"context"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Book is where a tenant's runs stand: one database and its audit log.
type Book struct {
	db     *store.DB
	log    *audit.Log
	tenant string
	self   Holder
}

// NewBook answers the tenant's book. The caller keeps db and log open for as long
// as it or one of its runs is used, and closes them itself.
func NewBook(db *store.DB, log *audit.Log, tenant string) (*Book, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	return &Book{db, log, tenant, self}, nil
}

// Register begins a run that waits for its one handshake. A run id that a living
// process holds is [refusal.Conflict]; one whose holder is gone is declared lost
// first, in the same transaction.
func (b *Book) Register(ctx context.Context, reg Registration) (*Run, error) {
	return b.begin(ctx, reg, verbRegister)
}

// Start begins a run of a local surface, which is open from birth and has no
// bootstrap. Refusals are those of Register.
func (b *Book) Start(ctx context.Context, reg Registration) (*Run, error) {
	reg.Bootstrap, reg.BootstrapUntil = "", time.Time{}
	return b.begin(ctx, reg, verbStart)
}

// begin writes the run's row and its first audit event.
func (b *Book) begin(ctx context.Context, reg Registration, v verb) (*Run, error) {
	token := reg.Bootstrap
	reg.Bootstrap = ""
	r := &Run{book: b, reg: reg, epoch: NewToken(), told: map[decisionKey]*decision{}}
	err := r.transact(ctx, func(tx *tx) error {
		if err := b.release(tx, reg.RunID); err != nil {
			return err
		}
		now := time.Now()
		_, err := tx.Exec(`insert into owned_run (epoch, tenant, run_id, engagement, surface, started_by, scope_digest, state, reason,
			holder, bootstrap_hash, bootstrap_ms, session_hash, session_ms, sequence, started_ms, moved_ms)
			values ($1,$2,$3,$4,$5,$6,$7,$8,'',$9,$10,$11,'',0,0,$12,$12)`,
			r.epoch, b.tenant, reg.RunID, reg.Engagement, reg.Surface, reg.StartedBy, reg.ScopeDigest, string(born(v)),
			b.self.String(), hash(token), until(reg.BootstrapUntil), now.UnixMilli())
		if err != nil {
			return err
		}
		return r.audit(tx, v, "", audit.ID("engagement", reg.Engagement), audit.Word("surface", reg.Surface),
			audit.ID("started_by", reg.StartedBy), audit.Digest("scope", reg.ScopeDigest), audit.Count("at_ms", now.UnixMilli()))
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// release makes sure that nobody holds the run id.
func (b *Book) release(tx *tx, runID string) error {
	held, err := b.held(tx, runID)
	if err != nil {
		return err
	}
	for _, h := range held {
		if !h.gone(b.self, time.Now()) {
			return fmt.Errorf("run %s is held by process %d: %w", runID, h.PID, refusal.Conflict)
		}
		if err := b.lose(tx, h); err != nil {
			return err
		}
	}
	return nil
}

// Recover declares lost every run whose holder is gone, and answers their ids.
// Their last actions are unknown from then on; none is ever repeated.
func (b *Book) Recover(ctx context.Context) ([]string, error) {
	var lost []string
	err := b.db.Update(ctx, func(tx *store.Tx) error {
		lost = nil
		held, err := b.held(tx, "")
		if err != nil {
			return err
		}
		for _, h := range held {
			if !h.gone(b.self, time.Now()) {
				continue
			}
			if err := b.lose(tx, h); err != nil {
				return err
			}
			lost = append(lost, h.runID)
		}
		return nil
	})
	return lost, err
}

// holding is a run that isn't over, and who holds it.
type holding struct {
	Holder
	epoch, runID string
	ends         time.Time // no bootstrap or session is good after it; zero for local surfaces
}

// grace is how long past its expiry a run of a process that can't be judged from
// here is left alone: its host ends it by itself at the expiry.
const grace = time.Minute

// gone tells whether nobody can be holding the run any more.
func (h holding) gone(self Holder, now time.Time) bool {
	return h.Gone(self) || !h.ends.IsZero() && now.After(h.ends.Add(grace))
}

// held answers the runs that aren't over: all of the tenant's, or those with
// runID.
func (b *Book) held(tx *tx, runID string) ([]holding, error) {
	rows, err := tx.Query(`select epoch, run_id, holder, bootstrap_ms, session_ms from owned_run
		where tenant=$1 and state in ($2,$3) and ($4='' or run_id=$4) order by started_ms, epoch`,
		b.tenant, string(Registered), string(Open), runID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []holding
	for rows.Next() {
		var h holding
		var holder string
		var bootstrap, session int64
		if err := rows.Scan(&h.epoch, &h.runID, &holder, &bootstrap, &session); err != nil {
			return nil, err
		}
		if h.Holder, err = ParseHolder(holder); err != nil {
			return nil, err
		}
		if last := max(bootstrap, session); last > 0 {
			h.ends = time.UnixMilli(last)
		}
		all = append(all, h)
	}
	return all, rows.Err()
}

// lose declares one run lost and its running action unknown. A crash after it
// leaves nothing to do; before it, the next holder does the same again.
func (b *Book) lose(tx *tx, h holding) error {
	r := &Run{book: b, reg: Registration{RunID: h.runID}, epoch: h.epoch}
	return r.finish(tx, verbLose, refusal.Unknown)
}

// latest answers the epoch of the newest run with that id.
func (b *Book) latest(tx *tx, runID string) (string, error) {
	var epoch string
	known, err := tx.One(`select epoch from owned_run where tenant=$1 and run_id=$2 order by started_ms desc, epoch limit 1`,
		[]any{b.tenant, runID}, &epoch)
	if err == nil && !known {
		err = fmt.Errorf("no run %s: %w", runID, refusal.Unknown)
	}
	return epoch, err
}

// until is 0 for no expiry.
func until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
