package ledger

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/audit"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// ArmState is where an arm stands.
type ArmState string

const (
	// ArmGranted has fresh step-up evidence and waits for the reloaded page.
	ArmGranted ArmState = "recent_auth_active"
	// ArmActive is bound to a page and can open one channel.
	ArmActive ArmState = "active"
	// ArmConsumed opened its channel. It is the authority of all under it.
	ArmConsumed ArmState = "consumed"
	// ArmRevoked is over: signed out, revoked, replaced, killed or disconnected;
	// its reason says which.
	ArmRevoked ArmState = "revoked"
	// ArmLapsed is over by the clock.
	ArmLapsed ArmState = "expired"
)

const (
	armGrant    verb = "granted"
	armFinalize verb = "finalized"
	armConsume  verb = "consumed"
	armRevoke   verb = "revoked"
	armExpire   verb = "expired"
)

// arms are moved by these alone.
var arms = noun{
	name: "arm", table: "attended_arm", key: "arm",
	facts: `arm, tenant, tenant_ref, actor_ref, login, principal, browser, issuer_ref, acr_ref, auth_ms, credential_until_ms, policy_version,
		origin_ref, route_ref, document, generation, catalog_digest, scope_digest, nonce_hash, binding_digest, reason, granted_ms, grant_until_ms, issued_ms, expires_ms`,
	moves: []step{
		{armGrant, "", string(ArmGranted)},
		{armFinalize, string(ArmGranted), string(ArmActive)},
		{armConsume, string(ArmActive), string(ArmConsumed)},
		{armRevoke, string(ArmGranted), string(ArmRevoked)},
		{armRevoke, string(ArmActive), string(ArmRevoked)},
		{armRevoke, string(ArmConsumed), string(ArmRevoked)},
		{armExpire, string(ArmGranted), string(ArmLapsed)},
		{armExpire, string(ArmActive), string(ArmLapsed)},
		{armExpire, string(ArmConsumed), string(ArmLapsed)},
	},
}

// Arm is what a verb answers of one. Page, Binding, IssuedMS and ExpiresMS are
// zero until it is finalized.
type Arm struct {
	Ref          ref.Attended
	State        ArmState
	Reason       refusal.Code
	Evidence     controlv1.Evidence
	Page         controlv1.Page
	Binding      controlv1.Digest
	GrantUntilMS int64
	IssuedMS     int64
	ExpiresMS    int64
}

// arm is a row.
type arm struct {
	Arm
	tenant, nonce string
	stand         stand
}

const armColumns = `arm, tenant, tenant_ref, actor_ref, login, principal, browser, issuer_ref, acr_ref, auth_ms, credential_until_ms, policy_version,
	origin_ref, route_ref, document, generation, catalog_digest, scope_digest, nonce_hash, binding_digest, state, version, reason, grant_until_ms, issued_ms, expires_ms`

// readArm reads a row of armColumns.
func readArm(r store.Scanner) (arm, error) {
	var a arm
	var id, tenant, actor, login, principal, browser, issuer, acr, policy, origin, route, document, catalog, scope, binding, reason string
	var generation int64
	err := r.Scan(&id, &a.tenant, &tenant, &actor, &login, &principal, &browser, &issuer, &acr, &a.Evidence.AuthMS, &a.Evidence.CredentialUntilMS, &policy,
		&origin, &route, &document, &generation, &catalog, &scope, &a.nonce, &binding, &a.stand.state, &a.stand.version, &reason, &a.GrantUntilMS, &a.IssuedMS, &a.ExpiresMS)
	if err != nil {
		return a, err
	}
	p := parser{}
	a.Ref = parsed(&p, id, ref.Parse[ref.AttendedKind])
	a.State, a.Reason = ArmState(a.stand.state), refusal.Code(reason)
	a.Evidence.Tenant, a.Evidence.Actor = parsed(&p, tenant, controlv1.ParseMask), parsed(&p, actor, controlv1.ParseMask)
	a.Evidence.Issuer, a.Evidence.ACR = parsed(&p, issuer, controlv1.ParseMask), parsed(&p, acr, controlv1.ParseMask)
	a.Evidence.Login, a.Evidence.Browser = parsed(&p, login, ref.Parse[ref.LoginKind]), parsed(&p, browser, ref.Parse[ref.BrowserKind])
	a.Evidence.Principal, a.Evidence.PolicyVersion = parsed(&p, principal, ref.Parse[ref.PrincipalKind]), parsed(&p, policy, controlv1.ParseID)
	if binding != "" {
		a.Page = controlv1.Page{Origin: parsed(&p, origin, controlv1.ParseMask), Route: parsed(&p, route, controlv1.ParseMask),
			Document: parsed(&p, document, ref.Parse[ref.DocumentKind]), Generation: parsed(&p, generation, controlv1.NewGeneration),
			Catalog: parsed(&p, catalog, controlv1.ParseDigest), Scope: parsed(&p, scope, controlv1.ParseDigest)}
		a.Binding = parsed(&p, binding, controlv1.ParseDigest)
	}
	return a, p.err
}

// parser reads a row's elements and keeps the first fault.
type parser struct{ err error }

func parsed[F, E any](p *parser, from F, parse func(F) (E, error)) E {
	e, err := parse(from)
	if err != nil && p.err == nil {
		p.err = refuse(refusal.Tampered, "a row of attended control doesn't decode")
	}
	return e
}

// findArm reads one of the tenant's arms; one that isn't there is a Unknown.
func (b *Book) findArm(tx *tx, id ref.Attended) (arm, error) {
	a, err := readArm(tx.QueryRow(`select `+armColumns+` from attended_arm where arm=$1 and tenant=$2`, id.String(), b.tenant))
	if errors.Is(err, sql.ErrNoRows) {
		err = refuse(refusal.NoArm, "no such arm")
	}
	return a, err
}

// event is what is told of an arm.
func (a arm) event(why refusal.Code) event {
	e := event{tenant: a.tenant, principal: a.Evidence.Principal.String(), reason: why}
	if !a.Binding.IsZero() {
		e.public = append(e.public, audit.Digest("binding", a.Binding.String()), audit.Digest("catalog", a.Page.Catalog.String()),
			audit.ID("document", a.Page.Document.String()), audit.Count("generation", a.Page.Generation.Int()), audit.Count("expires_ms", a.ExpiresMS))
	}
	return e
}

// Grant seals fresh step-up evidence as a one-use grant of at most 60 s, which is
// the arm's first state. An older grant of the same browser session is replaced.
func (b *Book) Grant(ctx context.Context, e controlv1.Evidence) (Arm, error) {
	id := ref.Mint[ref.AttendedKind]()
	var out Arm
	err := b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		ms := now.UnixMilli()
		if err := e.Check(); err != nil || e.AuthMS > ms || e.CredentialUntilMS <= ms {
			return nil, refuse(refusal.ArmMismatch, "the evidence isn't of now")
		}
		if err := b.killed(tx, b.tenant, over{principal: e.Principal.String()}); err != nil && mutant != grantKilled {
			return nil, err
		}
		if err := b.endArms(tx, refusal.Replaced, `browser=$2 and state=$3`, e.Browser.String(), string(ArmGranted)); err != nil {
			return nil, err
		}
		until := min(now.Add(GrantTime).UnixMilli(), e.CredentialUntilMS)
		// A crash after this commit leaves a grant that expires within a minute.
		_, err := tx.Exec(`insert into attended_arm (`+armColumns+`, granted_ms, moved_ms)
			values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,'','','',0,'','','','',$13,1,'',$14,0,0,$15,$15)`,
			id.String(), b.tenant, e.Tenant.String(), e.Actor.String(), e.Login.String(), e.Principal.String(), e.Browser.String(), e.Issuer.String(),
			e.ACR.String(), e.AuthMS, e.CredentialUntilMS, e.PolicyVersion.String(), arms.born(armGrant), until, ms)
		if err != nil {
			return nil, err
		}
		a, err := b.findArm(tx, id)
		if err != nil {
			return nil, err
		}
		out = a.Arm
		return nil, b.begun(tx, &arms, id.String(), armGrant, a.event(""))
	})
	return out, err
}

// Finalize binds a grant to the reloaded page: recent_auth_active to active. Other
// arms of the browser session are replaced, so the newest tab wins. It answers the
// one-use nonce that opens the channel; only its hash is kept. Refusals:
// arm_mismatch (other evidence), arm_expired, arm_replayed, revoked, killed.
func (b *Book) Finalize(ctx context.Context, id ref.Attended, e controlv1.Evidence, p controlv1.Page) (out Arm, nonce controlv1.Nonce, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		a, err := b.findArm(tx, id)
		if err != nil {
			return nil, err
		}
		if a.Evidence != e || p.Check() != nil {
			return nil, refuse(refusal.ArmMismatch, "the grant is of other evidence")
		}
		if refused, err := b.usable(tx, a, ArmGranted, over{}, now); refused != nil || err != nil {
			return refused, err
		}
		if mutant != olderTabStays {
			if err := b.endArms(tx, refusal.Replaced, `browser=$2 and arm<>$3`, a.Evidence.Browser.String(), id.String()); err != nil {
				return nil, err
			}
		}
		a.Page, a.IssuedMS = p, now.UnixMilli()
		a.ExpiresMS = min(now.Add(b.opts.ArmTime).UnixMilli(), e.CredentialUntilMS)
		a.Binding, err = controlv1.Binding{Evidence: e, Page: p, Arm: id, IssuedMS: a.IssuedMS, ExpiresMS: a.ExpiresMS}.Digest()
		if err != nil {
			return nil, refuse(refusal.ArmMismatch, "the arm would outlive its authority")
		}
		if nonce, err = controlv1.ParseNonce(random()); err != nil {
			return nil, err
		}
		_, err = tx.Exec(`update attended_arm set origin_ref=$1, route_ref=$2, document=$3, generation=$4, catalog_digest=$5, scope_digest=$6,
			nonce_hash=$7, binding_digest=$8, issued_ms=$9, expires_ms=$10 where arm=$11 and version=$12`,
			p.Origin.String(), p.Route.String(), p.Document.String(), p.Generation.Int(), p.Catalog.String(), p.Scope.String(),
			hash(nonce.String()), a.Binding.String(), a.IssuedMS, a.ExpiresMS, id.String(), a.stand.version)
		if err != nil {
			return nil, err
		}
		// A crash after this commit leaves an active arm whose nonce nobody knows: it
		// opens nothing and expires, or the next finalize replaces it.
		a.State, out = ArmActive, a.Arm
		out.State = ArmActive
		return nil, b.move(tx, &arms, id.String(), armFinalize, a.stand, a.event(""), now)
	})
	if err != nil {
		return Arm{}, controlv1.Nonce{}, err
	}
	return out, nonce, nil
}

// Open consumes an active arm in the transaction that admits channel.open: the
// exact evidence and page, and the nonce of Finalize, once. Refusals are those of
// Finalize; the loser of a race is arm_replayed.
func (b *Book) Open(ctx context.Context, id ref.Attended, e controlv1.Evidence, p controlv1.Page, nonce controlv1.Nonce) (out Arm, err error) {
	err = b.update(ctx, func(tx *tx) (error, error) {
		now := time.Now()
		a, err := b.findArm(tx, id)
		if err != nil {
			return nil, err
		}
		if a.Evidence != e || a.Page != p || subtle.ConstantTimeCompare([]byte(a.nonce), []byte(hash(nonce.String()))) != 1 {
			return nil, refuse(refusal.ArmMismatch, "the arm is another page's")
		}
		if mutant == openTwice && a.State == ArmConsumed {
			return nil, nil
		}
		if refused, err := b.usable(tx, a, ArmActive, over{}, now); refused != nil || err != nil {
			return refused, err
		}
		out = a.Arm
		out.State = ArmConsumed
		return nil, b.move(tx, &arms, id.String(), armConsume, a.stand, a.event(""), now)
	})
	return out, err
}

// usable judges an arm that a verb wants in one state, and the kill switches over it
// and what else o names. What is over by the clock is written as that.
func (b *Book) usable(tx *tx, a arm, want ArmState, o over, now time.Time) (refused, err error) {
	o.principal, o.arm = a.Evidence.Principal.String(), a.Ref.String()
	if err := b.killed(tx, a.tenant, o); err != nil {
		return nil, err
	}
	switch a.State {
	case ArmRevoked:
		return nil, refuse(a.Reason, "the arm is over")
	case ArmLapsed:
		return nil, refuse(refusal.ArmExpired, "the arm is over")
	}
	if a.until() <= now.UnixMilli() && mutant != armWithoutEnd {
		return refuse(refusal.ArmExpired, "the arm's time is over"), b.endArm(tx, a, armExpire, refusal.ArmExpired, now)
	}
	if a.State != want {
		return nil, refuse(refusal.ArmReplayed, "the arm was used before")
	}
	return nil, nil
}

// until answers when the arm is over by the clock: nothing outlives its authority.
func (a Arm) until() int64 {
	if a.State == ArmGranted {
		return min(a.GrantUntilMS, a.Evidence.CredentialUntilMS)
	}
	return min(a.ExpiresMS, a.Evidence.CredentialUntilMS)
}

// Standing tells whether a consumed arm still is authority, without writing: for
// every frame and look-up. Refusals: no_arm, arm_expired, killed, or why it ended.
func (b *Book) Standing(ctx context.Context, id ref.Attended) (out Arm, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		var kills int64
		a, err := readArm(beside{tx.QueryRow(`select `+armColumns+`, (select count(*) from attended_kill k where `+killsArm+`) from attended_arm where arm=$1 and tenant=$2`,
			id.String(), b.tenant), &kills})
		if errors.Is(err, sql.ErrNoRows) {
			err = refuse(refusal.NoArm, "no such arm")
		}
		if err != nil {
			return err
		}
		out = a.Arm
		switch {
		case a.State == ArmRevoked:
			return refuse(a.Reason, "the arm is over")
		case a.State == ArmLapsed || a.until() <= time.Now().UnixMilli():
			return refuse(refusal.ArmExpired, "the arm's time is over")
		case kills > 0:
			return refuse(refusal.Killed, "a kill switch is on")
		}
		return nil
	})
	return out, err
}

// killsArm are the kill switches over the row of an arm.
const killsArm = `k.state='on' and (k.tenant=attended_arm.tenant or k.tenant='*') and (k.scope in ('all','tenant')
	or k.scope='principal' and k.ref=attended_arm.principal or k.scope='arm' and k.ref=attended_arm.arm)`

// beside is a row with one column more than its reader knows.
type beside struct {
	row  store.Scanner
	last any
}

func (b beside) Scan(into ...any) error { return b.row.Scan(append(into, b.last)...) }

// Find answers an arm as it stands.
func (b *Book) Find(ctx context.Context, id ref.Attended) (out Arm, err error) {
	err = b.db.Look(ctx, func(tx *tx) error {
		a, err := b.findArm(tx, id)
		out = a.Arm
		return err
	})
	return out, err
}
