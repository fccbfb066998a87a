package ledger

import (
	"context"
	"slices"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Told is a call with what people see of it beside its receipt.
type Told struct {
	Call
	Agent      controlv1.Mask // who acted; zero is the person's own session
	AdmittedMS int64
	ClaimedMS  int64 // 0: never sent
	SettledMS  int64 // 0: not over
}

// TimedLease is a lease with its agent and its beginning.
type TimedLease struct {
	Lease
	Agent    controlv1.Mask
	IssuedMS int64
}

// Attention is how a person was asked to confirm: in the window of the budget, and
// among the calls that were looked at.
type Attention struct {
	Asked     int64 // prompts in the budget's window
	Confirmed int   // of the calls that were looked at
	Denied    int
	Lapsed    int   // nobody answered in time
	DwellMS   int64 // the middle of how long an answer took; 0 where nobody answered
}

// Own is what is a person's own of attended control.
type Own struct {
	Documents []Document   // live ones
	Leases    []TimedLease // active ones
	Calls     []Told       // over or not, the newest first
	Attention Attention
}

// Own answers what is a person's own, with at most most calls.
func (b *Book) Own(ctx context.Context, principal ref.Principal, most int) (out Own, err error) {
	if out.Documents, err = b.Documents(ctx, principal); err != nil {
		return Own{}, err
	}
	err = b.db.View(ctx, func(tx *tx) error {
		out.Leases, out.Calls = nil, nil
		now := time.Now()
		if out.Leases, err = timedLeases(tx, `tenant=$1 and principal=$2 and state='active' and expires_ms>$3`, b.tenant, principal.String(), now.UnixMilli()); err != nil {
			return err
		}
		out.Calls, err = toldCalls(tx, `tenant=$1 and principal=$2 order by admitted_ms desc, call limit $3`, b.tenant, principal.String(), most)
		if err != nil {
			return err
		}
		out.Attention = attention(out.Calls)
		out.Attention.Asked, err = number(tx, `select count(*) from attended_call where tenant=$1 and principal=$2 and level<>'' and admitted_ms>$3`,
			b.tenant, principal.String(), now.Add(-BudgetTime).UnixMilli())
		return err
	})
	return out, err
}

// attention counts how prompts were answered.
func attention(all []Told) (a Attention) {
	var dwell []int64
	for _, c := range all {
		switch {
		case c.Level == "":
		case c.ClaimedMS > 0:
			a.Confirmed++
			dwell = append(dwell, c.ClaimedMS-c.AdmittedMS)
		case c.Code == refusal.UserDenied:
			a.Denied++
			dwell = append(dwell, c.SettledMS-c.AdmittedMS)
		case c.Code == refusal.ConfirmExpired:
			a.Lapsed++
		}
	}
	if len(dwell) > 0 {
		slices.Sort(dwell)
		a.DwellMS = dwell[len(dwell)/2]
	}
	return a
}

// toldCalls answers the calls of a condition, in the order that it names.
func toldCalls(tx *tx, where string, args ...any) (all []Told, err error) {
	at := map[controlv1.ID]int{}
	err = tx.Each(`select call, agent_ref, admitted_ms, claimed_ms, settled_ms from attended_call where `+where, args, func(r store.Scanner) error {
		var t Told
		var id, agent string
		if err := r.Scan(&id, &agent, &t.AdmittedMS, &t.ClaimedMS, &t.SettledMS); err != nil {
			return err
		}
		p := parser{}
		t.ID = parsed(&p, id, controlv1.ParseID)
		if agent != "" {
			t.Agent = parsed(&p, agent, controlv1.ParseMask)
		}
		at[t.ID] = len(all)
		all = append(all, t)
		return p.err
	})
	if err != nil {
		return nil, err
	}
	rows, err := readCalls(tx, `call in (select call from attended_call where `+where+`)`, args...)
	for _, c := range rows {
		all[at[c.ID]].Call = c.Call // a view is one snapshot: both statements find the same
	}
	return all, err
}

func timedLeases(tx *tx, where string, args ...any) (all []TimedLease, err error) {
	err = tx.Each(`select `+leaseColumns+` from attended_lease where `+where+` order by issued_ms desc, lease`, args, func(r store.Scanner) error {
		l, err := readLease(r)
		if err != nil {
			return err
		}
		t := TimedLease{Lease: l.Lease}
		if l.agent != "" {
			t.Agent, err = controlv1.ParseMask(l.agent)
		}
		all = append(all, t)
		return err
	})
	for i := range all {
		if err == nil {
			all[i].IssuedMS, err = number(tx, `select issued_ms from attended_lease where lease=$1`, all[i].Lease.Lease.String())
		}
	}
	return all, err
}

// owned is where each scope's target stands.
var owned = map[KillScope]string{
	KillCall:  `select count(*) from attended_call where tenant=$1 and principal=$2 and call=$3`,
	KillLease: `select count(*) from attended_lease where tenant=$1 and principal=$2 and lease=$3`,
	KillArm:   `select count(*) from attended_arm where tenant=$1 and principal=$2 and arm=$3`,
}

// Owns tells whether what a kill switch would stand over is that person's own: a
// call, lease or arm of theirs, or themselves.
func (b *Book) Owns(ctx context.Context, principal ref.Principal, scope KillScope, target string) (own bool, err error) {
	if scope == KillPrincipal {
		return target == principal.String() && !principal.IsZero(), nil
	}
	query, some := owned[scope]
	if !some {
		return false, nil // a tenant, and all of them, are nobody's own
	}
	err = b.db.View(ctx, func(tx *tx) error {
		n, err := number(tx, query, b.tenant, principal.String(), target)
		own = n > 0
		return err
	})
	return own, err
}

// Unsettled answers a person's calls that were sent and aren't over: those in
// flight, and those of which nobody knows what became.
func (b *Book) Unsettled(ctx context.Context, principal ref.Principal) (inFlight, unknown []controlv1.ID, err error) {
	k := Kill{Scope: KillPrincipal, Ref: principal.String()}
	err = b.db.View(ctx, func(tx *tx) error {
		k.InFlight, k.Unknown = nil, nil
		return k.look(tx, b.tenant)
	})
	return k.InFlight, k.Unknown, err
}
