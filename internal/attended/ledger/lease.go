package ledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// LeaseState is where a lease stands.
type LeaseState string

const (
	// LeaseActive lets its caller ask for calls of its tools. It is never renewed.
	LeaseActive LeaseState = "active"
	// LeaseRevoked is over: by its caller, its person, or with its channel.
	LeaseRevoked LeaseState = "revoked"
	// LeaseExpired is over by the clock.
	LeaseExpired LeaseState = "expired"
)

const (
	leaseIssue  verb = "issued"
	leaseRevoke verb = "revoked"
	leaseExpire verb = "expired"
)

var leases = noun{
	name: "lease", table: "attended_lease", key: "lease",
	facts: `lease, tenant, principal, agent_ref, document, registration, arm, binding_digest, generation, catalog_digest, policy, tools, reason, issued_ms, expires_ms, hard_ms`,
	moves: []step{
		{leaseIssue, "", string(LeaseActive)},
		{leaseRevoke, string(LeaseActive), string(LeaseRevoked)},
		{leaseExpire, string(LeaseActive), string(LeaseExpired)},
	},
}

// Caller is who asks, as a surface verified it just now. Roles are the actor's.
type Caller struct {
	Principal       ref.Principal
	Agent           controlv1.Mask // zero where the person's own session acts
	Roles           []string
	PolicyVersion   controlv1.ID
	GrantGeneration int64 // of the caller's own grant
}

// Lease is what a verb answers of one.
type Lease struct {
	controlv1.LeaseReceipt
	Arm     ref.Attended
	Binding controlv1.Digest
	Catalog controlv1.Digest
	Policy  controlv1.ID
	Reason  refusal.Code
}

type lease struct {
	Lease
	tenant, principal, agent, registration string
	stand                                  stand
}

const leaseColumns = `lease, tenant, principal, agent_ref, document, registration, arm, binding_digest, generation, catalog_digest, policy, tools, state, version, reason, expires_ms, hard_ms`

func readLease(r store.Scanner) (lease, error) {
	var l lease
	var id, document, arm, binding, catalog, policy, tools, reason string
	var generation int64
	err := r.Scan(&id, &l.tenant, &l.principal, &l.agent, &document, &l.registration, &arm, &binding, &generation, &catalog, &policy, &tools,
		&l.stand.state, &l.stand.version, &reason, &l.ExpiresMS, &l.HardExpiresMS)
	if err != nil {
		return l, err
	}
	p := parser{}
	l.Lease.Lease, l.Document, l.Arm = parsed(&p, id, controlv1.ParseID), parsed(&p, document, ref.Parse[ref.DocumentKind]), parsed(&p, arm, ref.Parse[ref.AttendedKind])
	l.Binding, l.Catalog = parsed(&p, binding, controlv1.ParseDigest), parsed(&p, catalog, controlv1.ParseDigest)
	l.Generation, l.Policy = parsed(&p, generation, controlv1.NewGeneration), parsed(&p, policy, controlv1.ParseID)
	for _, t := range strings.Fields(tools) {
		l.Tools = append(l.Tools, parsed(&p, t, controlv1.ParseID))
	}
	l.Status, l.Reason = controlv1.LeaseStatus(l.stand.state), refusal.Code(reason)
	return l, p.err
}

// findLease reads a lease of the tenant's and principal's own; another's is told
// like one that isn't there.
func (b *Book) findLease(tx *tx, id controlv1.ID, c Caller) (lease, error) {
	l, err := readLease(tx.QueryRow(`select `+leaseColumns+` from attended_lease where lease=$1 and tenant=$2 and principal=$3 and agent_ref=$4`,
		id.String(), b.tenant, c.Principal.String(), c.Agent.String()))
	if errors.Is(err, sql.ErrNoRows) {
		err = refuse(refusal.Forbidden, "no such lease of this caller's")
	}
	return l, err
}

func (l lease) event(why refusal.Code) event {
	return event{tenant: l.tenant, principal: l.principal, reason: why, public: []audit.Field{audit.Digest("binding", l.Binding.String()), audit.ID("agent", l.agent),
		audit.ID("arm", l.Arm.String()), audit.ID("document", l.Document.String()), audit.Count("tools", len(l.Tools)), audit.Count("expires_ms", l.ExpiresMS)}}
}

// Ask is what a lease is asked for. Policy is the receipt that allows exactly
// these tools.
type Ask struct {
	Document ref.Document
	Tools    []controlv1.ID
	TTL      time.Duration // 1 s to 15 min
	Policy   controlv1.ID
}

// Issue makes a lease over tools of a live document. It ends with the first of
// its time, its arm, the access token and fifteen minutes. Refusals:
// unknown_document, unknown_tool, forbidden (a role is missing), authority_lost,
// arm_expired, killed, invalid_request.
func (b *Book) Issue(ctx context.Context, c Caller, ask Ask) (out Lease, err error) {
	if len(ask.Tools) < 1 || len(ask.Tools) > controlv1.MaxTools || ask.TTL < time.Second || ask.TTL > LeaseTime || ask.Policy.IsZero() || distinct(ask.Tools) != nil {
		return Lease{}, refuse(refusal.InvalidRequest, "a lease is over 1 to 64 tools and lasts 1 s to 15 min")
	}
	id, err := controlv1.ParseID("lease_" + random())
	if err != nil {
		return Lease{}, err
	}
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		r, a, refused, err := b.live(tx, ask.Document, c, over{}, now)
		if refused != nil || err != nil {
			return refused, err
		}
		var tools []string
		for _, t := range ask.Tools {
			found, err := findTool(tx, r.ID.String(), t)
			if err != nil {
				return nil, err
			}
			if !found.allows(c.Roles) {
				return nil, refuse(refusal.Forbidden, "a role is missing")
			}
			tools = append(tools, t.String())
		}
		hard := min(a.until(), now.Add(LeaseTime).UnixMilli())
		expires := min(now.Add(ask.TTL).UnixMilli(), hard)
		_, err = tx.Exec(`insert into attended_lease (`+leaseColumns+`, issued_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,1,'',$14,$15,$16,$16)`,
			id.String(), b.tenant, c.Principal.String(), c.Agent.String(), ask.Document.String(), r.ID.String(), r.Arm.String(), r.Binding.String(), r.Generation.Int(),
			r.Catalog.String(), ask.Policy.String(), strings.Join(tools, " "), leases.born(leaseIssue), expires, hard, now.UnixMilli())
		if err != nil {
			return nil, err
		}
		l, err := b.findLease(tx, id, c)
		if err != nil {
			return nil, err
		}
		out = l.Lease
		return nil, b.begun(tx, &leases, id.String(), leaseIssue, l.event(""))
	})
	return out, err
}

func distinct(ids []controlv1.ID) error {
	for i, id := range ids {
		if id.IsZero() || slices.Contains(ids[:i], id) {
			return refuse(refusal.InvalidRequest, "a tool is named twice")
		}
	}
	return nil
}

// live answers the registration that a caller's document points to, and its arm,
// which are authority now.
func (b *Book) live(tx *tx, document ref.Document, c Caller, o over, now time.Time) (r registration, a arm, refused, err error) {
	p, known, err := findPointer(tx, document.String())
	if err != nil {
		return r, a, nil, err
	}
	gone := refuse(refusal.UnknownDocument, "no such live document")
	if !known || p.stand.state != string(DocumentPointed) {
		return r, a, nil, gone
	}
	if r, err = findRegistration(tx, p.registration); err != nil {
		return r, a, nil, err
	}
	if r.tenant != b.tenant || r.principal != c.Principal.String() || r.State != RegistrationPublished && mutant != leasePending {
		return r, a, nil, gone
	}
	if a, refused, err = b.consumed(tx, r.Arm, o, now); refused != nil || err != nil {
		return r, a, refused, err
	}
	if a.Evidence.PolicyVersion != c.PolicyVersion || a.Binding != r.Binding {
		return r, a, nil, refuse(refusal.AuthorityLost, "the channel stands under other terms")
	}
	return r, a, nil, nil
}

// usableLease judges a lease for a call: it, its registration and its arm are
// authority now, and no kill switch stands over any of them or the call. One that is over by the clock is written as that.
func (b *Book) usableLease(tx *tx, l lease, c Caller, call controlv1.ID, now time.Time) (r registration, a arm, refused, err error) {
	switch l.stand.state {
	case string(LeaseRevoked):
		return r, a, nil, refuse(refusal.LeaseRevoked, "the lease is over")
	case string(LeaseExpired):
		return r, a, nil, refuse(refusal.LeaseExpired, "the lease is over")
	}
	if l.ExpiresMS <= now.UnixMilli() {
		return r, a, refuse(refusal.LeaseExpired, "the lease's time is over"), b.endLease(tx, l, leaseExpire, refusal.LeaseExpired, true, now)
	}
	r, a, refused, err = b.live(tx, l.Document, c, over{lease: l.Lease.Lease.String(), call: call.String()}, now)
	if err == nil && refused == nil && (r.ID.String() != l.registration || r.Generation != l.Generation || r.Binding != l.Binding) {
		err = refuse(refusal.StaleGeneration, "the page registered anew")
	}
	return r, a, refused, err
}

// RevokeLease ends a caller's lease and cancels every active call of it: one that
// awaits its confirmation at once, one that was sent by way of the page. A lease
// that is over already is left as it is.
func (b *Book) RevokeLease(ctx context.Context, c Caller, id controlv1.ID, why refusal.Code) (out Lease, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		l, err := b.findLease(tx, id, c)
		if err != nil {
			return nil, err
		}
		if !leases.over(l.stand.state) {
			if err := b.endLease(tx, l, leaseRevoke, why, true, time.Now()); err != nil {
				return nil, err
			}
			l, err = b.findLease(tx, id, c)
		}
		out = l.Lease
		return nil, err
	})
	return out, err
}

// EndCaller revokes every lease of an agent that acts for a person: its grant was
// taken back.
func (b *Book) EndCaller(ctx context.Context, principal ref.Principal, agent controlv1.Mask, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		return nil, b.endLeases(tx, why, true, time.Now(), `tenant=$1 and principal=$2 and agent_ref=$3`, b.tenant, principal.String(), agent.String())
	})
}

// ShowLease answers a caller's lease.
func (b *Book) ShowLease(ctx context.Context, c Caller, id controlv1.ID) (out Lease, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		l, err := b.findLease(tx, id, c)
		out = l.Lease
		return err
	})
	return out, err
}

// endLeases revokes the active leases that meet a condition. socket tells whether
// their page can still be reached.
func (b *Book) endLeases(tx *tx, why refusal.Code, socket bool, now time.Time, where string, args ...any) error {
	var all []lease
	err := tx.Each(`select `+leaseColumns+` from attended_lease where state='active' and `+where+` order by lease`, args, func(r store.Scanner) error {
		l, err := readLease(r)
		all = append(all, l)
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range all {
		if err := b.endLease(tx, l, leaseRevoke, why, socket, now); err != nil {
			return err
		}
	}
	return nil
}

// endLease ends a lease and the active calls of it.
func (b *Book) endLease(tx *tx, l lease, v verb, why refusal.Code, socket bool, now time.Time) error {
	code := why
	if v == leaseRevoke && socket && why != refusal.Killed {
		code = refusal.LeaseRevoked
	}
	if err := b.stopCalls(tx, code, socket, now, `lease=$1`, l.Lease.Lease.String()); err != nil {
		return err
	}
	return b.move(tx, &leases, l.Lease.Lease.String(), v, l.stand, l.event(why), now)
}
