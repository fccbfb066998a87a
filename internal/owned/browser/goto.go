package browser

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// closeTime is how long a page may take to say goodbye.
const closeTime = 2 * time.Second

// destination judges where a goto wants to go, before anything is sent.
func (b *Browser) destination(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return failed(refusal.Malformed, "the url can't be parsed; write it with its scheme, as in https://host/path")
	}
	switch strings.ToLower(u.Scheme) {
	case "about":
		if strings.EqualFold(u.Opaque, "blank") {
			return nil
		}
	case "http", "https":
		if u.Host == "" {
			return failed(refusal.Malformed, "the url has no host")
		}
		if rec := b.judge(raw, "GET"); !rec.Allowed {
			return denied(rec.Decision)
		}
		return nil
	}
	f := failed(refusal.ScopeDenied, "goto takes http, https and about:blank")
	f.Code, f.Rule = refusal.BrowserScopeDenied, "scheme"
	return f
}

func goTo(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	to := a.(ownedv1.Goto).URL
	if err := on.b.destination(to); err != nil {
		if _, tabless := on.page(); tabless != nil && !on.b.isLaunched() {
			return nil, tabless
		}
		return nil, err
	}
	t, err := on.somewhere(ctx)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	on.sent = true
	r, err := cdp.Call(ctx, t.s, page.Navigate, page.NavigateParams{URL: to})
	if d, found := t.deniedSince(started); found {
		return nil, denied(d)
	}
	switch {
	case err != nil:
		return nil, err
	case r.IsDownload:
		on.b.awaitDownloads(ctx)
		return nil, failed(refusal.Failed, "it is a download, not a page")
	case r.ErrorText != "":
		return nil, failed(refusal.Failed, "%s", r.ErrorText)
	}
	if err := t.loaded(ctx, r.LoaderID); err != nil {
		return nil, err
	}
	if d, found := t.deniedDuring(r.LoaderID); found {
		return nil, denied(d)
	}
	return t.whereabouts(ctx, r.LoaderID != "")
}

func (b *Browser) isLaunched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.launched
}

// loaded waits for the load event of the main frame's document, or of the one
// that has replaced it meanwhile. Without a loader it was the same document.
func (t *tab) loaded(ctx context.Context, loader cdp.LoaderID) error {
	if loader == "" {
		return nil
	}
	committed := false
	return t.b.until(ctx, func() bool {
		f := t.main()
		committed = committed || f.loader == loader
		return committed && f.loaded == f.loader
	})
}

// whereabouts answers where the tab is. Its title and status are asked in the
// isolated world; status is null where nothing was fetched.
func (t *tab) whereabouts(ctx context.Context, fetched bool) (ownedv1.GotoResult, error) {
	var r ownedv1.GotoResult
	for {
		t.b.mu.Lock()
		f := t.main()
		r.URL = f.url
		t.b.mu.Unlock()
		v, err := t.callIn(ctx, f, `() => lib.whereabouts()`)
		if errors.Is(err, errDestroyed) && ctx.Err() == nil {
			if err := t.loadedNow(ctx); err != nil {
				return r, err
			}
			continue // it went on by script; its next document answers
		}
		if err != nil {
			return r, err
		}
		var told struct {
			Title  string `json:"title"`
			Status int    `json:"status"`
		}
		if err := json.Unmarshal(v, &told, lenientText); err != nil {
			return r, refusal.Malformed
		}
		r.Title = told.Title
		if fetched && told.Status > 0 {
			r.Status = &told.Status
		}
		return r, nil
	}
}

// loadedNow waits until the main frame's present document is loaded and nothing
// is about to replace it.
func (t *tab) loadedNow(ctx context.Context) error {
	return t.b.until(ctx, func() bool {
		f := t.main()
		return f.nav == nil && f.loaded == f.loader
	})
}
