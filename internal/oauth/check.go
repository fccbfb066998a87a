package oauth

import (
	"errors"
	"fmt"
	"slices"

	"chaperone/internal/refusal"
)

// Check walks the invariants in one snapshot; audit verify and every fault test
// run it. Its error names each rule that is broken, and no secret. A database from
// before this package holds nothing of it.
func Check(tx *tx) error {
	err := check(tx)
	if errors.Is(err, refusal.OlderDatabase) {
		return nil
	}
	return err
}

func check(tx *tx) error {
	var broken []error
	for r, query := range states {
		found, err := tx.Texts(query)
		if err != nil {
			return err
		}
		for _, s := range found {
			if !slices.ContainsFunc(moves, func(m step) bool { return m.record == r && m.to == State(s) && m.to != Absent }) {
				broken = append(broken, fmt.Errorf("oauth: a %s is in a state that doesn't exist: %w", r, refusal.Tampered))
			}
		}
	}
	for _, rule := range rules {
		found, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, id := range found {
			broken = append(broken, fmt.Errorf("oauth: family or request %.8s…: not so: %s: %w", id, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(append(broken, checkHistory(tx))...)
}

var states = map[record]string{
	aClient: `select distinct state from oauth_client`, aRequest: `select distinct state from oauth_request`,
	aCode: `select distinct state from oauth_code`, aFamily: `select distinct state from oauth_family`, aToken: `select distinct state from oauth_token`,
}

// rules are statements that answer what breaks an invariant.
var rules = []struct{ says, query string }{
	{"codes and tokens stand as SHA-256", `select family from oauth_token where length(hash)<>64 union select family from oauth_code where length(hash)<>64`},
	{"a code or token belongs to a family", `select t.family from oauth_token t left join oauth_family f on f.id=t.family where f.id is null
		union select c.family from oauth_code c left join oauth_family f on f.id=c.family where f.id is null`},
	{"a code that wasn't used gave nothing", `select c.family from oauth_code c join oauth_token t on t.family=c.family where c.state in ('issued','expired')`},
	{"a replay ends its family", `select c.family from oauth_code c join oauth_family f on f.id=c.family where c.state='replayed' and f.state='live'`},
	{"a family that is over has its reason, and a live one none", `select id from oauth_family where (state='live') <> (reason='')`},
	{"a family has one refresh token at most that isn't spent", `select family from oauth_token where kind='refresh' and state='live' group by family having count(*) > 1`},
	{"only a refresh token is spent", `select family from oauth_token where kind<>'refresh' and state<>'live'`},
	{"no token outlives its family", `select t.family from oauth_token t join oauth_family f on f.id=t.family where t.expires_ms>f.ends_ms`},
	{"an access token lives ten minutes", `select family from oauth_token where kind='access' and expires_ms-issued_ms>600000`},
	{"a code lives one minute", `select family from oauth_code where expires_ms-issued_ms>60000`},
	{"a script's token is its family's only one", `select f.id from oauth_family f join oauth_token t on t.family=f.id
		where (f.kind='script') <> (t.kind='script') group by f.id`},
	{"a connection has one family", `select min(id) from oauth_family group by tenant, connection having count(*) > 1`},
	{"a request that wasn't approved has no code", `select r.id from oauth_request r join oauth_code c on c.request=r.id where r.state<>'approved'`},
	{"an answered request tells who answered", `select id from oauth_request where (state in ('approved','denied')) <> (actor<>'')`},
}
