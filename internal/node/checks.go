package node

import (
	"errors"

	attended "chaperone/internal/attended/ledger"
	"chaperone/internal/audit"
	"chaperone/internal/credential"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/run"
	"chaperone/internal/policy"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/store"
)

// Invariants are those of every authority that a server or a command writes with:
// what `chaperone audit verify` holds a database to, beside the log.
func Invariants() []audit.Check {
	var all []audit.Check
	for _, check := range []audit.Check{run.Check, session.Check, credential.Check, oauth.Check, ledger.Check, item.Check, policy.Check, attended.Check} {
		all = append(all, unlessOlder(check))
	}
	return all
}

// unlessOlder passes over what a database of an older version has no tables for.
func unlessOlder(check audit.Check) audit.Check {
	return func(tx *store.Tx) error {
		err := check(tx)
		if errors.Is(err, refusal.OlderDatabase) {
			return nil
		}
		return err
	}
}
