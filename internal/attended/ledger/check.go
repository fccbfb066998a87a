package ledger

import (
	"errors"
	"fmt"

	"chaperone/internal/refusal"
)

// nouns are the records whose state is one column.
var nouns = []*noun{&arms, &documents, &registrations, &leases, &calls, &kills}

// migration is the number of this package's.
const migration = 8

// Check walks the ledger's invariants in one snapshot; audit verify and every
// fault test run it. Its error names each record that breaks one.
func Check(tx *tx) error {
	if tx.Older() {
		version, err := number(tx, `select coalesce(max(version),0) from store_migration`)
		if err != nil || version < migration {
			return err // the tables aren't there, so nothing in them is wrong
		}
	}
	return errors.Join(checkStates(tx), checkRules(tx), checkHistory(tx))
}

// rules are statements that answer the ids of records which break an invariant.
var rules = []struct{ says, query string }{
	{"an arm is bound from its finalize on", `select arm from attended_arm where state='recent_auth_active' and binding_digest<>''
		or state in ('active','consumed') and (binding_digest='' or nonce_hash='' or document='' or generation<1)`},
	{"a grant lasts a minute at most, and an arm fifteen", `select arm from attended_arm where grant_until_ms>granted_ms+60000
		or binding_digest<>'' and (expires_ms>issued_ms+900000 or expires_ms<=issued_ms or issued_ms<granted_ms)`},
	{"nothing outlives its authority", `select arm from attended_arm where grant_until_ms>credential_until_ms or expires_ms>credential_until_ms or auth_ms>granted_ms`},
	{"what was revoked has its reason", `select arm from attended_arm where (state in ('revoked','expired')) <> (reason<>'')`},
	{"a nonce stands as its SHA-256 alone", `select arm from attended_arm where nonce_hash<>'' and length(nonce_hash)<>64`},
	{"a browser session has one arm", `select min(arm) from attended_arm where state in ('active','consumed') group by tenant, browser having count(*)>1`},
	{"a document points to a registration of its own that isn't over", `select d.document from attended_document d
		left join attended_registration r on r.registration=d.registration and r.document=d.document and r.arm=d.arm and r.tenant=d.tenant and r.principal=d.principal
		where r.registration is null or d.state='pointed' and r.state='retired'`},
	{"a published registration is its document's", `select r.registration from attended_registration r
		left join attended_document d on d.document=r.document and d.registration=r.registration and d.state='pointed' where r.state='published' and d.document is null`},
	{"a document has one published registration", `select min(registration) from attended_registration where state='published' group by document having count(*)>1`},
	{"a registration is its arm's, as it was bound", `select r.registration from attended_registration r left join attended_arm a on a.arm=r.arm and a.tenant=r.tenant
		and a.principal=r.principal and a.binding_digest=r.binding_digest and a.document=r.document and a.generation=r.generation
		and a.catalog_digest=r.catalog_digest and a.scope_digest=r.scope_digest where a.arm is null or r.state<>'retired' and a.state<>'consumed'`},
	{"a registration has the tools that it counts", `select r.registration from attended_registration r
		where r.tools<>(select count(*) from attended_tool t where t.registration=r.registration) or r.tools<1 or r.tools>64`},
	{"an active lease stands on a published registration", `select l.lease from attended_lease l left join attended_registration r on r.registration=l.registration
		and r.tenant=l.tenant and r.principal=l.principal and r.arm=l.arm and r.document=l.document and r.binding_digest=l.binding_digest
		and r.generation=l.generation and r.catalog_digest=l.catalog_digest where r.registration is null or l.state='active' and r.state<>'published'`},
	{"a lease ends with the first of its time, its arm and fifteen minutes", `select l.lease from attended_lease l join attended_arm a on a.arm=l.arm
		where l.expires_ms>l.hard_ms or l.hard_ms>a.expires_ms or l.hard_ms>a.credential_until_ms or l.hard_ms>l.issued_ms+900000 or l.expires_ms<=l.issued_ms`},
	{"a lease that is over has its reason", `select lease from attended_lease where (state='active') <> (reason='')`},
	{"a call is its lease's", `select c.call from attended_call c left join attended_lease l on l.lease=c.lease and l.tenant=c.tenant and l.principal=c.principal
		and l.agent_ref=c.agent_ref and l.document=c.document and l.binding_digest=c.binding_digest
		where l.lease is null or c.deadline_ms>l.expires_ms or c.state in ('pending_confirmation','dispatched') and l.state<>'active'`},
	{"a call is sent at most once, and only from a claim", `select call from attended_call where attempts not in (0,1) or (attempts=1) <> (claim<>'') or (attempts=1) <> (claimed_ms>0)
		or state in ('dispatched','cancelling','succeeded','unknown','unknown_reaped') and attempts<>1 or state in ('pending_confirmation','denied') and attempts<>0`},
	{"a mutation is confirmed and a read isn't", `select call from attended_call where (class='read') <> (confirmation_digest='') or (class='read') <> (level='')
		or class not in ('read','local-ui-mutation','account-mutation') or level not in ('','visible_click','passkey')`},
	{"an effect is what the state allows", `select call from attended_call where effect not in ('none','browser_reported_committed','unknown')
		or state in ('pending_confirmation','denied','cancelled') and effect<>'none' or state='unknown' and effect<>'unknown'
		or class='read' and state<>'unknown' and effect<>'none' or class<>'read' and state='succeeded' and effect<>'browser_reported_committed'
		or class<>'read' and state in ('dispatched','cancelling','unknown_reaped') and effect<>'unknown' or attempts=0 and effect<>'none'`},
	{"what is over says when", `select call from attended_call where (state in ('pending_confirmation','dispatched','cancelling','unknown')) <> (settled_ms=0)`},
	{"what went wrong has its code, and what went well none", `select call from attended_call
		where state in ('failed','denied','cancelled','cancelling','unknown','unknown_reaped') and reason='' or state in ('pending_confirmation','dispatched','succeeded') and reason<>''`},
	{"only what succeeded has a result", `select call from attended_call where result_digest<>'' and state<>'succeeded'`},
	{"a late result comes within 30 s", `select call from attended_call where state='unknown' and (late_until_ms=0 or late_until_ms>moved_ms+30000)`},
	{"a call has one batch of three, in its tenant", `select c.call from attended_call c where 3<>(select count(*) from attended_trace t
		where t.call=c.call and t.tenant=c.tenant and t.run_trace=c.run_trace) or 3<>(select count(distinct t.kind) from attended_trace t where t.call=c.call)`},
	{"a trace is a call's, and tells its outcome", `select t.trace from attended_trace t left join attended_call c on c.call=t.call where c.call is null
		or c.state in ('pending_confirmation','dispatched','cancelling') and (t.outcome<>'pending' or t.ended_ms<>0)
		or c.state not in ('pending_confirmation','dispatched','cancelling') and (t.outcome<>c.state or t.effect<>c.effect or t.code<>c.reason or t.ended_ms=0)`},
	{"nothing is active under a kill switch", `select a.arm from attended_arm a join attended_kill k on k.state='on' and (k.tenant='*' or k.tenant=a.tenant)
		and (k.scope in ('all','tenant') or k.scope='arm' and k.ref=a.arm or k.scope='principal' and k.ref=a.principal) where a.state not in ('revoked','expired')
		union select l.lease from attended_lease l join attended_kill k on k.state='on' and k.tenant=l.tenant and k.scope='lease' and k.ref=l.lease where l.state='active'
		union select c.call from attended_call c join attended_kill k on k.state='on' and k.tenant=c.tenant and k.scope='call' and k.ref=c.call
			where c.state in ('pending_confirmation','dispatched')`},
	{"a kill switch has a scope", `select kill from attended_kill where scope not in ('call','lease','arm','principal','tenant','all')
		or (scope in ('tenant','all')) <> (ref='') or (scope='all') <> (tenant='*')`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range rules {
		ids, err := tx.Texts(rule.query)
		if err != nil {
			return fmt.Errorf("%s: %w", rule.says, err)
		}
		for _, id := range ids {
			broken = append(broken, fmt.Errorf("attended %.20s…: not so: %s: %w", id, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}

// checkStates finds words that no move leads to.
func checkStates(tx *tx) error {
	for _, n := range nouns {
		states, err := tx.Texts(`select distinct state from ` + n.table)
		if err != nil {
			return err
		}
		for _, s := range states {
			if !n.exists(s) {
				return refuse(refusal.Tampered, "an attended "+n.name+" is in a state that doesn't exist")
			}
		}
	}
	return nil
}

// exists tells whether some move leads to a state.
func (n *noun) exists(state string) bool {
	for _, m := range n.moves {
		if m.to == state {
			return true
		}
	}
	return false
}
