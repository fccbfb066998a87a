package policy

import (
	"errors"
	"fmt"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// migration is the number of this package's.
const migration = 9

// Check walks the receipts' invariants in one snapshot; audit verify and every
// fault test run it. Its error names each receipt that breaks one.
func Check(tx *tx) error {
	if tx.Older() {
		var version int64
		err := tx.QueryRow(`select coalesce(max(version),0) from store_migration`).Scan(&version)
		if err != nil || version < migration {
			return err // an older database that is used as it is has no receipts
		}
	}
	return errors.Join(checkStates(tx), checkRules(tx), checkHistory(tx))
}

// invariants are statements that answer the ids of receipts which break one.
var invariants = []struct{ says, query string }{
	{"what is denied says why, and nothing else does", `select receipt from policy_receipt where (state='denied') <> (code='policy_denied') or code not in ('','policy_denied')`},
	{"what is denied asks for no confirmation", `select receipt from policy_receipt where state='denied' and level<>'none'`},
	{"a read is never confirmed", `select receipt from policy_receipt where action='observe' and level<>'none'`},
	{"a mutation is never without confirmation", `select receipt from policy_receipt where state<>'denied' and level='none'
		and action in ('local-ui-mutation','account-mutation')`},
	{"what is used was confirmed no weaker than it asks", `select receipt from policy_receipt where state='used' and
		(given not in ('none','visible_click','passkey') or level='passkey' and given<>'passkey' or level='visible_click' and given='none')`},
	{"what isn't used was confirmed by nobody", `select receipt from policy_receipt where state<>'used' and given<>''`},
	{"what is allowed has a rule that allows it", `select receipt from policy_receipt where state<>'denied' and rules=''`},
	{"a decision has its policies and its request", `select receipt from policy_receipt where policy_version not like 'sha256:%' or request_digest not like 'sha256:%' or facts=''`},
	{"a decision lasts at most 15 minutes", `select receipt from policy_receipt where expires_ms<=decided_ms-1 or expires_ms-decided_ms>900000`},
	{"what was used was used in time", `select receipt from policy_receipt where state='used' and moved_ms>=expires_ms`},
	{"a launch is of an engagement, all else of a tool", `select receipt from policy_receipt where (action='launch') <> (kind='Engagement')`},
	{"a request is decided once", `select min(receipt) from policy_receipt group by tenant, principal, agent, request_digest having count(*) > 1`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range invariants {
		err := tx.Each(rule.query, nil, func(rows store.Scanner) error {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			broken = append(broken, fmt.Errorf("policy receipt %.8s…: not so: %s: %w", id, rule.says, refusal.Tampered))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(broken...)
}

// checkStates finds words that don't exist.
func checkStates(tx *tx) error {
	return tx.Each(`select distinct state, action, kind, level from policy_receipt`, nil, func(rows store.Scanner) error {
		var state State
		var action Action
		var kind string
		var level Level
		if err := rows.Scan(&state, &action, &kind, &level); err != nil {
			return err
		}
		known := kind == kindTool || kind == kindPageTool || kind == kindEngagement
		if !exists(state) || action.levels() == nil || !level.AtLeast(None) || !known {
			return fmt.Errorf("a policy receipt has a state, action, level or kind that doesn't exist: %w", refusal.Tampered)
		}
		return nil
	})
}
