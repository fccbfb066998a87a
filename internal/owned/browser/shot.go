package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// Bounds of a full-page shot. Beyond the edge the engine's raster repeats itself.
const (
	maxShotEdge   = 16_384
	maxShotPixels = 40_000_000
)

// fontTime is how long a shot waits for fonts that are still loading; then it is
// taken without them, and says so.
const fontTime = 250 * time.Millisecond

func screenshot(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	on.fonts, err = t.fontsPending(ctx)
	if err != nil && !errors.Is(err, errDestroyed) { // the next document is shot as it comes
		return nil, err
	}
	fast := true
	shot := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, OptimizeForSpeed: &fast}
	if a.(ownedv1.Screenshot).FullPage {
		if err := t.wholePage(ctx, &shot); err != nil {
			return nil, err
		}
	}
	png, err := on.capture(ctx, t, shot)
	if err != nil {
		return nil, err
	}
	return ownedv1.ScreenshotResult{Format: "png", Bytes: len(png), Base64: base64.StdEncoding.EncodeToString(png)}, nil
}

// capture takes the shot, and once more with better compression where the quick
// one is too large.
func (on *act) capture(ctx context.Context, t *tab, shot page.CaptureScreenshotParams) ([]byte, error) {
	limit := on.b.resultLimit() - 100
	for {
		r, err := t.shoot(ctx, shot)
		if err != nil {
			return nil, err
		}
		if base64.StdEncoding.EncodedLen(len(r.Data)) <= limit {
			return r.Data, nil
		}
		if shot.OptimizeForSpeed == nil {
			return nil, failed(refusal.TooLarge, "the picture has %d bytes, over the limit of a result", len(r.Data))
		}
		shot.OptimizeForSpeed = nil
	}
}

// shoot takes one shot.
func (t *tab) shoot(ctx context.Context, shot page.CaptureScreenshotParams) (r page.CaptureScreenshotResult, err error) {
	err = t.drawn(ctx, func(ctx context.Context) (err error) {
		r, err = cdp.Call(ctx, t.s, page.CaptureScreenshot, shot)
		return err
	})
	return r, err
}

// redraws is how often the engine is asked for a picture that it refuses: it has
// none of a document that has just come.
const redraws = 5

// drawn asks for a picture of the page, and anew for its successor's where the
// document is replaced meanwhile: the engine may then never answer.
func (t *tab) drawn(ctx context.Context, draw func(context.Context) error) error {
	for tries := 0; ; {
		once, cancel := context.WithCancelCause(ctx)
		t.onReplaced(func() { cancel(errDestroyed) })
		err := draw(once)
		t.onReplaced(nil)
		cancel(nil)
		var refused *protocolError
		switch {
		case errors.Is(err, errDestroyed):
			continue
		case errors.As(err, &refused) && tries < redraws:
			tries++
			if err := t.frameTime(ctx); err != nil {
				return err
			}
			continue
		}
		return err
	}
}

// onReplaced sets what is done when the main document is replaced.
func (t *tab) onReplaced(f func()) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.replaced = f
}

// fontsPending waits a moment for fonts and tells whether some still load.
func (t *tab) fontsPending(ctx context.Context) (bool, error) {
	f := t.frameOf("")
	v, err := t.callIn(ctx, f, `(ms) => lib.fontsPending(ms)`, fontTime.Milliseconds())
	if err != nil {
		return false, err
	}
	return string(v) == "true", nil
}

// wholePage sets the shot to the whole document.
func (t *tab) wholePage(ctx context.Context, shot *page.CaptureScreenshotParams) error {
	m, err := cdp.Call(ctx, t.s, page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return err
	}
	if m.CSSContentSize == nil {
		return refusal.Malformed
	}
	w, h := m.CSSContentSize.Width, m.CSSContentSize.Height
	if w > maxShotEdge || h > maxShotEdge || w*h > maxShotPixels {
		return failed(refusal.TooLarge, "the page has %.0f x %.0f pixels, over the limit of a picture; take it in parts", w, h)
	}
	beyond := true
	shot.CaptureBeyondViewport = &beyond
	shot.Clip = &page.Viewport{Width: max(w, 1), Height: max(h, 1), Scale: 1}
	return nil
}
