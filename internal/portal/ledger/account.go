package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Usage is what an account's hosted storage holds, with what is on its way, and
// how much it may hold.
type Usage struct {
	Items, MaxItems int64
	Bytes, MaxBytes int64
}

// EnsureAccount makes sure that the person has an account: a fresh one has the
// collections inbox and files, and any has one for each configured external
// source. Any number of callers may come at once.
func (b *Book) EnsureAccount(ctx context.Context, actor string) error {
	missing := true
	err := b.db.View(ctx, func(tx *tx) (err error) {
		var have []string
		missing, have, err = b.lacks(tx, actor)
		missing = missing || len(have) > 0
		return err
	})
	if err != nil || !missing {
		return err
	}
	return b.db.Update(ctx, func(tx *tx) error { return b.open(tx, actor) })
}

// lacks tells whether the account isn't there, and which external sources it has
// no collection of.
func (b *Book) lacks(tx *tx, actor string) (fresh bool, external []string, err error) {
	var n int64
	known, err := tx.One(`select calls from portal_account where tenant=$1 and actor=$2`, []any{b.tenant, actor}, &n)
	if err != nil {
		return false, nil, err
	}
	for _, e := range b.opts.External {
		c, err := b.current(tx, actor, e.Collection)
		if err != nil {
			return false, nil, err
		}
		if c.Collection == "" {
			external = append(external, e.Collection)
		}
	}
	return !known, external, nil
}

// open makes what lacks tells, inside whatever verb needs the account first.
func (b *Book) open(tx *tx, actor string) error {
	if actor == "" {
		return fmt.Errorf("an account is somebody's: %w", refusal.BadDocument)
	}
	fresh, external, err := b.lacks(tx, actor)
	if err != nil {
		return err
	}
	now := time.Now()
	if fresh {
		rows, err := tx.Exec(`insert into portal_account (tenant, actor, calls, changes, items, bytes, opened_ms)
			values ($1,$2,0,0,0,0,$3) on conflict do nothing`, b.tenant, actor, now.UnixMilli())
		if err != nil {
			return err
		}
		if rows != 1 {
			return fmt.Errorf("account was opened meanwhile: %w", refusal.Conflict)
		}
		if err := b.tell(tx, event{kind: "account_opened", actor: actor, subject: audit.Name(actor)}); err != nil {
			return err
		}
		for _, c := range []Collection{{Collection: "inbox", Title: "Inbox", Kind: Inbox}, {Collection: "files", Title: "Files", Kind: Storage}} {
			c.Source = string(c.Kind)
			if err := b.create(tx, actor, c, now); err != nil {
				return err
			}
		}
	}
	for _, e := range b.opts.External {
		for _, missing := range external {
			if missing != e.Collection {
				continue
			}
			if err := b.create(tx, actor, Collection{Collection: e.Collection, Title: e.Title, Kind: Outside, Source: cmp.Or(e.Source, string(Outside))}, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// Usage answers what the account's hosted storage holds; of a person who has no
// account yet, nothing.
func (b *Book) Usage(ctx context.Context, actor string) (Usage, error) {
	u := Usage{MaxItems: b.opts.Items, MaxBytes: b.opts.Bytes}
	err := b.db.View(ctx, func(tx *tx) error {
		_, err := tx.One(`select items, bytes from portal_account where tenant=$1 and actor=$2`, []any{b.tenant, actor}, &u.Items, &u.Bytes)
		return err
	})
	return u, err
}

// reserve counts what a change adds before it is made; over a limit it is
// quota_exceeded, with the limit and what is used. What a change frees is counted
// only once it is done.
func (b *Book) reserve(tx *tx, actor string, items, bytes int64) error {
	var u Usage
	known, err := tx.One(`select items, bytes from portal_account where tenant=$1 and actor=$2`, []any{b.tenant, actor}, &u.Items, &u.Bytes)
	switch items, bytes = max(items, 0), max(bytes, 0); {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("no account: %w", tool.UnknownCollection)
	case items > 0 && u.Items+items > b.opts.Items:
		return tool.Fail(tool.QuotaExceeded, "what", "items", "limit", b.opts.Items, "used", u.Items)
	case bytes > 0 && u.Bytes+bytes > b.opts.Bytes:
		return tool.Fail(tool.QuotaExceeded, "what", "bytes", "limit", b.opts.Bytes, "used", u.Bytes)
	}
	return b.count(tx, actor, items, bytes)
}

// count changes the account's usage, which can't fall below nothing.
func (b *Book) count(tx *tx, actor string, items, bytes int64) error {
	_, err := tx.Exec(`update portal_account set changes=changes+1,
		items=case when items+$3<0 then 0 else items+$3 end, bytes=case when bytes+$4<0 then 0 else bytes+$4 end
		where tenant=$1 and actor=$2`, b.tenant, actor, items, bytes)
	return err
}

// Stamp answers the number of changes to the account's usage so far, for Recount,
// and the people whose usage isn't sure since a change of theirs stayed unknown.
func (b *Book) Stamp(ctx context.Context, actor string) (changes int64, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		_, err := tx.One(`select changes from portal_account where tenant=$1 and actor=$2`, []any{b.tenant, actor}, &changes)
		return err
	})
	return changes, err
}

// Unsure answers the people whose usage counts a change that stayed unknown.
func (b *Book) Unsure(ctx context.Context) (actors []string, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		actors, err = tx.Texts(`select distinct actor from portal_request where tenant=$1 and state=$2 and (items<>0 or bytes<>0)`, b.tenant, string(Unknown))
		return err
	})
	return actors, err
}

// Recount sets the account's usage to what was counted at its source. Where it
// changed since stamp, or a change is on its way, it is [refusal.Conflict]: what
// was counted is old.
func (b *Book) Recount(ctx context.Context, actor string, stamp, items, bytes int64) error {
	return b.db.Update(ctx, func(tx *tx) error {
		var begun int64
		if err := tx.QueryRow(`select count(*) from portal_request where tenant=$1 and actor=$2 and state=$3`,
			b.tenant, actor, string(Begun)).Scan(&begun); err != nil {
			return err
		}
		if begun > 0 {
			return fmt.Errorf("a change is on its way: %w", refusal.Conflict)
		}
		rows, err := tx.Exec(`update portal_account set items=$1, bytes=$2, changes=changes+1 where tenant=$3 and actor=$4 and changes=$5`,
			items, bytes, b.tenant, actor, stamp)
		if err != nil {
			return err
		}
		if rows == 0 {
			return fmt.Errorf("usage changed meanwhile: %w", refusal.Conflict)
		}
		if _, err := tx.Exec(`update portal_request set items=0, bytes=0 where tenant=$1 and actor=$2 and state=$3`,
			b.tenant, actor, string(Unknown)); err != nil {
			return err
		}
		return b.tell(tx, event{kind: "recounted", actor: actor, subject: audit.Name(actor),
			public: []audit.Field{audit.Count("items", items), audit.Count("bytes", bytes)}})
	})
}

// Places answers the account's collections of hosted storage, those that are
// removed and not emptied too: what Recount counts.
func (b *Book) Places(ctx context.Context, actor string) (all []Collection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		return tx.Each(`select `+collectionColumns+` from portal_collection where tenant=$1 and actor=$2 and kind=$3 order by place`,
			[]any{b.tenant, actor, string(Storage)}, func(r store.Scanner) error {
				var c Collection
				if err := c.scan(r); err != nil {
					return err
				}
				all = append(all, c)
				return nil
			})
	})
	return all, err
}
