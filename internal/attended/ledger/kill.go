package ledger

import (
	"context"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// KillState is where a kill switch stands.
type KillState string

const (
	// KillOn stops everything under it and refuses what is new.
	KillOn KillState = "on"
	// KillLifted was on. What it ended stays over.
	KillLifted KillState = "lifted"
)

const (
	killSet  verb = "set"
	killLift verb = "lifted"
)

var kills = noun{
	name: "kill", table: "attended_kill", key: "kill", facts: `kill, tenant, scope, ref, reason, set_ms`,
	moves: []step{
		{killSet, "", string(KillOn)},
		{killLift, string(KillOn), string(KillLifted)},
	},
}

// KillScope is what a kill switch stands over.
type KillScope string

// Scopes, the narrowest first. Who may set which is for the surface to say.
const (
	KillCall      KillScope = "call"
	KillLease     KillScope = "lease"
	KillArm       KillScope = "arm"
	KillPrincipal KillScope = "principal"
	KillTenant    KillScope = "tenant"
	KillAll       KillScope = "all"
)

// anyTenant stands for all of them.
const anyTenant = "*"

// Kill is a kill switch and what it found.
type Kill struct {
	ID       controlv1.ID
	Scope    KillScope
	Ref      string // a call, lease, arm or principal; "" for tenant and all
	State    KillState
	SetMS    int64
	By       ref.Principal  // who set it; zero is the operator, at the machine itself
	InFlight []controlv1.ID // told to stop, and not settled yet
	Unknown  []controlv1.ID // whose effect nobody knows
}

// over is what a request stands under; empty fields are none.
type over struct{ principal, arm, lease, call string }

// killed refuses what a kill switch stands over.
func (b *Book) killed(tx *tx, tenant string, o over) error {
	n, err := number(tx, `select count(*) from attended_kill where state='on' and (tenant=$1 or tenant='*') and (scope in ('all','tenant')
		or scope='principal' and ref=$2 or scope='arm' and ref=$3 or scope='lease' and ref=$4 or scope='call' and ref=$5)`,
		tenant, o.principal, o.arm, o.lease, o.call)
	if err == nil && n > 0 {
		err = refuse(refusal.Killed, "a kill switch is on")
	}
	return err
}

// Kill sets a kill switch and ends what is under it, in one transaction: it is
// durable before it is acknowledged. It answers what is in flight and what is
// unknown. A ref that isn't one of the scope is invalid_request.
func (b *Book) Kill(ctx context.Context, scope KillScope, target string, by ref.Principal) (out Kill, err error) {
	if err := validTarget(scope, target); err != nil {
		return Kill{}, err
	}
	id, err := controlv1.ParseID("kill_" + random())
	if err != nil {
		return Kill{}, err
	}
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		tenant := b.tenant
		if scope == KillAll {
			tenant = anyTenant
		}
		_, err := tx.Exec(`insert into attended_kill (kill, tenant, scope, ref, by_ref, state, version, reason, set_ms, moved_ms) values ($1,$2,$3,$4,$5,$6,1,$7,$8,$8)`,
			id.String(), tenant, string(scope), target, by.String(), kills.born(killSet), string(refusal.Killed), now.UnixMilli())
		if err != nil {
			return nil, err
		}
		e := event{tenant: tenant, principal: by.String(), reason: refusal.Killed, public: []audit.Field{audit.Word("scope", scope), audit.ID("ref", target)}}
		if err := b.begun(tx, &kills, id.String(), killSet, e); err != nil {
			return nil, err
		}
		if err := b.endKilled(tx, scope, target, now); err != nil {
			return nil, err
		}
		out = Kill{ID: id, Scope: scope, Ref: target, State: KillOn, SetMS: now.UnixMilli(), By: by}
		return nil, out.look(tx, tenant)
	})
	return out, err
}

// validTarget refuses a target that isn't one of the scope.
func validTarget(scope KillScope, target string) error {
	var err error
	switch scope {
	case KillCall, KillLease:
		_, err = controlv1.ParseID(target)
	case KillArm:
		_, err = ref.Parse[ref.AttendedKind](target)
	case KillPrincipal:
		_, err = ref.Parse[ref.PrincipalKind](target)
	case KillTenant, KillAll:
		if target == "" {
			return nil
		}
		err = refusal.InvalidRequest
	default:
		err = refusal.InvalidRequest
	}
	if err != nil {
		return refuse(refusal.InvalidRequest, "that is no target of the scope")
	}
	return nil
}

// endKilled ends what stands under a kill switch.
func (b *Book) endKilled(tx *tx, scope KillScope, target string, now time.Time) error {
	switch scope {
	case KillCall:
		c, err := b.findCall(tx, target)
		if refusal.Of(err) == refusal.UnknownCall {
			return nil // one that never comes to be
		}
		if err != nil || c.tenant != b.tenant {
			return err
		}
		return b.stop(tx, &c, refusal.Killed, true, now)
	case KillLease:
		return b.endLeases(tx, refusal.Killed, true, now, `lease=$1 and tenant=$2`, target, b.tenant)
	case KillArm:
		return b.endArms(tx, refusal.Killed, `arm=$2`, target)
	case KillPrincipal:
		return b.endArms(tx, refusal.Killed, `principal=$2`, target)
	case KillTenant:
		return b.endArms(tx, refusal.Killed, `$2=''`, "")
	}
	return b.endArmsOf(tx, refusal.Killed, `$1=''`, "")
}

// look lists what is in flight and unknown under the switch.
func (k *Kill) look(tx *tx, tenant string) error {
	return tx.Each(`select c.call, c.state from attended_call c join attended_lease l on l.lease=c.lease where c.state in ('dispatched','cancelling','unknown')
		and (c.tenant=$1 or $1='*') and ($2 in ('tenant','all') or $2='call' and c.call=$3 or $2='lease' and c.lease=$3
		or $2='arm' and l.arm=$3 or $2='principal' and c.principal=$3) order by c.call`, []any{tenant, string(k.Scope), k.Ref},
		func(r store.Scanner) error {
			var id, state string
			if err := r.Scan(&id, &state); err != nil {
				return err
			}
			c, err := controlv1.ParseID(id)
			if state == string(CallUnknown) {
				k.Unknown = append(k.Unknown, c)
			} else {
				k.InFlight = append(k.InFlight, c)
			}
			return err
		})
}

// Lift turns a kill switch off. What it ended stays over. One that is lifted
// already is left as it is; one that isn't there is Unknown.
func (b *Book) Lift(ctx context.Context, id controlv1.ID, by ref.Principal) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		var is stand
		var tenant, scope, target string
		known, err := tx.One(`select tenant, scope, ref, state, version from attended_kill where kill=$1 and tenant in ($2,'*')`, []any{id.String(), b.tenant},
			&tenant, &scope, &target, &is.state, &is.version)
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, refuse(refusal.Unknown, "no such kill switch")
		case kills.over(is.state):
			return nil, nil
		}
		e := event{tenant: tenant, principal: by.String(), reason: refusal.Killed, public: []audit.Field{audit.Word("scope", scope), audit.ID("ref", target)}}
		return nil, b.move(tx, &kills, id.String(), killLift, is, e, time.Now())
	})
}

// Kills answers the tenant's kill switches that are on, and those over all, each
// with what is in flight and unknown under it now.
func (b *Book) Kills(ctx context.Context) (all []Kill, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		var tenants []string
		err := tx.Each(`select kill, tenant, scope, ref, by_ref, set_ms from attended_kill where state='on' and tenant in ($1,'*') order by set_ms, kill`, []any{b.tenant},
			func(r store.Scanner) error {
				k := Kill{State: KillOn}
				var id, tenant, scope, by string
				if err := r.Scan(&id, &tenant, &scope, &k.Ref, &by, &k.SetMS); err != nil {
					return err
				}
				p := parser{}
				k.ID, k.Scope = parsed(&p, id, controlv1.ParseID), KillScope(scope)
				if by != "" {
					k.By = parsed(&p, by, ref.Parse[ref.PrincipalKind])
				}
				all, tenants = append(all, k), append(tenants, tenant)
				return p.err
			})
		for i := range all {
			if err == nil {
				err = all[i].look(tx, tenants[i])
			}
		}
		return err
	})
	return all, err
}
