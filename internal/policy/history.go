package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// maxBroken bounds what one check tells.
const maxBroken = 100

// checkHistory holds each receipt to what the log tells of it. The log is the one
// that can't be rewritten. A receipt that is over may be gone: retention deletes
// those.
func checkHistory(tx *tx) error {
	told := map[string]string{}
	err := audit.Each(tx, audit.Filter{Kind: "policy."}, func(r audit.Record) error {
		for _, m := range moves {
			if "policy."+string(m.verb) == r.Kind {
				told[r.Subject] = boundOf(r, m.to)
			}
		}
		return nil
	})
	if errors.Is(err, refusal.Tampered) {
		return nil // a leaf that doesn't decode: Verify itself tells of it, by its number
	}
	if err != nil {
		return err
	}
	var broken []error
	differs := func(id, what string) {
		if len(broken) < maxBroken {
			broken = append(broken, fmt.Errorf("policy receipt %.8s…: it isn't what the log tells: %s: %w", id, what, refusal.Tampered))
		}
	}
	err = tx.Each(`select `+receiptColumns+`, tenant from policy_receipt`, nil, func(rows store.Scanner) error {
		r, tenant, err := scanWithTenant(rows)
		if err != nil {
			return err
		}
		switch bound, known := told[r.ID]; {
		case !known:
			differs(r.ID, "how it came to be")
		case bound != r.whole(tenant):
			differs(r.ID, "its state, or what it is bound to")
		}
		delete(told, r.ID)
		return nil
	})
	for id, bound := range told {
		if strings.HasPrefix(bound, string(Allowed)+" ") {
			differs(id, "its row is gone")
		}
	}
	return errors.Join(append(broken, err)...)
}

// scanWithTenant reads a row that has the tenant behind its columns.
func scanWithTenant(rows store.Scanner) (r Receipt, tenant string, err error) {
	r, _, err = scanReceipt(rows, &tenant)
	return r, tenant, err
}

// whole is all of a receipt that the log tells.
func (r Receipt) whole(tenant string) string {
	rules := r.Decision.Rules[:min(len(r.Decision.Rules), maxTold)]
	return strings.Join([]string{string(r.State), tenant, r.bound(), string(r.Decision.Level), r.Decision.PolicyVersion, r.facts,
		fmt.Sprint(r.Expires.UnixMilli()), string(r.Given), strings.Join(rules, " ")}, " ")
}

// boundOf is whole of what one record tells.
func boundOf(record audit.Record, to State) string {
	text := func(name string) string { s, _ := record.Public[name].(string); return s }
	expires, _ := record.Public["expires_ms"].(int64)
	r := Receipt{
		ID: record.Subject, Principal: record.Actor, Agent: text("agent"), RequestDigest: text("request"), Action: Action(text("action")),
		Kind: text("kind"), Resource: text("resource"), State: to, Given: Level(text("given")), Expires: time.UnixMilli(expires), facts: text("facts"),
		Decision: Decision{Level: Level(text("level")), PolicyVersion: text("policy")},
	}
	for i := range maxTold {
		if rule := text(fmt.Sprintf("rule_%d", i+1)); rule != "" {
			r.Decision.Rules = append(r.Decision.Rules, rule)
		}
	}
	return r.whole(record.Tenant)
}
