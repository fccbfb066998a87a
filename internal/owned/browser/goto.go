package browser

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/go-json-experiment/json"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// closeTime is how long a page may take to say goodbye.
const closeTime = 2 * time.Second

// destination judges where a goto wants to go, before anything is sent.
func (b *Browser) destination(raw string) error {
	u, err := neturl.Parse(raw)
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
		rec := b.judge(raw, "GET")
		if rec.Allowed {
			return nil // it is recorded when it is asked for
		}
		b.record(rec)
		return denied(rec.Decision)
	}
	f := failed(refusal.ScopeDenied, "goto takes http, https and about:blank")
	f.Code, f.Rule = refusal.BrowserScopeDenied, "scheme"
	return f
}

func goTo(ctx context.Context, on *act, a ownedv1.Action) (any, error) {
	url := a.(ownedv1.Goto).URL
	if !on.b.isLaunched() {
		return nil, failed(refusal.NoBrowser, "launch first")
	}
	if err := on.b.destination(url); err != nil {
		return nil, err
	}
	t, err := on.somewhere(ctx)
	if err != nil {
		return nil, err
	}
	return on.visit(ctx, t, url)
}

// visit goes there, and once more where the page that it leaves went elsewhere by
// itself in the same moment: a page that reloads for ever can be left too.
func (on *act) visit(ctx context.Context, t *tab, url string) (any, error) {
	for range overtakings {
		r, err := on.navigate(ctx, t, url)
		if !errors.Is(err, errOvertaken) {
			return r, err
		}
		// Loading nothing wins that race more easily.
		t.s.post(page.StopLoading.Method, nil)
		if _, err := on.navigate(ctx, t, blankURL); err != nil && !errors.Is(err, errOvertaken) {
			return nil, err
		}
	}
	return nil, failed(refusal.Failed, "the page that was left goes elsewhere by itself each time; use another tab")
}

func (on *act) navigate(ctx context.Context, t *tab, url string) (any, error) {
	started, downloads, leaving := time.Now(), on.b.downloadCount(), t.leaving()
	on.sent = true
	to, err := t.leave(ctx, url)
	if err != nil {
		return nil, err
	}
	// Before it committed the page could still begin navigations of its own, so
	// only the loader tells which one was denied.
	d, found := t.deniedDuring(to.LoaderID)
	if !found && to.ErrorText != "" {
		d, found = t.deniedSince(started)
	}
	switch {
	case found:
		return nil, denied(d)
	case to.IsDownload:
		on.b.awaitDownload(ctx, downloads)
		t.settleDownloads(ctx, started)
		return nil, failed(refusal.Failed, "it is a download, not a page")
	case to.ErrorText == aborted && t.answered(to.LoaderID) != 0:
		return nil, failed(refusal.Failed, "the site answered %d, which has no page; the tab stays where it was", t.answered(to.LoaderID))
	case to.ErrorText == aborted && (leaving || t.elsewhere(ctx, to.LoaderID, started)):
		return nil, errOvertaken
	case to.ErrorText != "":
		return nil, failed(refusal.Failed, "%s", to.ErrorText)
	}
	if err := t.loaded(ctx, to.LoaderID); err != nil {
		return nil, err
	}
	if d, found := t.deniedDuring(to.LoaderID); found {
		return nil, denied(d)
	}
	if err := t.unrivalled(ctx, to.LoaderID); err != nil {
		return nil, err
	}
	r, err := t.whereabouts(ctx)
	if to.LoaderID == "" { // the same document: nothing was fetched
		r.Status = nil
	}
	return r, err
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
		committed = committed || f.hasShown(loader)
		return committed && f.complete()
	})
}

// whereabouts answers where the tab is. The title is the page's own text anyway,
// so it is asked in the page's world, which costs no other one; status is null
// where nothing was fetched.
func (t *tab) whereabouts(ctx context.Context) (ownedv1.GotoResult, error) {
	yes := true
	for {
		told, err := cdp.Call(ctx, t.s, runtime.Evaluate, runtime.EvaluateParams{
			Expression: `String(document.title)`, ReturnByValue: &yes,
		})
		if documentGone(err) {
			if err := t.loadedNow(ctx); err != nil {
				return ownedv1.GotoResult{}, err
			}
			continue // it went on by script; its next document answers
		}
		if err != nil {
			return ownedv1.GotoResult{}, err
		}
		var title string
		if told.Result == nil || json.Unmarshal(told.Result.Value, &title, lenientText) != nil {
			title = ""
		}
		t.b.mu.Lock()
		defer t.b.mu.Unlock()
		f := t.main()
		r := ownedv1.GotoResult{URL: f.url, Title: title}
		if f.answer.loader == f.loader && f.answer.status > 0 {
			status := f.answer.status
			r.Status = &status
		}
		return r, nil
	}
}

// loadedNow waits until the main frame's present document is loaded and nothing
// is about to replace it.
func (t *tab) loadedNow(ctx context.Context) error {
	return t.b.until(ctx, func() bool {
		f := t.main()
		return f.nav == nil && f.complete()
	})
}

// complete tells that the load event has fired, or that it never will, since the
// loading was stopped: by the page itself, or by a denied navigation that the page
// began before. mu is held.
func (f *frame) complete() bool { return f.loaded == f.loader || f.stopped == f.loader }
