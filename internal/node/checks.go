package node

import (
	"chaperone/internal/credential"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/run"
	"chaperone/internal/portal/item"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/session"
	"chaperone/internal/store"
)

// Invariants are those of every authority that a server writes with: what `chaperone
// audit verify` holds the database to, beside the log.
var Invariants = []func(*store.Tx) error{
	run.Check, session.Check, credential.Check, oauth.Check, ledger.Check, item.Check,
}

// Checks runs them all.
func Checks(tx *store.Tx) []error {
	var errs []error
	for _, check := range Invariants {
		errs = append(errs, check(tx))
	}
	return errs
}
