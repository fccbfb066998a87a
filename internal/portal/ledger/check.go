package ledger

import (
	"errors"
	"fmt"

	"chaperone/internal/refusal"
)

// Check walks the ledger's invariants in one snapshot; audit verify and every
// fault test run it. Its error names each record that breaks one.
func Check(tx *tx) error {
	if there, err := made(tx); err != nil || !there {
		return err
	}
	return errors.Join(checkStates(tx), checkRules(tx), checkHistory(tx))
}

// made tells whether the tables are there: an older database that is used as it
// is may lack them, and then nothing in them can be wrong.
func made(tx *tx) (bool, error) {
	if !tx.Older() {
		return true, nil
	}
	var version int64
	err := tx.QueryRow(`select coalesce(max(version),0) from store_migration`).Scan(&version)
	return version >= migration, err
}

// migration is the number of this package's.
const migration = 6

// rules are statements that answer the ids of records which break an invariant.
var rules = []struct{ says, query string }{
	{"an account has one collection of an id at a time", `select min(place) from portal_collection where state<>'removed'
		group by tenant, actor, collection having count(*) > 1`},
	{"an incarnation is one collection's", `select min(place) from portal_collection group by incarnation having count(*) > 1`},
	{"a collection belongs to an account",
		`select c.place from portal_collection c left join portal_account a on a.tenant=c.tenant and a.actor=c.actor where a.actor is null`},
	{"a collection's kind is one that there is", `select place from portal_collection where kind not in ('inbox','storage','external')`},
	{"only hosted storage is removed", `select place from portal_collection where state='removed' and kind<>'storage'`},
	{"an app's connection has a client and no session, a browser's a session and no client", `select connection from portal_connection
		where not (transport='bearer' and client<>'' and session='' and provenance='oauth-consent'
			or transport='browser' and client='' and session<>'' and provenance='owner-browser')`},
	{"a session has one grant that may still be used", `select min(connection) from portal_connection where session<>'' and state in ('live','disabled')
		group by tenant, session having count(*) > 1`},
	{"a session's grants have a generation each, and one person", `select min(connection) from portal_connection where session<>''
		group by tenant, session having count(*) <> count(distinct generation) or count(distinct actor) > 1`},
	{"a generation is at least 1", `select connection from portal_connection where generation<1`},
	{"only a browser's grant is disabled or ended with its session", `select connection from portal_connection
		where transport='bearer' and state in ('disabled','ended')`},
	{"what is over says when, and what isn't doesn't", `select connection from portal_connection
		where (state in ('ended','revoked','expired')) <> (revoked_ms>0)`},
	{"a selection is a connection's", `select s.connection from portal_selected s left join portal_connection c on c.connection=s.connection where c.connection is null`},
	{"a connection selects something", `select c.connection from portal_connection c left join portal_selected s on s.connection=c.connection
		where c.state='live' and s.connection is null`},
	{"a selection names functions that its kind offers", `select s.connection from portal_selected s join portal_collection p on p.incarnation=s.incarnation
		where s.functions='' or p.kind='external' and (s.functions like '%item_write%' or s.functions like '%item_delete%')
		or p.kind='inbox' and s.functions like '%item_delete%'`},
	{"a selection names its own account's collections", `select s.connection from portal_selected s join portal_connection c on c.connection=s.connection
		join portal_collection p on p.incarnation=s.incarnation where p.tenant<>c.tenant or p.actor<>c.actor or p.collection<>s.collection`},
	{"a receipt that is open binds a grant that is live, in its generation", `select r.receipt from portal_review r
		left join portal_connection c on c.connection=r.connection and c.session=r.session and c.actor=r.actor
		where r.state in ('prepared','confirmed') and (c.connection is null or c.state<>'live' or c.generation<>r.generation)`},
	{"a receipt lives two minutes", `select receipt from portal_review where expires_ms-prepared_ms<>120000`},
	{"a receipt is for a change", `select receipt from portal_review where tool not in ('item_write','item_delete')`},
	{"a request is a change's", `select receipt from portal_request where tool not in ('item_write','item_delete')`},
	{"a request that is begun has no outcome, and one that is settled has", `select receipt from portal_request
		where (state='begun') <> (settled_ms=0) or state='begun' and (outcome<>'' or code<>'' or version_after<>'')`},
	{"what is done has its result, what isn't has its code", `select receipt from portal_request
		where state='done' and (outcome='' or code<>'') or state in ('refused','unknown') and code=''`},
	{"a settled request keeps no metadata", `select receipt from portal_request where state<>'begun' and metadata<>''`},
	{"a change has one condition", `select receipt from portal_request where (if_version='') <> (if_absent=1)`},
	{"a request belongs to a connection or to the owner's page", `select r.receipt from portal_request r
		left join portal_connection c on c.connection=r.connection and c.actor=r.actor and c.tenant=r.tenant
		where (r.connection='owner') <> (r.transport='owner') or r.connection<>'owner' and c.connection is null`},
	{"usage is what is stored and what is on its way", `select a.actor from portal_account a where a.items<0 or a.bytes<0
		or a.items < (select coalesce(sum(r.items),0) from portal_request r where r.tenant=a.tenant and r.actor=a.actor and r.state='begun' and r.items>0)
		or a.bytes < (select coalesce(sum(r.bytes),0) from portal_request r where r.tenant=a.tenant and r.actor=a.actor and r.state='begun' and r.bytes>0)`},
	{"recent calls are a ring", `select actor from portal_call where slot<0 or slot>=200 or slot<>number-(number/200)*200`},
}

func checkRules(tx *tx) error {
	var broken []error
	for _, rule := range rules {
		ids, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, id := range ids {
			broken = append(broken, fmt.Errorf("portal %.8s…: not so: %s: %w", id, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}

// checkStates finds words that no move leads to.
func checkStates(tx *tx) error {
	return errors.Join(
		checkWords(tx, "collection", collections.moves, `select distinct state from portal_collection`),
		checkWords(tx, "connection", connectionMoves, `select distinct state from portal_connection`),
		checkWords(tx, "review", reviews.moves, `select distinct state from portal_review`),
		checkWords(tx, "request", requestMoves, `select distinct state from portal_request`))
}

func checkWords[S ~string](tx *tx, noun string, moves []step[S], query string) error {
	states, err := tx.Texts(query)
	if err != nil {
		return err
	}
	for _, s := range states {
		if !exists(moves, S(s)) {
			return fmt.Errorf("a portal %s is in a state that doesn't exist: %w", noun, refusal.Tampered)
		}
	}
	return nil
}
