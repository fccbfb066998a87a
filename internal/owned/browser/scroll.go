package browser

import (
	"context"

	"chaperone/internal/owned/ownedv1"
)

// scroll moves the document by CSS pixels. It asks the document itself, so that a
// wheel listener of the page can't swallow it, and returns when it has moved.
func scroll(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	p := a.(ownedv1.Scroll)
	on.sent = true
	err = t.anew(ctx, func() error { // a document that has just come hasn't moved
		_, err := t.callIn(ctx, t.frameOf(""), `(dx, dy) => lib.scroll(dx, dy)`, p.DX, p.DY)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ownedv1.ScrollResult{Scrolled: ownedv1.Delta{DX: p.DX, DY: p.DY}, URL: t.url()}, nil
}

// url is the address of the tab's document.
func (t *tab) url() string {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return t.main().url
}
