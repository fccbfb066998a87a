package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"chaperone/internal/canon"
	"chaperone/internal/owned/fleet"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// launchTime is how long a decision over a launch may wait for its claim, which
// comes in the same transaction.
const launchTime = time.Minute

// openPolicies reads what decides, the operator's file or the default, and opens
// the book of its decisions.
func (n *Node) openPolicies(context.Context) error {
	key, err := secret(filepath.Join(n.home, "control.key"))
	if err != nil {
		return err
	}
	if n.receipts, err = policy.NewBook(n.db, n.log, Tenant, policy.Options{Secret: key}); err != nil {
		return err
	}
	n.policies = policy.Default()
	if n.config.Policy == "" {
		return nil
	}
	data, err := os.ReadFile(n.config.Policy)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	n.policies, err = policy.Parse(n.config.Policy, data)
	return err
}

// launches answers what judges the opening of an owned browser: the operator's
// policies, where there are any. Without, the engagement's file and the grant that
// names it have said it all.
func (n *Node) launches() func(context.Context, fleet.Opening, string) error {
	if n.config.Policy == "" {
		return nil
	}
	return func(ctx context.Context, o fleet.Opening, scope string) error {
		resource, err := policy.Engagement(o.Engagement)
		if err != nil {
			return err
		}
		text, err := canon.Marshal(map[string]any{"engagement": o.Engagement, "run": o.RunID, "scope": scope})
		if err != nil {
			return err
		}
		r, err := n.receipts.Admit(ctx, n.policies, policy.Ask{RequestDigest: canon.Digest(text), Expires: time.Now().Add(launchTime), Claims: true,
			Request: policy.Request{Who: o.Principal, Action: policy.Launch, Resource: resource}})
		if refusal.Of(err) == refusal.PolicyDenied && r.State == policy.Allowed {
			err = fmt.Errorf("the policies ask for a confirmation, which a launch can't have: %w", refusal.PolicyDenied)
		}
		return err
	}
}
