package session

import (
	"errors"
	"fmt"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// Check walks the invariants in one snapshot; audit verify and every fault test
// run it. Its error names each session that breaks one.
func Check(tx *tx) error {
	return errors.Join(checkRules(tx), checkHistory(tx))
}

// rules are statements that answer the handles of rows which break an invariant.
var rules = []struct{ says, query string }{
	{"a session is active or ended", `select id from session where state not in ('active','ended')`},
	{"an ended session has its reason and its time, an active one neither", `select id from session
		where (state='ended') <> (reason<>'') or (state='ended') <> (ended_ms>0)`},
	{"an ended session holds nothing sealed", `select id from session where state='ended' and sealed<>''`},
	{"secrets stand as SHA-256 alone", `select id from session where length(cookie_hash)<>64 or length(key_hash)<>64 or cookie_hash=key_hash`},
	{"no session outlives twelve hours", `select id from session where end_ms>created_ms+43200000`},
	{"a session is used between its beginning and its end", `select id from session where used_ms<created_ms or used_ms>end_ms`},
	{"nobody proved themselves after we were told of it", `select id from session where auth_ms>used_ms`},
	{"a session has been begun once", `select id from session where generation<1`},
	{"a flow waits, was claimed or was replayed", `select substr(state_hash,1,8) from session_flow where stands not in ('waiting','claimed','replayed')`},
	{"a step-up is for a session and a sign-in for none", `select substr(state_hash,1,8) from session_flow
		where purpose not in ('sign-in','step-up','arm') or (purpose<>'sign-in') <> (session<>'')`},
	{"a logout names somebody", `select substr(jti_hash,1,8) from session_logout where subject='' and sid=''`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range rules {
		ids, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, id := range ids {
			broken = append(broken, fmt.Errorf("session %.8s…: not so: %s: %w", id, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}

// told is what the log tells of one session.
type told struct {
	actor      string
	generation int64
	ended      refusal.Code
}

// checkHistory holds the rows to what the log tells: each was begun by the
// person it names, none has come back to life, and none was stepped up unseen.
// A row that is gone was swept.
func checkHistory(tx *tx) error {
	log := map[string]told{}
	err := audit.Each(tx, audit.Filter{Kind: "session."}, func(r audit.Record) error {
		t := log[r.Subject]
		switch r.Kind {
		case "session." + string(verbBegin), "session." + string(verbStepUp):
			n, _ := r.Public["generation"].(int64)
			t.actor, t.generation = r.Actor, max(t.generation, n)
		case "session." + string(verbEnd):
			t.ended = r.Code
		default:
			return nil
		}
		log[r.Subject] = t
		return nil
	})
	if errors.Is(err, refusal.Tampered) {
		err = nil // a leaf that doesn't decode: Verify itself tells of it
	}
	if err != nil {
		return err
	}
	return compare(tx, log)
}

func compare(tx *tx, log map[string]told) error {
	rows, err := tx.Query(`select id, actor, generation, reason from session`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var broken []error
	for rows.Next() {
		var id string
		var t told
		if err := rows.Scan(&id, &t.actor, &t.generation, &t.ended); err != nil {
			return err
		}
		if t != log[id] {
			broken = append(broken, fmt.Errorf("session %.8s…: its row isn't what the log tells: %w", id, refusal.Tampered))
		}
	}
	return errors.Join(append(broken, rows.Err())...)
}
