package run

import (
	"errors"
	"fmt"
	"slices"

	"chaperone/internal/refusal"
)

// Check walks the ledger's invariants in one snapshot; audit verify and every
// fault test run it. Its error names each run that breaks one.
func Check(tx *tx) error {
	return errors.Join(checkStates(tx), checkActions(tx), checkRules(tx), checkHistory(tx))
}

// rules are statements that answer the epochs of runs which break an invariant.
var rules = []struct{ says, query string }{
	{"a living process holds one run id once", `select min(epoch) from owned_run where state in ('registered','open')
		group by tenant, run_id having count(*) > 1`},
	{"a run that waits for its handshake has a bootstrap and no session, and nothing began in it",
		`select epoch from owned_run where state in ('registered','burned','expired')
		and (bootstrap_hash='' or session_hash<>'' or sequence<>0)`},
	{"an open run came by one way: a spent bootstrap and a session, or neither",
		`select epoch from owned_run where state='open' and (bootstrap_hash='') <> (session_hash='')`},
	{"a run that is over has its reason", `select epoch from owned_run
		where state in ('burned','expired','ended','lost') and reason=''`},
	{"nothing runs in a run that is over", `select r.epoch from owned_run r join owned_action a on a.epoch=r.epoch
		where r.state<>'open' and a.outcome='running'`},
	{"at most one action runs at a time, but for what settles a dialog", `select epoch from owned_action
		where outcome='running' and action not in ('dialogs','answer_dialog') group by epoch having count(*) > 1`},
	{"a run's sequence is that of the last action that began", `select r.epoch from owned_run r
		where r.sequence < (select coalesce(max(a.sequence),0) from owned_action a
			where a.epoch=r.epoch and a.outcome not in ('tombstone','not_sent'))`},
	{"an action or decision belongs to a run", `select a.epoch from owned_action a left join owned_run r on r.epoch=a.epoch where r.epoch is null
		union select d.epoch from owned_decision d left join owned_run r on r.epoch=d.epoch where r.epoch is null`},
	{"a decision was made at least once", `select epoch from owned_decision where seen < 1`},
	{"at most 1,000 distinct decisions are told", `select epoch from owned_decision group by epoch having max(ordinal) > 1000`},
	{"what was told as unknown is in a run that was lost or ended", `select r.epoch from owned_run r join owned_action a on a.epoch=r.epoch
		where a.outcome='unknown' and r.state not in ('lost','ended')`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range rules {
		epochs, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, epoch := range epochs {
			broken = append(broken, fmt.Errorf("owned run %.8s…: not so: %s: %w", epoch, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}

// checkStates finds words that no move leads to.
func checkStates(tx *tx) error {
	states, err := tx.Texts(`select distinct state from owned_run`)
	if err != nil {
		return err
	}
	for _, s := range states {
		if !slices.ContainsFunc(moves, func(m step) bool { return m.to == State(s) }) {
			return fmt.Errorf("an owned run is in a state that doesn't exist: %w", refusal.Tampered)
		}
	}
	return nil
}

// checkActions finds outcomes that don't exist.
func checkActions(tx *tx) error {
	outcomes, err := tx.Texts(`select distinct outcome from owned_action`)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		switch Outcome(o) {
		case Running, Done, Failed, NotSent, Unconfirmed, Unknown, Tombstone:
		default:
			return fmt.Errorf("an owned run's action has an outcome that doesn't exist: %w", refusal.Tampered)
		}
	}
	return nil
}
