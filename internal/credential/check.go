package credential

import (
	"errors"
	"fmt"
	"slices"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Check walks the invariants in one snapshot; audit verify and every fault test
// run it. Its error names each row that breaks one.
func Check(tx *tx) error {
	return errors.Join(checkStates(tx), checkRules(tx), checkHistory(tx))
}

// rules are statements that answer the keys of rows which break an invariant.
var rules = []struct{ says, query string }{
	{"a person has a passkey", `select p.id from person p left join passkey k on k.person=p.id where k.id is null`},
	{"a passkey belongs to a person", `select k.id from passkey k left join person p on p.id=k.person where p.id is null`},
	{"a recovery code belongs to a person", `select c.code_hash from recovery_code c left join person p on p.id=c.person where p.id is null`},
	{"a person has at most ten unused recovery codes", `select person from recovery_code where state='unused' group by person having count(*) > 10`},
	{"a used code has its time, another none", `select code_hash from recovery_code where (state='used') <> (used_ms>0)`},
	{"a used link has its person", `select secret_hash from enrolment where state='used' and person=''`},
	{"a link is for somebody new, or for somebody there", `select e.secret_hash from enrolment e left join person p on p.id=e.person where e.person<>'' and p.id is null`},
	{"somebody of another provider has no role", `select id from person where ` + foreigners + ` and roles<>''`},
	{"somebody of another provider signs in nowhere here", `select person from recovery_code where person like 'user-%'
		union select person from enrolment where person like 'user-%'
		union select person from idp_request where person like 'user-%'
		union select person from idp_token where person like 'user-%'`},
	{"a link is good for fifteen minutes", `select secret_hash from enrolment where until_ms<>created_ms+900000`},
	{"secrets stand as SHA-256 alone", `select code_hash from recovery_code where length(code_hash)<>64
		union select secret_hash from enrolment where length(secret_hash)<>64
		union select challenge_hash from webauthn_challenge where length(challenge_hash)<>64
		union select token_hash from idp_token where length(token_hash)<>64`},
	{"an answered request has its person and level, a waiting one neither", `select id from idp_request
		where (state='waiting') <> (person='') or (state='waiting') <> (acr='') or (state='waiting') <> (auth_ms=0)`},
	{"a code was handed out for an answered request alone", `select id from idp_request where (state in ('waiting','answered')) <> (code_hash='')`},
	{"a code was handed out once", `select min(id) from idp_request where code_hash<>'' group by code_hash having count(*) > 1`},
	{"a token came of a request whose code was exchanged", `select t.request from idp_token t join idp_request r on r.id=t.request
		where r.state not in ('spent','replayed') or r.person<>t.person`},
	{"a replayed request's tokens are revoked", `select t.request from idp_token t join idp_request r on r.id=t.request
		where r.state='replayed' and t.state='active'`},
	{"a disabled person has no good token", `select t.person from idp_token t join person p on p.id=t.person
		where p.state='disabled' and t.state='active'`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range rules {
		keys, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, key := range keys {
			broken = append(broken, fmt.Errorf("credential %.16s…: not so: %s: %w", key, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}

// checkStates finds words that no move leads to.
func checkStates(tx *tx) error {
	for table, steps := range moves {
		states, err := tx.Texts(`select distinct state from ` + table)
		if err != nil {
			return err
		}
		for _, s := range states {
			if !slices.ContainsFunc(steps, func(m struct{ from, to State }) bool { return m.to == State(s) }) {
				return fmt.Errorf("%s: a row is in a state that doesn't exist: %w", table, refusal.Tampered)
			}
		}
	}
	return nil
}

// checkHistory holds people and passkeys to what the log tells: nobody is there
// who never enrolled, nobody who was disabled is active, and no passkey stands
// that wasn't made.
func checkHistory(tx *tx) error {
	enrolled, state, passkeys := map[string]bool{}, map[string]State{}, map[string]int{}
	err := audit.Each(tx, audit.Filter{Kind: "credential."}, func(r audit.Record) error {
		switch r.Kind {
		case "credential.enrolled":
			enrolled[r.Subject], state[r.Subject] = true, Active
			passkeys[r.Subject]++
		case "credential.disabled":
			state[r.Subject] = Disabled
		case "credential.enabled":
			state[r.Subject] = Active
		case "credential.passkey_added":
			passkeys[r.Subject]++
		case "credential.passkey_removed":
			passkeys[r.Subject]--
		}
		return nil
	})
	if errors.Is(err, refusal.Tampered) {
		err = nil // a leaf that doesn't decode: Verify itself tells of it
	}
	if err != nil {
		return err
	}
	rows, err := tx.Query(`select p.id, p.state, (select count(*) from passkey k where k.person=p.id) from person p`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var broken []error
	for rows.Next() {
		var id string
		var stands State
		var has int
		if err := rows.Scan(&id, &stands, &has); err != nil {
			return err
		}
		if !enrolled[id] || state[id] != stands || passkeys[id] != has {
			broken = append(broken, fmt.Errorf("credential %.16s…: the rows aren't what the log tells: %w", id, refusal.Tampered))
		}
		delete(enrolled, id)
	}
	for id := range enrolled {
		broken = append(broken, fmt.Errorf("credential %.16s…: this person's row is gone: %w", id, refusal.Tampered))
	}
	return errors.Join(append(broken, rows.Err())...)
}
