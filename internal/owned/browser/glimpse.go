package browser

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"chaperone/internal/refusal"
)

// Glimpse is what a person who watches a run sees of it.
type Glimpse struct {
	URL  string
	JPEG []byte // the viewport, ViewportWidth by ViewportHeight CSS pixels
}

// glimpseQuality is enough to follow what happens; evidence is what screenshot is for.
const glimpseQuality = 55

// Glimpse takes a picture of the active tab beside the actions: it takes no turn,
// is no action and isn't journalled. Where there is no page to see, or it is just
// being replaced, it is refusal.NoBrowser; a page that doesn't draw is ctx's end.
func (b *Browser) Glimpse(ctx context.Context) (Glimpse, error) {
	b.mu.Lock()
	t := b.active
	if t == nil || !b.launched {
		b.mu.Unlock()
		return Glimpse{}, refusal.NoBrowser
	}
	url := t.main().url
	b.mu.Unlock()
	quality, fast := int64(glimpseQuality), true
	r, err := cdp.Call(ctx, t.s, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatJpeg, Quality: &quality, OptimizeForSpeed: &fast,
	})
	if err != nil {
		return Glimpse{}, err
	}
	return Glimpse{URL: url, JPEG: r.Data}, nil
}
