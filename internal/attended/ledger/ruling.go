package ledger

import (
	"time"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/identity"
	"chaperone/internal/policy"
	"chaperone/internal/refusal"
)

// Ruling is what decides over an admission: the operator's set, and what it has to
// know beside the request itself.
type Ruling struct {
	Set      *policy.Set
	Who      identity.Principal
	Resource policy.Resource
	Tainted  bool // this lease has read what other people wrote
}

// rule decides over a call, within T1, and writes the receipt under its request's
// digest. What is refused is refused for good under that digest: the receipt is the
// transaction's only trace of it. A read's receipt is used at once, since T1 is its
// claim.
func (b *Book) rule(tx *tx, c *call, r Ruling, arguments controlv1.Value) (refused, err error) {
	if r.Set == nil || r.Resource.Name() != c.Tool.String() {
		return nil, refuse(refusal.PolicyUnavailable, "no policy was asked for exactly this")
	}
	receipt, err := b.opts.Receipts.AdmitIn(tx, r.Set, policy.Ask{RequestDigest: c.RequestDigest.String(), Expires: time.UnixMilli(c.DeadlineMS), Claims: !c.Class.Mutates(),
		Request: policy.Request{Who: r.Who, Action: policy.OfClass(string(c.Class)), Resource: r.Resource, Tainted: r.Tainted, Arguments: arguments.Bytes()}})
	if err != nil {
		if receipt.State != "" || receipt.Decision.Code == refusal.PolicyUnavailable {
			return err, nil // the refusal stands written
		}
		return nil, err
	}
	if c.Policy, err = controlv1.ParseID(receipt.ID); err != nil {
		return nil, err
	}
	if !c.Class.Mutates() {
		return nil, nil
	}
	// A permit that asks for no confirmation of a mutation doesn't spare it one.
	c.Level = controlv1.VisibleClick
	if receipt.Decision.Level == policy.Passkey {
		c.Level = controlv1.Passkey
	}
	c.Confirmation, err = controlv1.ConfirmationDigest(c.Policy, c.RequestDigest)
	return nil, err
}

// used takes a mutation's receipt for its claim, as the call was confirmed.
func (b *Book) used(tx *tx, c call) error {
	return b.opts.Receipts.UseIn(tx, c.Policy.String(), c.RequestDigest.String(), policy.Level(c.Level))
}
