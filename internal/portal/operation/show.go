package operation

import (
	"context"
	"strings"
	"unicode/utf8"

	"chaperone/internal/canon"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

// MaxShown is the size up to which a text is shown line by line, in bytes.
const MaxShown = 64 << 10

// Shown is what a person sees of a change before it is made. All of it is data:
// titles, items and lines are other people's text.
type Shown struct {
	Tool            tool.Name      `json:"tool"`
	Effect          tool.Effect    `json:"effect"`
	Collection      string         `json:"collection"`
	CollectionTitle string         `json:"collection_title"`
	Source          ledger.Kind    `json:"source"`
	Item            string         `json:"item"`
	ItemTitle       string         `json:"item_title"`      // "" where there is no such item
	CurrentVersion  string         `json:"current_version"` // "" where there is no such item
	Before          *Side          `json:"before,omitzero"` // the content that goes
	After           *Side          `json:"after,omitzero"`  // the content that comes
	MetadataBefore  map[string]any `json:"metadata_before,omitzero"`
	MetadataAfter   map[string]any `json:"metadata_after,omitzero"`
	// Repeated tells that this request was made before: executing it answers what
	// became of it and changes nothing.
	Repeated  bool   `json:"repeated"`
	Arguments string `json:"arguments"` // all exact arguments, as canonical JSON text
}

// Side is one content. Lines is nil where it isn't shown line by line: not text, or
// over MaxShown.
type Side struct {
	Size      int64    `json:"size"` // bytes
	MediaType string   `json:"media_type"`
	Lines     []string `json:"lines,omitzero"`
}

// show looks what there is now and what would become of it.
func (d *Desk) show(ctx context.Context, s *slot, c change, a ledger.Allowed, src source.Source, arguments []byte, repeated bool) (Shown, error) {
	exact, err := canon.Canonicalize(arguments)
	if err != nil {
		return Shown{}, tool.Fail(tool.InvalidInput, "path", "", "rule", "json")
	}
	t, _ := tool.Lookup(string(c.name))
	out := Shown{Tool: c.name, Effect: t.Effect, Collection: a.Collection.Collection, CollectionTitle: a.Title, Source: a.Kind, Item: c.Item,
		Arguments: string(exact), Repeated: repeated, MetadataAfter: c.Metadata}
	if c.HasContent {
		out.After = side(c.Content, int64(len(c.Content)), or(c.MediaType, "application/octet-stream"))
	}
	if src == nil {
		return out, nil // a repeated one, whose source is gone
	}
	p := d.place(a.Collection)
	now, err := ask(ctx, d, s, func(ctx context.Context) (source.Item, error) { return src.Stat(ctx, p, c.Item) })
	if err == nil {
		now, err = sound(now)
	}
	switch {
	case absent(err):
		if !c.IfAbsent && !repeated {
			return out, tool.Fail(tool.NotFound)
		}
		return out, nil
	case err != nil:
		return out, err
	case repeated:
	case c.IfAbsent:
		return out, tool.Fail(tool.AlreadyExists)
	case now.Version != c.IfVersion:
		return out, tool.Fail(tool.VersionConflict, "version", now.Version)
	}
	out.ItemTitle, out.CurrentVersion, out.MetadataBefore = now.Title, now.Version, now.Metadata
	if c.HasContent && c.MediaType == "" {
		out.After.MediaType = now.MediaType // a replacement keeps it
	}
	if c.HasContent || c.name == tool.DeleteItem {
		out.Before, err = d.old(ctx, s, src, p, now)
	}
	return out, err
}

// old shows the content that a change would take away.
func (d *Desk) old(ctx context.Context, s *slot, src source.Source, p source.Place, now source.Item) (*Side, error) {
	if now.Size > MaxShown {
		return side(nil, now.Size, now.MediaType), nil
	}
	c, err := d.part(ctx, s, src, p, now.Item, 0, MaxShown)
	switch {
	case err != nil:
		return nil, err
	case c.Version != now.Version: // it changed under the look
		return nil, tool.Fail(tool.VersionConflict, "version", c.Version)
	}
	return side(c.Bytes, now.Size, now.MediaType), nil
}

// side shows a content line by line where it is text and short.
func side(content []byte, size int64, mediaType string) *Side {
	out := &Side{Size: size, MediaType: mediaType}
	if size <= MaxShown && int64(len(content)) == size && utf8.Valid(content) {
		out.Lines = strings.SplitAfter(string(content), "\n")
		if n := len(out.Lines); out.Lines[n-1] == "" {
			out.Lines = out.Lines[:n-1]
		}
		if out.Lines == nil {
			out.Lines = []string{}
		}
	}
	return out
}
