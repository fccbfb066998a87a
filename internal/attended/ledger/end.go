package ledger

import (
	"context"
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Revoke ends an arm by its exact binding: recent_auth_active (then p is zero),
// active or consumed. One that is over already is left as it is; other evidence or
// another page is arm_mismatch. It asks nobody else: revoking never waits for an
// outage, and an arm whose time is over can be revoked too.
func (b *Book) Revoke(ctx context.Context, id ref.Attended, e controlv1.Evidence, p controlv1.Page, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		a, err := b.findArm(tx, id)
		if err != nil {
			return nil, err
		}
		if a.Evidence != e || a.Page != p {
			return nil, refuse(refusal.ArmMismatch, "the arm is another's")
		}
		return nil, b.revokeArm(tx, a, why)
	})
}

// Disconnect ends a channel: it retires the registration and its exact
// predecessor, and then revokes the arm. It may be asked again until it succeeds,
// by another node too.
func (b *Book) Disconnect(ctx context.Context, id ref.Attended, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		a, err := b.findArm(tx, id)
		if err != nil {
			return nil, err
		}
		if now := time.Now(); !arms.over(a.stand.state) && a.until() <= now.UnixMilli() {
			return nil, b.endArm(tx, a, armExpire, refusal.ArmExpired, now)
		}
		return nil, b.revokeArm(tx, a, why)
	})
}

// EndLogin ends every arm of a sign-in: signed out, or by the provider's word.
func (b *Book) EndLogin(ctx context.Context, login ref.Login, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		return nil, b.endArms(tx, why, `login=$2`, login.String())
	})
}

// EndBrowser ends every arm of a browser session.
func (b *Book) EndBrowser(ctx context.Context, browser ref.Browser, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		return nil, b.endArms(tx, why, `browser=$2`, browser.String())
	})
}

// EndPrincipal ends every arm of a person: disabled, or a role was taken.
func (b *Book) EndPrincipal(ctx context.Context, principal ref.Principal, why refusal.Code) error {
	return b.update(ctx, func(tx *tx) (error, error) {
		return nil, b.endArms(tx, why, `principal=$2`, principal.String())
	})
}

// endArms ends the tenant's arms that aren't over and meet a condition over $2….
func (b *Book) endArms(tx *tx, why refusal.Code, where string, args ...any) error {
	return b.endArmsOf(tx, why, `tenant=$1 and `+where, append([]any{b.tenant}, args...)...)
}

func (b *Book) endArmsOf(tx *tx, why refusal.Code, where string, args ...any) error {
	var all []arm
	err := tx.Each(`select `+armColumns+` from attended_arm where state in ('recent_auth_active','active','consumed') and `+where+` order by arm`, args,
		func(r store.Scanner) error {
			a, err := readArm(r)
			all = append(all, a)
			return err
		})
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := b.revokeArm(tx, a, why); err != nil {
			return err
		}
	}
	return nil
}

// revokeArm revokes an arm that isn't over yet.
func (b *Book) revokeArm(tx *tx, a arm, why refusal.Code) error {
	if arms.over(a.stand.state) {
		return nil
	}
	return b.endArm(tx, a, armRevoke, why, time.Now())
}

// endArm ends an arm and everything under it: calls, leases, the registration and
// its document's pointer, and then the arm itself.
func (b *Book) endArm(tx *tx, a arm, v verb, why refusal.Code, now time.Time) error {
	if a.State == ArmConsumed && mutant != armAlone {
		ids, err := tx.Texts(`select registration from attended_registration where arm=$1 and state in ('pending','published') order by registration`, a.Ref.String())
		if err != nil {
			return err
		}
		for _, id := range ids {
			r, err := findRegistration(tx, id)
			if err != nil {
				return err
			}
			if err := b.retire(tx, r, why, now); err != nil {
				return err
			}
		}
	}
	return b.move(tx, &arms, a.Ref.String(), v, a.stand, a.event(why), now)
}
