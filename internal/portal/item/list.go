package item

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

const columns = `item, version, size, media_type, metadata, digest, mark, modified_ms`

// Find answers the item; found tells whether it is there.
func (b *Book) Find(ctx context.Context, p Place, item string) (found Item, there bool, err error) {
	err = b.db.View(ctx, func(tx *store.Tx) (err error) {
		found, there, err = b.row(tx, p, item)
		return err
	})
	return found, there, unavailable(err)
}

func (b *Book) row(tx *store.Tx, p Place, item string) (Item, bool, error) {
	i, err := scan(tx.QueryRow(`select `+columns+` from item where tenant=$1 and account=$2 and collection=$3 and incarnation=$4 and item=$5`,
		b.tenant, p.Account, p.Collection, p.Incarnation, item))
	if errors.Is(err, sql.ErrNoRows) {
		return Item{}, false, nil
	}
	return i, err == nil, err
}

func scan(row store.Scanner) (Item, error) {
	var i Item
	var metadata string
	var at int64
	if err := row.Scan(&i.Item, &i.Version, &i.Size, &i.MediaType, &metadata, &i.Digest, &i.Mark, &at); err != nil {
		return Item{}, err
	}
	i.Modified = time.UnixMilli(at).UTC()
	if err := json.Unmarshal([]byte(metadata), &i.Metadata, integers); err != nil {
		return Item{}, refusal.Tampered
	}
	return i, nil
}

// integers reads numbers as int64: metadata has no others.
var integers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	var n int64
	if err := json.UnmarshalDecode(dec, &n); err != nil {
		return err
	}
	*v = n
	return nil
}))

// top is the last code point: no item holds it, so every item that begins with
// a prefix sorts before the prefix and top.
const top = "\U0010FFFF"

// Page answers at most n items after that name, in the order of their bytes, whose
// names begin with prefix.
func (b *Book) Page(ctx context.Context, p Place, after, prefix string, n int) ([]Item, error) {
	var all []Item
	err := b.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(`select `+columns+` from item where tenant=$1 and account=$2 and collection=$3 and incarnation=$4
			and item>$5 and item>=$6 and item<$7 order by item limit $8`,
			b.tenant, p.Account, p.Collection, p.Incarnation, after, prefix, prefix+top, n)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			i, err := scan(rows)
			if err != nil {
				return err
			}
			all = append(all, i)
		}
		return rows.Err()
	})
	return all, unavailable(err)
}

// Count answers how many items the place has.
func (b *Book) Count(ctx context.Context, p Place) (n int, err error) {
	err = b.db.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`select count(*) from item where tenant=$1 and account=$2 and collection=$3 and incarnation=$4`,
			b.tenant, p.Account, p.Collection, p.Incarnation).Scan(&n)
	})
	return n, unavailable(err)
}

// Usage is what an account holds of what it may.
type Usage struct{ Items, MaxItems, Bytes, MaxBytes int64 }

// Usage answers what the account holds in all its places.
func (b *Book) Usage(ctx context.Context, account string) (Usage, error) {
	u := Usage{MaxItems: b.opts.MaxItems, MaxBytes: b.opts.MaxBytes}
	err := b.db.View(ctx, func(tx *store.Tx) (err error) {
		u.Items, u.Bytes, err = b.usage(tx, account)
		return err
	})
	return u, unavailable(err)
}

func (b *Book) usage(tx *store.Tx, account string) (items, bytes int64, err error) {
	err = tx.QueryRow(`select items, bytes from item_usage where tenant=$1 and account=$2`, b.tenant, account).Scan(&items, &bytes)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return items, bytes, err
}
