package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Kind is what a collection is made of: the source of collections_list.
type Kind string

const (
	// Inbox is a mailbox: its items are read and marked, and come from outside.
	Inbox Kind = "inbox"
	// Storage is hosted: its items are the account's own and count in its usage.
	Storage Kind = "storage"
	// Outside is somebody else's provider, and only read.
	Outside Kind = "external"
)

// offers is what can be done at all in a collection of each kind (section 1).
var offers = map[Kind][]tool.Name{
	Inbox:   {tool.ListItems, tool.ReadItem, tool.WriteItem},
	Storage: {tool.ListItems, tool.ReadItem, tool.WriteItem, tool.DeleteItem},
	Outside: {tool.ListItems, tool.ReadItem},
}

// Offers answers the functions of a collection of that kind.
func (k Kind) Offers() []tool.Name { return slices.Clone(offers[k]) }

// CollectionState is where a collection stands.
type CollectionState string

const (
	// Connected can be used.
	Connected CollectionState = "connected"
	// Disconnected is listed and answers source_disconnected; no selection that
	// names it survives its being connected again.
	Disconnected CollectionState = "disconnected"
	// Removed is in no list any more; its hosted items are being deleted, and
	// then its row goes.
	Removed CollectionState = "removed"
)

const (
	collectionCreated      verb = "collection_created"
	collectionDisconnected verb = "collection_disconnected"
	collectionReconnected  verb = "collection_reconnected"
	collectionRemoved      verb = "collection_removed"
)

// collections is the machine of a collection; its key is the place.
var collections = machine[CollectionState]{
	update: `update portal_collection set state=$1, moved_ms=$2 where place=$3 and state=$4`,
	read:   `select state from portal_collection where place=$1`,
	moves: []step[CollectionState]{
		{collectionCreated, "", Connected},
		{collectionDisconnected, Connected, Disconnected},
		{collectionReconnected, Disconnected, Connected},
		{collectionRemoved, Connected, Removed},
		{collectionRemoved, Disconnected, Removed},
	},
}

// Collection is one collection of an account.
type Collection struct {
	Collection  string // ^[a-z0-9][a-z0-9_-]{0,63}$, one at a time in an account
	Title       string
	Kind        Kind
	Source      string // name of its source among the operation's
	Place       string // 32 hex; what its source keeps its items by
	Incarnation string // 32 hex; what selections name
	State       CollectionState
	Actor       string
	Created     time.Time
}

const collectionColumns = `collection, title, kind, source, place, incarnation, state, actor, created_ms`

func (c *Collection) scan(row store.Scanner) error {
	var created int64
	err := row.Scan(&c.Collection, &c.Title, &c.Kind, &c.Source, &c.Place, &c.Incarnation, &c.State, &c.Actor, &created)
	c.Created = at(created)
	return err
}

// current answers the account's collection of that id; its zero value is none.
func (b *Book) current(tx *tx, actor, id string) (c Collection, err error) {
	err = tx.Each(`select `+collectionColumns+` from portal_collection where tenant=$1 and actor=$2 and collection=$3 and state<>$4`,
		[]any{b.tenant, actor, id, string(Removed)}, func(r store.Scanner) error { return c.scan(r) })
	return c, err
}

// all answers the account's collections by id.
func (b *Book) all(tx *tx, actor string) (out []Collection, err error) {
	err = tx.Each(`select `+collectionColumns+` from portal_collection where tenant=$1 and actor=$2 and state<>$3 order by collection`,
		[]any{b.tenant, actor, string(Removed)}, func(r store.Scanner) error {
			var c Collection
			if err := c.scan(r); err != nil {
				return err
			}
			out = append(out, c)
			return nil
		})
	// The database's own order of text may be another than the cursor's.
	slices.SortFunc(out, func(a, c Collection) int { return strings.Compare(a.Collection, c.Collection) })
	return out, err
}

// create writes a new collection in a place and an incarnation of its own.
func (b *Book) create(tx *tx, actor string, c Collection, now time.Time) error {
	c.Place, c.Incarnation = NewID(), NewID()
	_, err := tx.Exec(`insert into portal_collection (place, tenant, actor, collection, title, kind, source, incarnation, state, created_ms, moved_ms)
		values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$10)`,
		c.Place, b.tenant, actor, c.Collection, c.Title, string(c.Kind), c.Source, c.Incarnation,
		string(born(collections.moves, collectionCreated)), now.UnixMilli())
	if err != nil {
		return err
	}
	return b.tellCollection(tx, actor, collectionCreated, c)
}

func (b *Book) tellCollection(tx *tx, actor string, v verb, c Collection) error {
	return b.tell(tx, event{kind: string(v), actor: actor, subject: c.Place, public: []audit.Field{
		audit.ID("collection", c.Collection), audit.Word("source", c.Kind), audit.ID("incarnation", c.Incarnation)}})
}

// Create makes a collection of hosted storage with that title, 1..100 characters
// of plain text; its id is made from it. An account of MaxCollections is
// quota_exceeded.
func (b *Book) Create(ctx context.Context, actor, title string) (Collection, error) {
	if title == "" || len(title) > 400 || len([]rune(title)) > 100 || !tool.Plain(title) {
		return Collection{}, tool.Fail(tool.InvalidInput, "path", "/title", "rule", "text")
	}
	var c Collection
	err := b.db.Update(ctx, func(tx *tx) error {
		if err := b.open(tx, actor); err != nil {
			return err
		}
		all, err := b.all(tx, actor)
		if err != nil {
			return err
		}
		if len(all) >= MaxCollections {
			return tool.Fail(tool.QuotaExceeded, "what", "collections", "limit", MaxCollections, "used", len(all))
		}
		id := free(slug(title), all)
		if err := b.create(tx, actor, Collection{Collection: id, Title: title, Kind: Storage, Source: string(Storage)}, time.Now()); err != nil {
			return err
		}
		c, err = b.current(tx, actor, id)
		return err
	})
	return c, err
}

// slug makes an id of a title: its letters and digits of ASCII, lower case.
func slug(title string) string {
	out := make([]byte, 0, 48)
	for _, r := range title {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		default:
			r = '-'
		}
		if (r != '-' || len(out) > 0 && out[len(out)-1] != '-') && len(out) < 48 {
			out = append(out, byte(r))
		}
	}
	for len(out) > 0 && out[len(out)-1] == '-' {
		out = out[:len(out)-1]
	}
	if len(out) == 0 {
		return "collection"
	}
	return string(out)
}

// free answers the id, or with the first number that makes it one of nobody's.
func free(id string, all []Collection) string {
	for n, try := 2, id; ; n, try = n+1, fmt.Sprintf("%s-%d", id, n) {
		if !slices.ContainsFunc(all, func(c Collection) bool { return c.Collection == try }) {
			return try
		}
	}
}

// Disconnect makes a collection answer source_disconnected from now on.
func (b *Book) Disconnect(ctx context.Context, actor, id string) error {
	return b.shift(ctx, actor, id, collectionDisconnected)
}

// Reconnect makes a disconnected collection usable again, for its owner alone: it
// gets another incarnation, which no selection names.
func (b *Book) Reconnect(ctx context.Context, actor, id string) error {
	return b.shift(ctx, actor, id, collectionReconnected)
}

// Remove takes a collection out of the account for good; a change that was
// accepted before may still complete. Only hosted storage is removed; the other
// kinds are disconnected.
func (b *Book) Remove(ctx context.Context, actor, id string) error {
	return b.shift(ctx, actor, id, collectionRemoved)
}

func (b *Book) shift(ctx context.Context, actor, id string, v verb) error {
	return b.db.Update(ctx, func(tx *tx) error {
		c, err := b.current(tx, actor, id)
		switch {
		case err != nil:
			return err
		case c.Collection == "":
			return fmt.Errorf("no such collection: %w", tool.UnknownCollection)
		case v == collectionRemoved && c.Kind != Storage:
			return fmt.Errorf("a collection of that kind isn't removed: %w", tool.FunctionUnavailable)
		}
		now := time.Now()
		was, ok, err := collections.move(tx, c.Place, v, now)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("collection is %s already: %w", was, refusal.Conflict)
		}
		if v == collectionReconnected {
			c.Incarnation = NewID()
			if _, err := tx.Exec(`update portal_collection set incarnation=$1 where place=$2`, c.Incarnation, c.Place); err != nil {
				return err
			}
		}
		return b.tellCollection(tx, actor, v, c)
	})
}

// Collections answers the account's collections by id, those that are
// disconnected too. A person's first call opens the account.
func (b *Book) Collections(ctx context.Context, actor string) (all []Collection, err error) {
	if err := b.EnsureAccount(ctx, actor); err != nil {
		return nil, err
	}
	err = b.db.View(ctx, func(tx *tx) error { all, err = b.all(tx, actor); return err })
	return all, err
}

// Leftovers answers removed collections, whose items are to be deleted, up to a
// hundred; one in which a change is on its way waits for it.
func (b *Book) Leftovers(ctx context.Context) (all []Collection, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		all = nil
		return tx.Each(`select `+collectionColumns+` from portal_collection c where tenant=$1 and state=$2
			and not exists (select 1 from portal_request r where r.place=c.place and r.state=$3) order by place limit 100`,
			[]any{b.tenant, string(Removed), string(Begun)}, func(r store.Scanner) error {
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

// Emptied forgets a removed collection that has no item left and whose account was
// recounted since.
func (b *Book) Emptied(ctx context.Context, c Collection) error {
	return b.db.Update(ctx, func(tx *tx) error {
		rows, err := tx.Exec(`delete from portal_collection where place=$1 and state=$2`, c.Place, string(Removed))
		if err != nil || rows == 0 {
			return err // another node was here first
		}
		return b.tellCollection(tx, c.Actor, "collection_emptied", c)
	})
}
