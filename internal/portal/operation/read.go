package operation

import (
	"context"
	"encoding/base64"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

func (d *Desk) read(ctx context.Context, j job, in tool.ItemRead) result {
	a, g, src, err := d.reach(ctx, j, in.Collection)
	if err != nil {
		return failed(err)
	}
	s, err := d.admit(ctx, j.who.Actor)
	if err != nil {
		return failed(err)
	}
	defer s.drop()
	c, err := d.part(ctx, s, src, d.place(a.Collection), in.Item, in.Offset, in.MaxBytes)
	if err != nil {
		return d.tell(ctx, j, g, nil, err)
	}
	data, err := told(c)
	return d.tell(ctx, j, g, data, err)
}

// part reads a part of an item and holds the answer to what was asked.
func (d *Desk) part(ctx context.Context, s *slot, src source.Source, p source.Place, item string, offset int64, most int) (source.Content, error) {
	c, err := ask(ctx, d, s, func(ctx context.Context) (source.Content, error) { return src.Read(ctx, p, item, offset, most) })
	if err != nil {
		return c, err
	}
	if c.Item, err = sound(c.Item); err != nil {
		return c, err
	}
	end := offset + int64(len(c.Bytes))
	switch {
	case c.Item.Item != item || c.Offset != offset || len(c.Bytes) > most:
		return c, lied("another item or part than asked")
	case len(c.Bytes) > 0 && end > c.Size, c.Truncated != (end < c.Size), c.Truncated && len(c.Bytes) == 0:
		return c, lied("a part that doesn't agree with its size")
	}
	return c, nil
}

// told is the result of a read: as text where it is text, cut at a character and
// to the bound of a result, else in base64, which always fits beside metadata that
// a result can hold at all.
func told(c source.Content) ([]byte, error) {
	out := tool.ReadResult{Item: c.Item.Item, Version: c.Version, MediaType: c.MediaType, Size: c.Size, Metadata: c.Metadata, Truncated: c.Truncated}
	if out.Metadata == nil {
		out.Metadata = map[string]any{}
	}
	frame, err := encode(out)
	if err != nil {
		return nil, err
	}
	budget := tool.MaxResult - len(frame) - 64 // the encoding's name, and truncated
	text := false
	content := c.Bytes
	if n, ok := plain(content, c.Truncated); ok {
		content, text = content[:n], true
	}
	if text {
		content = content[:fits(content, budget)]
		out.Encoding, out.Content = "utf-8", string(content)
	} else {
		content = content[:min(len(content), max(0, budget)/4*3)]
		out.Encoding, out.Content = "base64", base64.StdEncoding.EncodeToString(content)
	}
	if len(content) == 0 && len(c.Bytes) > 0 {
		return nil, tool.Fail(tool.TooLarge, "limit", tool.MaxResult) // the metadata alone is
	}
	out.Truncated = c.Truncated || len(content) < len(c.Bytes)
	data, err := encode(out)
	if err == nil && !small(data) {
		err = tool.Fail(tool.TooLarge, "limit", tool.MaxResult)
	}
	return data, err
}
