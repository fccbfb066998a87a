package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// FlowLife is how long a redirect may take to come back.
const FlowLife = 10 * time.Minute

// Purposes of a flow.
const (
	SignIn = "sign-in"
	StepUp = "step-up"
	Arm    = "arm" // a step-up that arms a page
)

// Flow is the one-use state of a redirect to the provider. State, Nonce and
// Verifier are secrets: in the database the state is a hash, and the other two
// open only to who shows it.
type Flow struct {
	State, Nonce, Verifier string
	Purpose                string   // SignIn, StepUp or Arm
	Session                string   // the handle that a step-up is for
	Route                  string   // the page's shell that is to be armed
	ACR                    []string // the levels that were demanded, in order
	Next                   string   // where to go afterwards; see Next
	Begun                  time.Time
}

// StepsUp tells whether the flow is a step-up, for whatever purpose.
func (f Flow) StepsUp() bool { return f.Purpose == StepUp || f.Purpose == Arm }

// String keeps the secrets out of logs.
func (f Flow) String() string { return "session.Flow " + f.Purpose }

// GoString keeps the secrets out of %#v.
func (f Flow) GoString() string { return f.String() }

// sealedFlow is what a flow's row holds under its state.
type sealedFlow struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Route    string `json:"route,omitzero"`
}

// check refuses a flow that was never fit to begin.
func (f Flow) check() error {
	switch {
	case len(f.State) < 64 || len(f.State) > 256 || f.Nonce == "" || f.Verifier == "":
		return fmt.Errorf("a flow without its secrets: %w", refusal.BadDocument)
	case f.Purpose != SignIn && !f.StepsUp(), f.StepsUp() != (f.Session != ""), (f.Purpose == Arm) != (f.Route != ""), len(f.Route) > 128:
		return fmt.Errorf("a flow without a purpose: %w", refusal.BadDocument)
	case f.StepsUp() && len(f.ACR) == 0:
		return fmt.Errorf("a step-up that demands nothing: %w", refusal.BadDocument)
	}
	for _, acr := range f.ACR {
		if acr == "" || strings.ContainsAny(acr, " \n") {
			return fmt.Errorf("an acr value with white space: %w", refusal.BadDocument)
		}
	}
	_, err := Next(f.Next)
	return err
}

// BeginFlow keeps a flow until it comes back. Begun is set here. A state that
// was used before is [refusal.Replayed].
func (b *Book) BeginFlow(ctx context.Context, f Flow) error {
	if err := f.check(); err != nil {
		return err
	}
	b.sweepNow(ctx)
	text, err := json.Marshal(sealedFlow{f.Nonce, f.Verifier, f.Route})
	if err != nil {
		return err
	}
	return b.db.Update(ctx, func(tx *tx) error {
		rows, err := tx.Exec(`insert into session_flow (state_hash, tenant, purpose, session, acr, next, sealed, begun_ms, stands)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9) on conflict do nothing`,
			hash(f.State), b.tenant, f.Purpose, f.Session, strings.Join(f.ACR, " "), f.Next,
			seal(f.State, "flow", string(text)), time.Now().UnixMilli(), string(waiting))
		if err == nil && rows == 0 {
			err = fmt.Errorf("a flow with that state was begun before: %w", refusal.Replayed)
		}
		return err
	})
}

// ClaimFlow takes a flow that comes back: the first of any number of callers
// wins. A state that nobody began is [refusal.BadState], a second use
// [refusal.Replayed] (told in the audit), one older than FlowLife
// [refusal.Expired].
func (b *Book) ClaimFlow(ctx context.Context, state string) (Flow, error) {
	f := Flow{State: state}
	var refused error
	err := b.db.Update(ctx, func(tx *tx) error {
		refused = nil
		var acr, sealed string
		var begun int64
		err := tx.QueryRow(`select purpose, session, acr, next, sealed, begun_ms from session_flow where state_hash=$1 and tenant=$2`,
			hash(state), b.tenant).Scan(&f.Purpose, &f.Session, &acr, &f.Next, &sealed, &begun)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("nobody began this sign-in: %w", refusal.BadState)
		}
		if err != nil {
			return err
		}
		f.ACR, f.Begun = slices.DeleteFunc(strings.Split(acr, " "), func(s string) bool { return s == "" }), time.UnixMilli(begun)
		won, err := moveFlow(tx, hash(state), claimed)
		switch {
		case err != nil:
			return err
		case !won:
			refused = fmt.Errorf("this sign-in came back before: %w", refusal.Replayed)
			return b.tellReplay(tx, f)
		case !time.Now().Before(f.Begun.Add(FlowLife)):
			// Claimed all the same: what came too late never comes back.
			refused = fmt.Errorf("this sign-in took too long: %w", refusal.Expired)
			return nil
		}
		var inside sealedFlow
		text, err := open(state, "flow", sealed)
		if err == nil {
			err = json.Unmarshal([]byte(text), &inside)
		}
		f.Nonce, f.Verifier, f.Route = inside.Nonce, inside.Verifier, inside.Route
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return Flow{}, err
	}
	return f, nil
}

// tellReplay tells the first replay of a flow; more of them add nothing.
func (b *Book) tellReplay(tx *tx, f Flow) error {
	first, err := moveFlow(tx, hash(f.State), replayed)
	if err != nil || !first {
		return err
	}
	return b.log.Append(tx, audit.Event{
		Tenant: b.tenant, Kind: "session.flow_replayed", Subject: f.Session, Code: refusal.Replayed,
		Public: []audit.Field{audit.Word("purpose", f.Purpose)},
	})
}

// Refused tells in the audit that a flow which had come back wasn't accepted,
// and why. A flow comes back once, so this is told at most once for each.
func (b *Book) Refused(ctx context.Context, f Flow, why refusal.Code) error {
	return b.db.Update(ctx, func(tx *tx) error {
		return b.log.Append(tx, audit.Event{
			Tenant: b.tenant, Kind: "session.refused", Subject: f.Session, Code: why,
			Public: []audit.Field{audit.Word("purpose", f.Purpose)},
		})
	})
}

// sweepFlows drops flows that nobody can claim any more, and logouts that
// nothing can meet any more.
func (b *Book) sweepFlows(tx *tx, now time.Time) error {
	if _, err := tx.Exec(`delete from session_flow where tenant=$1 and begun_ms<$2`, b.tenant, now.Add(-2*FlowLife).UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(`delete from session_logout where tenant=$1 and taken_ms<$2`, b.tenant, now.Add(-tombstone).UnixMilli())
	return err
}

// sweepNow keeps flows, which anybody may begin, from gathering: once a minute
// the caller that comes first clears up. A failure is the next one's.
func (b *Book) sweepNow(ctx context.Context) {
	now := time.Now()
	b.mu.Lock()
	due := now.Sub(b.swept) >= time.Minute
	if due {
		b.swept = now
	}
	b.mu.Unlock()
	if due {
		_ = b.db.Update(ctx, func(tx *tx) error { return b.sweepFlows(tx, now) })
	}
}
