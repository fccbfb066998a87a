package operation

import (
	"context"
	"github.com/go-json-experiment/json/jsontext"
	"slices"
	"sync"
	"time"

	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

// countTime is how long collections_list waits for the sources to count: one that
// is slower is listed without a number.
const countTime = 2 * time.Second

func (d *Desk) collections(ctx context.Context, j job, in tool.CollectionsList) result {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return failed(err)
	}
	all, g, err := d.ledger.Visible(ctx, j.who)
	if err != nil {
		return failed(err)
	}
	rest := slices.DeleteFunc(all, func(a ledger.Allowed) bool { return a.Collection.Collection <= after })
	s, err := d.admit(ctx, j.who.Actor)
	if err != nil {
		return failed(err)
	}
	defer s.drop()
	page := rest[:min(in.Limit, len(rest))]
	out := tool.CollectionsResult{Collections: d.rows(ctx, s, page)}
	if len(page) < len(rest) {
		out.NextCursor = cursor(page[len(page)-1].Collection.Collection)
	}
	data, err := encode(out)
	return d.tell(ctx, j, g, data, err)
}

// rows tells collections, with their counts where a source answers in time.
func (d *Desk) rows(ctx context.Context, s *slot, page []ledger.Allowed) []tool.Collection {
	ctx, cancel := context.WithTimeout(ctx, min(countTime, d.limits.Deadline))
	defer cancel()
	out := make([]tool.Collection, len(page))
	var wait sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i, a := range page {
		out[i] = tool.Collection{Collection: a.Collection.Collection, Title: a.Title, Source: string(a.Kind), Functions: d.usable(a)}
		if len(out[i].Functions) == 0 {
			continue
		}
		src, err := d.source(a.Collection)
		if err != nil {
			continue
		}
		wait.Go(func() {
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			case <-ctx.Done():
				return
			}
			type count struct {
				n  int
				ok bool
			}
			c, err := ask(ctx, d, s, func(ctx context.Context) (c count, err error) {
				c.n, c.ok, err = src.Count(ctx, d.place(a.Collection))
				return c, err
			})
			if err == nil && c.ok && c.n >= 0 { // else it isn't told: a list is worth more than a number
				n := int64(c.n)
				out[i].ItemCount = &n
			}
		})
	}
	wait.Wait()
	return out
}

// usable is what the caller may use there and the source can do.
func (d *Desk) usable(a ledger.Allowed) []tool.Name {
	src, err := d.source(a.Collection)
	if err != nil {
		return []tool.Name{}
	}
	can := src.Functions()
	out := slices.DeleteFunc(slices.Clone(a.Functions), func(f tool.Name) bool { return !slices.Contains(can, f) })
	if out == nil {
		out = []tool.Name{}
	}
	return out
}

// reach answers the collection and its source, where the caller may use that
// function and the source has it.
func (d *Desk) reach(ctx context.Context, j job, collection string) (ledger.Allowed, ledger.Grant, source.Source, error) {
	a, g, err := d.ledger.Allow(ctx, j.who, collection, j.in.Tool())
	if err != nil {
		return a, g, nil, err
	}
	src, err := d.source(a.Collection)
	if err != nil {
		return a, g, nil, err
	}
	if !slices.Contains(src.Functions(), j.in.Tool()) {
		return a, g, nil, tool.Fail(tool.FunctionUnavailable)
	}
	return a, g, src, nil
}

func (d *Desk) items(ctx context.Context, j job, in tool.ItemsList) result {
	a, g, src, err := d.reach(ctx, j, in.Collection)
	if err != nil {
		return failed(err)
	}
	s, err := d.admit(ctx, j.who.Actor)
	if err != nil {
		return failed(err)
	}
	defer s.drop()
	data, err := d.page(ctx, s, src, d.place(a.Collection), source.Query{Cursor: in.Cursor, Limit: in.Limit, Prefix: in.Prefix, Query: in.Query})
	return d.tell(ctx, j, g, data, err)
}

// page answers one page of a list. One that is over its bound is asked for again
// with fewer rows, so that the source's own cursor goes on where it was cut.
func (d *Desk) page(ctx context.Context, s *slot, src source.Source, p source.Place, q source.Query) ([]byte, error) {
	for {
		page, err := ask(ctx, d, s, func(ctx context.Context) (source.Page, error) { return src.List(ctx, p, q) })
		if err != nil {
			return nil, err
		}
		if len(page.Items) > q.Limit || page.Next != "" && !isCursor.MatchString(page.Next) {
			return nil, lied("more rows than asked, or no cursor")
		}
		rows, keep, err := rows(page.Items)
		if err != nil {
			return nil, err
		}
		if keep == len(rows) {
			return encode(struct {
				Items []jsontext.Value `json:"items"`
				Next  string           `json:"next_cursor,omitzero"`
			}{rows, page.Next})
		}
		if keep == 0 {
			return nil, tool.Fail(tool.TooLarge, "limit", tool.MaxResult)
		}
		q.Limit = keep
	}
}

// around is what a list's frame and its cursor take at most.
const around = 2048

// rows encodes items, and answers how many of them fit into one result.
func rows(items []source.Item) (out []jsontext.Value, keep int, err error) {
	size := around
	out = []jsontext.Value{}
	for _, i := range items {
		if i, err = sound(i); err != nil {
			return nil, 0, err
		}
		row, err := encode(tool.Item{Item: i.Item, Title: i.Title, Version: i.Version, Size: i.Size, MediaType: i.MediaType,
			ModifiedMS: max(0, i.Modified.UnixMilli()), Metadata: i.Metadata})
		if err != nil {
			return nil, 0, err
		}
		out = append(out, row)
		if size += len(row) + 1; size <= tool.MaxResult {
			keep = len(out)
		}
	}
	return out, keep, nil
}
