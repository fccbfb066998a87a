package live

import (
	"context"
	"errors"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/ledger"
	"chaperone/internal/ref"
	"chaperone/internal/refusal"
)

// Grant seals fresh step-up evidence, at the callback of an arming step-up: it is
// the arm's first state, for a minute at most.
func (a *Authority) Grant(ctx context.Context, t Trust) (ledger.Arm, error) {
	evidence, err := a.evidence(t.Person)
	if err != nil {
		return ledger.Arm{}, err
	}
	return a.Book.Grant(ctx, evidence)
}

// Finalize revalidates, and binds a grant to the reloaded page. The nonce is told
// once: it opens the page's one channel. Refusals: those of ledger.Book.Finalize,
// and revalidation_failed.
func (a *Authority) Finalize(ctx context.Context, t Trust, arm ref.Attended, p controlv1.Place) (ledger.Arm, controlv1.Nonce, error) {
	evidence, page, err := a.private(t.Person, p)
	if err != nil {
		return ledger.Arm{}, controlv1.Nonce{}, err
	}
	if err := newRevalidator(t.Revalidate).check(ctx); err != nil {
		return ledger.Arm{}, controlv1.Nonce{}, err
	}
	return a.Book.Finalize(ctx, arm, evidence, page)
}

// Revoke ends an arm by its exact binding; of a grant p is zero. It asks nobody, so
// it works while the provider is away and after the arm's time.
func (a *Authority) Revoke(ctx context.Context, who controlv1.Person, arm ref.Attended, p controlv1.Place, why refusal.Code) error {
	evidence, err := who.Private(a.Key) // also of an arm from before the policy changed
	if err != nil || who.Tenant != a.Tenant {
		return errors.Join(refusal.ArmMismatch, err)
	}
	var page controlv1.Page
	if p != (controlv1.Place{}) {
		if page, err = p.Private(a.Key); err != nil {
			return err
		}
	}
	return a.Book.Revoke(ctx, arm, evidence, page, why)
}

// evidence is who armed, in private form. Another policy than the one that decides
// now is another channel's.
func (a *Authority) evidence(who controlv1.Person) (controlv1.Evidence, error) {
	if who.Tenant != a.Tenant || who.PolicyVersion != a.terms {
		return controlv1.Evidence{}, refusal.ArmMismatch
	}
	return who.Private(a.Key)
}

func (a *Authority) private(who controlv1.Person, p controlv1.Place) (controlv1.Evidence, controlv1.Page, error) {
	evidence, err := a.evidence(who)
	if err != nil {
		return evidence, controlv1.Page{}, err
	}
	page, err := p.Private(a.Key)
	return evidence, page, err
}

// infra tells an error that decides nothing: the database didn't answer, or not in
// a way that can be read.
func infra(err error) bool {
	switch refusal.Of(err) {
	case "", refusal.DatabaseBusy, refusal.OlderDatabase, refusal.NewerDatabase, refusal.Tampered:
		return err != nil
	}
	return false
}
