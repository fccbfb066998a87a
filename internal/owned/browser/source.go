package browser

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// SourcePart is page_source in parts, of any frame: what a local surface offers
// besides. To a scope's actions it is page_source.
type SourcePart struct {
	Frame    string `json:"frame,omitzero"`     // an id of frames; "": the main document
	Offset   int    `json:"offset,omitzero"`    // bytes into the document's UTF-8
	MaxBytes int    `json:"max_bytes,omitzero"` // of html; 0: DefaultSourceBytes
}

// DefaultSourceBytes is a SourcePart's size where none is asked for.
const DefaultSourceBytes = 256 << 10

func (SourcePart) Name() string { return ownedv1.ActionPageSource }

// SourcePartResult is one part of a document.
type SourcePartResult struct {
	URL    string `json:"url"`
	Bytes  int    `json:"bytes"` // of the whole document
	Offset int    `json:"offset"`
	Next   int    `json:"next,omitzero"` // pass it as Offset to go on; 0: that was the end
	HTML   string `json:"html"`          // cut at code points
}

func pageSource(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	if q, ok := a.(SourcePart); ok {
		return t.sourcePart(ctx, q, on.b.resultLimit())
	}
	limit := on.b.resultLimit()
	p, err := t.source(ctx, "", 0, limit, true)
	switch {
	case err != nil:
		return nil, err
	case p.Next != 0:
		return nil, failed(refusal.TooLarge, "the document has %d bytes, over the limit of a result", p.Bytes)
	}
	r := ownedv1.SourceResult{URL: p.URL, Bytes: p.Bytes, HTML: p.HTML}
	if text, err := json.Marshal(r); err != nil || len(text) > limit { // quotes are escaped
		return nil, failed(refusal.TooLarge, "the document has %d bytes, as JSON over the limit of a result", p.Bytes)
	}
	return r, nil
}

func (t *tab) sourcePart(ctx context.Context, q SourcePart, limit int) (any, error) {
	if q.Offset < 0 || q.MaxBytes < 0 {
		return nil, failed(refusal.Malformed, "offset and max_bytes are 0 or more")
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = DefaultSourceBytes
	}
	p, err := t.source(ctx, q.Frame, q.Offset, min(q.MaxBytes, limit), false)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// source reads a document, cut in the page, or none of it where whole is asked for
// and more than limit. A document that is torn down under the
// read is read again, once its successor is loaded.
func (t *tab) source(ctx context.Context, id string, offset, limit int, whole bool) (SourcePartResult, error) {
	var p SourcePartResult
	for {
		f := t.frameOf(id)
		if f == nil {
			return p, failed(refusal.NotFound, "no frame has that id; frames lists them")
		}
		v, err := t.callIn(ctx, f, `(...how) => lib.source(...how)`, offset, limit, whole)
		if errors.Is(err, errDestroyed) && ctx.Err() == nil {
			if err := t.loadedNow(ctx); err != nil {
				return p, err
			}
			continue
		}
		if err != nil {
			return p, err
		}
		if err := json.Unmarshal(v, &p, lenientText); err != nil {
			return p, refusal.Malformed
		}
		return p, nil
	}
}

// frameOf answers the frame of an id, or the main one.
func (t *tab) frameOf(id string) *frame {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if id == "" {
		return t.main()
	}
	for _, f := range t.frames {
		if string(f.id) == id {
			return f
		}
	}
	return nil
}
