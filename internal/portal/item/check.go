package item

import (
	"errors"
	"fmt"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// codeOf answers err's code, "" for none.
func codeOf(err error) refusal.Code { return refusal.Of(err) }

// rules are statements that answer what breaks an invariant, by a name that is no
// text of anybody's.
var rules = []struct{ says, query string }{
	{"an item's content has a blob of its size", `select i.digest from item i left join item_blob b on b.digest=i.digest
		where b.digest is null or b.size<>i.size`},
	{"an account's usage is the sum of its items", `select coalesce(u.items,0) || '/' || coalesce(u.bytes,0) from
		(select tenant, account, count(*) as items, sum(size) as bytes from item group by tenant, account) s
		left join item_usage u on u.tenant=s.tenant and u.account=s.account
		where u.items is null or u.items<>s.items or u.bytes<>s.bytes`},
	{"an account without items uses nothing", `select u.items || '/' || u.bytes from item_usage u where (u.items<>0 or u.bytes<>0)
		and not exists (select 1 from item i where i.tenant=u.tenant and i.account=u.account)`},
	{"an item has a version, and no two changes made one", `select version from item group by version having version='' or count(*)>1`},
	{"a change tells what it made", `select mark from item_change where mark='' or
		(outcome in ('created','replaced','metadata_updated') and version='') or
		(outcome in ('replaced','metadata_updated','deleted') and before='') or
		outcome not in ('created','replaced','metadata_updated','deleted','never')`},
	{"an item's version is that of a change that took effect", `select i.mark from item i join item_change c
		on c.tenant=i.tenant and c.account=i.account and c.mark=i.mark where c.version<>i.version or c.item<>i.item`},
}

// Check walks the table's invariants in one snapshot; audit verify and every
// fault test run it.
func Check(tx *store.Tx) error {
	var broken []error
	for _, rule := range rules {
		found, err := tx.Texts(rule.query)
		if err != nil {
			return err
		}
		for _, id := range found {
			broken = append(broken, fmt.Errorf("hosted items (%s): not so: %s: %w", id, rule.says, refusal.Tampered))
		}
	}
	return errors.Join(broken...)
}
