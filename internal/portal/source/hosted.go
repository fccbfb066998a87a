package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"chaperone/internal/portal/item"
	"chaperone/internal/portal/tool"
)

// Hosted is the embedded storage: rows in the node's database, content in files by
// digest below one directory, which the nodes of a cluster share.
type Hosted struct {
	book  *item.Book
	blobs blobs
	step  func(step string) error // tests stop here; nil elsewhere
}

// NewHosted answers the storage whose content lies below dir, which is made where
// it isn't there.
func NewHosted(book *item.Book, dir string) (*Hosted, error) {
	b, err := openBlobs(dir)
	if err != nil {
		return nil, err
	}
	return &Hosted{book: book, blobs: b}, nil
}

// Functions: all four.
func (h *Hosted) Functions() []tool.Name {
	return []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem, tool.DeleteItem}
}

// rows answers the place's name in the book. Another tenant's place has no items
// here and can't get any.
func (h *Hosted) rows(p Place) (item.Place, error) {
	if p.Account.Tenant != h.book.Tenant() || p.Account.Actor == "" || p.Collection == "" || p.Incarnation == "" {
		return item.Place{}, errDisconnected
	}
	return item.Place{Account: p.Account.Actor, Collection: p.Collection, Incarnation: p.Incarnation}, nil
}

// Count answers how many items there are.
func (h *Hosted) Count(ctx context.Context, p Place) (int, bool, error) {
	at, err := h.rows(p)
	if err != nil {
		return 0, false, err
	}
	n, err := h.book.Count(ctx, at)
	return n, err == nil, err
}

func row(i item.Item) Item {
	return Item{i.Item, title(i.Item), i.Version, i.Size, i.MediaType, i.Modified, i.Metadata}
}

// title is the last part of an id that reads as a path.
func title(id string) string {
	if last := id[strings.LastIndexByte(id, '/')+1:]; last != "" {
		return clean(last, maxTitle)
	}
	return clean(id, maxTitle)
}

// scanAtOnce is how many rows List reads at a time while it looks for titles.
const scanAtOnce = 500

// List answers items in the order of their ids' bytes.
func (h *Hosted) List(ctx context.Context, p Place, q Query) (Page, error) {
	at, err := h.rows(p)
	if err != nil {
		return Page{}, err
	}
	after := ""
	if q.Cursor != "" {
		parts, err := readCursor("hosted", q.Cursor, 1)
		if err != nil {
			return Page{}, err
		}
		after = parts[0]
	}
	page := Page{Items: []Item{}}
	for {
		n := q.Limit + 1
		if q.Query != "" {
			n = scanAtOnce
		}
		rows, err := h.book.Page(ctx, at, after, q.Prefix, n)
		if err != nil {
			return Page{}, err
		}
		for _, r := range rows {
			i := row(r)
			if !matches(i.Title, q.Query) {
				continue
			}
			if len(page.Items) == q.Limit {
				page.Next = cursor("hosted", page.Items[q.Limit-1].Item)
				return page, nil
			}
			page.Items = append(page.Items, i)
		}
		if len(rows) < n {
			return page, nil
		}
		after = rows[n-1].Item
	}
}

// Stat answers the item.
func (h *Hosted) Stat(ctx context.Context, p Place, name string) (Item, error) {
	i, err := h.find(ctx, p, name)
	return row(i), err
}

func (h *Hosted) find(ctx context.Context, p Place, name string) (item.Item, error) {
	at, err := h.rows(p)
	if err != nil {
		return item.Item{}, err
	}
	i, there, err := h.book.Find(ctx, at, name)
	if err == nil && !there {
		err = errNotFound
	}
	return i, err
}

// Read answers a part of one version; its whole content was checked against the
// digest in its row.
func (h *Hosted) Read(ctx context.Context, p Place, name string, offset int64, max int) (Content, error) {
	if err := checkRead(offset, max); err != nil {
		return Content{}, err
	}
	for range 3 { // replaced and swept between the row and the file: look again
		i, err := h.find(ctx, p, name)
		if err != nil {
			return Content{}, err
		}
		file, there, err := h.book.File(ctx, i.Digest)
		if err != nil {
			return Content{}, err
		}
		if !there {
			continue
		}
		content, err := h.blobs.read(file, i.Digest, i.Size)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Content{}, errUnavailable
		}
		bytes, truncated := part(content, offset, max)
		return Content{row(i), bytes, offset, truncated}, nil
	}
	return Content{}, errUnavailable
}

// Write puts the content in place, then the row. A crash in between leaves content
// that nothing names.
func (h *Hosted) Write(ctx context.Context, p Place, w Write) (Written, error) {
	if err := checkWrite(w); err != nil {
		return Written{}, err
	}
	at, err := h.rows(p)
	if err != nil {
		return Written{}, err
	}
	c := item.Change{Item: w.Item, HasContent: w.HasContent, MediaType: w.MediaType, Metadata: w.Metadata,
		IfVersion: w.IfVersion, IfAbsent: w.IfAbsent, Mark: w.Mark}
	if w.HasContent {
		sum := sha256.Sum256(w.Content)
		c.Digest, c.Size = hex.EncodeToString(sum[:]), int64(len(w.Content))
		if c.File, err = h.book.Claim(ctx, c.Digest, c.Size); err != nil {
			return Written{}, notBegun(err)
		}
		if err := h.at("claimed"); err != nil {
			return Written{}, failed(err)
		}
		if err := h.blobs.write(c.File, w.Content); err != nil {
			return Written{}, errUnavailable
		}
		if err := h.at("placed"); err != nil {
			return Written{}, failed(err)
		}
	}
	done, err := h.book.Put(ctx, at, c)
	if err != nil {
		return Written{}, failed(err)
	}
	if err := h.at("committed"); err != nil {
		return Written{}, sent(err)
	}
	return Written(done), nil
}

// notBegun tells of a claim whose outcome is unknown: nothing of the item changed.
func notBegun(err error) error {
	if errors.Is(err, tool.UnknownOutcome) {
		return errUnavailable
	}
	return failed(err)
}

func (h *Hosted) at(step string) error {
	if h.step == nil {
		return nil
	}
	return h.step(step)
}

// Delete removes that version.
func (h *Hosted) Delete(ctx context.Context, p Place, name, ifVersion, mark string) error {
	at, err := h.rows(p)
	if err != nil {
		return err
	}
	return failed(h.book.Delete(ctx, at, name, ifVersion, mark))
}

// Settle tells it by the mark, for good: a write that is settled as Not is refused
// should it still come.
func (h *Hosted) Settle(ctx context.Context, p Place, w Write) (Written, Settled, error) {
	at, err := h.rows(p)
	if err != nil {
		return Written{}, Unknown, err
	}
	done, err := h.book.Settle(ctx, at, w.Mark)
	switch {
	case err != nil:
		return Written{}, Unknown, notBegun(err)
	case done.Outcome == item.Never:
		return Written{}, Not, nil
	}
	return Written(done), Done, nil
}

// SettleDelete is Settle for a delete.
func (h *Hosted) SettleDelete(ctx context.Context, p Place, name, ifVersion, mark string) (Settled, error) {
	_, settled, err := h.Settle(ctx, p, Write{Item: name, Mark: mark})
	return settled, err
}

// Drop removes all items of a place whose collection was deleted.
func (h *Hosted) Drop(ctx context.Context, p Place) error {
	at, err := h.rows(p)
	if err != nil {
		return err
	}
	_, err = h.book.Drop(ctx, at)
	return failed(err)
}

// Sweep removes content that nothing names and nobody used for an hour, and what a
// crash left. Any process may call it at any time; an hour apart is enough.
func (h *Hosted) Sweep(ctx context.Context) (removed int, err error) {
	for more := true; more; {
		var files []string
		if files, more, err = h.book.Sweep(ctx); err != nil {
			return removed, failed(err)
		}
		if err := h.at("unnamed"); err != nil {
			return removed, err
		}
		for _, file := range files {
			if err := h.blobs.remove(file); err != nil {
				return removed, errUnavailable
			}
			removed++
		}
	}
	left, err := h.blobs.old(item.Grace)
	if err != nil {
		return removed, errUnavailable
	}
	for _, file := range left {
		known, err := h.book.Known(ctx, filepath.Base(file))
		if err != nil {
			return removed, err
		}
		if known {
			continue
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, errUnavailable
		}
		removed++
	}
	return removed, nil
}
